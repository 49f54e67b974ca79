package app_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/app"
	"lockstep/config"
)

// operatorsRow is a row of the table of docs/internals/CONSOLE.md about what a relay answers to operators.
type operatorsRow struct{ port, request, token, byDefault string }

func operatorsTable(t *testing.T) (rows []operatorsRow) {
	t.Helper()
	text, err := os.ReadFile("../docs/internals/CONSOLE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (RPC|Console) \\| `([A-Z]+ /[^`]*)` \\|.*\\| (yes|no) \\| (on|off) \\|$").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, operatorsRow{row[1], row[2], row[3], row[4]})
	}
	return rows
}

// forOperators runs a relay that needs no network.
func forOperators(t *testing.T, further ...string) *app.App {
	t.Helper()
	relay, _ := reloadable(t, func() (config.Config, error) {
		return config.Load(append(append([]string{
			"CHAIN_ID=298", `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true", "SHUTDOWN_DRAIN_DELAY_MS=0",
		}, patient...), further...))
	})
	nowhere, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	relay.Develops(nowhere, nil) // so that /ui/mirror/ is there
	if err := relay.Listen(t.Context(), app.Endpoint{Address: "127.0.0.1:0"}, app.Endpoint{}); err != nil {
		t.Fatal(err)
	}
	running(t, relay)
	return relay
}

// status asks for a row's request, and returns the status, 0 if nothing answers there.
func (r operatorsRow) status(t *testing.T, base, token string) int {
	t.Helper()
	method, path, _ := strings.Cut(r.request, " ")
	path = strings.NewReplacer("{sender}", "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69", "{hash}", "0x"+strings.Repeat("01", 32)).Replace(path)
	body := ""
	if method != http.MethodGet {
		body = `{"enabled":true}`
	}
	ctx, done := context.WithCancel(t.Context()) // a stream has no end
	defer done()
	request, err := http.NewRequestWithContext(ctx, method, base+path+"?seconds=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusNotFound {
		return answer.StatusCode
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "nothing is known of this transaction") {
		return http.StatusOK // the request is answered, by this
	}
	return 0
}

// The table of what a relay answers to operators has everything that it answers, each with the token that it needs,
// and nothing else.
func TestTheRunbookKnowsThePaths(t *testing.T) {
	relay := forOperators(t, "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_TOKEN=sesame", "TX_STATUS_TRACING=true")
	base := map[string]string{"RPC": "http://" + relay.HTTPAddr(), "Console": "http://" + relay.AdminAddr()}
	bare := forOperators(t)
	told := map[string][]string{}
	for _, row := range operatorsTable(t) {
		told[row.port] = append(told[row.port], row.request)
		if status := row.status(t, base[row.port], "sesame"); status == 0 || status == http.StatusMethodNotAllowed || status == http.StatusUnauthorized || status == http.StatusForbidden {
			t.Errorf("%s %s: HTTP status %d with the token", row.port, row.request, status)
		}
		if status := row.status(t, base[row.port], ""); (status == http.StatusUnauthorized) != (row.token == "yes") {
			t.Errorf("%s %s: HTTP status %d without a token, which the table calls needed: %s", row.port, row.request, status, row.token)
		}
		on := row.port == "Console" && bare.AdminAddr() != "" || row.port == "RPC" && row.status(t, "http://"+bare.HTTPAddr(), "") != 0
		if on != (row.byDefault == "on") {
			t.Errorf("%s %s is on by default: %t, the table says %s", row.port, row.request, on, row.byDefault)
		}
	}
	paths, ofConsole := relay.Answered()
	for i, path := range paths {
		paths[i] = "GET " + path
	}
	for port, answered := range map[string][]string{"RPC": paths, "Console": append(ofConsole, "GET /ui/")} { // the page is no route
		slices.Sort(answered)
		slices.Sort(told[port])
		if !slices.Equal(answered, told[port]) {
			t.Errorf("%s: the relay answers\n%q, the table has\n%q", port, answered, told[port])
		}
	}
}
