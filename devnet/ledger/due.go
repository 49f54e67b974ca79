package ledger

import (
	"crypto/sha512"
	"slices"
	"time"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
)

// execute brings a scheduled transaction to consensus where all who must agree do. The caller
// holds handling, and has the block closed afterwards.
func (l *Ledger) execute(num int64) {
	s := l.store.World.Schedules.Now(num)
	if s == nil || !s.Executed.IsZero() || !s.DeletedAt.IsZero() {
		return
	}
	body := schedules.Body(s.Body)
	h := l.begin(&core.Submission{
		Body: body, ID: s.Transaction, Payer: s.Payer, Hash: sha512.Sum384([]byte(s.Transaction.String())), Signatures: hapikey.NewSignatures(nil, nil),
	})
	h.Authorizes = s.Agrees
	if payer := h.State.EntityAccount(s.Payer.Num); !s.Agrees(payer.Key()) {
		return
	}
	if h.Run(); h.Record.Status == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		return // it waits on; the state that it was handled on is dropped
	}
	done := *s
	done.Executed = h.Record.Consensus
	h.State.Schedules.Set(num, &done)
	h.Did().ScheduleRef = s.ID
	l.enter(h)
}

// executeReady tries the schedules that a transaction created or signed. Those that one of them
// creates in turn wait for a signing or for their time, so that no chain of them is endless.
func (l *Ledger) executeReady(h *core.Handling) {
	for _, num := range h.State.Ready {
		l.execute(num)
	}
}

// executeDue executes the schedules whose time has come by a consensus time, and returns how
// long it is until the next one's; any is false where there is none. The caller holds handling.
func (l *Ledger) executeDue(now int64) (left time.Duration, any bool) {
	last := state.ExpiryKey{At: now, Schedule: state.Last}
	if now > l.settled {
		due := slices.Collect(l.store.World.Expiries.Between(state.ExpiryKey{At: l.settled, Schedule: state.Last}, last))
		l.settled = now
		for _, key := range due {
			if s := l.store.World.Schedules.Now(key.Schedule); s != nil && s.WaitForExpiry {
				l.execute(key.Schedule)
				l.entered()
			}
		}
	}
	for later := range l.store.World.Expiries.Between(last, state.ExpiryKey{At: state.Last, Schedule: state.Last}) {
		return time.Duration(later.At - now), true
	}
	return 0, false
}

// executeWaiting executes what is due by the clock, as Run does.
func (l *Ledger) executeWaiting() (left time.Duration, any bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	return l.executeDue(l.Now().UnixNano())
}
