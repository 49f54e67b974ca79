package fleet

import (
	"context"
	"slices"
	"sync"
	"time"
)

// burst collects the answers to everything a test sends.
type burst struct {
	net *network

	mu      sync.Mutex // guards all below
	answers []answer
	open    map[*transaction]int // sent and not answered
	changed chan struct{}        // closed and replaced whenever one is answered
}

func newBurst(n *network) *burst {
	return &burst{net: n, open: map[*transaction]int{}, changed: make(chan struct{})}
}

func (b *burst) sent(txs ...*transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tx := range txs {
		b.open[tx]++
	}
}

func (b *burst) answered(answers ...answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range answers {
		if b.open[a.tx]--; b.open[a.tx] == 0 {
			delete(b.open, a.tx)
		}
	}
	b.answers = append(b.answers, answers...)
	close(b.changed)
	b.changed = make(chan struct{})
}

// post sends transactions over HTTP, several as one batch, and does not wait.
func (b *burst) post(r *relay, txs ...*transaction) {
	b.postUntil(b.net.t.Context(), r, txs...)
}

// postUntil is post by a client that goes away when ctx ends.
func (b *burst) postUntil(ctx context.Context, r *relay, txs ...*transaction) {
	b.sent(txs...)
	go func() { b.answered(r.post(ctx, txs...)...) }()
}

// insist sends to the first relay and, when that does not answer or is shutting
// down, to the next, as a client with several URLs does.
func (b *burst) insist(relays []*relay, tx *transaction) {
	b.sent(tx)
	go func() {
		for i, r := range relays {
			got := r.post(b.net.t.Context(), tx)[0]
			again := i < len(relays)-1 && (got.lost != nil || got.says(stopping))
			if again {
				b.sent(tx)
			}
			b.answered(got)
			if !again {
				return
			}
		}
	}()
}

// travel sends one transaction after the other to the relays in turn, each when the
// one before is answered, until the returned function is called. It stops at the
// first failure, since what follows would be a gap.
func (b *burst) travel(s *sender, relays []*relay) (arrive func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tx := s.pay(1)[0]
			b.sent(tx)
			got := relays[i%len(relays)].post(b.net.t.Context(), tx)[0]
			b.answered(got)
			if !got.ok() {
				return
			}
		}
	}()
	return func() {
		close(stop)
		select {
		case <-stopped:
		case <-time.After(normal): // wait tells what is not answered
		}
	}
}

// pending gives how many are not answered, and a channel that is closed when that changes.
func (b *burst) pending() (int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open), b.changed
}

// wait returns the answers to all that was sent. It fails when one does not come
// within the normal time after the last was sent, or after trouble's end.
func (b *burst) wait() []answer {
	b.net.t.Helper()
	return b.waitFor(normal)
}

func (b *burst) waitFor(limit time.Duration) []answer {
	b.net.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		count, changed := b.pending()
		if count == 0 {
			break
		}
		select {
		case <-changed:
		case <-deadline.C:
			b.net.check(b.all(), allowance{lost: anybody}) // what went wrong with the others tells why
			b.net.t.Fatalf("%d transactions are not answered %v after the last was sent: %v", count, limit, b.unanswered())
		}
	}
	return b.all()
}

func (b *burst) unanswered() []*transaction {
	b.mu.Lock()
	defer b.mu.Unlock()
	var txs []*transaction
	for tx := range b.open {
		txs = append(txs, tx)
	}
	return txs
}

// all gives the answers so far, in the order in which they came.
func (b *burst) all() []answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.answers)
}
