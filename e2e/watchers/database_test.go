package watchers

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/e2e/harness"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/redistest"
	"lockstep/watch/watchtest"
)

// outage is how long the database is away besides what it takes to notice: nothing, or what LOCKSTEP_OUTAGE says.
func outage(t *testing.T) time.Duration {
	text := os.Getenv("LOCKSTEP_OUTAGE")
	if text == "" {
		return 0
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestDatabaseAway takes the database away for a while and brings it back, and takes it away for good.
func TestDatabaseAway(t *testing.T) {
	away := outage(t)
	chain := watchtest.New(t, 3)
	redis := redistest.Start(t)
	server := pgtest.Start(t)
	database := server.Database()
	f := &fleet{t: t, members: map[string]*harness.Process{}}
	// start runs a process that waits for its database for a while.
	start := func(name string, patience time.Duration) {
		f.settings = []string{
			"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events"), "WATCH_DB_PATIENCE=" + patience.String(),
		}
		f.start(name)
	}
	start("a", away+2*patience) // however slowly the database comes back
	emit := func() {
		chain.Emit(watchtest.Emitter(1), approved, watchtest.Word(common.Address{1}))
		chain.Commit()
	}
	chain.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(1)), watchtest.Number(1))
	emit()
	db := ledgertest.At(t, database)
	stored(t, db, scan(t, chain))

	server.Kill()
	emit()
	harness.Until(t, patience, "the outage is noticed", func() bool { return f.members["a"].Log.Has("an upstream is not usable") })
	emit()
	<-time.After(away)
	server.Restart()
	stored(t, db, scan(t, chain))
	harness.Until(t, patience, "the return is noticed", func() bool { return f.members["a"].Log.Has("an upstream is usable again") })

	f.members["a"].Stop()
	start("b", 5*time.Second)
	emit()
	stored(t, db, scan(t, chain))
	server.Kill()
	select {
	case <-f.members["b"].Ended:
	case <-time.After(patience):
		t.Fatal("the process does not end without its database")
	}
	if code := f.members["b"].Exit(); code != 1 {
		t.Errorf("exit status %d", code)
	}
	lines := strings.Split(strings.TrimSpace(f.members["b"].Log.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "the database does not answer for ") {
		t.Errorf("the last line is %q", last)
	}
}
