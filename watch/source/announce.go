package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/internal/sleep"
)

// errSilent means that a subscription ended without a reason.
var errSilent = errors.New("the subscription ended")

// Announce calls wake when a WebSocket endpoint tells of a new block, and when there is a new subscription, until the context ends. It is
// a hint and no more: who wakes asks for the head, and asks now and then without it.
func (p *Pool) Announce(ctx context.Context, wake func()) {
	var all sync.WaitGroup
	for _, e := range p.endpoints {
		if j, ok := e.reader.(jsonRPC); ok && j.Streams() {
			all.Go(func() { p.announce(ctx, e, j, wake) })
		}
	}
	all.Wait()
}

// Announced tells whether any endpoint tells of new blocks by itself now.
func (p *Pool) Announced() bool { return p.announcers.Load() > 0 }

// announce keeps one WebSocket endpoint's subscription. Pauses between attempts grow while they fail.
func (p *Pool) announce(ctx context.Context, e *endpoint, j jsonRPC, wake func()) {
	pause := firstRest
	for ctx.Err() == nil {
		began := time.Now()
		err := p.subscribed(ctx, j, wake)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestRest {
			pause = firstRest
		}
		p.log.WarnContext(ctx, "new blocks are not announced by this endpoint; it is asked for them", "chain", p.cfg.ChainID, "error", e.named(err))
		sleep.For(ctx, pause)
		pause = min(2*pause, longestRest)
	}
}

// subscribed holds one subscription until it ends.
func (p *Pool) subscribed(ctx context.Context, j jsonRPC, wake func()) error {
	heads := make(chan struct {
		Number string `json:"number"`
	}, 16)
	sub, err := j.Subscribe(ctx, heads, "newHeads")
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	p.announcers.Add(1)
	defer p.announcers.Add(-1)
	wake() // what came before the subscription is not told
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-sub.Err():
			if err == nil {
				err = errSilent
			}
			return err
		case <-heads:
			wake()
		}
	}
}
