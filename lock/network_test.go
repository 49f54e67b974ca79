package lock_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// TestMain fails when a test leaves a goroutine behind, and lets more tests run at the same time.
func TestMain(m *testing.M) {
	// Most tests wait for processes and deadlines: more of them fit side by side than
	// there are processors.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ignored := []goleak.Option{
		// The client's own, which looks once a second whether a server is back, or its client closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		// The proxy's own: it stays behind where a connection ends while a fault is put on it.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
	}
	code := m.Run()
	leak := goleak.Find(ignored...)
	for end := time.Now().Add(patience); leak != nil && time.Now().Before(end); leak = goleak.Find(ignored...) { // machines are slow
	}
	if code == 0 && leak != nil {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// proxy puts toxiproxy between a service and a server.
func proxy(t *testing.T, server *redistest.Server) *toxiproxy.Proxy {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()), "redis", "127.0.0.1:0", server.Addr())
	must.Do(t, p.Start())
	t.Cleanup(p.Stop)
	return p
}

func toxic(t *testing.T, p *toxiproxy.Proxy, json string) {
	t.Helper()
	must.Get(p.Toxics.AddToxicJson(strings.NewReader(json)))(t)
}

// L7, L8: slow, half-open and dropped connections.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		toxic  string
		shared bool // the order between processes must hold all the same
	}{
		"latency":   {`{"name":"x","type":"latency","stream":"downstream","attributes":{"latency":40,"jitter":30}}`, true},
		"half-open": {`{"name":"x","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`, false},
		"reset":     {`{"name":"x","type":"reset_peer","stream":"downstream","attributes":{"timeout":5}}`, false},
		"slicer":    {`{"name":"x","type":"slicer","stream":"downstream","attributes":{"average_size":3,"size_variation":2,"delay":10}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			p := proxy(t, server)
			cfg := steady()
			if !tc.shared { // Redis is to be missed soon
				cfg.RedisTimeout = envx.Millis(2 * time.Second)
			}
			a, _ := process(t, p.Listen, cfg, nil)
			b, _ := process(t, server.Addr(), cfg, nil)
			tr := &traffic{}
			tr.send(t, a, "a", 20, 2*time.Millisecond)
			tr.send(t, b, "b", 20, 2*time.Millisecond)
			toxic(t, p, tc.toxic)
			tr.done(t, 10*time.Second)
			if tc.shared && tr.overlaps.Load() > 0 {
				t.Errorf("%d overlaps", tr.overlaps.Load())
			}
			wait(t, enter(t, a, 1)).Release()
			must.Do(t, p.Toxics.RemoveToxic(t.Context(), "x"))
			sharedAgain(t, server, a, b)
		})
	}
}
