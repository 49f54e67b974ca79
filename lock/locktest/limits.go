package locktest

import (
	"context"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/lock"
)

// L1, L10, L23: a holder that does not end loses its turn at the limit, knows it, and the
// next one's time starts from its own turn.
func testFreshHold(t *testing.T, b *bench) {
	b.inTime(1500*time.Millisecond, func(limit time.Duration) bool {
		b.start(func(c *lock.Config) { c.MaxHold = envx.Millis(limit) })
		begin := time.Now()
		first, second, third := b.enter(0, 1), b.enter(1, 2), b.enter(0, 3)
		a := b.waitInTime(first)
		if a == nil || time.Since(begin) > limit/2 {
			return false // the first turn may have ended before the third one came
		}
		ctx := a.Context()
		c := b.waitInTime(second)
		if c == nil {
			return false
		}
		// The next one may hear of the end before the one whose turn ended.
		b.ended(ctx)
		if !isLost(context.Cause(ctx)) {
			t.Errorf("the first turn's context ended with %v", context.Cause(ctx))
		}
		if err := a.Check(); !isLost(err) {
			t.Errorf("the first turn's check says %v", err)
		}
		if a.PutBack(0) {
			t.Error("a lost turn could still change the lane")
		}
		d := b.waitInTime(third)
		if d == nil {
			return false
		}
		if c.Turn().Fence <= a.Turn().Fence || d.Turn().Fence <= c.Turn().Fence {
			t.Errorf("the numbers of the turns are %d, %d, %d", a.Turn().Fence, c.Turn().Fence, d.Turn().Fence)
		}
		// The second holder had a time of its own, but for the age of the message that told it. A slow
		// machine can only make it more.
		if held := time.Since(begin); held < limit*5/4 {
			t.Errorf("both turns together lasted %v, of %v each", held, limit)
		}
		d.Release()
		if d.Check() == nil {
			t.Error("a released turn goes on")
		}
		return true
	})
}

// A turn that was lost may have sent something: what comes next is not known.
func testLostTurnForgets(t *testing.T, b *bench) {
	b.inTime(500*time.Millisecond, func(limit time.Duration) bool {
		b.start(func(c *lock.Config) { c.MaxHold = envx.Millis(limit) })
		lease := b.waitInTime(b.enter(0, 5))
		if lease == nil {
			return false
		}
		advance(lease, 5)
		if lease.Check() != nil {
			return false
		}
		lease.Release()
		if b.waitInTime(b.enter(1, 6)) == nil { // never released
			return false
		}
		if lease = b.waitInTime(b.enter(0, 7)); lease == nil {
			return false
		}
		nonce, known := expected(lease)
		if lease.Check() != nil {
			return false
		}
		if known {
			t.Errorf("after a lost turn %d is expected", nonce)
		}
		lease.Release()
		return true
	})
}
