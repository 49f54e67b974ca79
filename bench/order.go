package bench

import "github.com/ethereum/go-ethereum/common"

// wrongNonceStatus is how consensus names a transaction whose nonce was not next.
const wrongNonceStatus = "WRONG_NONCE"

// A sighting is one transaction of the load at its place in the order of the chain.
type sighting struct {
	tx         int // number in the run
	wrongNonce bool
}

// findings is what an order shows.
type findings struct {
	outOfOrder int          // transactions seen after a higher nonce of their sender
	duplicates int          // sightings of a transaction beyond its first
	wrongNonce map[int]bool // transactions whose first sighting was refused for its nonce
	wrongSeen  int          // sightings refused for their nonce
}

// inspect goes through an order. Only the first sighting of a transaction says
// something about its place.
func inspect(txs []transfer, order []sighting) findings {
	f := findings{wrongNonce: make(map[int]bool)}
	seen := make(map[int]bool, len(order))
	highest := make(map[int]uint64)
	for _, s := range order {
		if s.wrongNonce {
			f.wrongSeen++
		}
		if seen[s.tx] {
			f.duplicates++
			continue
		}
		seen[s.tx] = true
		if s.wrongNonce {
			f.wrongNonce[s.tx] = true
		}
		t := txs[s.tx]
		if top, any := highest[t.sender]; any && t.nonce < top {
			f.outOfOrder++
		} else {
			highest[t.sender] = t.nonce
		}
	}
	return f
}

// indexOf maps the hashes of a run to its transactions.
func indexOf(txs []transfer) map[common.Hash]int {
	index := make(map[common.Hash]int, len(txs))
	for i := range txs {
		index[txs[i].hash] = i
	}
	return index
}
