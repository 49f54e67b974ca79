package capacity

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	// slice is how long work that yields runs before others do.
	slice = 20 * time.Millisecond
	// MostWeight is the most places that a piece of work takes.
	MostWeight = 8
	// maxWaiting bounds the pieces of work that wait, and half of it those of one client.
	maxWaiting = 4096
	// maxLines bounds for how many idle clients it is known what they have used.
	maxLines = 4096
)

// Permits decides whose work runs next. It is safe for concurrent use.
type Permits struct {
	places    int // for all work, by weight
	perClient int

	mu      sync.Mutex
	running int              // places; guarded by mu
	waiting int              // pieces of work; guarded by mu
	used    time.Duration    // by the client that began last, when it began; guarded by mu
	lines   map[string]*line // guarded by mu
}

// line is the work of one client. Permits.mu guards it.
type line struct {
	client  string
	running int // places
	used    time.Duration
	queue   []*waiter
}

// waiter is a piece of work that waits. Its channel is closed when it may run.
type waiter struct {
	weight int
	ready  chan struct{}
	line   *line
}

// NewPermits lets work run in so many places, of which perClient is the maximum for one client.
func NewPermits(places, perClient int) *Permits {
	return &Permits{places: places, perClient: perClient, lines: make(map[string]*line)}
}

// NewProcessors makes the permits of what keeps a processor busy.
func NewProcessors(c Config) *Permits { return NewPermits(c.processors(), c.processors()) }

// NewHeavyReads makes the permits of heavy reads.
func NewHeavyReads(c Config) *Permits { return NewPermits(c.HeavyReads, c.HeavyReads/2) }

// Permit is the right of one piece of work to run. It is not safe for concurrent use. A nil
// Permit is one that nobody had to wait for.
type Permit struct {
	permits *Permits
	holding *Holding
	weight  int
	line    *line
	began   time.Time
	on      bool
	timed   bool // the time counts against the request's
	waited  bool // others had all places
}

// Enter waits for a permit. The client is the holding's. Time counts against what a request
// may have if timed is true. The error is that of the context, or an *Exceeded.
func (t *Permits) Enter(ctx context.Context, a *Holding, weight int, timed bool) (*Permit, error) {
	u := &Permit{permits: t, holding: a, weight: min(weight, MostWeight, t.perClient), timed: timed}
	return u, u.Resume(ctx)
}

// Resume waits for the permit again after Pause.
func (u *Permit) Resume(ctx context.Context) error {
	if u == nil || u.on {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := u.permits.join(u.holding.Client(), u.weight)
	if err != nil {
		return err
	}
	select {
	case <-w.ready:
	default:
		u.waited = true
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		u.permits.abandon(w)
		return ctx.Err()
	}
	u.line, u.began, u.on = w.line, time.Now(), true
	return nil
}

// Pause lets others run while this piece of work waits for something else. The error is an
// *Exceeded if the request has had all of its time.
func (u *Permit) Pause() error {
	if u == nil || !u.on {
		return nil
	}
	u.on = false
	ran := time.Since(u.began)
	u.permits.leave(u.line, u.weight, ran)
	if !u.timed {
		return nil
	}
	return u.holding.spend(ran)
}

// Waited tells whether the permit did not come at once.
func (u *Permit) Waited() bool { return u != nil && u.waited }

// Leave ends the permit.
func (u *Permit) Leave() { _ = u.Pause() }

// Yield lets others run if this piece of work has run for a while.
func (u *Permit) Yield(ctx context.Context) error {
	if u == nil || !u.on || time.Since(u.began) < slice {
		return nil
	}
	if err := u.Pause(); err != nil {
		return err
	}
	return u.Resume(ctx)
}

// join puts work into its client's line.
func (t *Permits) join(client string, weight int) (*waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[client]
	if l == nil {
		l = &line{client: client}
		t.lines[client] = l
	}
	switch {
	case t.waiting >= maxWaiting, len(l.queue) >= maxWaiting/2:
		t.forget(l)
		return nil, &Exceeded{Scope: ScopeQueue, Limit: maxWaiting}
	case l.running == 0 && len(l.queue) == 0:
		l.used = max(l.used, t.used) // having been idle is no merit
	}
	if t.waiting == 0 && t.hasRoom(weight) && l.hasRoom(weight, t.perClient) {
		t.begin(l, weight)
		return &waiter{weight: weight, ready: atOnce, line: l}, nil
	}
	w := &waiter{weight: weight, ready: make(chan struct{}), line: l}
	l.queue = append(l.queue, w)
	t.waiting++
	t.next()
	return w, nil
}

// atOnce is ready for work that need not wait.
var atOnce = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// hasRoom tells whether work of that weight may run; it needs mu.
func (t *Permits) hasRoom(weight int) bool { return t.running == 0 || t.running+weight <= t.places }

// hasRoom tells whether the client may have that work, too; it needs Permits.mu.
func (l *line) hasRoom(weight, perClient int) bool {
	return l.running == 0 || l.running+weight <= perClient
}

// begin counts work that runs from now on; it needs mu.
func (t *Permits) begin(l *line, weight int) {
	t.running += weight
	l.running += weight
	t.used = max(t.used, l.used)
}

// next lets work begin while there are places; it needs mu.
func (t *Permits) next() {
	for t.waiting > 0 {
		l := t.least()
		if l == nil {
			return
		}
		w := l.queue[0]
		if !t.hasRoom(w.weight) {
			return
		}
		l.queue[0] = nil
		l.queue = l.queue[1:]
		t.waiting--
		t.begin(l, w.weight)
		close(w.ready)
	}
}

// least finds the client that has used least of those whose work waits and may run. It
// needs mu.
func (t *Permits) least() (found *line) {
	for _, l := range t.lines {
		if len(l.queue) == 0 || !l.hasRoom(l.queue[0].weight, t.perClient) {
			continue
		}
		if found == nil || l.cost() < found.cost() {
			found = l
		}
	}
	return found
}

// cost is what a client has used, with a guess for the work that is not done yet.
func (l *line) cost() time.Duration { return l.used + time.Duration(l.running)*time.Millisecond }

// leave ends work that ran.
func (t *Permits) leave(l *line, weight int, ran time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running -= weight
	l.running -= weight
	if share := time.Duration(weight) * ran; share < math.MaxInt64-l.used {
		l.used += share
	}
	t.next()
	t.forget(l)
}

// abandon ends a wait. The permit may have come in the meantime.
func (t *Permits) abandon(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := w.line
	for i, other := range l.queue {
		if other == w {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			t.waiting--
			t.next() // those behind may be lighter
			t.forget(l)
			return
		}
	}
	t.running -= w.weight
	l.running -= w.weight
	t.next()
	t.forget(l)
}

// forget drops clients without work of whom nothing needs to be known; it needs mu.
func (t *Permits) forget(l *line) {
	if l.running == 0 && len(l.queue) == 0 && l.used <= t.used {
		delete(t.lines, l.client)
	}
	if len(t.lines) <= maxLines {
		return
	}
	for client, other := range t.lines {
		if other.running == 0 && len(other.queue) == 0 {
			delete(t.lines, client)
		}
	}
}
