package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/mirror/feed"
)

// numbers is a source whose blocks are their numbers, and a sink that notes what it is told.
// Nothing of it is a mirror node's.
type numbers struct {
	mu      sync.Mutex
	newest  uint64
	away    error             // what asking for blocks fails with
	bad     map[uint64]string // blocks that cannot be read, and how
	next    uint64
	epoch   uint64
	idle    bool
	told    []uint64
	skipped int
	wrong   int // events that are not what was read
}

var errTemporary = errors.New("later perhaps")

func (n *numbers) NextBlocks(_ context.Context, first uint64) (blocks []uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for b := first; b <= n.newest && n.away == nil; b++ {
		blocks = append(blocks, b)
	}
	return blocks, n.away
}

func (n *numbers) Pushes() bool           { return false }
func (n *numbers) Number(b uint64) uint64 { return b }

func (n *numbers) Wanted() (feed.Position, func(context.Context, uint64) (string, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return feed.Position{Active: !n.idle, Epoch: n.epoch, Next: n.next}, n.read
}

func (n *numbers) read(_ context.Context, b uint64) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch n.bad[b] {
	case "panic":
		panic("a mistake")
	case "incomplete":
		return "some", feed.ErrIncomplete
	case "temporary":
		return "", errTemporary
	}
	return "all", nil
}

func (n *numbers) Tell(epoch, b uint64, events string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle || epoch != n.epoch {
		return false
	}
	if want := map[string]string{"": "all", "incomplete": "some"}[n.bad[b]]; events != want {
		n.wrong++
	}
	n.told, n.next = append(n.told, b), b+1
	return true
}

func (n *numbers) Temporary(err error) bool { return errors.Is(err, errTemporary) }

func (n *numbers) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *numbers) upTo(t *testing.T, want uint64) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if int(want) != len(n.told) || !slices.IsSorted(n.told) || n.next != want+1 {
		t.Errorf("told of %v, next %d; want 1 to %d", n.told, n.next, want)
	}
}

func follow(t *testing.T, n *numbers) (wake chan struct{}) {
	wake = make(chan struct{}, 1)
	f := feed.New[uint64, string](feed.Config{
		Interval: time.Second, Log: slog.New(slog.DiscardHandler), Failed: func() {}, Skipped: func() { n.change(func() { n.skipped++ }) },
	}, n, n)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = f.Run(ctx, wake); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return wake
}

// Every block is told once and in order: a backlog, what comes later, and what came in an outage.
// While nobody needs blocks none is asked for.
func TestBlocksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{newest: 20, next: 1}
		wake := follow(t, n)
		<-time.After(time.Minute)
		n.upTo(t, 0)
		wake <- struct{}{}
		<-time.After(time.Minute)
		n.upTo(t, 20)
		n.change(func() { n.newest, n.away = 30, errTemporary })
		<-time.After(time.Hour)
		n.upTo(t, 20)
		n.change(func() { n.away = nil })
		<-time.After(time.Minute)
		n.upTo(t, 30)
		n.change(func() { n.idle, n.newest = true, 40 })
		<-time.After(time.Minute)
		n.upTo(t, 30)
		n.change(func() { n.idle = false; n.epoch++ })
		wake <- struct{}{}
		<-time.After(time.Minute)
		n.upTo(t, 40)
	})
}

// A block that cannot be read holds up the later ones for a while, longer if the fault may end
// by itself. Then it is given up, told as far as it was read.
func TestBlocksGivenUp(t *testing.T) {
	for how, test := range map[string]struct {
		held    time.Duration // at least, and the same again at most
		skipped int
	}{
		"panic": {3 * time.Second, 1}, "incomplete": {3 * time.Second, 0}, "temporary": {10 * time.Minute, 1},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &numbers{newest: 10, next: 1, bad: map[uint64]string{4: how}}
				follow(t, n) <- struct{}{}
				<-time.After(test.held)
				n.upTo(t, 3)
				<-time.After(20*time.Second + 2*test.held)
				n.change(func() { n.newest = 11 })
				<-time.After(time.Minute)
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.next != 12 || n.skipped != test.skipped || n.wrong > 0 {
					t.Errorf("told of %v, next %d, %d skipped, %d wrong", n.told, n.next, n.skipped, n.wrong)
				}
			})
		})
	}
}

// A block of a chain with an even pace is told of within an eighth of the interval. While nobody needs blocks none is
// told of, however even their pace.
func TestDueBlocksAreToldSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step, rest = time.Second / 8, 5 * time.Second
		n := &numbers{next: 1}
		follow(t, n) <- struct{}{}
		for block := uint64(1); block <= 40; block++ {
			n.change(func() { n.newest = block })
			<-time.After(step + time.Millisecond)
			if block > 20 {
				n.upTo(t, block)
			}
			<-time.After(rest)
		}
		n.change(func() { n.idle = true })
		<-time.After(time.Minute)
		n.change(func() { n.newest = 41 })
		<-time.After(time.Minute)
		n.upTo(t, 40)
	})
}
