package pending

import (
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
)

// news is what Redis has not been told yet. A transaction that changes again before that is
// told of once, as it is then; one that came and went meanwhile is not told of at all.
//
// Others learn of a change within pace, except that a transaction was executed while more of
// its sender are on their way here: that may take until lag. Its nonce is taken either
// way, and what follows will prove more.
type news struct {
	most int // changes that may wait
	wake chan struct{}

	mu      sync.Mutex // guards all below
	senders map[common.Address]*changes
	length  int // changes of all senders
}

const (
	pace = 10 * time.Millisecond  // least time between two round trips
	lag  = 100 * time.Millisecond // maximum time that what is not urgent waits
)

// changes are those of one sender.
type changes struct {
	sender common.Address
	byHash map[common.Hash]change
	due    time.Time // when they are to be told
}

// change is what a transaction is by now.
type change struct {
	tx    *eth.Tx
	state state
	known bool // its hash may be asked for
	told  bool // Redis was told of it before, as waiting
}

// nothing: it came and went.
func (c change) nothing() bool { return c.state == gone && !c.known && !c.told }

func (c change) operation() string {
	if c.state == waiting {
		return opAdd
	}
	return opRemove
}

type state uint8

const (
	waiting state = iota
	executed
	gone // and there is no proof that it was executed
)

func newNews(most int) *news {
	return &news{most: most, wake: make(chan struct{}, 1), senders: map[common.Address]*changes{}}
}

// put notes a change that is to be told after a while. It returns false if there is no room.
func (n *news) put(c change, after time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.senders[c.tx.From()]
	if s == nil {
		s = &changes{sender: c.tx.From(), byHash: map[common.Hash]change{}}
		n.senders[s.sender] = s
	}
	earlier, again := s.byHash[c.tx.Hash()]
	if again {
		c.told = earlier.told
		delete(s.byHash, c.tx.Hash())
		n.length--
	}
	room := n.length < n.most
	if room && !c.nothing() {
		s.byHash[c.tx.Hash()] = c
		n.length++
	}
	if len(s.byHash) == 0 {
		delete(n.senders, s.sender)
		return room
	}
	if due := time.Now().Add(after); s.due.IsZero() || due.Before(s.due) {
		s.due = due
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return room
}

// take returns the changes that are due by the given time, and for how long nothing else
// will be.
func (n *news) take(now time.Time) (due []*changes, calm time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	calm = time.Hour
	for sender, s := range n.senders {
		if left := s.due.Sub(now); left > 0 {
			calm = min(calm, left)
			continue
		}
		delete(n.senders, sender)
		n.length -= len(s.byHash)
		due = append(due, s)
	}
	return due, calm
}
