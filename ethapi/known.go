package ethapi

import (
	"encoding/json"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

// Nearly all requests ask for the newest block's number, the price of gas, or the newest block itself. While the mirror
// client may still share its last answer, these are answered where the request is read.

func ready(m rpc.Method, known func(p *rpc.Params) (any, bool)) rpc.Method {
	m.Ready = known
	return m
}

func (a *API) knownBlockNumber(*rpc.Params) (any, bool) {
	head, ok := a.mirror.KnownLatestBlock()
	if !ok {
		return nil, false
	}
	return hexutil.Uint64(head.Number), true
}

func (a *API) knownGasPrice(*rpc.Params) (any, bool) {
	fees, ok := a.mirror.KnownFees()
	if !ok || fees.EthereumTransaction <= 0 {
		return nil, false
	}
	return (*hexutil.Big)(a.buffered(fees.EthereumTransaction)), true
}

// knownBlock finds the newest block, by tag or number, and recent ones by hash.
func (a *API) knownBlock(p *rpc.Params) (any, bool) {
	ref, err := blockRef(p.At(0))
	if err != nil {
		return nil, false
	}
	hash, ok := ref.Hash()
	if !ok {
		head, known := a.mirror.KnownLatestBlock()
		if number, ok := ref.Number(); !known || !ref.IsLatest() && (!ok || number != head.Number) {
			return nil, false
		}
		hash = head.Hash
	}
	return a.recent.get(hash, p.Bool(1))
}

// recentBlocks are complete answers about blocks at the head of the chain. Blocks are final, so a right answer
// stays right. The zero value is ready for use.
type recentBlocks struct {
	mu    sync.Mutex
	slots [recentCount]recentBlock // guarded by mu
	next  int                      // guarded by mu; the slot to be filled next
}

type recentBlock struct {
	hash   common.Hash
	full   bool
	answer json.RawMessage // nil: the slot is empty
}

// Bounds of recentBlocks: a few seconds of the chain in both forms, up to 8 MiB.
const (
	recentDepth = 8 // blocks behind the newest
	recentCount = 2 * recentDepth
	recentBytes = 512 << 10 // of one answer
)

// get returns an answer, which must not be changed.
func (r *recentBlocks) get(hash common.Hash, full bool) (any, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer := r.find(hash, full); answer != nil {
		return answer, true
	}
	return nil, false
}

// find is called with mu held.
func (r *recentBlocks) find(hash common.Hash, full bool) json.RawMessage {
	for i := range r.slots {
		if s := &r.slots[i]; s.full == full && s.hash == hash {
			return s.answer
		}
	}
	return nil
}

func (r *recentBlocks) put(hash common.Hash, full bool, answer json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(answer) > recentBytes || r.find(hash, full) != nil {
		return
	}
	r.slots[r.next] = recentBlock{hash, full, answer}
	r.next = (r.next + 1) % len(r.slots)
}

// keep returns the answer that shows b, and keeps it if it will probably be asked for again soon.
func (a *API) keep(c *contents, b *eth.Block) (any, error) {
	head, ok := a.mirror.KnownLatestBlock()
	if !ok || !c.whole || b.Number+recentDepth <= head.Number {
		return b, nil
	}
	answer, err := b.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	a.recent.put(b.Hash, b.Full, answer)
	return json.RawMessage(answer), nil
}
