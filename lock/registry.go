package lock

import (
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// registry finds the lane of a sender. A lane in use is pinned in the busy map, out of
// the cache's reach, so that a flood of other senders can never evict it; the cache
// bounds the idle ones only. Its mutex may be taken under a lane's, never the other way.
type registry struct {
	mu   sync.Mutex
	busy map[common.Address]*lane
	idle *simplelru.LRU[common.Address, *lane]
}

func newRegistry(idle int) (*registry, error) {
	cache, err := simplelru.NewLRU[common.Address, *lane](idle, nil)
	if err != nil {
		return nil, err
	}
	return &registry{busy: make(map[common.Address]*lane), idle: cache}, nil
}

// pin returns the sender's lane and keeps it until unpin.
func (r *registry) pin(svc *Service, sender common.Address) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.busy[sender]
	if !ok {
		if l, ok = r.idle.Peek(sender); ok {
			r.idle.Remove(sender)
		} else {
			l = newLane(svc, sender)
		}
		r.busy[sender] = l
	}
	l.refs++
	return l
}

// pinKnown is pin for a lane that exists; it makes none.
func (r *registry) pinKnown(sender common.Address) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.busy[sender]
	if !ok {
		if l, ok = r.idle.Peek(sender); !ok {
			return nil
		}
		r.idle.Remove(sender)
		r.busy[sender] = l
	}
	l.refs++
	return l
}

// repin adds a reference to a lane that is pinned already.
func (r *registry) repin(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.refs++
}

func (r *registry) unpin(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.refs--
	if l.refs == 0 {
		delete(r.busy, l.sender)
		r.idle.Add(l.sender, l)
	}
}

// pinBusy pins and returns all lanes in use. The caller unpins each.
func (r *registry) pinBusy() []*lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*lane, 0, len(r.busy))
	for _, l := range r.busy {
		l.refs++
		out = append(out, l)
	}
	return out
}

// sizes returns the numbers of lanes in use and idle.
func (r *registry) sizes() (busy, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.busy), r.idle.Len()
}
