package txmgr

import (
	"errors"
	"fmt"

	"github.com/caarlos0/env/v11"

	"lockstep/internal/envx"
)

// Config holds the settings of the manager that are the same for every chain.
type Config struct {
	// Assign and sign transactions. With false the manager still follows what is signed to its final outcome.
	Enabled bool `env:"RELAYER_ENABLED" envDefault:"true"`
	// The name of this process among those that share a ledger. Two living ones with one
	// name are an error. Empty for the host's name.
	Instance string `env:"INSTANCE_ID"`
	// Age of the newest attempt at the head of a line after which its fees are raised.
	BumpAfter envx.Millis `env:"TXM_BUMP_AFTER" envDefault:"5m" min:"1ms"`
	// Age of the first send at the head of a line after which it is cancelled, and of an intent that no signer can pay for after which it fails.
	CancelAfter envx.Millis `env:"TXM_CANCEL_AFTER" envDefault:"30m"`
	// How long the head of a line may be refused for good, for funds or by a text that no node takes back, before its nonce is
	// given to another transaction.
	HeadPatience envx.Millis `env:"TXM_HEAD_PATIENCE" envDefault:"1m" min:"1ms"`
	// How often bytes that are not mined are offered again.
	ResendAfter envx.Millis `env:"TXM_RESEND_AFTER" envDefault:"20s" min:"1ms"`
	// How often an owner looks for receipts and for new intents of other processes.
	Poll envx.Millis `env:"TXM_POLL" envDefault:"250ms" min:"1ms"`
	// How often an active signer is compared with the chain: nonce, balance, identity.
	Reconcile envx.Millis `env:"TXM_RECONCILE" envDefault:"30s" min:"1ms"`
	// Longest time for one offer to an endpoint; it must be shorter than the lease.
	SendTimeout envx.Millis `env:"TXM_SEND_TIMEOUT" envDefault:"4s" min:"1ms"`
	// How long an ownership lives without renewal.
	Lease envx.Millis `env:"TXM_LEASE" envDefault:"10s"`
	// Slots of one signer that may be unconsumed at once. 0: the chain's own setting, which alone counts on a chain that refuses all but the next nonce (Hedera).
	InFlight int `env:"TXM_IN_FLIGHT" envDefault:"0" min:"0"`
	// Highest price per gas, in the chain's smallest unit, that anything may be sent with. 0: no cap. A chain's own maxFeePerGas in TXM_CHAINS takes precedence.
	MaxFeePerGas uint64 `env:"TXM_MAX_FEE_PER_GAS" envDefault:"0"`
	// Errors of sending in a row after which a signer gets nothing new for some time. 0: never.
	ErrorStreak int `env:"TXM_ERROR_STREAK" envDefault:"20"`
	// How long a reservation of a nonce lives.
	Reservation envx.Millis `env:"TXM_RESERVATION" envDefault:"30s" min:"1ms"`
	// Maximum of reservations that one tenant may hold.
	MaxReservations int `env:"TXM_MAX_RESERVATIONS" envDefault:"1000" min:"1"`
	// Maximum of bytes of a transaction's data.
	MaxData int `env:"TXM_MAX_DATA" envDefault:"131072" min:"0"`
	// How long final transactions are kept, and what is over besides: nonces that others used, reservations, budgets of days. Idempotency keys are kept for ever.
	Retention envx.Millis `env:"TXM_RETENTION" envDefault:"720h"`
	// Successors of an orderKey may go to another signer when the predecessor is mined
	// (false) or only when its block is final (true).
	OrderByConfirmed bool `env:"TXM_ORDER_BY_CONFIRMED" envDefault:"false"`
	// The only accounts that may serve as signers. Empty for all.
	AllowedSigners envx.Strings `env:"TXM_ALLOWED_SIGNERS"`
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if c.SendTimeout > c.Lease/2 {
		errs = append(errs, fmt.Errorf("TXM_SEND_TIMEOUT %s: want no more than half of TXM_LEASE (%s)", c.SendTimeout, c.Lease))
	}
	if c.CancelAfter < c.BumpAfter {
		errs = append(errs, fmt.Errorf("TXM_CANCEL_AFTER %s: want no less than TXM_BUMP_AFTER (%s)", c.CancelAfter, c.BumpAfter))
	}
	return errors.Join(errs...)
}

// Defaults returns the settings that the tags declare.
func Defaults() Config {
	return env.Must(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))
}
