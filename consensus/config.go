package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/secret"
)

// Config holds the settings of the client.
type Config struct {
	// Network is which network to use: mainnet, testnet, previewnet, or a JSON object
	// from node endpoints to node accounts, for example {"127.0.0.1:50211":"0.0.3"}.
	Network string `env:"HEDERA_NETWORK"`

	// TransportSecurity turns on TLS to the nodes: port 50211 becomes 50212.
	// Endpoints with port 50212 use TLS in any case.
	TransportSecurity bool `env:"CLIENT_TRANSPORT_SECURITY" envDefault:"false"`

	// CertHashes pins node certificates of a network given as JSON: an object from node
	// accounts to the hexadecimal SHA-384 of the certificate in PEM form. The three
	// public networks have theirs built in. TLS without a pin is encrypted but not
	// authenticated.
	CertHashes string `env:"HEDERA_NODE_CERT_HASHES"`

	// BookRefresh is how often the list of nodes of a network given by name is fetched
	// from the mirror node, which also happens at the start and after a node has denied
	// its account. 0 keeps the built-in list; a network given as JSON always stays as given.
	BookRefresh envx.Millis `env:"HEDERA_ADDRESS_BOOK_REFRESH" envDefault:"24h" min:"0"`

	// AttemptTimeout is how long one call to a node may take; a bare number is
	// milliseconds.
	AttemptTimeout envx.Millis `env:"SDK_GRPC_DEADLINE" envDefault:"10s"`

	// LegacyAttemptTimeout is the old name of SDK_GRPC_DEADLINE, used while that has
	// its default. 0 means not set.
	LegacyAttemptTimeout envx.Millis `env:"CONSENSUS_MAX_EXECUTION_TIME" envDefault:"0" min:"0"`

	// MaxAttempts is how many times one transaction is offered to nodes after an attempt without a
	// clear end. Nodes that are busy, or cannot be reached, are tried again until SDK_REQUEST_TIMEOUT.
	MaxAttempts int `env:"SDK_MAX_ATTEMPTS" envDefault:"10" min:"1"`

	// RequestTimeout is how long a submission may take over all attempts; a bare number
	// is milliseconds. For the verdict on what a node accepted a client waits up to three times as
	// long, but no longer than 30 s if this is less.
	RequestTimeout envx.Millis `env:"SDK_REQUEST_TIMEOUT" envDefault:"10s" min:"1ms"`

	// OperatorID is the account that pays for transactions, for example 0.0.1002. Empty
	// together with the key: the client can submit nothing by itself.
	OperatorID string `env:"OPERATOR_ID_MAIN"`

	// OperatorKey is the private key of the operator. Secret.
	OperatorKey secret.String `env:"OPERATOR_KEY_MAIN"`

	// OperatorKeyFile is the path of a file with the operator's key, instead of the key
	// itself.
	OperatorKeyFile secret.String `env:"OPERATOR_KEY_MAIN_FILE,file"`

	// OperatorKeyFormat is how the key is written: DER, HEX_ED25519 or HEX_ECDSA.
	OperatorKeyFormat string `env:"OPERATOR_KEY_FORMAT" envDefault:"DER"`

	Payers PayerConfig
}

const defaultAttemptTimeout = 10 * time.Second

// Validate checks the settings without touching the network. Its error joins all
// that is wrong, each with the name of its setting, and never shows a key.
func (c *Config) Validate() error {
	errs := []error{envx.Check(*c)}
	if _, err := c.network(); err != nil {
		errs = append(errs, err)
	}
	set, err := c.operators()
	if err != nil {
		errs = append(errs, err)
		set = new(operators)
	}
	if _, err := c.Payers.paymasters(set.main()); err != nil {
		errs = append(errs, err)
	}
	if c.attemptTimeout() <= 0 {
		errs = append(errs, errors.New("SDK_GRPC_DEADLINE must be more than 0"))
	}
	return errors.Join(errs...)
}

// VerdictWait returns how long a client waits for the verdict on a transaction that a node accepted.
func (c *Config) VerdictWait() time.Duration {
	submission := c.RequestTimeout.Duration()
	return max(submission, min(3*submission, 30*time.Second))
}

func (c *Config) attemptTimeout() time.Duration {
	if c.LegacyAttemptTimeout > 0 && c.AttemptTimeout.Duration() == defaultAttemptTimeout {
		return c.LegacyAttemptTimeout.Duration()
	}
	return c.AttemptTimeout.Duration()
}

// operator returns the configured operator, or nil when none is set.
func (c *Config) operator() (*Operator, error) {
	key := c.OperatorKey
	if key == "" {
		key = c.OperatorKeyFile
	} else if c.OperatorKeyFile != "" {
		return nil, errors.New("OPERATOR_KEY_MAIN and OPERATOR_KEY_MAIN_FILE are both set")
	}
	switch {
	case c.OperatorID == "" && key == "":
		return nil, nil
	case c.OperatorID == "":
		return nil, errors.New("OPERATOR_KEY_MAIN is set but OPERATOR_ID_MAIN is not")
	case key == "":
		return nil, errors.New("OPERATOR_ID_MAIN is set but OPERATOR_KEY_MAIN is not")
	}
	id, err := hedera.ParseID(c.OperatorID)
	if err != nil {
		return nil, fmt.Errorf("OPERATOR_ID_MAIN: %w", err)
	}
	switch format := hedera.KeyFormat(c.OperatorKeyFormat); format {
	case "", hedera.FormatDER, hedera.FormatHexECDSA, hedera.FormatHexEd25519:
	default:
		return nil, fmt.Errorf("Invalid OPERATOR_KEY_FORMAT provided: %s", format) //nolint:staticcheck // established wording
	}
	parsed, err := hedera.ParsePrivateKey(key.Reveal(), hedera.KeyFormat(c.OperatorKeyFormat))
	if err != nil {
		return nil, fmt.Errorf("OPERATOR_KEY_MAIN: %w%s", err, formatHint(key.Reveal(), c.OperatorKeyFormat))
	}
	return &Operator{ID: id, Key: parsed}, nil
}

// formatHint says what a key that is bare hexadecimal needs: it does not tell its kind.
func formatHint(key, format string) string {
	const digits = 2 * 32
	bare := strings.TrimPrefix(strings.TrimSpace(key), "0x")
	if len(bare) != digits || format != "" && hedera.KeyFormat(format) != hedera.FormatDER {
		return ""
	}
	return "; a key of 64 hexadecimal digits needs OPERATOR_KEY_FORMAT=HEX_ECDSA (or HEX_ED25519)"
}

func (c *Config) network() ([]NodeAddress, error) {
	nodes, err := ParseNetwork(c.Network)
	if err != nil {
		return nil, fmt.Errorf("HEDERA_NETWORK: %w", err)
	}
	if c.CertHashes == "" {
		return nodes, nil
	}
	var pins map[string]string
	if err := json.Unmarshal([]byte(c.CertHashes), &pins); err != nil {
		return nil, fmt.Errorf("HEDERA_NODE_CERT_HASHES: %w", err)
	}
	for i := range nodes {
		pin, ok := pins[nodes[i].ID.String()]
		if !ok {
			continue
		}
		if nodes[i].CertHash, err = parseCertHash(pin); err != nil {
			return nil, fmt.Errorf("HEDERA_NODE_CERT_HASHES: node %s: %w", nodes[i].ID, err)
		}
	}
	return nodes, nil
}
