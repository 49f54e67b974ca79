package ethrpc

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/must"
)

// mute is how long an endpoint takes that accepts a question and does not answer it.
func mute(asked) time.Duration { return time.Hour }

// askFor asks a client for something, and tells who answered and after how long.
func askFor(t *testing.T, c *Client, method string) (by *Endpoint, took time.Duration) {
	t.Helper()
	begun := time.Now()
	by, err := c.Do(t.Context(), Ask(nil, method))
	if err != nil {
		t.Error(err)
	}
	return by, time.Since(begun)
}

// Whoever waits for an endpoint that says nothing has the answer of the next one long before the time of the call is over. Until the silent one
// has answered or failed, others come first.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &node{late: mute}, &node{}
		c := clientOf(t, nil, first, second)
		c.cfg.Timeout = 20 * time.Second
		if by, took := askFor(t, c, "eth_getBalance"); by != c.endpoints[1] || took.Round(time.Second) != silence {
			t.Errorf("%s answered after %v", by.Name(), took)
		}
		for range 10 {
			if by, took := askFor(t, c, "eth_getBalance"); by != c.endpoints[1] || took != 0 || len(first.exchanges()) != 1 {
				t.Errorf("then %s after %v, and the silent one was asked %d times", by.Name(), took, len(first.exchanges()))
			}
		}
		if _, last := c.endpoints[0].Down(); last != nil {
			t.Errorf("it has failed before its time was over: %v", last)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // fake time
		if _, last := c.endpoints[0].Down(); !TimedOut(last) {
			t.Errorf("its failure is %v", last)
		}
	})
}

// An answer that comes late, when nobody waits for it any more, shows that the endpoint is well.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &node{late: func(asked) time.Duration { return 2 * silence }}
		c := clientOf(t, nil, first, &node{})
		c.cfg.Timeout = 20 * time.Second
		c.endpoints[0].ours = true
		c.endpoints[0].last, c.endpoints[0].since = &Error{Class: Lost}, time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		if by, err := c.Do(ctx, Ask(nil, "eth_getBalance")); err != nil || by != c.endpoints[1] {
			t.Errorf("%v, %v", by, err)
		}
		cancel() // who asked has gone
		if c.Order()[0] != c.endpoints[1] {
			t.Error("the silent one would be asked first")
		}
		time.Sleep(silence) //nolint:forbidigo // fake time
		synctest.Wait()
		if _, last := c.endpoints[0].Down(); last != nil || c.Order()[0] != c.endpoints[0] {
			t.Errorf("it has answered, and counts as failed: %v", last)
		}
	})
}

// No more is asked than one question beside the first: of nobody where there is nobody else, nor while the endpoint answers others, nor twice
// what is no mere question.
func TestWhoIsAskedBesideASilentOne(t *testing.T) {
	for name, row := range map[string]struct {
		method string
		nodes  []*node
		asked  []int // exchanges of each after 15 s
		busy   bool  // another question has its answer every second
	}{
		"a lone endpoint":            {"eth_getBalance", []*node{{late: mute}}, []int{1}, false},
		"three silent ones":          {"eth_getBalance", []*node{{late: mute}, {late: mute}, {late: mute}}, []int{1, 1, 0}, false},
		"the next one fails":         {"eth_getBalance", []*node{{late: mute}, {whole: all(503, "", "")}, {}}, []int{1, 1, 1}, false},
		"what failed has passed":     {"eth_getBalance", []*node{{whole: once(503)}, {late: mute}}, []int{3, 1}, false},
		"what failed fails":          {"eth_getBalance", []*node{{whole: all(503, "", "")}, {late: mute}}, []int{2, 2}, false},
		"a transaction":              {"eth_sendRawTransaction", []*node{{late: mute}, {}}, []int{1, 0}, false},
		"a method that nobody knows": {"lock_unlock", []*node{{late: mute}, {}}, []int{1, 0}, false},
		"a long query": {"eth_getLogs", []*node{{late: func(q asked) time.Duration {
			if q.Method == "eth_getLogs" {
				return 10 * time.Second
			}
			return 0
		}}, {}}, []int{16, 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clientOf(t, nil, row.nodes...)
				c.cfg.Timeout = 20 * time.Second
				for _, e := range c.endpoints {
					e.ours = true
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _, _ = c.Do(ctx, Ask(nil, row.method)) }()
				for range 15 {
					if row.busy {
						askFor(t, c, "eth_getBalance")
					}
					time.Sleep(time.Second) //nolint:forbidigo // fake time
				}
				for i, n := range row.nodes {
					if got := len(n.exchanges()); got != row.asked[i] {
						t.Errorf("endpoint %d was asked %d times, want %d", i+1, got, row.asked[i])
					}
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// once has the first exchange fail.
func once(status int) func([]asked, bool) (int, string, any) {
	return func([]asked, bool) (int, string, any) {
		now := status
		status = 0
		return now, "", ""
	}
}

// Who does not want to wait any more does not.
func TestSilenceIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, nil, &node{late: mute}, &node{late: mute})
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if _, err := c.Do(ctx, Ask(nil, "eth_getBalance")); !TimedOut(err) || time.Since(begun) != 4*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		synctest.Wait()
		for _, e := range c.endpoints {
			if e.Quiet() != (time.Time{}) {
				t.Errorf("%s is waited for", e.Name())
			}
		}
	})
}

// Those who do not wait any more do not fill the memory, or the other end's.
func TestManyAskASilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{late: mute}
		c := clientOf(t, nil, n, &node{})
		c.cfg.Timeout = time.Hour
		c.endpoints[0].ours = true
		for range 2 * maxOpen {
			go func() { _ = c.endpoints[0].answered(t.Context()) }()
			time.Sleep(time.Second) //nolint:forbidigo // fake time
		}
		err := c.endpoints[0].answered(t.Context())
		if got := len(n.exchanges()); got != maxOpen || ClassOf(err) != Unsent {
			t.Errorf("it was asked %d times, then %v", got, err)
		}
	})
}

// Where everybody waits on a silent WebSocket and nobody else has an answer, there is one more, and those who wait on the first one may go on.
func TestLeftWebSocket(t *testing.T) {
	t.Parallel()
	h := newHalfOpen(t)
	c := must.Get(New(Config{ChainID: 5, URLs: []string{h.url, "http://127.0.0.1:1"}, Timeout: time.Hour}))(t)
	defer c.Close()
	ask := func() error {
		_, err := c.Do(t.Context(), Ask(nil, "eth_getBalance"))
		return err
	}
	must.Do(t, ask())
	h.silence()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if dials, ended := h.seen(); dials < 2 || dials > 9 || ended {
		t.Errorf("%d dials; the first was closed: %t", dials, ended)
	}
	before, _ := h.seen()
	for range 8 {
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	if dials, _ := h.seen(); dials != before {
		t.Errorf("it was dialled %d times more", dials-before)
	}
}
