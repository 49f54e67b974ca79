package lock

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
)

// The predecessor has arrived, but this process has not got round to reading it.
func TestBacklogIsReadFirst(t *testing.T) {
	t.Parallel()
	svc, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ahead := mustEnter(t, svc, bob, 6)
	lease := mustWait(t, ahead)
	arrived := make(chan *Ticket, 1)
	svc.backlog.ready = func() uint64 {
		if len(arrived) == 0 {
			// As a request that is read now; the lane is in use by whoever asks here.
			arrived <- nil
			go func() {
				ticket, err := svc.Enter(bob, 5)
				if err != nil {
					t.Error(err)
				}
				<-arrived
				arrived <- ticket
			}()
		}
		return 1
	}
	if !lease.StepBack(5) {
		t.Fatal("did not step back for what arrived while the process was behind")
	}
	(<-arrived).Leave()
	ahead.Leave()
}

// Two samples in a row have to be calm after one that was not, and nothing is waited for
// when there is nothing to do.
func TestBacklogIsCalm(t *testing.T) {
	t.Parallel()
	ready := []uint64{0, 3, 0, 1, 0, 0, 0}
	want := []bool{false, true, true, true, true, false, false}
	b := newBacklog()
	at := time.Duration(0)
	b.ready = func() uint64 { n := ready[0]; ready = ready[1:]; return n }
	for i, behind := range want {
		at += sampleInterval
		if got := b.behind(at); got != behind {
			t.Errorf("sample %d: behind %v, want %v", i, got, behind)
		}
		if got := b.behind(at + sampleInterval/2); got != behind {
			t.Errorf("after sample %d, with no new one: behind %v, want %v", i, got, behind)
		}
	}
}

// What the runtime says is what is meant: goroutines that want to run and may not.
func TestBacklogIsSeen(t *testing.T) {
	b := newBacklog()
	var stop atomic.Bool
	var spinning sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		spinning.Go(func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		})
	}
	until(t, "the process is behind", func() bool { return b.ready() > 0 })
	stop.Store(true)
	spinning.Wait()
	until(t, "the process has caught up", func() bool { return b.ready() == 0 })
}

// A nonce that does not come is waited for once, however many are ahead of it.
func TestMissingNonceIsMissedOnce(t *testing.T) {
	t.Parallel()
	svc, err := New(DefaultConfig(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	svc.backlog.ready = func() uint64 { return 1 } // always behind
	first, second, failed := mustEnter(t, svc, bob, 7), mustEnter(t, svc, bob, 8), mustEnter(t, svc, bob, 9)
	lease := mustWait(t, first)
	if lease.StepBack(5) {
		t.Fatal("stepped back for nobody")
	}
	lease.Release()
	ln := first.lane
	ln.mu.Lock()
	since := ln.missedAt
	ln.mu.Unlock()
	lease = mustWait(t, second)
	if lease.StepBack(5) {
		t.Fatal("stepped back for nobody")
	}
	ln.mu.Lock()
	if ln.missedAt != since {
		t.Error("the second one waited for the same nonce from the beginning")
	}
	ln.mu.Unlock()
	lease.Block(8) // what failed is not waited for at all
	lease.Release()
	if mustWait(t, failed).StepBack(8) {
		t.Fatal("stepped back for nobody")
	}
	ln.mu.Lock()
	if ln.missed != 6 {
		t.Errorf("nonce %d was missed although it had failed", ln.missed-1)
	}
	ln.mu.Unlock()
	failed.Leave()
}

// Too little is left of a turn that Redis gave for another to begin.
func TestShortTurnIsNotHandedDown(t *testing.T) {
	t.Parallel()
	svc := startedOn(t, redistest.Start(t).URL(), DefaultConfig())
	ahead, next := mustEnter(t, svc, bob, 6), mustEnter(t, svc, bob, 5)
	lease := mustWait(t, ahead)
	ln := ahead.lane
	ln.mu.Lock()
	lease.turn.deadline = svc.now() + svc.cfg.MaxHold.Duration()/2
	ln.mu.Unlock()
	if lease.StepBack(5) {
		t.Error("a turn that is half over was handed down")
	}
	lease.Release()
	mustWait(t, next).Release()
}

// late holds up the next command on any connection, or the reply to it.
type late struct {
	mu          sync.Mutex
	reply, send chan struct{} // armed; closed to let it pass
}

type lateConn struct {
	net.Conn
	late  *late
	reply chan struct{}
}

func (c *lateConn) Write(b []byte) (int, error) {
	c.late.mu.Lock()
	c.reply, c.late.reply = c.late.reply, nil
	send := c.late.send
	c.late.send = nil
	c.late.mu.Unlock()
	if send != nil {
		<-send
	}
	return c.Conn.Write(b)
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.reply != nil {
		<-c.reply
	}
	return c.Conn.Read(b)
}

func (l *late) holdReply() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reply = make(chan struct{})
	return l.reply
}

func (l *late) holdSend() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send = make(chan struct{})
	return l.send
}

// The reply to a join comes when the turn it led to is over. What the holder learned must not be
// lost: its release, and no other, says what nonce is next.
func TestJoinIsAnsweredAfterTheTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := DefaultConfig()
	cfg.HeartbeatInterval, cfg.HeartbeatMissed, cfg.RedisTimeout = ms(60_000), 3, ms(60_000) // nothing else is sent
	wire := &late{}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lateConn{Conn: c, late: wire}, err
	}})
	svc := startedWith(t, client, cfg)
	mustWait(t, mustEnter(t, svc, bob, 3)).Release() // teaches the server the scripts
	until(t, "idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })

	before := mustWait(t, mustEnter(t, svc, bob, 4))
	joined := wire.holdReply()
	ticket := mustEnter(t, svc, bob, 5)
	c := server.Client()
	until(t, "the place is taken", func() bool { return c.ZCard(t.Context(), keys(bob)[3]).Val() == 1 })
	before.Advance(5, Submission{})
	before.Release()
	lease := mustWait(t, ticket)
	lease.Advance(6, Submission{})
	release := wire.holdSend()
	lease.Release()
	until(t, "the release is under way", func() bool { wire.mu.Lock(); defer wire.mu.Unlock(); return wire.send == nil })
	close(joined)
	ln := ticket.lane
	until(t, "the reply is in", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return !ln.far.syncing })
	close(release)
	next := mustWait(t, mustEnter(t, svc, bob, 6))
	if nonce, known := next.Expected(); !known || nonce != 6 {
		t.Errorf("expected nonce %d, %v; want 6", nonce, known)
	}
	next.Release()
}

// A bad verdict makes the lane forget what it concluded, not what verdicts proved.
func TestProofsOutliveABadVerdict(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (*Service, error){
		"local": func(*testing.T) (*Service, error) { return New(DefaultConfig(), Deps{}) },
		"redis": func(t *testing.T) (*Service, error) {
			return startedOn(t, redistest.Start(t).URL(), DefaultConfig()), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc, err := start(t)
			if err != nil {
				t.Fatal(err)
			}
			lease := mustWait(t, mustEnter(t, svc, bob, 5))
			lease.Advance(6, Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true})
			svc.Observe(bob, 5) // the verdict on the one before
			fence := lease.Fence()
			lease.Release()
			svc.Invalidate(t.Context(), bob, fence) // the verdict on this one
			lease = mustWait(t, mustEnter(t, svc, bob, 5))
			defer lease.Release()
			if nonce, known := lease.Expected(); nonce != 5 || !known || lease.Certain() {
				t.Errorf("expected %d, known %v, certain %v", nonce, known, lease.Certain())
			}
		})
	}
}
