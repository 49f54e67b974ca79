package api

import (
	"errors"
	"fmt"
	"net"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
	"lockstep/internal/secret"
)

// Config holds the settings of the manager's listener.
type Config struct {
	// Address (host:port) on which the transaction manager listens. Without a key or a password it must be on loopback.
	Address string `env:"TXM_ADDRESS" envDefault:"127.0.0.1:7550"`
	// While there is no key and no password, draw a token at each start and print it with the page's address. With false whoever reaches the address is an administrator, and so is a stranger behind a proxy in front of it.
	LoopbackToken bool `env:"TXM_LOOPBACK_TOKEN" envDefault:"true"`
	// User name of internal callers, who use Basic instead of a key.
	BasicUser string `env:"TXM_BASIC_USER"`
	// Password of internal callers.
	BasicPassword secret.String `env:"TXM_BASIC_PASSWORD"`
	// File with that password.
	BasicPasswordFile secret.String `env:"TXM_BASIC_PASSWORD_FILE,file"`
	// Maximum of streams of events that are open at once. Tenants share them: one alone gets half.
	Streams int `env:"TXM_STREAMS" envDefault:"400" min:"1"`
	// Maximum of transactions in one batch.
	Batch int `env:"TXM_BATCH" envDefault:"100" min:"1"`
	// Maximum of requests that wait for a transaction or a nonce at once. Tenants share them: one alone gets half.
	Waits int `env:"TXM_WAITS" envDefault:"4000" min:"1"`
	clientip.Config

	// How long a stopping process waits for requests that are on their way.
	Drain envx.Millis `env:"TXM_SHUTDOWN_DRAIN_TIMEOUT_MS" envDefault:"10000"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	errs := []error{envx.Check(c), c.Config.Validate()}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("TXM_ADDRESS: want host:port: %w", err))
	}
	if (c.BasicUser == "") != (c.BasicPassword == "" && c.BasicPasswordFile == "") {
		errs = append(errs, errors.New("TXM_BASIC_USER and TXM_BASIC_PASSWORD: want both or neither"))
	}
	return errors.Join(errs...)
}
