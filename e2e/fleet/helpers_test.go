package fleet

import (
	"os"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// normal is within what a client is answered, trouble or not, on a machine that may be ten times slower.
const normal = 15 * time.Second

// logLevel names the variable that sets the relays' log level.
const logLevel = "LOCKSTEP_LOG_LEVEL"

// start runs the program.
func start(t *testing.T, name string, env []string, args ...string) *harness.Process {
	t.Helper()
	c := harness.Command{Name: name, Settings: env, Args: args, Rough: true, Shown: 32 << 10}
	if os.Getenv(logLevel) != "" {
		c.Shown = 4 << 20 // whoever asks for a level wants to see it all
	}
	return c.Start(t)
}

// until waits for a condition, for at most limit.
func until(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	harness.Until(t, limit, what, holds)
}

// pace calls f count times, the given time apart.
func pace(apart time.Duration, count int, f func(i int)) {
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := range count {
		f(i)
		if i < count-1 {
			<-tick.C
		}
	}
}

// pause lets time go by where time itself is the trouble, such as a relay that is
// frozen for longer than its heartbeat lives.
func pause(d time.Duration) { <-time.After(d) }
