package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/redistest"
)

// report is what readiness says when there is something to say.
type report struct {
	http    int
	Status  string
	Reasons []struct {
		Upstream, Cause string
		Since           time.Time
		Fatal           bool
	}
}

// readiness asks for the report.
func (r *relay) readiness() (got report) {
	r.Helper()
	request := must.Get(http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+"/health/readiness", nil))(r)
	request.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must.Do(r, err)
	defer answer.Body.Close()
	must.Do(r, json.NewDecoder(answer.Body).Decode(&got))
	got.http = answer.StatusCode
	return got
}

// becomes waits for a report: looks are kept for a second.
func (r *relay) becomes(status string, upstreams ...string) (got report) {
	r.Helper()
	for end := time.Now().Add(generous); ; <-time.After(50 * time.Millisecond) {
		got = r.readiness()
		var names []string
		for _, reason := range got.Reasons {
			names = append(names, reason.Upstream)
		}
		if got.Status == status && strings.Join(names, " ") == strings.Join(upstreams, " ") {
			return got
		}
		if time.Now().After(end) {
			r.Fatalf("%+v, want %s for %s", got, status, upstreams)
		}
	}
}

// Readiness names what does not answer and since when, is DOWN for what the setting says, and
// the log has each change once.
func TestReadinessTellsTheTruth(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "MIRROR_NODE_BREAKER_FAILURES=0")
	if got := r.becomes("OK"); got.http != http.StatusOK {
		t.Errorf("HTTP status %d", got.http)
	}
	var down atomic.Bool
	down.Store(true)
	w.spoilMirror(t, func(*http.Request) mirrorrest.Fault {
		if down.Load() {
			return mirrorrest.Fault{Status: http.StatusServiceUnavailable}
		}
		return mirrorrest.Fault{}
	})
	before := time.Now()
	got := r.becomes("DOWN", "mirror")
	if why := got.Reasons[0]; got.http != http.StatusServiceUnavailable || !why.Fatal || why.Cause == "" || why.Since.Before(before.Add(-time.Minute)) {
		t.Errorf("%+v", got)
	}
	if again := r.becomes("DOWN", "mirror"); !again.Reasons[0].Since.Equal(got.Reasons[0].Since) {
		t.Errorf("since %s, then since %s", got.Reasons[0].Since, again.Reasons[0].Since)
	}
	down.Store(false)
	r.becomes("OK")
	// A machine that stands still makes losses of its own; each has its line, and so has its end.
	changes := r.log.with("an upstream is")
	changes = slices.DeleteFunc(changes, func(line string) bool { return !strings.Contains(line, "upstream=mirror") })
	for i, line := range changes {
		if words := []string{outage.Lost, outage.Back}[i%2]; !strings.Contains(line, words) {
			t.Errorf("line %d is not %q: %s", i, words, changes)
		}
	}
	if len(changes) < 2 || len(changes)%2 != 0 {
		t.Errorf("%d lines: %s", len(changes), changes)
	}
}

// Each upstream by itself, and what the setting makes of it.
func TestReadinessBySetting(t *testing.T) {
	w := newWorld(t)
	nobody := `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`
	redis := []string{"REDIS_ENABLED=true", "REDIS_URL=redis://127.0.0.1:1"}
	locks := []string{"REDIS_ENABLED=true", "REDIS_URL=" + redistest.Start(t).URL(), "LOCK_REDIS_URL=redis://127.0.0.1:1", "ENABLE_NONCE_ORDERING=true"}
	for name, test := range map[string]struct {
		settings []string
		status   string
		out      []string
	}{
		"no node":                                {[]string{nobody}, "DOWN", []string{"nodes"}},
		"no node, and no matter":                 {[]string{nobody, "READINESS_FAILS_WITHOUT=mirror"}, "DEGRADED", []string{"nodes"}},
		"no node, and none needed":               {[]string{nobody, "READ_ONLY=true", "COST_METRICS_ENABLED=false"}, "OK", nil},
		"no Redis":                               {redis, "DEGRADED", []string{"redis"}},
		"no Redis of the locks":                  {locks, "DEGRADED", []string{"lock_redis"}},
		"no Redis of the locks, and it matters":  {append([]string{"READINESS_FAILS_WITHOUT=lock_redis"}, locks...), "DOWN", []string{"lock_redis"}},
		"no Redis of the locks, and none needed": {append(slices.Clone(locks), "ENABLE_NONCE_ORDERING=false"), "OK", nil},
		"no Redis, and it matters":               {append([]string{"READINESS_FAILS_WITHOUT=redis"}, redis...), "DOWN", []string{"redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.relay(t, test.settings...)
			// A scrape looks by itself: nobody asks for readiness before.
			must.Until(t, "a scraper sees which upstreams are out", func() bool {
				var out []string
				for name, up := range r.scrape() {
					if rest, found := strings.CutPrefix(name, `lockstep_upstream_up{upstream="`); found && up == 0 {
						out = append(out, strings.TrimSuffix(rest, `"}`))
					}
				}
				return slices.Equal(out, test.out)
			})
			got := r.becomes(test.status, test.out...)
			if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[test.status == "DOWN"]; got.http != want {
				t.Errorf("HTTP status %d, want %d", got.http, want)
			}
			for _, why := range got.Reasons { // anybody may read it
				if why.Cause != "connection refused" {
					t.Errorf("%s: the cause is %q", why.Upstream, why.Cause)
				}
			}
		})
	}
}

// The locks may have a Redis of their own: then nothing else is there, and nothing of theirs is where the rest is. It is shown by its own
// name wherever upstreams are shown, and no more when ordering is switched off.
func TestTheRedisOfTheLocks(t *testing.T) {
	w, rest, locks := newWorld(t), redistest.Start(t, "--maxmemory", "1"), redistest.Start(t)
	r, alice := w.relay(t, "TX_STATUS_TRACING=true", "REDIS_ENABLED=true", "REDIS_URL="+rest.URL(), "LOCK_REDIS_URL="+locks.URL(), "ENABLE_NONCE_ORDERING=true", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false"), w.account(t)
	const series = `lockstep_upstream_up{upstream="lock_redis"}`
	r.becomes("OK")
	if up := r.scrape()[series]; up != 1 {
		t.Errorf("%s is %v", series, up)
	}
	r.app.Announce(t.Context())
	if lines := r.log.with("redis=\"single " + rest.Addr() + "; of the locks: single " + locks.Addr() + "\""); len(lines) != 1 {
		t.Errorf("%s", r.log.with("what this relay is"))
	}
	if got := r.send(alice.sign(alice.pay(0))); got.Error != nil {
		t.Errorf("with a full Redis beside that of the locks: %s", got)
	}
	keys := func(s *redistest.Server) []string { return s.Client().Keys(t.Context(), "*").Val() }
	ofLocks := keys(locks)
	if len(ofLocks) == 0 {
		t.Error("the locks have nothing in their Redis")
	}
	for i, key := range slices.Concat(ofLocks, keys(rest)) {
		if strings.HasPrefix(key, "lock:") != (i < len(ofLocks)) {
			t.Errorf("%s is in the wrong Redis", key)
		}
	}
	locks.Kill()
	r.becomes("DEGRADED", "lock_redis")
	if up, ofRest := r.scrape()[series], r.scrape()[`lockstep_upstream_up{upstream="redis"}`]; up != 0 || ofRest != 1 {
		t.Errorf("%s is %v, and %v for the other", series, up, ofRest)
	}
	must.Until(t, "the log has the loss", func() bool {
		return len(slices.DeleteFunc(r.log.with(outage.Lost), func(line string) bool { return !strings.Contains(line, "upstream=redis name=locks") })) == 1
	})
	console := "http://" + r.app.AdminAddr()
	if state := firstEvent(t, console+"/ui/events"); !strings.Contains(state, `"kind":"lock_redis"`) || !strings.Contains(state, `"kind":"nodes"`) {
		t.Errorf("the console shows %s", state)
	}
	if code, text := ask(t, http.MethodPut, console+"/ordering", `{"enabled":false}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	r.becomes("OK")
	if up, there := r.scrape()[series]; there {
		t.Errorf("%s is %v", series, up)
	}
}

// firstEvent reads what a stream begins with.
func firstEvent(t *testing.T, url string) string {
	t.Helper()
	ctx, done := context.WithCancel(t.Context())
	defer done()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	answer, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer answer.Body.Close()
	text := bufio.NewReader(answer.Body)
	for {
		line := must.Get(text.ReadString('\n'))(t)
		if strings.HasPrefix(line, "data:") {
			return line
		}
	}
}
