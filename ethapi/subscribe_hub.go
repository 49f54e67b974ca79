package ethapi

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

// The events that can be subscribed to.
const (
	eventHeads   = "newHeads"
	eventLogs    = "logs"
	eventPending = "newPendingTransactions"
	eventSyncing = "syncing"
)

// hub knows who wants which events and sends them. Subscriptions of all connections to the same events share a
// stream: an event is matched and encoded once per stream, and all receivers share its bytes.
//
// Nothing waits under the lock: a connection takes a notification at once or ends.
type hub struct {
	limit   int  // subscriptions per connection
	reuse   bool // one subscription per stream and connection
	metrics *subscriptionMetrics
	wake    chan struct{} // receives when position begins

	pendingStreams atomic.Int32 // streams of pending transactions

	mu       sync.Mutex
	streams  map[string]*stream       // guarded by mu; by key
	logs     logIndex                 // guarded by mu; the streams of logs
	matching []*stream                // guarded by mu; empty: memory for the streams of a log
	clients  map[rpc.Notifier]*client // guarded by mu
	position position                 // guarded by mu
}

// position says which blocks have been told. It begins with the first subscription that needs blocks and ends
// with the last one.
type position struct {
	active  bool
	epoch   uint64 // of this beginning
	next    uint64 // number of the first block not told of
	readers int    // subscriptions that need blocks
}

// interest is what a client subscribes to.
type interest struct {
	event string
	full  bool       // whole transactions instead of hashes
	logs  *logFilter // for eventLogs
}

// chain tells whether the events come from blocks.
func (w interest) chain() bool { return w.event == eventHeads || w.event == eventLogs }

// key is equal for interests that give the same events.
func (w interest) key() string {
	switch {
	case w.logs != nil:
		return w.event + w.logs.key
	case w.full:
		return w.event + " full"
	}
	return w.event
}

type stream struct {
	interest
	subscribers           []*subscription // in the order in which they came, but for those that took a place that was left
	events, notifications prometheus.Counter
	active                prometheus.Gauge
}

// enter adds a subscriber. They are told in the order in which they came: so their memory, here and in the kernel, is met in the order in which
// it was taken, and the processor sees it coming.
func (s *stream) enter(sub *subscription) {
	sub.place = len(s.subscribers)
	s.subscribers = append(s.subscribers, sub)
}

// exit takes a subscriber away. The last one gets its place.
func (s *stream) exit(sub *subscription) {
	end := len(s.subscribers) - 1
	last := s.subscribers[end]
	s.subscribers[sub.place], last.place = last, sub.place
	s.subscribers[end] = nil
	s.subscribers = s.subscribers[:end]
}

// client is a connection's subscriptions. There are few, and there may be a hundred thousand clients.
type client struct {
	subscriptions []*subscription
}

// find returns the subscription of an id, nil if there is none. No client, which is nil, has any.
func (c *client) find(id string) *subscription {
	if c == nil {
		return nil
	}
	for _, sub := range c.subscriptions {
		if sub.id == id {
			return sub
		}
	}
	return nil
}

type subscription struct {
	id     string
	conn   rpc.Notifier
	stream *stream
	place  int // among the subscribers of the stream
	since  time.Time

	// Events must not overtake the answer that tells the client the id.
	answered bool
	promised int          // answers under way that name it
	early    []*rpc.Event // from before
	earlySum int          // bytes in early
}

// earlyLimit bounds what waits for one subscription's answer, in bytes.
const earlyLimit = 4 << 20

func newHub(limit int, reuse bool, metrics *subscriptionMetrics) *hub {
	return &hub{
		limit: limit, reuse: reuse, metrics: metrics, wake: make(chan struct{}, 1),
		streams: make(map[string]*stream),
		logs:    make(logIndex),
		clients: make(map[rpc.Notifier]*client),
	}
}

// crowded tells, before any other work, that a connection can have no further subscription.
func (h *hub) crowded(conn rpc.Notifier) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[conn]
	return !h.reuse && c != nil && len(c.subscriptions) >= h.limit
}

// same finds a subscription that can be used again.
func (h *hub) same(c *client, w interest) *subscription {
	if !h.reuse {
		return nil
	}
	s := h.streams[w.key()]
	if s == nil {
		return nil
	}
	for _, sub := range c.subscriptions {
		if sub.stream == s {
			return sub
		}
	}
	return nil
}

// add makes a subscription. baseline, if not nil, is the first block to tell of if nobody wanted blocks before.
// If ready is false, add needs a baseline.
func (h *hub) add(conn rpc.Notifier, w interest, baseline *uint64) (sub *subscription, ready bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[conn]
	if c != nil {
		if sub := h.same(c, w); sub != nil {
			sub.promised++
			return sub, true, nil
		}
		if len(c.subscriptions) >= h.limit {
			return nil, true, eth.ErrTooManySubscriptions
		}
	}
	if w.chain() && !h.position.active {
		if baseline == nil {
			return nil, false, nil
		}
		h.begin(*baseline)
	}
	if c == nil {
		c = new(client)
		h.clients[conn] = c
		conn.OnClose(func() { h.forget(conn) })
	}
	sub = &subscription{id: randomID(), conn: conn, stream: h.join(w), since: time.Now(), promised: 1}
	sub.stream.enter(sub)
	c.subscriptions = append(c.subscriptions, sub)
	if w.chain() {
		h.position.readers++
	}
	sub.stream.active.Inc()
	return sub, true, nil
}

// begin needs mu.
func (h *hub) begin(next uint64) {
	h.position = position{active: true, epoch: h.position.epoch + 1, next: next}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// join finds or makes a stream; it needs mu.
func (h *hub) join(w interest) *stream {
	key := w.key()
	s, ok := h.streams[key]
	if ok {
		return s
	}
	s = &stream{
		interest:      w,
		events:        h.metrics.events.WithLabelValues(w.event),
		notifications: h.metrics.notifications.WithLabelValues(w.event),
		active:        h.metrics.subscriptions.WithLabelValues(w.event),
	}
	h.streams[key] = s
	h.count(s, 1)
	if w.logs != nil {
		h.logs.add(s)
	}
	return s
}

// leave ends a stream without subscribers; it needs mu.
func (h *hub) leave(s *stream) {
	delete(h.streams, s.key())
	h.count(s, -1)
	if s.logs != nil {
		h.logs.remove(s)
	}
}

func (h *hub) count(s *stream, change int) {
	h.metrics.streams.Add(float64(change))
	switch s.event {
	case eventHeads:
		h.metrics.headStreams.Add(float64(change))
	case eventPending:
		h.pendingStreams.Add(int32(change))
	}
}

// answer is called when the client has got the subscription's id, or cannot get it.
func (h *hub) answer(sub *subscription, sent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub.promised--
	switch {
	case sub.answered: // the id was given out again
		return
	case !sent && sub.promised == 0:
		h.remove(sub)
		return
	case !sent:
		return
	}
	sub.answered = true
	if h.clients[sub.conn].find(sub.id) != sub {
		return // closed meanwhile
	}
	if sub.stream.event == eventSyncing {
		h.send(sub, rpc.NewEvent([]byte("false"))) // Ethereum nodes, too, tell at once that they have caught up
	}
	for _, event := range sub.early {
		h.send(sub, event)
	}
	sub.early = nil
}

// publish gives an event to everybody on some streams, who share its bytes; it needs mu.
func (h *hub) publish(result []byte, streams ...*stream) {
	event := rpc.NewEvent(result)
	for _, s := range streams {
		s.events.Inc()
		h.notify(s, event)
	}
}

// notify gives an event to everybody on one stream; it needs mu.
func (h *hub) notify(s *stream, event *rpc.Event) {
	for _, sub := range s.subscribers {
		if sub.answered {
			h.send(sub, event)
			continue
		}
		if sub.earlySum += len(event.Result()); sub.earlySum > earlyLimit {
			sub.conn.TooSlow() // it does not even read its answers
			continue
		}
		sub.early = append(sub.early, event)
	}
}

// send needs mu.
func (h *hub) send(sub *subscription, event *rpc.Event) {
	if sub.conn.Notify(sub.id, event) {
		sub.stream.notifications.Inc()
	}
}

// cancel ends one subscription of a connection.
func (h *hub) cancel(conn rpc.Notifier, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := h.clients[conn].find(id)
	if sub == nil {
		return false
	}
	h.remove(sub)
	return true
}

// forget ends all subscriptions of a connection that has closed.
func (h *hub) forget(conn rpc.Notifier) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[conn]
	if c == nil {
		return
	}
	for _, sub := range slices.Backward(c.subscriptions) {
		h.remove(sub)
	}
	delete(h.clients, conn)
}

// remove needs mu. The entry of the connection stays until it closes, so that its end is never watched twice.
func (h *hub) remove(sub *subscription) {
	c := h.clients[sub.conn]
	if c.find(sub.id) != sub {
		return
	}
	at := slices.Index(c.subscriptions, sub)
	c.subscriptions = slices.Delete(c.subscriptions, at, at+1)
	s := sub.stream
	if s.exit(sub); len(s.subscribers) == 0 {
		h.leave(s)
	}
	sub.early = nil
	s.active.Dec()
	h.metrics.lifetime.Observe(time.Since(sub.since).Seconds())
	if s.chain() {
		if h.position.readers--; h.position.readers == 0 {
			h.position.active = false
		}
	}
}

// randomID makes an id that cannot be guessed.
func randomID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "0x" + hex.EncodeToString(raw[:])
}

// rewinder is a FilterStore that can take cursors back.
type rewinder interface{ rewind(next uint64) }

// WentBack forgets the blocks after a block: a development network can go back to an earlier state. Filters and
// subscriptions then tell of the new blocks after it.
func (s *Subscriptions) WentBack(block uint64) {
	if f, ok := s.api.filters.(rewinder); ok {
		f.rewind(block + 1)
	}
	s.hub.rewind(block + 1)
}

// rewind implements rewinder.
func (s *localFilters) rewind(next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		f := e.Value.(*localFilter)
		f.next = min(f.next, next)
	}
}

// rewind makes a block the next one to tell of, if later ones have been told of. Blocks that are being read
// meanwhile are told to nobody.
func (h *hub) rewind(next uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position.epoch++
	h.position.next = min(h.position.next, next)
}

// logIndex finds the streams that may want a log without asking each of them. A filter stands under the values of
// its most selective part: if many streams watch a token's transfers, each to another account, a transfer finds
// only one of them.
type logIndex map[bucket]map[*stream]struct{}

// bucket is a part of a log with a value.
type bucket struct {
	part  uint8 // 0 to 3: the topic there
	value common.Hash
}

const (
	partAddress = maxTopics + iota
	partNone    // filters that want every log
)

func addressBucket(a common.Address) bucket {
	return bucket{part: partAddress, value: common.BytesToHash(a[:])}
}

// buckets returns the places of a filter. Later topics usually are the parties of an event; the first one is its
// kind.
func (f *logFilter) buckets() (all []bucket) {
	for _, part := range [...]uint8{3, 2, 1} {
		if len(f.topics.at[part]) > 0 {
			return topicBuckets(part, f.topics.at[part])
		}
	}
	switch {
	case len(f.addresses) > 0:
		for _, address := range f.addresses {
			all = append(all, addressBucket(address))
		}
		return all
	case len(f.topics.at[0]) > 0:
		return topicBuckets(0, f.topics.at[0])
	}
	return []bucket{{part: partNone}}
}

func topicBuckets(part uint8, topics []common.Hash) []bucket {
	all := make([]bucket, len(topics))
	for i, topic := range topics {
		all[i] = bucket{part, topic}
	}
	return all
}

func (x logIndex) add(s *stream) {
	for _, b := range s.logs.buckets() {
		if x[b] == nil {
			x[b] = make(map[*stream]struct{}, 1)
		}
		x[b][s] = struct{}{}
	}
}

func (x logIndex) remove(s *stream) {
	for _, b := range s.logs.buckets() {
		if delete(x[b], s); len(x[b]) == 0 {
			delete(x, b)
		}
	}
}

// find calls yield once for each stream that wants the log.
func (x logIndex) find(l *eth.Log, yield func(*stream)) {
	try := func(b bucket) {
		for s := range x[b] {
			if s.logs.matches(l) {
				yield(s)
			}
		}
	}
	try(bucket{part: partNone})
	try(addressBucket(l.Address))
	for i, topic := range l.Topics[:min(len(l.Topics), maxTopics)] {
		try(bucket{uint8(i), topic})
	}
}
