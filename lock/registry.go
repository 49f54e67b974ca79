package lock

import (
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// registry finds the lane of a sender. A lane in use is out of the cache's reach, so that a flood of other senders
// can never sweep it away; the cache bounds the idle ones only. Its mutex may be locked under a lane's, never the other way.
type registry struct {
	mu   sync.Mutex
	busy map[common.Address]*lane
	idle *simplelru.LRU[common.Address, *lane] // one larger than most
	most int                                   // idle lanes
}

func newRegistry(most int) (*registry, error) {
	cache, err := simplelru.NewLRU[common.Address, *lane](most+1, nil)
	if err != nil {
		return nil, err
	}
	return &registry{busy: make(map[common.Address]*lane), idle: cache, most: most}, nil
}

// lane returns the sender's lane, with its mu locked.
func (s *Service) lane(sender common.Address) *lane {
	for {
		l := s.reg.find(s, sender)
		if l.mu.Lock(); !l.gone {
			return l
		}
		l.mu.Unlock()
	}
}

func (r *registry) find(svc *Service, sender common.Address) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.busy[sender]; ok {
		return l
	}
	if l, ok := r.idle.Peek(sender); ok {
		return l
	}
	l := newLane(svc, sender)
	r.busy[sender] = l
	return l
}

// note notes whether a lane is in use. It returns a lane to sweep, if too many are idle.
func (r *registry) note(l *lane, busy bool) (old *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if busy {
		r.idle.Remove(l.sender)
		r.busy[l.sender] = l
		return nil
	}
	delete(r.busy, l.sender)
	r.idle.Add(l.sender, l)
	if r.idle.Len() > r.most {
		_, old, _ = r.idle.GetOldest()
	}
	return old
}

// sweep forgets a lane that is idle. Whoever has found it before, and locks it, sees that it is gone.
func (r *registry) sweep(l *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.gone {
		return
	}
	l.gone = true
	if l.timer != nil {
		l.timer.Stop() // else it would keep the lane in memory until it fires
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.Remove(l.sender)
}

// inUse tells whether anybody uses the sender's lane.
func (r *registry) inUse(sender common.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.busy[sender]
	return ok
}

// lanes returns the lanes in use, and the idle ones if all is set.
func (r *registry) lanes(all bool) []*lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*lane, 0, len(r.busy))
	for _, l := range r.busy {
		out = append(out, l)
	}
	if all {
		out = append(out, r.idle.Values()...)
	}
	return out
}

// each calls f for lanes, with their mu locked.
func (s *Service) each(all bool, f func(*lane)) {
	for _, l := range s.reg.lanes(all) {
		if l.mu.Lock(); l.gone {
			l.mu.Unlock()
			continue
		}
		f(l)
		l.unlock()
	}
}

// sizes returns the numbers of lanes in use and idle.
func (r *registry) sizes() (busy, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.busy), r.idle.Len()
}
