package consensus

import (
	"bytes"
	"encoding/binary"
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
	current atomic.Pointer[[]*node]

	mu      sync.Mutex // serialises changes; guards all below
	retired []*node    // to be closed with the others, if their time is not over before
	closed  bool
}

// all returns the nodes, none before the first list.
func (r *roster) all() []*node {
	if nodes := r.current.Load(); nodes != nil {
		return *nodes
	}
	return nil
}

// best returns the node for a sender: the one with the highest rendezvous score
// among the healthy nodes not in tried. Where there is none, it falls back to the
// unhealthy node that is due first. It returns nil when all are tried.
//
// Every process with the same node list ranks them the same, and a node that
// comes or goes moves only the senders that were or will be its own.
func (r *roster) best(sender common.Address, tried []*node) *node {
	now := time.Now()
	key := senderKey(sender)
	var chosen, fallback *node
	var top uint64
	for _, n := range r.all() {
		if slices.Contains(tried, n) {
			continue
		}
		if !n.healthy(now) {
			if fallback == nil || n.retryAt.Load() < fallback.retryAt.Load() {
				fallback = n
			}
			continue
		}
		if score := mix(key ^ n.seed); chosen == nil || score > top {
			chosen, top = n, score
		}
	}
	if chosen == nil {
		return fallback
	}
	return chosen
}

func (r *roster) find(id hedera.ID) *node {
	for _, n := range r.all() {
		if n.id == id {
			return n
		}
	}
	return nil
}

// set replaces the nodes. One whose addresses and certificate are the same stays,
// with its connections and its health; the others are closed after a while. It returns the nodes
// that are new and those that left.
func (r *roster) set(addresses []NodeAddress) (joined, left []*node, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, ErrClosed
	}
	old := r.all()
	next := make([]*node, 0, len(addresses))
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
			time.AfterFunc(retireAfter, func() { _ = n.close() }) // nobody uses it any more
		}
	}
	r.retired = append(r.retired, left...)
	r.current.Store(&next)
	return joined, left, nil
}

// sameAs tells whether two nodes are reached in the same way.
func (n *node) sameAs(other *node) bool {
	return n.id == other.id && n.secure == other.secure && slices.Equal(n.address, other.address) &&
		bytes.Equal(n.certHash, other.certHash)
}

// close closes every node for ever.
func (r *roster) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, n := range append(slices.Clone(r.all()), r.retired...) {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// senderKey folds an address into 64 well-spread bits.
func senderKey(a common.Address) uint64 {
	h := mix(binary.BigEndian.Uint64(a[0:8]))
	h = mix(h ^ binary.BigEndian.Uint64(a[8:16]))
	return mix(h ^ uint64(binary.BigEndian.Uint32(a[16:20])))
}

// nodeSeed gives each node account its own place in the hash.
func nodeSeed(id hedera.ID) uint64 {
	return mix(mix(mix(uint64(id.Shard))^uint64(id.Realm)) ^ uint64(id.Num))
}

// mix is the finalizer of SplitMix64: a bijection in which every input bit reaches
// every output bit. The constants must not change, or senders change their nodes.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
