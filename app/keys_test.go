package app_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/config"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

// A running relay takes another file of keys. A file with a mistake changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	first, firstLine := must.Get2(apikey.New("first"))(t)
	second, secondLine := must.Get2(apikey.New("second"))(t)
	name := filepath.Join(t.TempDir(), "keys.txt")
	write := func(text string) {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(firstLine)
	load := func() (config.Config, error) {
		return config.Load(append([]string{
			"CHAIN_ID=298", `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1",
			"OPERATOR_ID_MAIN=0.0.1002", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=" + operatorKey,
			"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "API_KEYS_FILE=" + name, "API_KEYS_REQUIRED=true",
		}, patient...))
	}
	relay, log := reloadable(t, load)
	rpcAddr, wsAddr := relay.Endpoints()
	must.Do(t, relay.Listen(t.Context(), rpcAddr, wsAddr))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- relay.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
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
	done, err := relay.Reload(t.Context())
	if err != nil || !slices.Equal(done.Changed, []string{"API_KEYS_FILE"}) || len(done.Restart) != 0 {
		t.Errorf("reloaded %+v, %v", done, err)
	}
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
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	stopped <- nil
	if !strings.Contains(log.String(), "eth_chanId") {
		t.Error("nobody is told of a misspelt method")
	}
	for _, token := range []string{first.Reveal(), second.Reveal()} {
		if strings.Contains(log.String(), token[4:]) {
			t.Error("the log shows a key")
		}
	}
}
