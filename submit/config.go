package submit

import (
	"errors"
	"fmt"

	"lockstep/internal/envx"
)

// When the client gets its answer.
const (
	ReturnsConsensus = "consensus"
	ReturnsAccepted  = "accepted"
)

// Config holds the settings of the path of a raw transaction.
type Config struct {
	// Take no transactions at all. No operator is needed then.
	ReadOnly bool `env:"READ_ONLY" envDefault:"false"`
	// Answer with the hash right after the prechecks and do the rest in the background.
	Async bool `env:"USE_ASYNC_TX_PROCESSING" envDefault:"false"`
	// When the client gets its answer: consensus (what node and network find wrong is
	// returned as an error) or accepted (the hash as soon as a node accepts it).
	Returns string `env:"SEND_RAW_TRANSACTION_RETURNS" envDefault:"consensus"`
	// Submit without asking the mirror node anything: balance, nonce, gas price and
	// receiver are left to the network to judge.
	SkipLookUps bool `env:"DISABLE_MN_PRECHECKS_ON_TX_SENDING" envDefault:"false"`
	// Maximum age of remembered accounts and prices with which a transaction that is certainly its sender's next one is still sent while the mirror node does not answer. 0: none is sent. Milliseconds.
	StaleFacts envx.Millis `env:"STALE_FACTS_MAX_AGE_MS" envDefault:"60000" min:"0"`
	// Receipt statuses that mean the transaction was refused before it was executed.
	// Empty for the built-in list.
	RejectedStatuses envx.Strings `env:"HEDERA_SPECIFIC_REVERT_STATUSES"`
	// Maximum number of transactions in progress in this process, queued ones included.
	MaxInProgress int `env:"MAX_TRANSACTIONS_IN_PROGRESS" envDefault:"65536" min:"1"`
}

// Validate reports every setting that makes no sense.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if c.Returns != ReturnsConsensus && c.Returns != ReturnsAccepted {
		errs = append(errs, fmt.Errorf("SEND_RAW_TRANSACTION_RETURNS %q: want consensus or accepted", c.Returns))
	}
	_, err := statusSet(c.RejectedStatuses)
	return errors.Join(append(errs, err)...)
}
