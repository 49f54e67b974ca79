package consensus

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// pool is a set of nodes. It never changes; each node keeps its own health.
type pool []*node

// best returns the node for a sender: the one with the highest rendezvous score
// among the healthy nodes not in tried. Where there is none, it falls back to the
// unhealthy node that is due first. It returns nil when all are tried.
//
// Every process with the same node list ranks them the same, and a node that
// comes or goes moves only the senders that were or will be its own.
func (p pool) best(sender common.Address, tried []*node) *node {
	now := time.Now()
	key := senderKey(sender)
	var chosen, fallback *node
	var top uint64
	for _, n := range p {
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

func (p pool) find(id hedera.ID) *node {
	for _, n := range p {
		if n.id == id {
			return n
		}
	}
	return nil
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
