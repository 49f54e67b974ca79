package capacity

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// freeBytes is what a request may hold that counts nowhere.
	freeBytes = 8 << 10
	// stepBytes is in what pieces a holding takes from the process.
	stepBytes = 16 << 10
)

// ErrClosed says that a request has been answered already.
var ErrClosed = errors.New("the request has been answered already")

// Holding is what one request holds. A nil Holding, and the zero one, have no limit. It is
// safe for concurrent use.
type Holding struct {
	memory *Memory
	client string // "": not asked for yet
	ip     string
	whole  *Holding // that this one is a part of; nil: none

	mu     sync.Mutex
	held   int64 // guarded by mu
	taken  int64 // from memory, for held; guarded by mu
	closed bool  // guarded by mu
	ran    time.Duration
}

// Open makes a holding of the client at an address.
func (m *Memory) Open(ip string) *Holding { return &Holding{memory: m, ip: ip} }

// Begin is Open for a holding that is part of something else. The memory may be nil: the
// holding has no limit then.
func (a *Holding) Begin(m *Memory, ip string) { a.memory, a.ip = m, ip }

// Client returns whose holding it is, as ClientOf names it; empty for nobody's.
func (a *Holding) Client() string {
	if a == nil || a.memory == nil {
		return ""
	}
	if a.whole != nil {
		return a.whole.Client()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner()
}

// owner needs mu. Most requests never ask.
func (a *Holding) owner() string {
	if a.client == "" {
		a.client = ClientOf(a.ip)
	}
	return a.client
}

// Take adds bytes that the request holds from now on. The error is an *Exceeded or
// ErrClosed, and then nothing is added.
func (a *Holding) Take(bytes int) error {
	err := a.take(bytes)
	if e, ok := err.(*Exceeded); ok { //nolint:errorlint // take does not wrap
		a.memory.metrics.refused.WithLabelValues(string(e.Scope)).Inc()
	}
	return err
}

// TryTake is Take for what can be done without: that it fails is not counted as a refusal.
func (a *Holding) TryTake(bytes int) bool { return a.take(bytes) == nil }

func (a *Holding) take(bytes int) error {
	if a == nil || a.memory == nil || bytes <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	held := a.held + int64(bytes)
	if a.whole != nil {
		err := a.whole.take(bytes)
		if err == nil {
			a.held = held
		}
		return err
	}
	if held > a.memory.perRequest {
		return a.memory.exceeded(ScopeRequest)
	}
	if more := counted(held) - a.taken; more > 0 {
		if err := a.memory.take(a.owner(), more); err != nil {
			return err
		}
		a.taken += more
	}
	a.held = held
	return nil
}

// counted is what of the bytes that a request holds counts.
func counted(held int64) int64 {
	if held <= freeBytes {
		return 0
	}
	return (held + stepBytes - 1) / stepBytes * stepBytes
}

// Give takes back bytes that the request does not hold any more.
func (a *Holding) Give(bytes int) {
	if a == nil || a.memory == nil || bytes <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	before := a.held
	a.held = max(0, a.held-int64(bytes))
	a.settle(before)
}

// settle gives back what is not held any more; before is what was held. It needs mu.
func (a *Holding) settle(before int64) {
	if a.whole != nil {
		a.whole.Give(int(before - a.held))
		return
	}
	taken := counted(a.held)
	if less := a.taken - taken; less > 0 {
		a.memory.give(a.owner(), less)
		a.taken = taken
	}
}

// Close gives everything back. Work that goes on nevertheless gets nothing more.
func (a *Holding) Close() {
	if a == nil || a.memory == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	before := a.held
	a.held = 0
	a.settle(before)
}

// Held returns how many bytes the request holds.
func (a *Holding) Held() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// spend adds time for which the request has had the processor. The error is an *Exceeded:
// it has had as much as a request may have.
func (a *Holding) spend(ran time.Duration) error {
	if a == nil || a.memory == nil {
		return nil
	}
	if a.whole != nil {
		return a.whole.spend(ran)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ran += ran; a.ran > a.memory.perRequestTime {
		a.memory.metrics.refused.WithLabelValues(string(ScopeTime)).Inc()
		return a.memory.exceeded(ScopeTime)
	}
	return nil
}

// Key is the key under which contexts have a holding.
type Key struct{}

// FromContext returns the holding of the request that a context belongs to; nil, which has
// no limit, for none.
func FromContext(ctx context.Context) *Holding {
	a, _ := ctx.Value(Key{}).(*Holding)
	return a
}

// Part returns a context with a part of the holding of the one given, and that part: what it
// holds the whole holding holds, too, and closing it gives that back.
func Part(ctx context.Context) (context.Context, *Holding) {
	p := &part{Context: ctx}
	if whole := FromContext(ctx); whole != nil {
		p.holding.memory, p.holding.whole = whole.memory, whole
	}
	return p, &p.holding
}

// part is a context with a holding, in one piece.
type part struct {
	context.Context
	holding Holding
}

func (p *part) Value(key any) any {
	if key == (Key{}) {
		return &p.holding
	}
	return p.Context.Value(key)
}

// ClientOf names the client that an address belongs to: of IPv6 the first 64 bits, which
// are one customer's.
func ClientOf(ip string) string {
	if !strings.Contains(ip, ":") {
		return ip
	}
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	return ClientOfAddr(address)
}

// ClientOfAddr is ClientOf for an address that is read already.
func ClientOfAddr(address netip.Addr) string {
	const customer = 64 // bits
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(customer); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}
