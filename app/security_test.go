package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/config"
	"lockstep/devnet/ledger/devaccounts"
)

// A promise is a part of SECURITY.md, in its words, and what shows it: a test here, or the name of another one.
type promise struct {
	words string
	shown string // by a test elsewhere, or advice: nothing of ours to show
	test  func(t *testing.T, w *world)
}

const advice = "advice"

func promises() []promise {
	return []promise{
		{words: "The relay reads operators' keys and tokens from the environment or from files (the settings that end with `_FILE`). No log line, error, metric or page shows them; `lockstep config` masks them.", test: secretsStaySecret},
		{words: "Nobody but the holder of a key can make the relay send a transaction; a stranger cannot change the order of another sender's transactions.", test: strangersSendNothing},
		{words: "`HBAR_RATE_LIMIT_TINYBAR` bounds what the operator pays for;", shown: "TestBudgetOfAFleet"},
		{words: "`WRONG_NONCE_BUDGET` bounds what the wrong nonces of one sender cost.", shown: "TestWrongNonceAttacks"},
		{words: "Each queue, cache and connection has a bound, and each request has a maximum of memory and of processor time. `make attack` measures what strangers can do.", shown: "TestAttacks"},
		{words: "The relay does not encrypt its ports. Put a proxy with TLS before it, and name the proxy in `TRUSTED_PROXIES`:", shown: advice},
		{words: "the relay believes the `X-Forwarded-For` of these addresses and of no others. By default they are loopback and the private networks, so set it where strangers share one with you.", test: forwardedForIsBelievedOfProxiesAlone},
		{words: "`ADMIN_ADDRESS` belongs on loopback. Anywhere else it needs `ADMIN_TOKEN`.", test: consoleNeedsAToken},
		{words: "The console, the transaction manager and the watchers ask for a token or a key. Where you have set none, they listen on loopback alone and print a token at their start, since a proxy on the same machine makes strangers look local. `ADMIN_LOOPBACK_TOKEN=false`, `TXM_LOOPBACK_TOKEN=false` and `WATCH_LOOPBACK_TOKEN=false` switch that off; then put no proxy before them.", test: consoleDrawsAToken},
		{words: "Redis holds the order of the fleet. A program that can write to it can change that order. Give it a password and TLS (`rediss://`), and no access from outside.", shown: advice},
		{words: "`/metrics` and `/config` are on the RPC port. A proxy should not pass them on to strangers. `DISABLE_ADMIN_NAMESPACE=true` hides the settings.", test: settingsCanBeHidden},
		{words: "`lockstep dev` is for development: its accounts have keys that everybody knows. It listens on loopback, unless a flag says otherwise.", shown: "TestDevListensOnLoopback"},
	}
}

// What SECURITY.md promises is shown, line by line, and each line of its lists has a promise.
func TestSecurityDocument(t *testing.T) {
	file, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(strings.Join(strings.Fields(string(file)), " "), "## What is protected")
	for _, p := range promises() {
		before, after, found := strings.Cut(text, p.words)
		if !found {
			t.Errorf("SECURITY.md does not say %q", p.words)
		}
		text = before + after
		if p.shown != "" && p.shown != advice && !slices.Contains(testsOfTheTree(t), p.shown) {
			t.Errorf("there is no test %s", p.shown)
		}
	}
	text = strings.ReplaceAll(text, "## What is yours to protect", "")
	if left := regexp.MustCompile(`\*\*[A-Za-z -]+\.\*\*|-`).ReplaceAllString(text, ""); strings.TrimSpace(left) != "" {
		t.Errorf("nothing shows %q", strings.Join(strings.Fields(left), " "))
	}
	w := newWorld(t)
	for _, p := range promises() {
		if p.test != nil {
			t.Run(p.words[:min(len(p.words), 60)], func(t *testing.T) { p.test(t, w) })
		}
	}
}

// testsOfTheTree are the names of tests in the packages that promises name.
func testsOfTheTree(t *testing.T) (names []string) {
	for _, dir := range []string{".", "../bench/attack", "../cmd/lockstep"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

func secretsStaySecret(t *testing.T, w *world) {
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

func strangersSendNothing(t *testing.T, w *world) {
	r, alice := w.relay(t, "ENABLE_NONCE_ORDERING=true"), w.account(t)
	raw, err := alice.sign(alice.pay(0)).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for i := len(raw) - 60; i < len(raw); i += 7 { // within the signature
		forged := slices.Clone(raw)
		forged[i] ^= 1
		if a := r.call("eth_sendRawTransaction", fmt.Sprintf("0x%x", forged)); a.Error == nil {
			t.Errorf("with byte %d changed it was taken", i)
		}
	}
	if n := r.count(alice, "latest"); n != 0 {
		t.Errorf("the sender's nonce is %d", n)
	}
	if a := r.call("eth_sendRawTransaction", fmt.Sprintf("0x%x", raw)); a.Error != nil {
		t.Errorf("the true one: %v", a.Error)
	}
}

func forwardedForIsBelievedOfProxiesAlone(t *testing.T, w *world) {
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
	cfg, err := config.Load([]string{`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(cfg.RPC.TrustedProxies, " "), "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10"; got != want {
		t.Errorf("by default proxies are at %s", got)
	}
}

func consoleNeedsAToken(t *testing.T, _ *world) {
	for _, more := range [][]string{{}, {"ADMIN_TOKEN=sesame"}} {
		_, err := config.Load(append(more, `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true", "ADMIN_ADDRESS=192.0.2.1:7547"))
		if (err == nil) != (len(more) > 0) {
			t.Errorf("with %v: %v", more, err)
		}
	}
}

func consoleDrawsAToken(t *testing.T, w *world) {
	for setting, want := range map[string]int{"ADMIN_LOOPBACK_TOKEN=true": http.StatusUnauthorized, "ADMIN_LOOPBACK_TOKEN=false": http.StatusOK} {
		r := w.relay(t, "ADMIN_ADDRESS=127.0.0.1:0", setting)
		if status, _ := ask(t, http.MethodGet, "http://"+r.app.AdminAddr()+"/locks", ""); status != want {
			t.Errorf("%s: %d, want %d", setting, status, want)
		}
	}
}

func settingsCanBeHidden(t *testing.T, w *world) {
	for setting, want := range map[string]int{"DISABLE_ADMIN_NAMESPACE=false": http.StatusOK, "DISABLE_ADMIN_NAMESPACE=true": http.StatusNotFound} {
		r := w.relay(t, setting)
		if status, _ := ask(t, http.MethodGet, r.url+"/metrics", ""); status != http.StatusOK {
			t.Errorf("/metrics: %d", status)
		}
		if status, body := ask(t, http.MethodGet, r.url+"/config", ""); status != want && (want == http.StatusOK || strings.Contains(body, "OPERATOR_ID_MAIN")) {
			t.Errorf("%s: /config: %d, want %d", setting, status, want)
		}
		if a := r.call("admin_config"); (a.Error == nil) != (want == http.StatusOK) {
			t.Errorf("%s: admin_config: %v", setting, a.Error)
		}
	}
}
