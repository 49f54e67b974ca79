package sinks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/sinks"
)

const actions = `
chains: [{id: 5, urls: [http://127.0.0.1:1]}]
watches:
  - name: w
    chain: 5
    depth: 2
    addresses: ["0x05FbA803Be258049A27B820088bab1cAD2058871"]
    events: ["Asked(address who, uint256 amount)", "Told(uint256 amount)", "Quiet()"]
    sinks: ["manager:URL"]
    actions:
      - {on: Asked, to: who, call: "pay(uint256)", args: [amount], pool: fast}
      - {on: Told, call: "note()"}
`

// The manager gets one intent for each event that an action names. What it refuses for good is not asked again, anything else is.
func TestManagerSink(t *testing.T) {
	var mu sync.Mutex
	var got []string
	answer := http.StatusAccepted
	code := ""
	var proxy http.HandlerFunc // what answers in the manager's place
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var intent map[string]any
		if err := json.NewDecoder(r.Body).Decode(&intent); err != nil && r.Method == http.MethodPost {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if proxy != nil {
			proxy(w, r)
			return
		}
		got = append(got, strings.Join([]string{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"), intent["chain"].(string), intent["to"].(string), fmt.Sprint(intent["function"], intent["args"])}, " "))
		w.WriteHeader(answer)
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "t", "code": code, "status": "accepted"})
	}))
	defer server.Close()
	plan := must.Get(watch.Read([]byte(strings.ReplaceAll(actions, "URL", server.URL)), "watch.yaml"))(t)
	sink := must.Get(sinks.New("manager:"+server.URL, sinks.Deps{Plan: plan, ManagerKey: "lsk_x", Log: slog.New(slog.DiscardHandler)}))(t)
	defer sink.Close()
	const contract, who = "0x05FbA803Be258049A27B820088bab1cAD2058871", "0x00000000000000000000000000000000000000Ee"
	signatures := map[string]string{"Asked": "Asked(address,uint256)", "Told": "Told(uint256)", "Quiet": "Quiet()"}
	event := func(name, args string) watch.Message {
		return watch.Message{Event: watch.Event{ID: "w:5:0xab:1", Chain: 5, Watch: "w", Event: name, Signature: signatures[name], Address: contract, Args: json.RawMessage(args)}}
	}
	asked := event("Asked", `{"who":"`+who+`","amount":"16"}`)
	removed, old, wanted := event("Told", `{"amount":"1"}`), event("Told", `{"amount":"1"}`), event("Told", `{"amount":"1"}`)
	removed.Removed, old.Backfill, wanted.Backfill = true, &watch.Mark{ID: "b"}, &watch.Mark{ID: "b", Act: true}
	if n, err := offer(t.Context(), sink, []watch.Message{asked, event("Quiet", "{}"), removed, old, wanted}); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	want := []string{
		"/v1/transactions Bearer lsk_x w:5:0xab:1 5 " + who + " pay(uint256)[16]",
		"/v1/transactions Bearer lsk_x w:5:0xab:1 5 " + contract + " note()<nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	mu.Lock()
	answer, code = http.StatusUnprocessableEntity, "WOULD_REVERT"
	mu.Unlock()
	if n, err := offer(t.Context(), sink, []watch.Message{asked}); n != 0 || err == nil || errors.Is(err, watch.ErrSettled) {
		t.Errorf("a call that would fail at first: %d taken, %v", n, err) // the manager's endpoint may be behind
	}
	sinks.Impatient(sink)
	for _, test := range []struct {
		status int
		code   string
		taken  int
	}{
		{422, "WOULD_REVERT", 0},
		{410, "IDEMPOTENCY_KEY_FORGOTTEN", 0},
		{422, "UNKNOWN_CHAIN", 0},
		{401, "UNAUTHORIZED", 0},
		{403, "BUDGET", 0},
		{429, "RATE_LIMIT", 0},
		{202, "", 1},
		{503, "HALTED", 0},
		{500, "INTERNAL", 0},
	} {
		mu.Lock()
		answer, code = test.status, test.code
		mu.Unlock()
		n, err := offer(t.Context(), sink, []watch.Message{asked})
		if n != test.taken || (err == nil) != (n == 1) || errors.Is(err, watch.ErrSettled) != (test.status == 410 || test.code == "WOULD_REVERT") {
			t.Errorf("%d %s: %d taken, %v", test.status, test.code, n, err)
		}
	}
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for what, other := range map[string]http.HandlerFunc{
		"other JSON":    says(200, `{"status":"ok"}`),
		"a proxy's 400": says(400, "<html>The plain HTTP request was sent to HTTPS port</html>"),
		"a proxy's 410": says(410, ""),
		"a proxy's 422": says(422, `{"error":"no"}`),
		"a redirection": moved,
	} {
		mu.Lock()
		proxy = other
		mu.Unlock()
		if n, err := offer(t.Context(), sink, []watch.Message{asked}); n != 0 || err == nil || errors.Is(err, watch.ErrSettled) {
			t.Errorf("%s: %d taken, %v", what, n, err)
		}
	}
}

// moved sends a request elsewhere, where a question is answered with a list of transactions.
func moved(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, `{"transactions":[]}`)
		return
	}
	http.Redirect(w, r, r.URL.Path, http.StatusMovedPermanently)
}
