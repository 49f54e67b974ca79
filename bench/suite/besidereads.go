package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sendsBesideReads shows what slow reads of other clients cost those who send: twice as many simulated calls as the
// relay may ask a mirror node for at once, of two seconds each, are under way all the time. Every run has new senders,
// of whom the relay has to ask the mirror node.
func sendsBesideReads(ctx context.Context, l *lab, t *table, runs int) error {
	const senders, count, readers = 50, 4, 600
	t.want("sends alone, answered p50", "ms", nil, "")
	t.want("sends alone, answered p99", "ms", nil, "")
	t.want("beside slow reads, answered p50", "ms", nil, "")
	t.want("beside slow reads, answered p99", "ms", nil, "")
	t.want("p50, beside ÷ alone", "×", atMost(1.5, "1.5"), "")
	t.want("p99, beside ÷ alone", "×", atMost(2, "2"), "")
	t.want("reads under way at the least", "", atLeast(readers, fmt.Sprint(readers)), "")
	wantCounts(t, "", senders*count, "")
	b, err := l.bed(ctx, false)
	if err != nil {
		return err
	}
	defer b.close()
	r, err := b.relay(ctx, nil)
	if err != nil {
		return err
	}
	if err := b.net.spoil(ctx, `[{"at":"mirror","path":"/contracts/call","delay":"2s"}]`); err != nil {
		return err
	}
	for run := range runs {
		q := load{name: fmt.Sprintf("alone %d", run), relays: []*relay{r}, senders: senders, count: count, spacing: apart, conduct: usual()}
		alone, err := l.fire(ctx, b.net, nil, q)
		if err != nil {
			return err
		}
		reads := newSlowReads(r)
		q.name = fmt.Sprintf("beside %d", run)
		q.begins = func(ctx context.Context) error { return reads.start(ctx, readers) }
		least := int64(readers)
		q.ended = func(context.Context) error { least = reads.underWay.Load(); return nil }
		beside, err := l.fire(ctx, b.net, nil, q)
		if err = errors.Join(err, reads.end()); err != nil {
			return err
		}
		t.ours("reads under way at the least", "", float64(least))
		for _, c := range []struct {
			quantile float64
			name     string
		}{{.5, "p50"}, {.99, "p99"}} {
			a, z := alone.Latency.Quantile(c.quantile), beside.Latency.Quantile(c.quantile)
			t.ours("sends alone, answered "+c.name, "ms", a.Seconds()*1000)
			t.ours("beside slow reads, answered "+c.name, "ms", z.Seconds()*1000)
			t.ours(c.name+", beside ÷ alone", "×", z.Seconds()/a.Seconds())
		}
		beside.failures(t, false, "")
	}
	t.note("The relay may have 300 requests at the mirror node at once (MIRROR_NODE_HTTP_MAX_SOCKETS). A tenth of them is for sends.")
	return nil
}

// slowReads are clients that ask for simulated calls, one after the other.
type slowReads struct {
	url      string
	client   *http.Client
	underWay atomic.Int64
	running  sync.WaitGroup
	cancel   context.CancelFunc
	failure  atomic.Pointer[error]
	number   atomic.Int64
}

func newSlowReads(r *relay) *slowReads {
	return &slowReads{url: r.url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 12}}}
}

// start begins to read, and returns when all reads are under way.
func (s *slowReads) start(ctx context.Context, readers int) error {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range readers {
		s.running.Go(func() {
			for ctx.Err() == nil {
				if err := s.read(ctx); err != nil && ctx.Err() == nil {
					s.failure.Store(&err)
					return
				}
			}
		})
	}
	for s.underWay.Load() < int64(readers) {
		if f := s.failure.Load(); f != nil {
			return *f
		}
		pause(time.Millisecond)
	}
	pause(time.Second) // they have their places, or wait for one
	return nil
}

// read makes one call, each of another kind, so that no two share an answer.
func (s *slowReads) read(ctx context.Context) error {
	s.underWay.Add(1)
	defer s.underWay.Add(-1)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x0000000000000000000000000000000000000002","data":"0x%016x"},"latest"]}`, s.number.Add(1))
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
	if err == nil && !bytes.Contains(text, []byte(`"result"`)) {
		return fmt.Errorf("a slow read: %d %s", answer.StatusCode, text)
	}
	return err
}

// end ends the reads, and returns the first failure there was.
func (s *slowReads) end() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	s.running.Wait()
	s.client.CloseIdleConnections()
	if f := s.failure.Load(); f != nil {
		return *f
	}
	return nil
}
