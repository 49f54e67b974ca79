package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lockstep/config"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/must"
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

// X-Forwarded-For is believed of proxies alone: by default those on loopback and on private networks.
func TestForwardedForIsBelievedOfProxiesAlone(t *testing.T) {
	w := newWorld(t)
	// Each address has one call. Who is counted, tells whose word was believed.
	calls := func(settings ...string) (fine int) {
		r := w.relay(t, append(settings, "RATE_LIMIT_DISABLED=false", "TIER_1_RATE_LIMIT=1", "TIER_2_RATE_LIMIT=1", "TIER_3_RATE_LIMIT=1", "DEFAULT_RATE_LIMIT=1")...)
		for i := range 5 {
			status, _ := ask(t, http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`,
				"Content-Type", "application/json", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
			if status == http.StatusOK {
				fine++
			}
		}
		return fine
	}
	if fine := calls(); fine != 5 {
		t.Errorf("loopback is a proxy by default: %d of 5 addresses were believed", fine)
	}
	if fine := calls("TRUSTED_PROXIES=192.0.2.0/24"); fine != 1 {
		t.Errorf("loopback is no proxy there: %d of 5 calls were taken where one may be", fine)
	}
	cfg := must.Get(config.Load([]string{`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true"}))(t)
	if got, want := strings.Join(cfg.RPC.TrustedProxies, " "), "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10"; got != want {
		t.Errorf("by default proxies are at %s", got)
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
