package access

import "sync"

// Places are room for what is open for a while, such as a stream or a call that waits. Tenants share it fairly, and without a
// setting for each: a tenant gets another place only while it has fewer than are free. Alone it can have half of them, and two
// greedy ones a third each, so whoever comes next finds room. Switches share their buffers between ports by the same rule.
type Places struct {
	mu   sync.Mutex // guards all below
	free int
	held map[string]int // by tenant; no entry for 0
}

// NewPlaces makes room for so many at once. A single tenant alone gets half of it, and at least one.
func NewPlaces(size int) *Places { return &Places{free: size, held: map[string]int{}} }

// Take returns how to give a place back, or nil if the tenant has its share already. Giving it back twice is a mistake.
func (p *Places) Take(tenant string) (giveBack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[tenant] >= p.free {
		return nil
	}
	p.free--
	p.held[tenant]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free++
		if p.held[tenant]--; p.held[tenant] == 0 {
			delete(p.held, tenant)
		}
	}
}
