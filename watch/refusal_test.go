package watch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"lockstep/internal/ledgertest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// picky is a sink that refuses the messages of one watch for a while, and those of another for ever.
type picky struct {
	mu    sync.Mutex
	times int
	got   map[string]int
}

func (p *picky) Publish(_ context.Context, batch []watch.Message) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(batch))
	for i, m := range batch {
		switch {
		case m.Watch == "later" && p.times > 0:
			p.times--
			errs[i] = errors.New("not yet")
		case m.Watch == "never":
			errs[i] = fmt.Errorf("%w: it is \x00 too long", watch.ErrSettled)
		default:
			p.got[m.Watch]++
		}
	}
	return errs
}

func (p *picky) Close() {}

// TestARefusedMessageRepeatsNoOther: three watches of one contract have their messages in one queue. One is refused three times, one for
// ever, and the one behind them comes once.
func TestARefusedMessageRepeatsNoOther(t *testing.T) {
	c := watchtest.New(t, 2)
	db, sink := ledgertest.Open(t), &picky{times: 3, got: map[string]int{}}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{given(t, "later", 1), given(t, "never", 1), given(t, "once", 1)}
	start(t, db, plan, "a", sink)
	approve(c, 1)
	c.Commit()
	watchtest.Until(t, "all is taken or settled", func() (bool, error) {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		settled, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM watch_settled")
		left, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM outbox o LEFT JOIN sink_cursors c ON c.unit = o.subject WHERE o.id > COALESCE(c.position, 0)")
		return sink.got["later"] == 1 && settled == 1 && left == 0, errors.Join(err, again, fmt.Errorf("%v, %d settled, %d left", sink.got, settled, left))
	})
	if sink.got["once"] != 1 || sink.got["never"] != 0 {
		t.Errorf("%v", sink.got)
	}
}
