package redisx_test

import (
	"context"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// listener hears words on a channel of its own connection.
type listener struct {
	*redisx.Hints
	words   chan string
	changes chan error
}

func listen(t *testing.T, url, channel string) *listener {
	t.Helper()
	l := &listener{words: make(chan string, 100), changes: make(chan error, 100)}
	var err error
	if l.Hints, err = redisx.NewHints(url, channel, func(err error) { l.changes <- err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	must.Run(t, func(ctx context.Context) error {
		l.Listen(ctx, func(word string) { l.words <- word })
		return nil
	})
	return l
}

// hears waits for words, in their order.
func (l *listener) hears(t *testing.T, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	for _, want := range words {
		select {
		case got := <-l.words:
			if got != want {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%q was never heard", want)
		}
	}
}

// TestHints: whoever listens on a channel hears its words and no others. FLUSHALL and a Redis that
// is short of memory change nothing; a crash of Redis is told, and that words may have been lost.
func TestHints(t *testing.T) {
	server := redistest.Start(t)
	a, b, other := listen(t, server.URL(), "a"), listen(t, server.URL(), "a"), listen(t, server.URL(), "b")
	tell := func(word string) {
		t.Helper()
		must.Do(t, a.Tell(t.Context(), word))
	}
	for _, l := range []*listener{a, b, other} {
		l.hears(t, "")
	}
	tell("one")
	must.Do(t, server.Client().FlushAll(t.Context()).Err())
	tell("two")
	must.Do(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	tell("three")
	if keys := server.Client().DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("Redis keeps %d keys", keys)
	}
	for _, l := range []*listener{a, b} {
		l.hears(t, "one", "two", "three")
	}
	server.Kill()
	if err := <-b.changes; err == nil {
		t.Error("the crash was told as a recovery")
	}
	if err := a.Tell(t.Context(), "lost"); err == nil {
		t.Error("a word was told to nobody")
	}
	server.Restart()
	if err := <-b.changes; err != nil {
		t.Errorf("the recovery was told as %v", err)
	}
	b.hears(t, "")
	must.Until(t, "words are told again", func() bool { return b.Tell(t.Context(), "four") == nil })
	b.hears(t, "four")
	select {
	case word := <-other.words:
		if word != "" { // it heard of the crash
			t.Errorf("another channel's listener heard %q", word)
		}
	default:
	}
}

// A URL that cannot be read is refused without showing it.
func TestHintsURL(t *testing.T) {
	if _, err := redisx.NewHints("redis://word@127.0.0.1", "a", nil); err == nil {
		t.Error("it was taken")
	}
}

var generous = redisx.Options{Timeout: must.Patience}
