package watch

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/lease"
)

// shards is how many parts the contracts of a chain are divided into. It is fixed: a contract stays in its shard
// however many processes there are.
const shards = 1024

// Units are what one process owns at a time. Their names are the names of their leases.
func headUnit(chain uint64) string            { return fmt.Sprintf("head:%d", chain) }
func factoryUnit(watch string) string         { return "factory:" + watch }
func shardUnit(chain uint64, n uint32) string { return fmt.Sprintf("shard:%d:%d", chain, n) }

// shardOf returns the shard of a contract. The number of shards is fixed, so a remainder is as stable as any other hash.
func shardOf(address common.Address) uint32 {
	sum := sha256.Sum256(address[:])
	return binary.BigEndian.Uint32(sum[:4]) % shards
}

// loadCap is how much more than its even share of the units a process may get.
const loadCap = 1.1

// assign gives each unit to one of the nodes: to the one that rendezvous hashing prefers, unless that has its share and a tenth
// more. When a node comes or goes, little more than its own share moves. Equal arguments give equal results in every process.
func assign(units, nodes []string) map[string]string {
	owners := make(map[string]string, len(units))
	if len(nodes) == 0 {
		return owners
	}
	room := int(math.Ceil(loadCap * float64(len(units)) / float64(len(nodes))))
	load := make(map[string]int, len(nodes))
	ordered := slices.Clone(units)
	slices.SortFunc(ordered, func(a, b string) int {
		return cmp.Or(cmp.Compare(lease.Score(a, ""), lease.Score(b, "")), strings.Compare(a, b))
	})
	for _, unit := range ordered {
		var best string
		var highest uint64
		for _, node := range nodes {
			if load[node] >= room {
				continue
			}
			if s := lease.Score(unit, node); best == "" || s > highest || s == highest && node < best {
				best, highest = node, s
			}
		}
		owners[unit] = best
		load[best]++
	}
	return owners
}

// pinned gives each shard to the partition of its number, for fleets that are divided by hand. Partitions count from 0.
func pinned(unit string, total int) (partition int, isShard bool) {
	var chain uint64
	var n uint32
	if _, err := fmt.Sscanf(unit, "shard:%d:%d", &chain, &n); err != nil {
		return 0, false
	}
	return int(n) % total, true
}
