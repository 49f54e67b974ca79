package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

// TestNewHeadsAreAnnounced follows a WebSocket endpoint's new heads over a line that is cut: it is known that they are not announced
// meanwhile, and they are again when the line is mended. The endpoint answers calls, too.
func TestNewHeadsAreAnnounced(t *testing.T) {
	c := watchtest.New(t, 1)
	line := watchtest.NewLine(t, c.WS)
	p := pool(t, source.Config{ChainID: watchtest.ChainID, URLs: []string{"ws://" + line.Addr}}, source.Deps{})
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Announce(ctx, func() { woken <- struct{}{} })
	}()
	isAnnounced := func(want bool) {
		t.Helper()
		watchtest.Until(t, fmt.Sprintf("announced: %v", want), func() (bool, error) { return p.Announced() == want, nil })
	}
	heads := func(want uint64) {
		t.Helper()
		watchtest.Until(t, "the head", func() (bool, error) {
			head, err := p.Head(t.Context())
			return head.Number == want, errors.Join(err, fmt.Errorf("head %d", head.Number))
		})
	}
	isAnnounced(true)
	<-woken // the subscription itself
	c.Commit()
	<-woken
	heads(1)
	line.Cut()
	isAnnounced(false)
	c.Commit()
	line.Mend()
	isAnnounced(true)
	<-woken // what came meanwhile may have been missed
	heads(2)
	c.Commit()
	<-woken
	cancel()
	<-ended
	isAnnounced(false)
}
