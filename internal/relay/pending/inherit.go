package pending

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/eth"
)

// inheritedAtOnce is how many promises of a dead process are taken over together, about.
const inheritedAtOnce = 256

// inherit takes promises of a dead process over, each sender's in the order of their nonces. Nobody is
// taken for dead by a process that stood still itself: the heartbeats of others may have come late for the
// same reason.
func (p *Promises) inherit(ctx context.Context) []Promised {
	last := p.looked
	p.looked = time.Now()
	if last.IsZero() || p.looked.Sub(last) > p.cfg.PromisesDeadAfter.Duration()/2 || !p.hasRoom() {
		return nil
	}
	var words []string
	err := p.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		words, err = p.take.Run(ctx, c, []string{aliveKey, promisesKey + p.instance},
			p.instance, p.keyLife(), p.cfg.PromisesDeadAfter.Duration().Milliseconds(), inheritedAtOnce, promisesKey).StringSlice()
		return err
	})
	switch {
	case err != nil:
		p.metrics.failed.Inc()
		return nil
	case len(words) == 0:
		return nil
	}
	found := p.adopt(words[1:])
	p.log.LogAttrs(ctx, slog.LevelWarn, "another relay has died; this one goes on with the transactions that it has promised",
		slog.String("instance", words[0]), slog.Int("transactions", len(found)))
	return found
}

func (p *Promises) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byHash)+inheritedAtOnce <= p.cfg.MaxEntries && p.bytes <= p.cfg.PromisesMaxBytes/2
}

// adopt reads what was taken over: pairs of a hash and what was promised. They are kept here from
// now on, beyond the bounds if need be.
func (p *Promises) adopt(words []string) (found []Promised) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i+1 < len(words); i += 2 {
		text := []byte(words[i+1])
		if len(text) <= untilSize {
			continue // not ours
		}
		tx, err := eth.DecodeTx(text[untilSize:])
		if err != nil {
			continue
		}
		one := p.byHash[tx.Hash()]
		if one == nil {
			one = &promise{hash: tx.Hash(), text: text, stored: true, tried: closed}
			p.byHash[one.hash] = one
			p.bytes += len(text)
		}
		one.holders++
		p.metrics.inherited.Inc()
		found = append(found, Promised{Tx: tx, Until: time.UnixMilli(int64(binary.BigEndian.Uint64(text)))})
	}
	slices.SortFunc(found, func(a, b Promised) int {
		from, other := a.Tx.From(), b.Tx.From()
		return cmp.Or(bytes.Compare(from[:], other[:]), cmp.Compare(a.Tx.Nonce(), b.Tx.Nonce()))
	})
	return found
}

// closed is closed.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// promiseMetrics belongs to one Promises.
type promiseMetrics struct {
	alone, late, failed, inherited prometheus.Counter

	collectors []prometheus.Collector
}

func newPromiseMetrics() *promiseMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "lockstep_promises_" + name + "_total", Help: help})
	}
	m := &promiseMetrics{
		alone:     counter("alone", "Hashes that clients got whose transactions this relay alone keeps, since there was no room."),
		late:      counter("late", "Hashes that clients got before Redis had their transactions, since it did not answer."),
		failed:    counter("errors", "Calls of Redis about promised transactions that failed."),
		inherited: counter("taken_over", "Promised transactions of relays that died, which this relay took over."),
	}
	m.collectors = []prometheus.Collector{m.alone, m.late, m.failed, m.inherited}
	return m
}
