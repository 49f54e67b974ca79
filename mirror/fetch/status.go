package fetch

import "time"

// UpstreamStatus is the state of a mirror node, as far as requests have shown it.
type UpstreamStatus struct {
	Name string // host and port
	Head uint64 // the highest block that it named; 0: none yet
	Open bool   // all its addresses take requests
	Err  error  // why one of them does not; nil otherwise
}

// Upstreams returns the state of each mirror node, in the order of MIRROR_NODE_URL.
func (f *Fetcher) Upstreams() []UpstreamStatus {
	now := time.Now()
	all := make([]UpstreamStatus, len(f.upstreams))
	for i, u := range f.upstreams {
		all[i] = UpstreamStatus{Name: u.name, Head: u.head.Load(), Open: true}
		for _, d := range []*address{u.rest, u.web3} {
			if err := d.trouble(now); err != nil {
				all[i].Open, all[i].Err = false, err
			}
		}
	}
	return all
}

// trouble returns what stops requests to an address: its last failure, or its own wish; nil if nothing does.
func (b *breaker) trouble(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.closed():
		return b.last
	case now.Before(b.asked):
		return b.refusal
	}
	return nil
}
