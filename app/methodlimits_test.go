package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lockstep/app"
	"lockstep/config"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// A method's own limit counts in place of its tier's, in memory and over Redis, and a running relay
// takes another one. Whoever calls too often is told so as at the limits of tiers.
func TestLimitsOfMethods(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]func(t *testing.T) []string{
		"in memory": func(*testing.T) []string { return nil },
		"over Redis": func(t *testing.T) []string {
			return []string{"REDIS_ENABLED=true", "REDIS_URL=" + redistest.Start(t).URL()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			settings := append([]string{
				`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true", "SERVER_HOST=127.0.0.1", "SERVER_PORT=0",
				"RATE_LIMIT_DISABLED=false", "LIMIT_DURATION=86400000", "TIER_2_RATE_LIMIT=3",
			}, append(more(t), patient...)...)
			limits := "eth_chainId=1,net_*=0,eth_chanId=5"
			load := func() (config.Config, error) {
				return config.Load(append(slices.Clone(settings), "METHOD_RATE_LIMITS="+limits))
			}
			cfg := must.Get(load())(t)
			log := new(journal)
			relay := must.Get(app.New(cfg, "test", slog.New(slog.NewTextHandler(log, nil))))(t)
			relay.Reloads(load, func(config.Config) {})
			serving(t, relay)
			want := func(method string, statuses ...int) {
				t.Helper()
				for i, want := range statuses {
					response := must.Get(http.Post("http://"+relay.HTTPAddr(), "application/json", strings.NewReader(rpcBody(method))))(t)
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
			done, err := relay.Reload(t.Context())
			if err != nil || !slices.Equal(done.Changed, []string{"METHOD_RATE_LIMITS"}) || len(done.Restart) != 0 {
				t.Errorf("reloaded %+v, %v", done, err)
			}
			want("eth_chainId", 200, 200, 200, 429) // one was let through before
			want("net_version", 200)
			want("eth_accounts", 429)
			limits = "eth_chainId"
			if _, err := relay.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "METHOD_RATE_LIMITS") {
				t.Errorf("a limit without a number: %v", err)
			}
		})
	}
}
