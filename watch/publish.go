package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// Publish hands messages on in their order and returns what became of each: nil for one that the other side has certainly taken. What it did
	// not take for certain is published again. An error that is ErrSettled is about a message that can never be taken: it is noted and
	// passed over. The context ends before the right to publish does.
	Publish(ctx context.Context, batch []Message) []error
	Close()
}

// ErrSettled says that a sink can never take a message, however often it is sent: it is too long, say.
var ErrSettled = errors.New("it can never be taken")

const (
	// maxUnacknowledged is how many messages of one sink a process has on their way: a kill repeats no more.
	maxUnacknowledged = 32
	longestRetry      = 10 * time.Second
)

// publisher hands the messages of our units to one sink.
type publisher struct {
	s       *Service
	id      string // its name: in the ledger, metrics and logs it says which sink, without its secrets
	kind    string
	sink    Sink
	watches map[string]bool // that name this sink
	log     *slog.Logger

	mu    sync.Mutex
	dirty map[string]bool // guarded by mu; units that may have messages
	wake  chan struct{}

	// owned by run
	places map[string]place
	beyond map[string]map[int64]struct{} // by unit: places behind a refused message whose messages were taken
	failed map[string]int
	rest   map[string]time.Time
	turn   int // which unit goes first changes with each round
}

// sendDeadline bounds one attempt. A lease that was renewed in time is trusted for longer than that.
func (s *Service) sendDeadline() time.Duration { return s.cfg.LeaseTTL * 4 / 10 }

// place is how far a sink has got in a unit's messages, as read during one term of its lease.
type place struct {
	term     int64
	position int64
}

func (s *Service) publisher(spec string, sink Sink) *publisher {
	p := &publisher{
		s: s, id: SinkName(spec), kind: sinkKind(spec), sink: sink, watches: map[string]bool{}, log: s.log,
		dirty: map[string]bool{}, wake: make(chan struct{}, 1), places: map[string]place{}, beyond: map[string]map[int64]struct{}{}, failed: map[string]int{}, rest: map[string]time.Time{},
	}
	s.metrics.settled.WithLabelValues(p.id) // it tells from the start
	for i := range s.cfg.Plan.Watches {
		if slices.Contains(s.cfg.Plan.Watches[i].Sinks, spec) {
			p.watches[s.cfg.Plan.Watches[i].Name] = true
		}
	}
	return p
}

// markDirty says that there may be messages of some units.
func (p *publisher) markDirty(units []string) {
	p.setDirty(units, true)
	nudge(p.wake)
}

func (p *publisher) run(ctx context.Context) error {
	for ctx.Err() == nil {
		busy, err := p.round(ctx)
		if err != nil && ctx.Err() == nil {
			if !ledger.IsDown(err) {
				p.log.WarnContext(ctx, "messages are not handed on; they will be later", "sink", p.id, "error", err)
			}
			sleep.For(ctx, failurePause)
		}
		if busy {
			continue
		}
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-time.After(failurePause):
		}
	}
	return ctx.Err()
}

// waiting is a message and its place.
type waiting struct {
	position int64
	unit     string
	ours     bool // of a watch that names this sink, and not taken yet
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
	outcomes := p.send(ctx, messages)
	var refusal error
	for _, err := range outcomes {
		if refusal == nil && !errors.Is(err, ErrSettled) {
			refusal = err
		}
	}
	if len(messages) > 0 && ctx.Err() == nil {
		p.s.deaf.note(p.trouble(), refusal)
	}
	var done []waiting // of each unit, up to the first message that was refused
	var settled []verdict
	stuck, next := map[string]error{}, 0
	for _, w := range batch {
		var err error
		if w.ours {
			err = outcomes[next]
			next++
		}
		if errors.Is(err, ErrSettled) {
			settled = append(settled, verdict{w, err})
			err = nil
		}
		switch _, behind := stuck[w.unit]; {
		case err != nil && !behind:
			stuck[w.unit] = err
		case err == nil && !behind:
			done = append(done, w)
		case err == nil && w.ours:
			if p.beyond[w.unit] == nil {
				p.beyond[w.unit] = map[int64]struct{}{}
			}
			p.beyond[w.unit][w.position] = struct{}{}
		}
	}
	if err := p.acknowledge(ctx, done, settled); err != nil {
		p.setDirty(units, true)
		return false, err
	}
	if len(stuck) > 0 {
		p.setDirty(units, true)
		p.s.metrics.failures.WithLabelValues(p.id).Inc()
		for _, unit := range sortedKeys(stuck) {
			p.postpone(ctx, unit, stuck[unit])
		}
	}
	return true, nil
}

// verdict is a message that a sink can never take.
type verdict struct {
	waiting
	err error
}

// maxVerdict bounds the text that is kept of why.
const maxVerdict = 500

func (v verdict) text() string {
	text := strings.ReplaceAll(strings.ToValidUTF8(v.err.Error(), "\ufffd"), "\x00", "\ufffd")
	return text[:min(len(text), maxVerdict)]
}

// trouble is what is said of a sink that does not take messages.
func (p *publisher) trouble() string { return "the sink " + p.id + " does not take messages" }

// send publishes messages under a deadline that ends before the leases do, and returns what became of each.
func (p *publisher) send(ctx context.Context, messages []Message) []error {
	if len(messages) == 0 {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.s.sendDeadline())
	defer cancel()
	outcomes := p.sink.Publish(ctx, messages)
	p.s.metrics.sinks.WithLabelValues(p.id).Observe(time.Since(began).Seconds())
	for _, err := range outcomes {
		if err == nil {
			p.s.metrics.published.Inc()
		}
	}
	return outcomes
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
		p.log.WarnContext(ctx, "a sink does not take messages; they are sent again", "sink", p.id, "unit", unit, "error", err)
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
				_, taken := p.beyond[u][w.position]
				if w.ours = p.watches[watch] && !taken; w.ours {
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
	maps.Copy(p.places, places)
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
	delete(p.beyond, unit)
	at := place{term: l.Term()}
	_, err := tx.One(ctx, "SELECT position FROM sink_cursors WHERE sink = $1 AND unit = $2", []any{p.id, unit}, &at.position)
	return at, err
}

// acknowledge notes how far the sink has got. It writes nothing for a unit that is another process's by now: that one hands the messages on
// again.
func (p *publisher) acknowledge(ctx context.Context, taken []waiting, settled []verdict) error {
	if len(taken) == 0 && len(settled) == 0 {
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
	err := p.s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) (err error) {
		if len(last) > 0 {
			_, err = tx.Exec(ctx, `INSERT INTO sink_cursors (sink, unit, position)
			SELECT $`+ledger.Number(len(rows)+1)+`, v.column1, CAST(v.column2 AS BIGINT) FROM (VALUES `+ledger.Rows(len(last), 2)+`) AS v JOIN cursors c ON c.unit = v.column1 AND c.owner = $`+ledger.Number(len(rows)+2)+` WHERE true
			ON CONFLICT (sink, unit) DO UPDATE SET position = excluded.position WHERE sink_cursors.position < excluded.position`, append(rows, p.id, p.s.fleet.owner())...)
		}
		for _, v := range settled {
			if err == nil {
				_, err = tx.Exec(ctx, "INSERT INTO watch_settled (sink, delivery, why, at) VALUES ($1, $2, $3, $4) ON CONFLICT (sink, delivery) DO NOTHING", p.id, v.message.Delivery, v.text(), now)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("how far the sink has got: %w", err)
	}
	for unit, position := range last {
		p.places[unit] = place{p.places[unit].term, position}
		for at := range p.beyond[unit] {
			if at <= position {
				delete(p.beyond[unit], at)
			}
		}
		if p.failed[unit] > 0 {
			p.log.InfoContext(ctx, "a sink takes messages again", "sink", p.id, "unit", unit)
		}
		delete(p.failed, unit)
	}
	for _, v := range settled {
		p.s.metrics.settled.WithLabelValues(p.id).Inc()
		p.log.ErrorContext(ctx, "a sink can never take a message; it is passed over and noted in watch_settled", "sink", p.id, "message", v.message.Delivery, "error", v.err)
	}
	return nil
}

const (
	pruneEvery = time.Minute
	// prunePerStep bounds the rows that one transaction deletes, and pruneSteps the transactions of one turn.
	prunePerStep = 2000
	pruneSteps   = 100
)

// defaultRetention is how long messages are kept that all sinks have taken.
const defaultRetention = 7 * 24 * time.Hour

// pruneOutbox forgets old messages of our units now and then.
func (s *Service) pruneOutbox(ctx context.Context) error {
	for ctx.Err() == nil {
		sleep.For(ctx, pruneEvery)
		for range pruneSteps {
			n, err := s.prune(ctx)
			if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
				s.log.WarnContext(ctx, "old messages are not deleted; they will be later", "error", err)
			}
			if err != nil || n < prunePerStep {
				break
			}
		}
	}
	return ctx.Err()
}

// prune deletes messages of our units that are older than the retention and that every sink has taken. The slowest sink loses nothing,
// and readers of the stream go on at the oldest message that is left.
func (s *Service) prune(ctx context.Context) (deleted int64, err error) {
	owner := s.fleet.owner()
	err = s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		args := []any{owner, now - s.cfg.Retention.Microseconds()}
		taken := ledger.SQL("SELECT unit, CAST(NULL AS BIGINT) AS upto FROM cursors WHERE owner = $1") // without a sink only the age counts
		if n := len(s.publishers); n > 0 {
			for _, p := range s.publishers {
				args = append(args, p.id)
			}
			taken = `SELECT c.unit, MIN(c.position) AS upto FROM sink_cursors c JOIN cursors u ON u.unit = c.unit
				WHERE u.owner = $1 AND c.sink IN ` + ledger.List(3, n) + ` GROUP BY c.unit HAVING COUNT(*) = ` + ledger.Number(n)
		}
		deleted, err = tx.Exec(ctx, `DELETE FROM outbox WHERE id IN (SELECT o.id FROM (`+taken+`) AS t JOIN outbox o ON o.subject = t.unit AND (t.upto IS NULL OR o.id <= t.upto)
			WHERE o.topic = '`+topic+`' AND o.seq > 0 AND o.at < $2 LIMIT `+ledger.Number(prunePerStep)+`)`, args...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("old messages: %w", err)
	}
	return deleted, nil
}
