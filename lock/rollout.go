package lock

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
)

// rollout decides which senders are ordered. It depends on settings and the address
// alone, so that all instances agree.
type rollout struct {
	listed map[common.Address]struct{}
	limit  uint32 // senders whose hash is below it are in, of rolloutSlots

	percent float64 // the settings that it was made from
	senders envx.Strings
}

const rolloutSlots = 1 << 20

// AllSenders is what Ordered says while ordering is limited to no senders.
const AllSenders = "all senders"

func newRollout(cfg Config) *rollout {
	r := &rollout{limit: uint32(cfg.Percent / 100 * rolloutSlots), percent: cfg.Percent, senders: cfg.Senders}
	if len(cfg.Senders) == 0 {
		return r
	}
	r.listed = make(map[common.Address]struct{}, len(cfg.Senders))
	for _, s := range cfg.Senders {
		r.listed[common.HexToAddress(s)] = struct{}{}
	}
	if cfg.Percent == 100 {
		r.limit = 0 // a list with the percentage left alone means "only these"
	}
	return r
}

func (r *rollout) equal(other *rollout) bool {
	return r.limit == other.limit && maps.Equal(r.listed, other.listed)
}

// String says in words which senders are ordered.
func (r *rollout) String() string {
	share := strconv.FormatFloat(r.percent, 'g', -1, 64) + " %"
	if r.limit == 0 {
		share = "0 %" // also of a share too small for a single slot
	}
	switch listed := len(r.listed); {
	case r.limit == rolloutSlots:
		return AllSenders
	case listed == 0:
		return share + " of senders"
	case r.limit == 0 && listed == 1:
		return "1 listed sender"
	case r.limit == 0:
		return fmt.Sprintf("%d listed senders", listed)
	default:
		return fmt.Sprintf("%d listed and %s of the others", listed, share)
	}
}

func (r *rollout) includes(sender common.Address) bool {
	if r.limit == rolloutSlots {
		return true
	}
	if _, ok := r.listed[sender]; ok {
		return true
	}
	if r.limit == 0 {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write(sender[:])
	// The top bits of this hash mix better than its low ones.
	return h.Sum32()>>12 < r.limit
}
