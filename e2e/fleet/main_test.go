package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"lockstep/e2e/harness"
)

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // of the proxies
	toxics.Register("readdress", new(readdress))
	redis.SetLogger(silence{}) // servers that do not answer are what is tested here
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}

// silence is a logger.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// rounds is how often a race is run: few times usually, many with LOCKSTEP_SOAK.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("LOCKSTEP_SOAK")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("LOCKSTEP_SOAK is %q: want a number of rounds", text)
	}
	return max(n, usual)
}

// normal is within what a client is answered, trouble or not, on the slowest machine. Whatever in a relay has a limit
// of time that a test does not set has a longer one: who waits for that instead is late.
const normal = 2 * time.Minute

// Settings of relays, after harness.Patient, as lists for append.

// calm returns settings for tests in which neither Redis nor a relay is in trouble: a machine that stands still makes none.
func calm() []string {
	return []string{
		"LOCK_HEARTBEAT_MISSED_COUNT=1000", "LOCK_REDIS_TIMEOUT_MS=20000", "LOCK_REDIS_PATIENCE_MS=240000", "TXPOOL_REDIS_TIMEOUT_MS=120000",
		"LIMIT_REDIS_TIMEOUT_MS=60000",
	}
}

// alert returns settings for trouble with Redis: the defaults, by which relays notice it soon. They may notice some
// that is the machine's, and then the window has to be long.
func alert() []string {
	return []string{
		"LOCK_HEARTBEAT_MISSED_COUNT=5", "LOCK_REDIS_TIMEOUT_MS=500", "LOCK_REDIS_PATIENCE_MS=3000", "TXPOOL_REDIS_TIMEOUT_MS=250",
		"LIMIT_REDIS_TIMEOUT_MS=200", "LOCK_MAX_HOLD_MS=30000", patient,
	}
}

// mortal returns settings for tests of death: a relay is taken for dead after 20 s, and so is one that lives if the machine
// stands still for as long.
func mortal() []string {
	return []string{"LOCK_HEARTBEAT_INTERVAL_MS=2000", "LOCK_HEARTBEAT_MISSED_COUNT=10", "LOCK_REDIS_TIMEOUT_MS=15000"}
}

// patient is a window that no predecessor misses because the machine is slow.
const patient = "NONCE_GAP_HOLD_MS=1200000"

// logLevel names the variable that sets the relays' log level.
const logLevel = "LOCKSTEP_LOG_LEVEL"

// start runs the program.
func start(t *testing.T, name string, env []string, args ...string) *harness.Process {
	t.Helper()
	return startOther(t, "", name, env, args...)
}

// startOther runs another build of the program, if one is named.
func startOther(t *testing.T, program, name string, env []string, args ...string) *harness.Process {
	t.Helper()
	c := harness.Command{Name: name, Program: program, Settings: env, Args: args, Rough: true, Shown: 32 << 10}
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
