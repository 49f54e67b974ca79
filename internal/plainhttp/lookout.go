package plainhttp

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// lookPace is how often somebody looks after the requests that are answered later.
const lookPace = time.Second

// lookout looks after the connections that have no goroutine, because their requests are answered later. One
// goroutine does it for all of them, and only while there are any.
type lookout struct {
	l *Listener

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	runs  bool               // guarded by mu
}

func (o *lookout) add(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = make(map[*conn]struct{})
	}
	o.conns[c] = struct{}{}
	if !o.runs {
		o.runs = true
		go o.run()
	}
}

func (o *lookout) remove(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, c)
}

func (o *lookout) run() {
	ticker := time.NewTicker(lookPace)
	defer ticker.Stop()
	for o.look() {
		select {
		case <-ticker.C:
		case <-o.l.ctx.Done():
			o.abandon()
			return
		}
	}
}

// look finds those whose client has gone, or whose time is up. The result is false if there is nobody to look after.
// The kernel is asked once for each, so look does not keep others from their requests meanwhile.
func (o *lookout) look() bool {
	o.mu.Lock()
	gone := slices.Collect(maps.Keys(o.conns))
	o.mu.Unlock()
	gone = slices.DeleteFunc(gone, func(c *conn) bool { return !c.clientGone() })
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range gone {
		if _, still := o.conns[c]; still {
			c.cancel()
			o.giveUp(c)
		}
	}
	now := time.Now()
	for c := range o.conns {
		if now.After(c.deadline) {
			o.giveUp(c)
		}
	}
	o.runs = len(o.conns) > 0
	return o.runs
}

// abandon gives all up: the contexts of all requests have ended.
func (o *lookout) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		o.giveUp(c)
	}
	o.runs = false
}

// giveUp needs mu.
func (o *lookout) giveUp(c *conn) {
	delete(o.conns, c)
	go c.expire()
}
