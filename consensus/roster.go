package consensus

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// retireAfter is how long a node that left the network keeps its connections, for
// the calls and the waits for receipts that still use them.
const retireAfter = 3 * time.Minute

// roster is the set of nodes as it is now. Readers take a snapshot and never wait.
type roster struct {
	secure  bool // TLS for all
	log     *slog.Logger
	probed  atomic.Bool // Run is looking after the nodes
	current atomic.Pointer[pool]

	mu      sync.Mutex // serialises changes; guards all below
	retired []retiree
	closed  bool
}

type retiree struct {
	node  *node
	since time.Time
}

func (r *roster) all() pool { return *r.current.Load() }

func (r *roster) best(sender common.Address, tried []*node) *node { return r.all().best(sender, tried) }

func (r *roster) find(id hedera.ID) *node { return r.all().find(id) }

// set replaces the nodes. One whose addresses and certificate are the same stays,
// with its connections and its health; the others are retired. It returns the nodes
// that are new and those that left.
func (r *roster) set(addresses []NodeAddress) (joined, left []*node, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrClosed
	}
	var old pool
	if p := r.current.Load(); p != nil {
		old = *p
	}
	next := make(pool, 0, len(addresses))
	for _, a := range addresses {
		n := newNode(a, r.secure, &r.probed, r.log)
		if i := slices.IndexFunc(old, n.sameAs); i >= 0 {
			n = old[i]
		} else {
			joined = append(joined, n)
		}
		next = append(next, n)
	}
	for _, n := range old {
		if !slices.Contains(next, n) {
			left = append(left, n)
			r.retired = append(r.retired, retiree{n, time.Now()})
		}
	}
	r.current.Store(&next)
	return joined, left, nil
}

// sameAs tells whether two nodes are reached in the same way.
func (n *node) sameAs(other *node) bool {
	return n.id == other.id && n.secure == other.secure && slices.Equal(n.address, other.address) &&
		bytes.Equal(n.certHash, other.certHash)
}

// sweep closes the nodes that were retired long enough ago.
func (r *roster) sweep(now time.Time) error {
	r.mu.Lock()
	var gone []*node
	r.retired = slices.DeleteFunc(r.retired, func(e retiree) bool {
		over := now.Sub(e.since) >= retireAfter
		if over {
			gone = append(gone, e.node)
		}
		return over
	})
	r.mu.Unlock()
	return closeAll(gone)
}

// close closes every node for ever.
func (r *roster) close() error {
	r.mu.Lock()
	r.closed = true
	nodes := slices.Clone(r.all())
	for _, e := range r.retired {
		nodes = append(nodes, e.node)
	}
	r.retired = nil
	r.mu.Unlock()
	return closeAll(nodes)
}

func closeAll(nodes []*node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}
