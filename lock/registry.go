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
	mu      sync.Mutex
	busy    map[common.Address]*lane
	idle    *simplelru.LRU[common.Address, *lane]
	maxIdle int // idle lanes
}

func newRegistry(idle int) (*registry, error) {
	cache, err := simplelru.NewLRU[common.Address, *lane](idle, nil)
	if err != nil {
		return nil, err
	}
	return &registry{busy: make(map[common.Address]*lane), idle: cache, maxIdle: idle}, nil
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

// repin adds a reference to a lane that the caller knows. It returns false if the lane is not the sender's any
// more: the cache has dropped it, and there may be another by now.
func (r *registry) repin(l *lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[l.sender] != l {
		if kept, ok := r.idle.Peek(l.sender); !ok || kept != l {
			return false
		}
		r.idle.Remove(l.sender)
		r.busy[l.sender] = l
	}
	l.refs++
	return true
}

// unpin gives a reference back. The last one makes the lane idle. The cache may then drop the lane that has been
// idle longest.
func (r *registry) unpin(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.refs--
	if l.refs > 0 {
		return
	}
	delete(r.busy, l.sender)
	if r.idle.Len() >= r.maxIdle {
		if _, old, ok := r.idle.RemoveOldest(); ok && old.timer != nil {
			old.timer.Stop() // else it would keep the lane in memory until it fires
		}
	}
	r.idle.Add(l.sender, l)
}

// inUse tells whether anybody uses the sender's lane.
func (r *registry) inUse(sender common.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.busy[sender]
	return ok
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
