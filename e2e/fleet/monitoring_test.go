package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// repeated is a pause between rounds of load: each has to be in another scrape than the one before.
const repeated = 3 * time.Second

// TestDashboardHasNoEmptyPanel has a real Prometheus look at a fleet under load: every query of the relay's dashboard
// finds something.
func TestDashboardHasNoEmptyPanel(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "NONCE_GAP_HOLD_MS=0", "RATE_LIMIT_DISABLED=false", "TIER_3_RATE_LIMIT=5", "HBAR_RATE_LIMIT_TINYBAR=100000000000", "HBAR_RATE_LIMIT_BASIC=10000000")
	relays := n.startRelays(2)
	prometheus := startPrometheus(t, relays)
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		n.load(ctx, relays)
	}()
	defer func() {
		cancel()
		<-loaded
	}()
	queries := dashboard(t)
	until(t, harness.StartLimit, "Prometheus reads the relays", func() bool { return prometheus.finds(`count(up{job="lockstep-relay"} == 1) == 2`) })
	empty := queries
	defer func() {
		if t.Failed() {
			t.Logf("queries that find nothing:\n%s", strings.Join(empty, "\n"))
		}
	}()
	until(t, harness.StartLimit, "every query of the dashboard finds something", func() bool {
		empty = slices.DeleteFunc(slices.Clone(empty), func(q string) bool { return prometheus.finds(q) })
		return len(empty) == 0 || t.Failed()
	})
}

// load does to the relays what makes each panel show something, until ctx ends.
func (n *network) load(ctx context.Context, relays []*relay) {
	alice := n.newSender()
	for round := 0; ctx.Err() == nil; round++ {
		r := relays[round%2]
		r.post(ctx, alice.pay(3)...)
		r.post(ctx, alice.signNonce(alice.next+5, alice.address, payment(), paymentGas)) // a gap, which is refused
		for range 10 {
			r.ask(ctx, "web3_clientVersion") // more than the limit
		}
		r.ask(ctx, "eth_noSuchMethod")
		r.ask(ctx, "eth_getBlockByNumber", "latest", true)
		if round%3 == 2 { // now and then, since one answer may be in a cache
			r.mirror.cut()
			r.ask(ctx, "eth_getBlockByNumber", fmt.Sprintf("0x%x", round), true)
			r.mirror.repair()
		}
		select {
		case <-ctx.Done():
		case <-time.After(repeated):
		}
	}
}

// ask calls a method, whatever comes of it.
func (r *relay) ask(ctx context.Context, method string, params ...any) {
	body, err := json.Marshal(request{"2.0", 1, method, append([]any{}, params...)})
	if err != nil {
		panic(err) // strings, numbers and truth values only
	}
	_, _ = r.roundTrip(ctx, body)
}

// dashboard reads the queries of the relay's dashboard, as Grafana would send them.
func dashboard(t *testing.T) (queries []string) {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/relay-dashboard.json"))(t)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must.Do(t, json.Unmarshal(text, &board))
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			query := strings.NewReplacer("$job", ".*", "$__rate_interval", "1m").Replace(target.Expr)
			queries = append(queries, query)
			// A panel shows 0 until the first case. Without that, its query finds the case itself.
			if itself, _, has := strings.Cut(query, " or "); has {
				queries = append(queries, itself)
			}
		}
	}
	if len(queries) == 0 {
		t.Fatal("the dashboard asks nothing")
	}
	return queries
}

// prometheusServer is a Prometheus that reads the relays every second.
type prometheusServer struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, relays []*relay) *prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("this test needs prometheus; run scripts/setup.sh")
	}
	var targets []string
	for _, r := range relays {
		targets = append(targets, strings.TrimPrefix(r.http, "http://"))
	}
	// JSON is YAML.
	config := must.Get(json.Marshal(map[string]any{
		"global": map[string]string{"scrape_interval": "1s", "scrape_timeout": "1s"},
		"scrape_configs": []any{map[string]any{
			"job_name": "lockstep-relay", "static_configs": []any{map[string]any{"targets": targets}},
		}},
	}))(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	must.Do(t, os.WriteFile(file, config, 0o600))
	p := &prometheusServer{t: t, url: fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))}
	run := harness.Run(t, exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+strings.TrimPrefix(p.url, "http://"))) //nolint:noctx // ended with the test
	must.Do(t, run.Until(t.Context(), normal, func() error { return p.get("/-/ready", nil) }))
	return p
}

// get reads what a path answers; into is nil for a text that does not matter.
func (p *prometheusServer) get(path string, into any) error {
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// finds tells whether a query has a value that is a number. A query that Prometheus does not understand fails the test.
func (p *prometheusServer) finds(query string) bool {
	p.t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := p.get("/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		p.t.Errorf("%s: %v", query, err)
		return false
	}
	found := slices.ContainsFunc(answer.Data.Result, func(r struct{ Value [2]any }) bool { return r.Value[1] != "NaN" })
	return found
}
