package mirrorrest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// No request, however odd, is answered with an internal error or with what is not
// JSON.
func FuzzRequest(f *testing.F) {
	s := newTokenScene(f)
	for _, seed := range s.requests() {
		f.Add(seed.target)
	}
	f.Add("contracts/results/" + s.call.EthereumHash.Hex() + "/opcodes?memory=true")
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.Parse("/api/v1/" + target)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		r.URL = u
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%q: status %d: %s", target, w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json; charset=utf-8" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: not JSON: %s", target, w.Body)
		}
	})
}
