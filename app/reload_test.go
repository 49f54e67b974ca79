package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/app"
	"lockstep/config"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

// reloadable runs a relay without a network, which reads its settings again with further ones. It returns its log.
func reloadable(t *testing.T, further func() []string) (*app.App, *journal) {
	t.Helper()
	load := func() (config.Config, error) {
		return config.Load(slices.Concat([]string{
			`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true", "SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "SHUTDOWN_DRAIN_DELAY_MS=0",
		}, patient, further()))
	}
	log := new(journal)
	relay := must.Get(app.New(must.Get(load())(t), "test", slog.New(slog.NewTextHandler(log, nil))))(t)
	relay.Reloads(load, func(config.Config) {})
	serving(t, relay)
	return relay, log
}

// takes reads the settings again, of which one has changed.
func takes(t *testing.T, relay *app.App, setting string) {
	t.Helper()
	done, err := relay.Reload(t.Context())
	if err != nil || !slices.Equal(done.Changed, []string{setting}) || len(done.Restart) != 0 {
		t.Errorf("reloaded %+v, %v", done, err)
	}
}

// Reading the settings again tells of a misspelt name, as the start does, also while another setting is wrong.
func TestReloadTellsOfMisspeltNames(t *testing.T) {
	t.Parallel()
	var more []string
	relay, log := reloadable(t, func() []string { return more })
	for i, step := range []struct {
		more  []string
		warns int // so far
		fails bool
	}{
		{nil, 0, false},
		{[]string{"TIER_1_RATE_LIMTI=5"}, 1, false},
		{[]string{"TIER_1_RATE_LIMTI=5", "LOG_LEVEL=loud"}, 2, true},
	} {
		more = step.more
		_, err := relay.Reload(t.Context())
		if warned := log.with("name=TIER_1_RATE_LIMTI setting=TIER_1_RATE_LIMIT"); (err != nil) != step.fails || len(warned) != step.warns {
			t.Errorf("step %d: %v, warned: %q", i, err, warned)
		}
	}
}

// A running relay takes another file of keys. A file with a mistake changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	first, firstLine := must.Get2(apikey.New("first"))(t)
	second, secondLine := must.Get2(apikey.New("second"))(t)
	name := filepath.Join(t.TempDir(), "keys.txt")
	write := func(text string) { must.Do(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(firstLine)
	relay, log := reloadable(t, func() []string { return []string{"API_KEYS_FILE=" + name, "API_KEYS_REQUIRED=true"} })
	url := "http://" + relay.HTTPAddr()
	want := func(when string, statuses ...int) {
		t.Helper()
		for i, token := range []string{first.Reveal(), second.Reveal()} {
			if status, answer := ask(t, http.MethodPost, url, rpcBody("eth_chainId"), "Authorization", "Bearer "+token); status != statuses[i] {
				t.Errorf("%s, key %d: %d %s", when, i+1, status, answer)
			}
		}
	}
	want("at first", 200, 401)
	write(secondLine + " methods=eth_chainId,eth_chanId")
	takes(t, relay, "API_KEYS_FILE")
	want("after the change", 401, 200)
	write("second " + second.Reveal())
	if _, err := relay.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "API_KEYS_FILE") || strings.Contains(err.Error(), second.Reveal()[4:]) {
		t.Errorf("a mistake: %v", err)
	}
	want("after the mistake", 401, 200)
	if status, _ := ask(t, http.MethodGet, url+"/health/liveness", ""); status != 200 {
		t.Errorf("a probe without a key: %d", status)
	}
	if _, page := ask(t, http.MethodGet, url+"/metrics", ""); !strings.Contains(page, `lockstep_api_key_calls_total{key="second"} 2`) || strings.Contains(page, `{key="first"}`) {
		t.Errorf("metrics:\n%s", page)
	}
	if len(log.with("eth_chanId")) == 0 {
		t.Error("nobody is told of a misspelt method")
	}
	if len(log.with(first.Reveal()[4:])) > 0 || len(log.with(second.Reveal()[4:])) > 0 {
		t.Error("the log shows a key")
	}
}

// A method's own limit counts in place of its tier's, and a running relay
// takes another one. Whoever calls too often is told so as at the limits of tiers.
func TestLimitsOfMethods(t *testing.T) {
	t.Parallel()
	limits := "eth_chainId=1,net_*=0,eth_chanId=5"
	relay, log := reloadable(t, func() []string {
		return []string{"RATE_LIMIT_DISABLED=false", "LIMIT_DURATION=86400000", "TIER_2_RATE_LIMIT=3", "METHOD_RATE_LIMITS=" + limits}
	})
	want := func(method string, statuses ...int) {
		t.Helper()
		for i, want := range statuses {
			response, err := http.Post("http://"+relay.HTTPAddr(), "application/json", strings.NewReader(rpcBody(method)))
			must.Do(t, err)
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			again := response.Header.Get("Retry-After")
			limited := response.StatusCode == http.StatusTooManyRequests
			if err != nil || response.StatusCode != want || limited != strings.Contains(string(text), "-32605") || limited != (again != "") {
				t.Errorf("call %d of %s, limits %s: %d %s, again after %q, %v", i+1, method, limits, response.StatusCode, text, again, err)
			}
		}
	}
	want("eth_chainId", 200, 429)
	want("net_version", 429)
	want("eth_accounts", 200, 200, 200, 429) // that of the tier
	if told := log.with("METHOD_RATE_LIMITS names a method"); len(told) != 1 || !strings.Contains(told[0], "method=eth_chanId") {
		t.Errorf("of misspelt methods the log says %q", told)
	}
	limits = "eth_chainId=4,eth_account*=0"
	takes(t, relay, "METHOD_RATE_LIMITS")
	want("eth_chainId", 200, 200, 200, 429) // one was let through before
	want("net_version", 200)
	want("eth_accounts", 429)
	limits = "eth_chainId"
	if _, err := relay.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "METHOD_RATE_LIMITS") {
		t.Errorf("a limit without a number: %v", err)
	}
}
