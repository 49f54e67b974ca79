package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// watchKilled kills the factory's owner again and again while three processes follow, and counts what became of the events.
func watchKilled(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("owner killed until its units run elsewhere", "s", never(15, "15"), "60–120 (by their settings)")
	for _, name := range []string{"missed", "stored twice", "not handed on", "out of order per contract"} {
		t.want(name, "events", always(0, "0"), "")
	}
	chain, err := newEventChain(ctx)
	if err != nil {
		return err
	}
	defer chain.close()
	pg, err := l.postgresServer(ctx)
	if err != nil {
		return err
	}
	defer pg.close()
	server, err := l.redis(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	w, err := l.watchers(chain, pg.url, server.url()+"/"+eventStream, chain.url)
	if err != nil {
		return err
	}
	defer w.close()
	chain.family(500)
	for _, name := range []string{"a", "b", "c"} {
		if err := w.start(ctx, name); err != nil {
			return err
		}
	}
	if err := w.caughtUp(ctx, "a", time.Minute); err != nil {
		return err
	}
	making, stop := context.WithCancel(ctx)
	defer stop()
	made := make(chan struct{})
	go func() {
		defer close(made)
		for n := 0; making.Err() == nil; n++ {
			var logs []eventLog
			for i := range 10 {
				logs = append(logs, paid(1+(n*13+i*47)%500, n))
			}
			chain.block(logs...)
			sleep.For(making, 200*time.Millisecond)
		}
	}()
	for range runs {
		took, err := w.killLeader(ctx)
		if err != nil {
			return err
		}
		t.ours("owner killed until its units run elsewhere", "s", took.Seconds())
	}
	stop()
	<-made
	b := readBook(ctx, server)
	defer b.stop()
	if err := w.caughtUp(ctx, "a", time.Minute); err != nil {
		return err
	}
	notTold := 0
	if err := b.until(ctx, chain.logs, time.Minute); err != nil {
		t.note(err.Error())
		notTold = 1
	}
	missed, twice, err := w.against(ctx)
	t.ours("missed", "events", float64(missed))
	t.ours("stored twice", "events", float64(twice))
	t.ours("not handed on", "events", float64(notTold))
	t.ours("out of order per contract", "events", float64(b.disorder()))
	t.note(fmt.Sprintf("3 processes on PostgreSQL, 500 contracts, 5 blocks a second with 10 events each, %d events, a Redis stream; the process that owns the factory is killed with kill -9, started again when its units run elsewhere, and its next owner is killed. make chaos-watch does the same for as long as wanted.", chain.logs))
	return err
}

// killLeader kills the factory's owner and waits until others have all its units and have gone on with them. Then it starts it again.
func (w *watchers) killLeader(ctx context.Context) (time.Duration, error) {
	var leader string
	var units map[string]int64
	err := poll(ctx, time.Minute, 100*time.Millisecond, func() error {
		owned, err := w.cursors(ctx)
		for unit, c := range owned {
			if strings.HasPrefix(unit, "factory:") {
				leader = c.owner
			}
		}
		sharing := map[string]bool{}
		units = map[string]int64{}
		for unit, c := range owned {
			sharing[c.owner] = true
			if c.owner == leader {
				units[unit] = c.next
			}
		}
		if err == nil && (leader == "" || sharing[""] || len(sharing) != len(w.members)) {
			err = fmt.Errorf("%d processes share the work", len(sharing))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	w.members[leader].kill()
	began := time.Now()
	err = poll(ctx, 2*time.Minute, 20*time.Millisecond, func() error {
		owned, err := w.cursors(ctx)
		left := 0
		for unit, before := range units {
			if c := owned[unit]; c.owner == leader || c.owner == "" || c.next <= before {
				left++
			}
		}
		if err == nil && left > 0 {
			err = fmt.Errorf("%d units of %d wait", left, len(units))
		}
		return err
	})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took, w.start(ctx, leader)
}

type cursorRow struct {
	owner string // the process, without its boot
	next  int64
}

// cursors are all units with their owners and next blocks.
func (w *watchers) cursors(ctx context.Context) (map[string]cursorRow, error) {
	units := map[string]cursorRow{}
	err := w.ledger(ctx, func(tx *ledger.Tx) error {
		return tx.Query(ctx, "SELECT unit, owner, next_block FROM cursors", nil, func(r ledger.Row) error {
			var unit string
			var c cursorRow
			err := r.Scan(&unit, &c.owner, &c.next)
			c.owner, _, _ = strings.Cut(c.owner, "/")
			units[unit] = c
			return err
		})
	})
	return units, err
}

// against holds the ledger against the chain.
func (w *watchers) against(ctx context.Context) (missed, twice int, err error) {
	rows := map[string]int{}
	err = w.ledger(ctx, func(tx *ledger.Tx) error {
		return tx.Query(ctx, "SELECT event_id FROM processed_events", nil, func(r ledger.Row) error {
			var id string
			err := r.Scan(&id)
			rows[id]++
			return err
		})
	})
	w.chain.mu.RLock()
	defer w.chain.mu.RUnlock()
	for _, b := range w.chain.blocks {
		for i := range b.logs {
			switch n := rows[b.id(i)]; {
			case n == 0:
				missed++
			case n > 1:
				twice++
			}
		}
	}
	return missed, twice, err
}
