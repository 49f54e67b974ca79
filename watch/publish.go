package watch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// Message is what a sink is handed.
type Message struct {
	Event
	Body []byte // the event as one line of JSON
}

// Sink is where events go. Implementations are in package sinks.
type Sink interface {
	// Publish hands messages on in their order and returns how many of them the other side has certainly taken, from the
	// first one on. What it did not take for certain is published again. The context ends before the right to publish does.
	Publish(ctx context.Context, batch []Message) (taken int, err error)
	Close()
}

const (
	// maxUnacknowledged is how many messages of one sink a process has on their way: a kill repeats no more.
	maxUnacknowledged = 32
	longestRetry      = 10 * time.Second
)

// publisher hands the messages of our units to one sink.
type publisher struct {
	s       *Service
	id      string // in the ledger: says which sink, without its secrets
	label   string // of metrics and logs
	sink    Sink
	watches map[string]bool // that name this sink
	log     *slog.Logger

	mu      sync.Mutex
	dirty   map[string]bool // guarded by mu; units that may have messages
	refused time.Time       // guarded by mu; since when the sink does not take messages; zero: it does
	why     string          // guarded by mu; its last error
	wake    chan struct{}

	// owned by run
	places map[string]place
	failed map[string]int
	rest   map[string]time.Time
	turn   int // which unit goes first changes with each round
}

// sendDeadline bounds one attempt. A lease that was renewed in time is trusted for longer than that.
func (s *Service) sendDeadline() time.Duration { return s.cfg.Lease.TTL * 4 / 10 }

// place is how far a sink has got in a unit's messages, as read during one term of its lease.
type place struct {
	term     int64
	position int64
}

func (s *Service) publisher(spec string, sink Sink) *publisher {
	kind, _, _ := strings.Cut(spec, ":")
	p := &publisher{
		s: s, id: fmt.Sprintf("%s:%x", kind, sha256.Sum256([]byte(spec)))[:len(kind)+17], label: kind, sink: sink, watches: map[string]bool{}, log: s.log,
		dirty: map[string]bool{}, wake: make(chan struct{}, 1), places: map[string]place{}, failed: map[string]int{}, rest: map[string]time.Time{},
	}
	for i := range s.cfg.Plan.Watches {
		if slices.Contains(s.cfg.Plan.Watches[i].Sinks, spec) {
			p.watches[s.cfg.Plan.Watches[i].Name] = true
		}
	}
	return p
}

// tell says that there may be messages of some units.
func (p *publisher) tell(units []string) {
	p.setDirty(units, true)
	nudge(p.wake)
}

func (p *publisher) run(ctx context.Context) error {
	for ctx.Err() == nil {
		busy, err := p.round(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "messages are not handed on; they will be later", "sink", p.label, "error", err)
			sleep.For(ctx, failurePause)
		}
		if busy {
			continue
		}
		timer := time.NewTimer(failurePause)
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return ctx.Err()
}

// waiting is a message and its place.
type waiting struct {
	position int64
	unit     string
	ours     bool // of a watch that names this sink
	message  Message
}

// ready returns the units that may have messages, are ours for longer than a send may take, and do not rest.
func (p *publisher) ready() []string {
	p.mu.Lock()
	units := sortedKeys(p.dirty)
	p.mu.Unlock()
	now := time.Now()
	units = slices.DeleteFunc(units, func(u string) bool {
		l := p.s.fleet.lease(u)
		return now.Before(p.rest[u]) || l == nil || !l.Trusted(p.s.sendDeadline())
	})
	if len(units) > 1 {
		p.turn++
		at := p.turn % len(units)
		units = append(units[at:len(units):len(units)], units[:at]...)
	}
	return units
}

// round hands on one batch. It tells whether there may be more at once.
func (p *publisher) round(ctx context.Context) (bool, error) {
	units := p.ready()
	p.setDirty(units, false) // before they are read: what comes from then on sets them again
	batch, unread, err := p.next(ctx, units)
	if err != nil {
		p.setDirty(units, true)
		return false, err
	}
	p.setDirty(unread, true)
	if len(batch) == 0 {
		return false, nil
	}
	var messages []Message
	for i := range batch {
		if batch[i].ours {
			messages = append(messages, batch[i].message)
		}
	}
	taken, err := p.send(ctx, messages)
	if len(messages) > 0 && ctx.Err() == nil {
		p.note(taken < len(messages), err)
	}
	done := 0 // rows up to the last message that was taken, and what is not ours behind it
	for left := taken; done < len(batch) && (left > 0 || !batch[done].ours); done++ {
		if batch[done].ours {
			left--
		}
	}
	if ackErr := p.acknowledge(ctx, batch[:done]); ackErr != nil {
		p.setDirty(units, true)
		return false, ackErr
	}
	if done < len(batch) {
		p.setDirty(units, true)
		p.s.metrics.failures.WithLabelValues(p.label).Inc()
		p.postpone(ctx, batch[done].unit, err)
	}
	return true, nil
}

// note remembers that the sink does not take messages, or that it does.
func (p *publisher) note(refused bool, err error) {
	p.s.deaf.note("the sink "+p.id+" does not take messages", refused)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !refused:
		p.refused, p.why = time.Time{}, ""
		return
	case p.refused.IsZero():
		p.refused = time.Now()
	}
	if p.why = "it took a part of what it was offered"; err != nil {
		p.why = err.Error()
	}
}

// refusal is since when the sink has not taken messages, in microseconds since 1970, and its last error; 0 if it takes them.
func (p *publisher) refusal() (since int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused.IsZero() {
		return 0, ""
	}
	return p.refused.UnixMicro(), p.why
}

// send publishes messages under a deadline that ends before the leases do.
func (p *publisher) send(ctx context.Context, messages []Message) (int, error) {
	if len(messages) == 0 {
		return 0, nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.s.sendDeadline())
	defer cancel()
	taken, err := p.sink.Publish(ctx, messages)
	p.s.metrics.sinks.WithLabelValues(p.label).Observe(time.Since(began).Seconds())
	p.s.metrics.published.Add(float64(taken))
	return taken, err
}

// setDirty notes whether units may have messages.
func (p *publisher) setDirty(units []string, dirty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range units {
		if dirty {
			p.dirty[u] = true
		} else {
			delete(p.dirty, u)
		}
	}
}

// postpone leaves a unit alone for a while, longer with each failure.
func (p *publisher) postpone(ctx context.Context, unit string, err error) {
	p.failed[unit]++
	p.rest[unit] = time.Now().Add(min(failurePause<<min(p.failed[unit]-1, 6), longestRetry))
	if p.failed[unit] == 1 && ctx.Err() == nil {
		p.log.WarnContext(ctx, "a sink does not take messages; they are sent again", "sink", p.label, "unit", unit, "error", err)
	}
}

// next reads the messages that come next in some units, and tells which units may have more.
func (p *publisher) next(ctx context.Context, units []string) (batch []waiting, unread []string, err error) {
	if len(units) == 0 {
		return nil, nil, nil
	}
	places := map[string]place{}
	err = p.s.db.Read(ctx, func(tx *ledger.Tx) error {
		batch, unread = nil, nil
		for i, u := range units {
			left := maxUnacknowledged - len(batch)
			if left == 0 {
				unread = append(unread, units[i:]...)
				return nil
			}
			at, err := p.placeOf(ctx, tx, u)
			if err != nil {
				return err
			}
			places[u] = at
			rows := 0
			err = tx.Query(ctx, "SELECT id, kind, body FROM outbox WHERE subject = $1 AND topic = $2 AND id > $3 ORDER BY id LIMIT $4", []any{u, topic, at.position, int64(left)}, func(r ledger.Row) error {
				rows++
				w := waiting{unit: u}
				var watch, body string
				if err := r.Scan(&w.position, &watch, &body); err != nil {
					return err
				}
				if w.ours = p.watches[watch]; w.ours {
					w.message.Body = []byte(body)
					if err := json.Unmarshal(w.message.Body, &w.message.Event); err != nil {
						return fmt.Errorf("a message of the outbox: %w", err)
					}
				}
				batch = append(batch, w)
				return nil
			})
			if err != nil {
				return err
			}
			if rows == left {
				unread = append(unread, u)
			}
		}
		return nil
	})
	for u, at := range places {
		p.places[u] = at
	}
	return batch, unread, err
}

// placeOf returns how far the sink has got in a unit: as remembered within a term of its lease, else as the ledger says.
func (p *publisher) placeOf(ctx context.Context, tx *ledger.Tx, unit string) (place, error) {
	l := p.s.fleet.lease(unit)
	if l == nil {
		return place{}, errDeposed
	}
	if known, ok := p.places[unit]; ok && known.term == l.Term() {
		return known, nil
	}
	at := place{term: l.Term()}
	_, err := tx.One(ctx, "SELECT position FROM sink_cursors WHERE sink = $1 AND unit = $2", []any{p.id, unit}, &at.position)
	return at, err
}

// acknowledge notes how far the sink has got. It writes nothing for a unit that is another process's by now: that one hands the messages on
// again.
func (p *publisher) acknowledge(ctx context.Context, taken []waiting) error {
	if len(taken) == 0 {
		return nil
	}
	last := map[string]int64{}
	for _, w := range taken {
		last[w.unit] = w.position
	}
	rows := make([]any, 0, 2*len(last))
	for _, unit := range sortedKeys(last) {
		rows = append(rows, unit, last[unit])
	}
	err := p.s.db.Write(ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO sink_cursors (sink, unit, position)
			SELECT $`+strconv.Itoa(len(rows)+1)+`, v.column1, CAST(v.column2 AS BIGINT) FROM (VALUES `+ledger.Rows(len(last), 2)+`) AS v JOIN cursors c ON c.unit = v.column1 AND c.owner = $`+strconv.Itoa(len(rows)+2)+` WHERE true
			ON CONFLICT (sink, unit) DO UPDATE SET position = excluded.position WHERE sink_cursors.position < excluded.position`, append(rows, p.id, p.s.fleet.owner())...)
		return err
	})
	if err != nil {
		return fmt.Errorf("how far the sink has got: %w", err)
	}
	for unit, position := range last {
		p.places[unit] = place{p.places[unit].term, position}
		delete(p.failed, unit)
	}
	return nil
}
