package watchers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// target is where webhooks go. While it is down it refuses each.
type target struct {
	mu      sync.Mutex
	down    bool
	refused int
	events  []watch.Event
}

func (g *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	g.mu.Lock()
	defer g.mu.Unlock()
	var e watch.Event
	if err = errors.Join(err, json.Unmarshal(text, &e)); err != nil || g.down {
		g.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	g.events = append(g.events, e)
}

// inOrder counts the different events, and fails unless those of each contract came in their order.
func (g *target) inOrder(t *testing.T) int {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	return inOrder(t, g.events)
}

func (g *target) setDown(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

// TestSinksComeBack has a webhook's target refuse everything for a while, and Redis go away. Both get everything when they are back, in order.
func TestSinksComeBack(t *testing.T) {
	const children = 20
	chain := watchtest.New(t, children+1)
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	hooks := &target{}
	server := httptest.NewServer(hooks)
	defer server.Close()
	file := plan(t, chain.URL, "SINKS")
	text := must.Get(os.ReadFile(file))(t)
	text = []byte(strings.Replace(string(text), `["SINKS"]`, fmt.Sprintf(`["redis://%s/events", "webhook:%s/hook"]`, redis.Addr(), server.URL), 1))
	must.Do(t, os.WriteFile(file, text, 0o600))
	f := &fleet{t: t, members: map[string]*harness.Process{}, settings: []string{
		"DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "watch.db"), "WATCH_FILE=" + file, "WATCH_WEBHOOK_ALLOW=127.0.0.1",
		"WATCH_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=",
	}}
	f.start("a")
	family(chain, children)
	watchtest.Until(t, "the first events", func() (bool, error) { n := hooks.inOrder(t); return n == children, fmt.Errorf("%d", n) })

	hooks.setDown(true)
	redis.Stop()
	for range 60 {
		chain.Emit(watchtest.Emitter(1+rand.IntN(children)), approved, watchtest.Word(common.Address{1}))
		chain.Emit(watchtest.Emitter(1+rand.IntN(children)), approved, watchtest.Word(common.Address{2}))
		chain.Commit()
	}
	watchtest.Until(t, "the target has refused for a while", func() (bool, error) {
		hooks.mu.Lock()
		defer hooks.mu.Unlock()
		return hooks.refused >= 60, fmt.Errorf("%d times", hooks.refused)
	})
	redis.Restart()
	hooks.setDown(false)
	want := scan(t, chain)
	handedOn(t, redis, want)
	watchtest.Until(t, "the target has all events", func() (bool, error) {
		n := hooks.inOrder(t)
		return n >= len(want), fmt.Errorf("%d of %d", n, len(want))
	})
	if n := hooks.inOrder(t); n != len(want) {
		t.Errorf("the target has %d events, the chain %d", n, len(want))
	}
}
