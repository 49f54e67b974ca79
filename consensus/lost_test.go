package consensus

import (
	"slices"
	"sync"
	"testing"
	"time"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// forgetful is a node that knows what it has accepted, until it is killed.
type forgetful struct {
	*scriptedNode
	mu    sync.Mutex
	has   map[hedera.TransactionID]bool
	asked map[hedera.TransactionID]int // denials
}

func startForgetful(t *testing.T) *forgetful {
	f := &forgetful{scriptedNode: startNode(t, 3), has: map[hedera.TransactionID]bool{}, asked: map[hedera.TransactionID]int{}}
	f.submit = func(o offer) (hapi.ResponseCodeEnum, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.has[o.id] = true
		return statusOK, nil
	}
	f.receipt = func(_ int, id hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.has[id] {
			return statusOK, statusUnknown, nil
		}
		f.asked[id]++
		return statusNotFound, 0, nil
	}
	return f
}

// kill drops the connections and what it has accepted.
func (f *forgetful) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.has)
	f.cut()
}

func (f *forgetful) denials(id hedera.TransactionID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[id]
}

// A node was killed with what it had accepted last. What follows it there waits until it has been offered again, and,
// if nobody offers it, goes all the same.
func TestWhatFollowsALostTransaction(t *testing.T) {
	for name, again := range map[string]bool{"it is offered again": true, "nobody offers it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startForgetful(t)
			c := quick(t, a.scriptedNode)
			if !again {
				c.pace.lost = 100 * time.Millisecond
			}
			s := Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}
			first := must.Get(c.Submit(t.Context(), s))(t)
			a.kill()
			next := s
			next.Node, next.SameNodeOnly, next.After = a.id, true, first.ID()
			second := make(chan *Pending, 1)
			go func() {
				p, err := c.Submit(t.Context(), next)
				if err != nil {
					t.Error(err)
				}
				second <- p
			}()
			if again {
				for a.denials(first.ID()) < 3 {
					<-time.After(time.Millisecond)
				}
				if !c.OfferAgain(t.Context(), s, first) {
					t.Error("the first is not taken again")
				}
			}
			p := <-second
			var order []hedera.TransactionID
			for _, o := range a.received() {
				order = append(order, o.id)
			}
			want := []hedera.TransactionID{first.ID(), p.ID()}
			if again {
				want = []hedera.TransactionID{first.ID(), first.ID(), p.ID()}
			}
			if !slices.Equal(order, want) {
				t.Errorf("offered %v, want %v", order, want)
			}
		})
	}
}

// Where the connection is older than the transaction before, nobody asks about that one.
func TestNobodyAsksWhileTheConnectionLives(t *testing.T) {
	t.Parallel()
	a := startForgetful(t)
	c := quick(t, a.scriptedNode)
	s := Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}
	for range 5 {
		p := must.Get(c.Submit(t.Context(), s))(t)
		s.Node, s.SameNodeOnly, s.After = a.id, true, p.ID()
	}
	a.scriptedNode.mu.Lock()
	defer a.scriptedNode.mu.Unlock()
	if a.queries > 1 { // the first one may have its id before there is a connection
		t.Errorf("%d queries", a.queries)
	}
}

// Whoever waits for the receipt hears that its node has lost the transaction.
func TestDenied(t *testing.T) {
	t.Parallel()
	a := startForgetful(t)
	c := quick(t, a.scriptedNode)
	p := must.Get(c.Submit(t.Context(), Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}))(t)
	go func() { _, _ = p.Receipt(t.Context()) }()
	asked := func() int {
		a.scriptedNode.mu.Lock()
		defer a.scriptedNode.mu.Unlock()
		return a.queries
	}
	for asked() < 3 {
		<-time.After(time.Millisecond)
	}
	select {
	case <-p.Denied():
		t.Fatal("its node knows it")
	default:
	}
	a.kill()
	select {
	case <-p.Denied():
	case <-time.After(patience):
		t.Fatal("nobody says that its node has lost it")
	}
}
