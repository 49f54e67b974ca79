package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/internal/must"
)

// A mirror node that tells the chain id and the operator's key only after the start, and first the chain id of another network, is believed each time:
// readiness, the metric and the log say what is. The setting decides whether the relay is ready meanwhile.
func TestAWrongChainIDIsShown(t *testing.T) {
	w := newWorld(t)
	target := must.Get(url.Parse(w.net.Mirror()))(t)
	var chain atomic.Int64 // what code that asks for the chain id is told; 0: an error; -1: what is true
	through := httputil.NewSingleHostReverseProxy(target)
	mirror := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch has := chain.Load(); {
		case has == 0 && (r.URL.Path == "/api/v1/contracts/call" || strings.HasPrefix(r.URL.Path, "/api/v1/accounts/")):
			rw.WriteHeader(http.StatusNotImplemented)
		case has < 0 || r.URL.Path != "/api/v1/contracts/call":
			through.ServeHTTP(rw, r)
		default:
			_, _ = fmt.Fprintf(rw, `{"result":"0x%064x"}`, has)
		}
	}))
	defer mirror.Close()
	for setting, expect := range map[string]struct {
		status string
		http   int
	}{"mirror": {"DEGRADED", http.StatusOK}, "mirror,chain": {"DOWN", http.StatusServiceUnavailable}} {
		chain.Store(0)
		r := w.relay(t, "MIRROR_NODE_URL="+mirror.URL, "READINESS_FAILS_WITHOUT="+setting)
		r.app.Announce(t.Context())
		for _, name := range []string{"lockstep_chain_id_ok", "lockstep_operator_ok"} {
			if _, told := r.scrape()[name]; told {
				t.Errorf("%s tells what nobody has told", name)
			}
		}
		r.becomes("OK")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.app.CheckAgain(t.Context())
		}()
		chain.Store(0x127)
		got := r.becomes(expect.status, "chain")
		why := got.Reasons[0]
		if got.http != expect.http || why.Fatal != (expect.http != http.StatusOK) || why.Since.IsZero() || !strings.Contains(why.Cause, "CHAIN_ID is 0x12a and the network has 0x127") {
			t.Errorf("%+v", got)
		}
		if n := r.scrape()["lockstep_chain_id_ok"]; n != 0 {
			t.Errorf("lockstep_chain_id_ok: %v", n)
		}
		chain.Store(-1)
		<-ended
		r.becomes("OK")
		for _, name := range []string{"lockstep_chain_id_ok", "lockstep_operator_ok"} {
			if n, told := r.scrape()[name]; n != 1 || !told {
				t.Errorf("%s: %v", name, n)
			}
		}
		if wrong, right := r.log.with("CHAIN_ID is not that"), r.log.with("CHAIN_ID is that of the network now"); len(wrong) != 1 || len(right) != 1 {
			t.Errorf("%q, then %q", wrong, right)
		}
	}
}

// An operator that is no account of the network, or has another key, makes the relay DEGRADED, or DOWN where the setting says so.
func TestAWrongOperatorIsShown(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct {
		settings []string
		status   string
		cause    string
	}{
		"another key": {[]string{"OPERATOR_ID_MAIN=0.0.1002"}, "DEGRADED", "the operator's key is not the key of its account 0.0.1002"},
		"no account":  {[]string{"OPERATOR_ID_MAIN=0.0.999999", "READINESS_FAILS_WITHOUT=operator"}, "DOWN", "the operator 0.0.999999 is no account of the network"},
	} {
		r := w.relay(t, test.settings...)
		r.app.Announce(t.Context())
		got := r.becomes(test.status, "operator")
		if why := got.Reasons[0]; why.Cause != test.cause || why.Since.IsZero() {
			t.Errorf("%s: %+v", name, why)
		}
	}
}
