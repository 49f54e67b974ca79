package txmgr

import (
	"errors"
	"fmt"
	"time"

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
	BumpAfter envx.Millis `env:"TXM_BUMP_AFTER" envDefault:"5m"`
	// Age of the first send at the head of a line after which it is cancelled, and of an intent that no signer can pay for after which it fails.
	CancelAfter envx.Millis `env:"TXM_CANCEL_AFTER" envDefault:"30m"`
	// How long the head of a line may be refused for good, for funds or by a text that no node takes back, before its nonce is
	// given to another transaction.
	HeadPatience envx.Millis `env:"TXM_HEAD_PATIENCE" envDefault:"1m"`
	// How often bytes that are not mined are offered again.
	ResendAfter envx.Millis `env:"TXM_RESEND_AFTER" envDefault:"20s"`
	// How often an owner looks for receipts and for new intents of other processes.
	Poll envx.Millis `env:"TXM_POLL" envDefault:"250ms"`
	// How often an active signer is compared with the chain: nonce, balance, identity.
	Reconcile envx.Millis `env:"TXM_RECONCILE" envDefault:"30s"`
	// Longest time for one offer to an endpoint; it must be shorter than the lease.
	SendTimeout envx.Millis `env:"TXM_SEND_TIMEOUT" envDefault:"4s"`
	// How long an ownership lives without renewal.
	Lease envx.Millis `env:"TXM_LEASE" envDefault:"10s"`
	// Slots of one signer that may be unconsumed at once. 0: the chain's own setting, which alone counts on a chain that refuses all but the next nonce (Hedera).
	InFlight int `env:"TXM_IN_FLIGHT" envDefault:"0"`
	// Highest price per gas, in the chain's smallest unit, that anything may be sent with. 0: no cap. A chain's own maxFeePerGas in TXM_CHAINS takes precedence.
	MaxFeePerGas uint64 `env:"TXM_MAX_FEE_PER_GAS" envDefault:"0"`
	// Errors of sending in a row after which a signer gets nothing new for some time. 0: never.
	ErrorStreak int `env:"TXM_ERROR_STREAK" envDefault:"20"`
	// How long a reservation of a nonce lives.
	Reservation envx.Millis `env:"TXM_RESERVATION" envDefault:"30s"`
	// Maximum of reservations that one tenant may hold.
	MaxReservations int `env:"TXM_MAX_RESERVATIONS" envDefault:"1000"`
	// Maximum of bytes of a transaction's data.
	MaxData int `env:"TXM_MAX_DATA" envDefault:"131072"`
	// How long final transactions are kept, and what is over besides: nonces that others used, reservations, budgets of days. Idempotency keys are kept for ever.
	Retention envx.Millis `env:"TXM_RETENTION" envDefault:"720h"`
	// Successors of an orderKey may go to another signer when the predecessor is mined
	// (false) or only when its block is final (true).
	OrderByConfirmed bool `env:"TXM_ORDER_BY_CONFIRMED" envDefault:"false"`
	// The only accounts that may serve as signers. Empty for all.
	AllowedSigners envx.Strings `env:"TXM_ALLOWED_SIGNERS"`
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.SendTimeout <= 0 || c.SendTimeout > c.Lease/2:
		return fmt.Errorf("TXM_SEND_TIMEOUT %s: want more than 0 and no more than half of TXM_LEASE (%s)", c.SendTimeout, c.Lease)
	case c.Poll <= 0 || c.Reconcile <= 0 || c.ResendAfter <= 0 || c.Reservation <= 0 || c.HeadPatience <= 0:
		return errors.New("TXM_POLL, TXM_RECONCILE, TXM_RESEND_AFTER, TXM_RESERVATION and TXM_HEAD_PATIENCE: want more than 0")
	case c.BumpAfter <= 0 || c.CancelAfter < c.BumpAfter:
		return fmt.Errorf("TXM_CANCEL_AFTER %s: want no less than TXM_BUMP_AFTER (%s)", c.CancelAfter, c.BumpAfter)
	case c.MaxReservations < 1 || c.MaxData < 0 || c.InFlight < 0:
		return errors.New("TXM_MAX_RESERVATIONS, TXM_MAX_DATA and TXM_IN_FLIGHT: want at least 1, 0 and 0")
	default:
		return nil
	}
}

// Defaults returns the settings that the tags name, for programs that do not read the
// environment.
func Defaults() Config {
	ms := func(d time.Duration) envx.Millis { return envx.Millis(d) }
	return Config{
		Enabled: true, BumpAfter: ms(5 * time.Minute), CancelAfter: ms(30 * time.Minute), HeadPatience: ms(time.Minute), ResendAfter: ms(20 * time.Second),
		Poll: ms(250 * time.Millisecond), Reconcile: ms(30 * time.Second), SendTimeout: ms(4 * time.Second), Lease: ms(10 * time.Second),
		ErrorStreak: 20, Reservation: ms(30 * time.Second), MaxReservations: 1000, MaxData: 128 << 10, Retention: ms(720 * time.Hour),
	}
}
