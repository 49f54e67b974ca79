package rpc

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// TestTooManyRequestsSayWhenToTryAgain: status 429 comes with Retry-After, over both ways that
// requests are read.
func TestTooManyRequestsSayWhenToTryAgain(t *testing.T) {
	for name, encoding := range map[string]string{"plain": "", "through net/http": "identity"} {
		c := testConfig()
		c.RateLimit.Disabled = false
		url := serveHTTP(t, testDispatcher(t, c, Options{Limiter: newTally(1)}), HTTPOptions{})
		for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			request := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(chainIDCall)))(t)
			if encoding != "" {
				request.Header.Set("Content-Encoding", encoding)
			}
			response := must.Get(http.DefaultClient.Do(request))(t)
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s: answer %d has status %d", name, i, response.StatusCode)
			}
			after, err := strconv.Atoi(response.Header.Get("Retry-After"))
			if refused := want != http.StatusOK; refused != (err == nil && after >= 1 && after <= 60) {
				t.Errorf("%s: answer %d says to try again after %q", name, i, response.Header.Get("Retry-After"))
			}
		}
	}
}
