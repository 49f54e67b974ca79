package limit

import (
	"errors"
	"fmt"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
)

// Stores of the calls that addresses make.
const (
	StoreLocal = "LRU"
	StoreRedis = "REDIS"
)

// Config holds the settings of what the operator spends, and of where calls are counted.
type Config struct {
	// Maximum number of tinybars that all transactions together may cost the operator per window. 0 switches the limits on spending off.
	Total hedera.Tinybar `env:"HBAR_RATE_LIMIT_TINYBAR" envDefault:"0" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for a sender without a plan of its own, and for each plan of tier BASIC.
	Basic hedera.Tinybar `env:"HBAR_RATE_LIMIT_BASIC" envDefault:"300000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for each plan of tier EXTENDED.
	Extended hedera.Tinybar `env:"HBAR_RATE_LIMIT_EXTENDED" envDefault:"100000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for each plan of tier PRIVILEGED.
	Privileged hedera.Tinybar `env:"HBAR_RATE_LIMIT_PRIVILEGED" envDefault:"270000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for all senders without a plan that use one address (IPv6: one /64), because anybody
	// can create senders. 0 = only the total bounds them; choose that when all clients come through one proxy that does not
	// say who they are. Unset, it is at least ten times HBAR_RATE_LIMIT_BASIC.
	PerIP hedera.Tinybar `env:"HBAR_RATE_LIMIT_BASIC_PER_IP" envDefault:"3000000000" min:"0" max:"4503599627370496"`
	// Length of a window. Windows are counted from the Unix epoch, so that all instances have the same ones: one of a day begins at midnight UTC.
	Window envx.Millis `env:"HBAR_RATE_LIMIT_DURATION" envDefault:"86400000"`
	// Spending plans: JSON text, or the name of a file; a relative one is in the working directory. No such file = no plans.
	Plans string `env:"HBAR_SPENDING_PLANS_CONFIG" envDefault:"spendingPlansConfig.json"`
	// Maximum number of transactions of one sender that consensus may refuse in a minute for their nonce or for want of funds, in the whole fleet, since the operator pays for each. A transaction that is not known to be next takes one of these risks before it is sent and gives it back unless it is refused; one whose predecessors are all on their way waits for a risk, any other is refused at once. A file with call data (JUMBO_TX_ENABLED=false) takes one, too, and gives it back when its transaction was run. No honest burst is refused by it: consecutive nonces from the sender's next one on, each once, which the sender can pay, while nobody else sends for it; docs/internals/LANES.md says more. With DISABLE_MN_PRECHECKS_ON_TX_SENDING=true only files are bounded. 0 = no bound.
	WrongNonces int `env:"WRONG_NONCE_BUDGET" envDefault:"10" min:"0"`
	// Where the calls of each address are counted: LRU (in this process) or REDIS (for all instances on it). Empty = REDIS if that is enabled.
	CallStore string `env:"IP_RATE_LIMIT_STORE"`
	// Deadline of every Redis call of the limits. When it passes, each process counts for itself until Redis answers again.
	RedisTimeout envx.Millis `env:"LIMIT_REDIS_TIMEOUT_MS" envDefault:"200" min:"1ms" max:"1m"`
}

// greatest is the largest amount that scripts in Redis, whose numbers are floating
// point, add up exactly: 90 million ℏ.
const greatest = 1 << 53

// Validate reports every setting that cannot work, joined into one error.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if d := c.Window.Duration(); c.Total > 0 && (d < time.Second || d > 366*24*time.Hour) {
		errs = append(errs, fmt.Errorf("HBAR_RATE_LIMIT_DURATION is %v: want a second to a year", d))
	}
	if c.CallStore != "" && c.CallStore != StoreLocal && c.CallStore != StoreRedis {
		errs = append(errs, fmt.Errorf("IP_RATE_LIMIT_STORE is %q: want %s or %s", c.CallStore, StoreLocal, StoreRedis))
	}
	if _, err := loadPlans(c.Plans); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
