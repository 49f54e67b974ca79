package source_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

// Whatever is asked, an endpoint that accepts the question and says nothing has the next one asked; and whoever has an empty answer that its block
// can explain does not wait for a second opinion of such an endpoint. The test would not end otherwise.
func TestSilentEndpoint(t *testing.T) {
	c := newChain(t)
	for range 3 {
		c.emit(emitter, ping)
	}
	silent := func(t *testing.T) string { return spoiler{hang: true}.proxy(t, c.URL) }
	empty := func(t *testing.T) string { return spoiler{once: &atomic.Bool{}}.proxy(t, c.URL) } // its first list of logs
	good := func(*testing.T) string { return c.URL }
	at := must.Get(pool(t, source.Config{URLs: []string{c.URL}}, source.Deps{}).Block(t.Context(), 2))(t)
	type urls []func(*testing.T) string
	for name, row := range map[string]struct {
		urls urls
		ask  func(t *testing.T, p *source.Pool) (found int, err error)
		want int
	}{
		"a block": {urls{silent, good}, func(t *testing.T, p *source.Pool) (int, error) {
			b, err := p.Block(t.Context(), 2)
			return int(b.Number), err
		}, 2},
		"transactions": {urls{silent, good}, func(t *testing.T, p *source.Pool) (int, error) {
			list, err := p.TransactionsOfRange(t.Context(), 1, 3, func(*source.Transaction) bool { return true })
			return len(list), err
		}, 3},
		"logs of a block":                    {urls{silent, good}, logsOf(at), 1},
		"logs of a range":                    {urls{silent, good}, logsUpTo(3), 3},
		"a second opinion of a block":        {urls{empty, silent}, logsOf(at), 1},
		"the other opinion, asked first":     {urls{silent, empty}, logsOf(at), 1},
		"the third one's opinion of a range": {urls{empty, silent, good}, logsUpTo(3), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := source.Config{Timeout: time.Hour}
			for _, url := range row.urls {
				cfg.URLs = append(cfg.URLs, url(t))
			}
			if found, err := row.ask(t, pool(t, cfg, source.Deps{})); err != nil || found != row.want {
				t.Errorf("%d, %v; want %d", found, err, row.want)
			}
		})
	}
}

func logsOf(b source.Block) func(*testing.T, *source.Pool) (int, error) {
	return func(t *testing.T, p *source.Pool) (int, error) {
		logs, err := p.LogsOfBlock(t.Context(), b, following(emitter))
		return len(logs), err
	}
}

func logsUpTo(last uint64) func(*testing.T, *source.Pool) (int, error) {
	return func(t *testing.T, p *source.Pool) (int, error) {
		logs, _, err := p.LogsOfRange(t.Context(), 1, last, following(emitter))
		return len(logs), err
	}
}

// Nothing comes any more through a WebSocket, and nobody says so. If there is nobody else who can answer, it is dialled again.
func TestHalfOpenWebSocket(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)
	for name, url := range map[string]string{"another endpoint answers": c.URL, "nobody else does": spoiler{status: http.StatusBadGateway}.proxy(t, c.URL)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := watchtest.NewLine(t, c.URL)
			p := pool(t, source.Config{Timeout: time.Hour, URLs: []string{"ws://" + line.Addr, url}}, source.Deps{})
			at, err := p.Block(t.Context(), 1)
			if err != nil || line.Hang() == 0 {
				t.Fatalf("nothing went through the WebSocket: %v", err)
			}
			if found, err := logsOf(at)(t, p); err != nil || found != 1 {
				t.Errorf("%d logs, %v", found, err)
			}
			if url != c.URL {
				return
			}
			line.Hang()
			if _, err := p.Block(t.Context(), 99); !errors.Is(err, source.ErrNotFound) {
				t.Errorf("a block that nobody has: %v", err)
			}
		})
	}
}
