package mirror

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// A development network goes back: what was known of what is gone is forgotten, and who wants
// to know is told. Answers of the history that is gone are asked for again.
func TestGenerations(t *testing.T) {
	n := newNode(t)
	var mu sync.Mutex
	generations, head := []string{"7:0"}, 20 // of the answers to come; the last generation stays
	become := func(newest int, next ...string) {
		mu.Lock()
		defer mu.Unlock()
		head, generations = newest, next
	}
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Lockstep-Generation", generations[0])
		generations = generations[min(1, len(generations)-1):]
		switch r.URL.Path {
		case "/api/v1/blocks/17":
			_, _ = w.Write([]byte(blockJSON(17)))
		case "/api/v1/blocks":
			_, _ = w.Write([]byte(blocksJSON("null", head)))
		default:
			notFound(w, r)
		}
	}
	config := defaults(t)
	config.URL, config.RetryDelay, config.Timeout = secret.URL(n.URL), 0, envx.Millis(patience)
	var told []uint64
	client := must.Get(New(config, Options{Log: slog.New(slog.DiscardHandler), WentBack: func(block uint64) { told = append(told, block) }}))(t)
	t.Cleanup(client.fetch.CloseIdleConnections)
	read := func(requests int) {
		t.Helper()
		if b, err := client.BlockByNumber(t.Context(), 17); err != nil || b.Number != 17 {
			t.Fatalf("%v, %v", b, err)
		}
		if got := len(n.requests()); got != requests {
			t.Errorf("%d requests, want %d", got, requests)
		}
	}
	latest := func(want uint64) {
		t.Helper()
		client.Invalidate()
		if b, err := client.Head(t.Context()); err != nil || b.Number != want {
			t.Fatalf("head %v, %v; want %d", b, err, want)
		}
		n.requests()
	}
	read(1)
	read(0)
	latest(20)

	become(12, "8:11")
	latest(12) // although it was 20
	if !slices.Equal(told, []uint64{11}) {
		t.Errorf("told of %v", told)
	}
	read(1)
	read(0)

	become(12, "7:0", "8:11")
	client.Forget()
	read(2) // the first answer is of a history that is gone
	if !slices.Equal(told, []uint64{11}) {
		t.Errorf("told of %v", told)
	}
	become(12, "7:0")
	client.Forget()
	var failed *Error
	if _, err := client.BlockByNumber(t.Context(), 17); !errors.As(err, &failed) {
		t.Errorf("from a history that is gone: %v", err)
	}
	for i, text := range []string{"", "nonsense", "-1:2", strconv.Itoa(9)} { // the last has no block
		client.Forget()
		become(12, text)
		if _, err := client.BlockByNumber(t.Context(), 17); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if !slices.Equal(told, []uint64{11, 0}) {
		t.Errorf("told of %v", told)
	}
}
