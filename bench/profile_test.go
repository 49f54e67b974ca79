package bench

import (
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A run has a CPU profile and one of allocations for each relay, of the first target only.
func TestProfiler(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(console.Close)
	f := newFakeChain(t)
	cfg := base(f)
	p := &Profiler{Dir: filepath.Join(t.TempDir(), "profiles"), Consoles: []string{console.URL + "/"}, Token: "secret", Lasts: time.Second}
	cfg.Before, cfg.After = p.Before, p.After
	mustRun(t, cfg)
	for _, name := range []string{"send-run1-relay1.cpu.pprof", "send-run1-relay1.allocs.pprof"} {
		content, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil || len(content) < 2 || content[0] != 0x1f || content[1] != 0x8b { // gzip
			t.Errorf("%s is no profile: %d bytes, %v", name, len(content), err)
		}
	}

	stranger := &Profiler{Dir: t.TempDir(), Consoles: []string{console.URL}, Token: "wrong"}
	if err := stranger.Take(t.Context(), console.URL, "x"); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("with a wrong token: %v", err)
	}
	if err := p.Before(t.Context(), 1, 0); err != nil {
		t.Error(err)
	}
	if err := p.After(t.Context(), 1, 0); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Dir, "*")); len(left) != 2 {
		t.Errorf("the second target has profiles: %v", left)
	}
}
