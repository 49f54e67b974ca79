package fetch

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/internal/envx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
)

// bodyOf is an answer with a body of so many bytes, of which the length is told or not.
func bodyOf(length int, told bool) *http.Response {
	answer := &http.Response{ContentLength: -1, Body: io.NopCloser(io.LimitReader(endless{}, int64(length)))}
	if told {
		answer.ContentLength = int64(length)
	}
	return answer
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func newBodyOf(most int64, request *capacity.Holding) *body {
	return &body{all: &answerBytes{most: most}, request: request}
}

// An answer is read whole, however long; what it holds is counted while it is read, and given
// back. What is too much for itself, for the process or for its request fails.
func TestBodies(t *testing.T) {
	const most, perRequest = 4 << 20, 4 << 20
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 300, Client: 200, Request: perRequest >> 20})
	for _, told := range []bool{true, false} {
		for length, want := range map[int]error{
			0: nil, 1: nil, pieceOfAnswer - 1: nil, pieceOfAnswer: nil, pieceOfAnswer + 1: nil, shortAnswer: nil,
			1_000_000: nil, 1_000_001: ErrTooLong, 5_000_000: ErrTooLong,
		} {
			b := newBodyOf(most, nil)
			if err := b.read(bodyOf(length, told), 1_000_000); !errors.Is(err, want) || err == nil && len(b.text) != length { //nolint:bodyclose // no connection is behind it
				t.Errorf("%d bytes (told: %v): %v, %d read; want %v", length, told, err, len(b.text), want)
			}
			if held := b.all.held.Load(); held > 3_100_000 || held != int64(b.taken) {
				t.Errorf("%d bytes hold %d", length, held)
			}
			if b.free(); b.all.held.Load() != 0 {
				t.Errorf("%d bytes are still held", b.all.held.Load())
			}
		}
		b := newBodyOf(most, nil)
		if err := b.read(bodyOf(10_000_000, told), 1<<30); !errors.Is(err, errCrowded) { //nolint:bodyclose // no connection is behind it
			t.Errorf("more than the process may hold: %v", err)
		}
		holding := memory.Open("192.0.2.1")
		b = newBodyOf(1<<30, holding)
		var exceeded *capacity.Exceeded
		if err := b.read(bodyOf(3*perRequest, told), 1<<30); !errors.As(err, &exceeded) || exceeded.Scope != capacity.ScopeRequest { //nolint:bodyclose // no connection is behind it
			t.Errorf("more than the request may hold: %v", err)
		}
		if b.free(); holding.Held() != 0 || b.all.held.Load() != 0 {
			t.Errorf("%d bytes of the request are still held", holding.Held())
		}
	}
}

// Answers of any length, as many at once as somebody likes, hold not much more memory
// than the settings say by default, garbage included; and the mirror node is not blamed for those that did not fit.
func TestOversizedAnswersAreBounded(t *testing.T) {
	var peak atomic.Uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for now := peak.Load(); m.HeapInuse > now && !peak.CompareAndSwap(now, m.HeapInuse); now = peak.Load() {
		}
	}
	piece := []byte(strings.Repeat(" ", 1<<20))
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 128 {
			if _, err := w.Write(piece); err != nil {
				return
			}
			look()
		}
	}))
	defer node.Close()
	config := defaults(t)
	config.URL, config.Timeout = secret.URL(node.URL), envx.Millis(patience)
	fetcher := newFetcher(t, config, Deps{})
	runtime.GC()
	look()
	before := peak.Load()
	var readers sync.WaitGroup
	for range 12 {
		readers.Go(func() {
			_, err := fetcher.Do(t.Context(), Request{Label: "x", Path: "x"}, ignored)
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrTooLong) && !errors.Is(err, errCrowded) {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	// Garbage is collected when the machine finds time for it. Without the bound it would be twelve answers of 64 MiB and their garbage.
	if more := int64(peak.Load()) - int64(before); more > 5*config.MaxBodies {
		t.Errorf("12 answers of 128 MiB take %d MiB of memory", more>>20)
	}
	if held := fetcher.answers.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
	if failures := fetcher.upstreams[0].rest.failures; failures != 0 {
		t.Errorf("the mirror node is blamed %d times", failures)
	}
}
