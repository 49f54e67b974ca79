package app_test

import (
	"net/http"
	"strings"
	"testing"

	"lockstep/devnet/ledger/devaccounts"
)

// No page, log line or metric shows a token or a key.
func TestSecretsStaySecret(t *testing.T) {
	w := newWorld(t)
	const token = "sesame-4711"
	r := w.relay(t, "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_TOKEN="+token, "MIRROR_NODE_URL_HEADER_X_API_KEY=sesame-4712")
	r.app.Announce(t.Context())
	r.call("eth_sendRawTransaction", "0x01")
	said := strings.Join(r.log.with(""), "\n")
	for _, path := range []string{"/metrics", "/config", "/health/readiness", "/openrpc"} {
		_, body := ask(t, http.MethodGet, r.url+path, "")
		said += body
	}
	_, page := ask(t, http.MethodGet, "http://"+r.app.AdminAddr()+"/ui/", "")
	key := devaccounts.OperatorKey
	for _, secret := range []string{token, "sesame-4712", key, strings.ToLower(key[len(key)-64:])} {
		if strings.Contains(strings.ToLower(said+page), strings.ToLower(secret)) {
			t.Errorf("a secret of %d characters is shown", len(secret))
		}
	}
	if len(said) < 10_000 {
		t.Error("hardly anything was looked at")
	}
}

// A console on loopback without a token draws one, unless that is switched off.
func TestConsoleDrawsAToken(t *testing.T) {
	w := newWorld(t)
	for setting, want := range map[string]int{"ADMIN_LOOPBACK_TOKEN=true": http.StatusUnauthorized, "ADMIN_LOOPBACK_TOKEN=false": http.StatusOK} {
		r := w.relay(t, "ADMIN_ADDRESS=127.0.0.1:0", setting)
		if status, _ := ask(t, http.MethodGet, "http://"+r.app.AdminAddr()+"/locks", ""); status != want {
			t.Errorf("%s: %d, want %d", setting, status, want)
		}
	}
}
