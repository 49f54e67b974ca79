package rpc

import (
	"context"
	"sync/atomic"
	"time"
)

// parked is a suspended HTTP request that has no goroutine: that of its connection has left it. The request is
// answered when its call has run, or when its time is up; whichever comes first claims it.
type parked struct {
	*suspended
	ctx     context.Context // of the request
	w       waiter
	claimed atomic.Bool
}

// park lets the request of s wait without a goroutine, if its call tells when its turn has come and if its waiter
// needs no goroutine either. If the result is true, the caller is to leave the request alone.
func (s *suspended) park(ctx context.Context, w waiter) bool {
	patient, ok := s.second.(Patient)
	if !ok {
		return false
	}
	p := &parked{suspended: s, ctx: ctx, w: w}
	return w.leave(p.deadline(), p.expire) && patient.Notify(ctx, p.run)
}

func (p *parked) deadline() time.Time {
	return p.started.Add(p.d.config.HTTP.RequestTimeout.Duration())
}

// claim tells whether the request is the caller's to answer.
func (p *parked) claim() bool { return !p.claimed.Swap(true) }

// run runs the call, whose turn has come, and answers the request, unless somebody has.
func (p *parked) run() {
	ctx, cancel := context.WithDeadline(p.ctx, p.deadline())
	defer cancel()
	ex := p.resume(ordered)
	c := &ex.calls[0]
	c.own = ex.produce(ctx, nil, c, c.second.Run)
	c.elapsed = time.Since(ex.started)
	if p.claim() {
		p.answer(ex)
		return
	}
	if c.sent != nil {
		c.sent(false)
	}
	ex.release()
}

// expire is called when the time is up or the client has gone. As in other requests the call may still answer for
// a moment.
func (p *parked) expire() {
	time.AfterFunc(answerGrace, func() {
		if p.claim() {
			p.answer(p.resume(ordered))
		}
	})
}

// answer answers the request with what the call has answered, if it has.
func (p *parked) answer(ex *exchange) {
	ex.collect()
	ex.respond(p.ctx, p.w)
	p.w.done()
}
