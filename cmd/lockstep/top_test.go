package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/console"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/lock"
)

func stateOf(calls, failed uint64) console.State {
	next, balance, since := uint64(9), 12.5e8, time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	return console.State{
		Version: "1.2", ChainID: 298, Ordering: true, Window: 250, Costs: console.Costs{Balance: &balance},
		Lanes: []lock.LaneInfo{
			{Sender: common.HexToAddress("0x01"), Strategy: "local", Waiting: 2, Held: true, Nonce: 7, HeldFor: 1500 * time.Millisecond, Left: 2 * time.Second, Expected: &next},
			{Sender: common.HexToAddress("0x02"), Strategy: "redis", Waiting: 40, HeldBy: "relay-b"},
			{Sender: common.HexToAddress("0x03"), Strategy: "redis", Waiting: 1, Held: true, Nonce: 1, HeldFor: 9 * time.Second},
		},
		Upstreams: []console.Upstream{
			{Kind: "mirror", Name: "mirror.example", Up: true, Note: "head 17"},
			{Kind: "node", Name: "0.0.3", Since: &since, Cause: "refused \x1b[31mred"},
		},
		Methods: []console.Method{
			{Name: "eth_call", Calls: 3},
			{Name: "eth_sendRawTransaction", Calls: calls, Failed: failed, Bounds: []float64{5, 50, 500}, Buckets: []uint64{calls / 2, calls, calls}},
		},
	}
}

func TestPictureOfARelay(t *testing.T) {
	s := board{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.take(stateOf(100, 1), at)
	s.take(stateOf(300, 11), at.Add(2*time.Second))
	text := strings.Join(s.lines(140, 40), "\n")
	for _, want := range []string{
		"lockstep (version 1.2)   chain 298   ordering on, window 250 ms   operator 12.50 ℏ",
		"mirror.example                 up, head 17",
		"DOWN since 03:04:05, refused \ufffd[31mred",
		"LANES in use 3, held 3, waiting 43; those with the most waiting first",
		"40               relay-b",
		"2       9        here         7        1.5 s    2.0 s    local",
		"     100.0       5.0    ≤ 5 ms   ≤ 50 ms       300        11",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for ordered, want := range map[string]string{"all senders": "ordering on, window", "0 % of senders": "ordering on for 0 % of senders, window"} {
		s.now.Ordered = ordered
		if line := s.lines(140, 40)[0]; !strings.Contains(line, want) {
			t.Errorf("%s: %s", ordered, line)
		}
	}
	first := func() string {
		for i, line := range s.lines(140, 40) {
			if strings.HasPrefix(line, "SENDER") {
				return s.lines(140, 40)[i+1][:42]
			}
		}
		return ""
	}
	for n, want := range []string{"2", "3", "1", "2"} {
		if got := first(); got != common.HexToAddress(want).Hex() {
			t.Errorf("sorted %d times, %s is first", n, got)
		}
		s.press('s')
	}
}

// A terminal of any size has a picture that fits, however many lanes there are.
func TestPictureFits(t *testing.T) {
	state := stateOf(1, 0)
	for n := range 5000 {
		state.Lanes = append(state.Lanes, lock.LaneInfo{Sender: common.BigToAddress(common.Big256), Waiting: n})
	}
	s := board{}
	s.take(state, time.Now())
	for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}, {200, 100}, {40, 2}} {
		lines := s.lines(size[0], size[1])
		if len(lines) > max(size[1]-1, 1) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > size[0] {
				t.Errorf("%v: %q", size, line)
			}
		}
	}
	if text := strings.Join(s.lines(80, 24), "\n"); !strings.Contains(text, "more") || !strings.Contains(text, "eth_sendRawTransaction") {
		t.Errorf("lanes leave no room for what else there is:\n%s", text)
	}
}

func TestHeldPicture(t *testing.T) {
	s := board{}
	s.take(stateOf(1, 0), time.Now())
	s.press('p')
	s.take(stateOf(99, 0), time.Now())
	if s.now.Methods[1].Calls != 1 || !strings.Contains(strings.Join(s.lines(100, 30), "\n"), "held since") {
		t.Error("the picture changed while it was held")
	}
	if s.press('p'); s.held || !s.press('x') || s.press('q') || s.press(3) {
		t.Error("keys do something else")
	}
}

// streaming is a relay that tells some states.
func streaming(t *testing.T, token string, states ...console.State) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ui/events" {
			http.NotFound(w, r)
			return
		}
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		for _, s := range states {
			text, err := json.Marshal(s)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "id: 1\ndata: %s\n\n", text)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.CloseClientConnections)
	return server
}

func TestTopOnce(t *testing.T) {
	server := streaming(t, "secret", stateOf(1, 0), stateOf(5, 0))
	var out bytes.Buffer
	std := streams{in: strings.NewReader(""), out: &out, err: &out, env: []string{"ADMIN_TOKEN=secret"}}
	must.Do(t, runTop(t.Context(), []string{"--once", "--admin", server.URL}, std))
	if text := out.String(); !strings.Contains(text, "eth_sendRawTransaction") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	std.env = []string{"ADMIN_TOKEN=other"}
	err := runTop(t.Context(), []string{"--once", "--admin", server.URL}, std)
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "other") {
		t.Errorf("a wrong token: %v", err)
	}
	if err := runTop(t.Context(), []string{"--admin", server.URL}, std); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token, live: %v", err)
	}
	if err := runTop(t.Context(), []string{"more"}, std); !errors.Is(err, errUsage) {
		t.Errorf("a word too many: %v", err)
	}
}

// A relay that ends and comes back is shown again, and meanwhile why there is nothing new.
func TestTopGoesOn(t *testing.T) {
	first := streaming(t, "", stateOf(1, 0))
	now := struct {
		sync.Mutex
		to http.Handler
	}{to: first.Config.Handler}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now.Lock()
		to := now.to
		now.Unlock()
		if to == nil {
			panic(http.ErrAbortHandler)
		}
		to.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	var out proctest.Tail
	ended := make(chan error, 1)
	go func() {
		ended <- runTop(ctx, []string{"--admin", front.URL}, streams{in: strings.NewReader(""), out: &out, err: &out})
	}()
	wait := func(text string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !out.Has(text); {
			if time.Now().After(end) {
				t.Fatalf("no %q", text)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	wait("(version 1.2)")
	now.Lock()
	now.to = nil
	now.Unlock()
	front.CloseClientConnections()
	wait("NOTHING NEW")
	state := stateOf(1, 0)
	state.Version = "1.3"
	now.Lock()
	now.to = streaming(t, "", state).Config.Handler
	now.Unlock()
	wait("(version 1.3)")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	front.CloseClientConnections()
}
