package e2e

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// A relay reads its settings again on SIGHUP and by a call of its admin server. What may change while it
// runs changes; the rest is named; wrong settings change nothing.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	n := startServe(t, devnet, devnet.Accounts[0], "RATE_LIMIT_DISABLED=false", "TRUSTED_PROXIES=127.0.0.0/8", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false", "LIMIT_DURATION=86400000")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(n.process.Dir, ".env"), []byte(text), 0o600))
	}
	// limited tells whether a client that nobody has heard of yet is refused its second call.
	client := 0
	limited := func() bool {
		t.Helper()
		client++
		var status int
		for range 2 {
			request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, n.RPC, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`)))(t)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("X-Forwarded-For", "198.51.100."+string(rune('0'+client%10)))
			response := must.Get(http.DefaultClient.Do(request))(t)
			response.Body.Close()
			status = response.StatusCode
		}
		return status == http.StatusTooManyRequests
	}
	if limited() {
		t.Fatal("two calls are too many before anything has changed")
	}
	again := `"msg":"the settings were read again",`
	write("TIER_1_RATE_LIMIT=1\nTIER_2_RATE_LIMIT=1\nTIER_3_RATE_LIMIT=1\nDEFAULT_RATE_LIMIT=1\nLOG_LEVEL=debug\nNONCE_ORDERING_PERCENT=50\nENABLE_TX_POOL=false\n")
	n.process.Signal(syscall.SIGHUP)
	// Its log gets here by itself, and not before its answers.
	until(t, "the relay has read its settings", func() bool { return strings.HasSuffix(after(n.process.Log.String(), again), "}") })
	if !limited() {
		t.Error("the second of two calls is allowed after the limit became one")
	}
	if line := after(n.process.Log.String(), again); !strings.Contains(line, "LOG_LEVEL") || !strings.Contains(line, "NONCE_ORDERING_PERCENT") || !strings.Contains(line, `"need_a_restart":["ENABLE_TX_POOL"]`) {
		t.Errorf("the log says: %s", line)
	}
	until(t, "a line of level debug, which the level is now", func() bool { return n.process.Log.Has(`"level":"DEBUG"`) })

	write("TIER_2_RATE_LIMIT=many\nLOG_LEVEL=error\n")
	n.process.Signal(syscall.SIGHUP)
	harness.Until(t, harness.StartLimit, "the relay says that the settings are wrong", func() bool { return n.process.Log.Has("are wrong: nothing was changed") })
	if !limited() {
		t.Error("wrong settings changed a limit")
	}

	write("LOG_LEVEL=debug\n")
	_, _, admin := n.process.Addresses()
	response := must.Get(http.Post("http://"+admin+"/reload", "", nil))(t)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s (%v)", response.StatusCode, answer, err)
	}
	if want := `"changed":["TIER_1_RATE_LIMIT","TIER_2_RATE_LIMIT","TIER_3_RATE_LIMIT","DEFAULT_RATE_LIMIT","NONCE_ORDERING_PERCENT"],"restart":[]`; !strings.Contains(string(answer), want) {
		t.Errorf("the admin server says %s", answer)
	}
	if limited() {
		t.Error("two calls are too many after the limits are the old ones")
	}
}

// after returns the rest of the line after a text.
func after(log, text string) string {
	_, rest, _ := strings.Cut(log, text)
	line, _, _ := strings.Cut(rest, "\n")
	return line
}
