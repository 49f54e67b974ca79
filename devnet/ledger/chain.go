package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hedera"
)

// chain is the history: closed blocks, the block that is being filled, and the
// ways to find a record. The ledger's lock guards it.
type chain struct {
	blocks []*Block // closed, oldest first, numbers without gaps
	open   *Block   // nil between blocks
	limit  int      // maximum of closed blocks that are kept

	weightLimit int64 // maximum of bytes that are kept, roughly
	weight      int64 // bytes of the closed blocks

	// Records of the open block are in these too; views filter by time.
	byHash    map[[32]byte]int64
	byID      map[hedera.TransactionID][]*Record
	byTxHash  map[[32]byte]*Record
	byEthHash map[common.Hash][]*Record

	// touched lists, per closed block, what got a new version in it, so that the
	// versions can go when the block goes.
	touched     [][]versions.Ref
	openTouched []versions.Ref

	running [4]state.Hash48 // running hashes of the newest records, newest first
	chosen  *state.Hash48   // randomness that a tool chose for the block that is open or next; nil: none
}

func newChain(limit int, weightLimit int64) *chain {
	return &chain{
		limit: limit, weightLimit: weightLimit,
		byHash:    map[[32]byte]int64{},
		byID:      map[hedera.TransactionID][]*Record{},
		byTxHash:  map[[32]byte]*Record{},
		byEthHash: map[common.Hash][]*Record{},
	}
}

// latest returns the newest block that ended by a time; the oldest kept one when
// none did.
func (c *chain) latest(ns int64) *Block {
	last := len(c.blocks) - 1
	if c.blocks[last].To.UnixNano() <= ns {
		return c.blocks[last]
	}
	i := sort.Search(last, func(i int) bool { return c.blocks[i].To.UnixNano() > ns })
	return c.blocks[max(i-1, 0)]
}

// newest is the block that was closed last.
func (c *chain) newest() *Block { return c.blocks[len(c.blocks)-1] }

// number returns a closed block that is still kept, or nil.
func (c *chain) number(n int64) *Block {
	i := n - c.blocks[0].Number
	if i < 0 || i >= int64(len(c.blocks)) {
		return nil
	}
	return c.blocks[i]
}

// nextNumber is the number of the open block or, without one, of the next.
func (c *chain) nextNumber() int64 {
	if len(c.blocks) == 0 {
		return 0
	}
	return c.blocks[len(c.blocks)-1].Number + 1
}

// enter puts a handled transaction and its children, in consensus order, into the
// open block, which begins with it when there is none.
func (c *chain) enter(records []*Record, size int) {
	if c.open == nil {
		c.open = c.newBlock(records[0].Consensus)
	}
	b := c.open
	for _, r := range records {
		r.Block, r.Position = b.Number, len(b.Records)
		b.Records = append(b.Records, r)
		b.To = r.Consensus
		b.count(r)
		c.advanceRunning(r)
		c.find(r)
		if r.IsChild() {
			continue
		}
		if r.Result != nil && r.Result.Index >= 0 {
			b.GasUsed += r.Result.GasUsed
		}
		for _, l := range r.Logs() {
			for i, bits := range l.Bloom() {
				b.Bloom[i] |= bits
			}
		}
	}
	b.Size += size
}

// find makes a record known by its id and its hashes.
func (c *chain) find(r *Record) {
	if r.IsChild() {
		return
	}
	c.byID[r.ID] = append(c.byID[r.ID], r)
	c.byTxHash[[32]byte(r.Hash[:32])] = r
	if r.EthereumHash != (common.Hash{}) {
		c.byEthHash[r.EthereumHash] = append(c.byEthHash[r.EthereumHash], r)
	}
}

// count adds a record to what the block knows of its records.
func (b *Block) count(r *Record) {
	b.weight += weigh(r)
	if r.IsChild() {
		return
	}
	b.logs += len(r.Logs())
	if executed := r.Result != nil && r.Result.Index >= 0; executed || r.Result == nil && len(r.Logs()) > 0 {
		b.results++
	}
}

// newBlock is the next block, of no records yet.
func (c *chain) newBlock(at hedera.Timestamp) *Block {
	const size = 600 // bytes, with its place in the index
	return &Block{Number: c.nextNumber(), From: at, To: at, weight: size}
}

// advanceRunning chains a record into the running hash. The previous ones are the
// source of the EVM's randomness.
func (c *chain) advanceRunning(r *Record) {
	h := sha512.New384()
	h.Write(c.running[0][:])
	h.Write(r.Hash[:])
	var fixed [16]byte
	binary.BigEndian.PutUint64(fixed[:8], uint64(r.Consensus.UnixNano()))
	binary.BigEndian.PutUint64(fixed[8:], uint64(r.Status))
	h.Write(fixed[:])
	copy(c.running[1:], c.running[:3])
	h.Sum(c.running[0][:0])
}

// seed is the randomness a transaction sees: the running hash three records back, unless a tool
// chose another.
func (c *chain) seed() state.Hash48 {
	if c.chosen != nil {
		return *c.chosen
	}
	return c.running[3]
}

// closeOpen ends the open block and publishes it. It returns nil when there is none.
func (c *chain) closeOpen() *Block {
	b := c.open
	if b == nil {
		return nil
	}
	if n := len(c.blocks); n > 0 {
		b.Previous = c.blocks[n-1].Hash
	}
	h := sha512.New384()
	h.Write(b.Previous[:])
	var fixed [24]byte
	binary.BigEndian.PutUint64(fixed[:8], uint64(b.Number))
	binary.BigEndian.PutUint64(fixed[8:16], uint64(b.From.UnixNano()))
	binary.BigEndian.PutUint64(fixed[16:], uint64(b.To.UnixNano()))
	h.Write(fixed[:])
	h.Write(c.running[0][:])
	h.Sum(b.Hash[:0])

	c.blocks = append(c.blocks, b)
	c.weight += b.weight
	c.touched = append(c.touched, c.openTouched)
	c.byHash[[32]byte(b.Hash[:32])] = b.Number
	c.open, c.openTouched, c.chosen = nil, nil, nil
	return b
}

// begin makes a block of another history the first one of this.
func (c *chain) begin(b *Block) *Block {
	b.weight = c.newBlock(b.From).weight
	c.blocks, c.touched = append(c.blocks, b), append(c.touched, nil)
	c.weight += b.weight
	c.byHash[[32]byte(b.Hash[:32])] = b.Number
	return b
}

// weigh estimates what a record costs in memory: the fixed part, with its place in
// indexes and new versions of state, and what varies much.
func weigh(r *Record) int64 {
	const fixed, perLog, perChange, perAction = 2_600, 200, 300, 280
	weight := int64(fixed)
	if m := r.Did().Message; m != nil {
		weight += int64(len(m.Contents))
	}
	if e := r.Result; e != nil {
		weight += int64(len(e.Input) + len(e.Raw) + len(e.Output))
		for _, l := range e.Logs {
			weight += int64(perLog + len(l.Data))
		}
		for i := range e.Actions {
			weight += int64(perAction + len(e.Actions[i].Input) + len(e.Actions[i].Result))
		}
		weight += perChange * int64(len(e.StateChanges))
	}
	return weight
}

// forget drops the oldest blocks beyond the limits, with every version of the
// state that only they could show.
func (c *chain) forget() {
	for len(c.blocks) > c.limit || c.weight > c.weightLimit && len(c.blocks) > 1 {
		c.weight -= c.blocks[0].weight
		b, touched := c.blocks[0], c.touched[0]
		c.blocks, c.touched = c.blocks[1:], c.touched[1:]
		delete(c.byHash, [32]byte(b.Hash[:32]))
		for _, r := range b.Records {
			c.forgetRecord(r)
		}
		for _, row := range touched {
			row.Prune(b.To.UnixNano())
		}
	}
}

func (c *chain) forgetRecord(r *Record) {
	if r.IsChild() {
		return
	}
	dropFirst(c.byID, r.ID)
	if key := [32]byte(r.Hash[:32]); c.byTxHash[key] == r {
		delete(c.byTxHash, key)
	}
	if r.EthereumHash != (common.Hash{}) {
		dropFirst(c.byEthHash, r.EthereumHash)
	}
}

// dropFirst removes the oldest record of a key: blocks go oldest first, and so do
// the records in each list.
func dropFirst[K comparable](m map[K][]*Record, key K) {
	if list := m[key]; len(list) > 1 {
		m[key] = append([]*Record(nil), list[1:]...)
		return
	}
	delete(m, key)
}

// consensusOrder is a bounded log of what consensus saw.
type consensusOrder struct {
	entries []ConsensusEntry // oldest first
	next    int64            // sequence number of the next entry
	limit   int
}

func (o *consensusOrder) add(e ConsensusEntry) {
	e.Sequence = o.next
	o.next++
	o.entries = append(o.entries, e)
	if len(o.entries) > 2*o.limit { // trimmed in steps, so that it costs little
		o.entries = append([]ConsensusEntry(nil), o.entries[len(o.entries)-o.limit:]...)
	}
}

func (o *consensusOrder) since(sequence int64, limit int) []ConsensusEntry {
	if len(o.entries) == 0 || sequence >= o.next {
		return nil
	}
	skip := max(sequence-o.entries[0].Sequence, 0)
	entries := o.entries[skip:]
	return append([]ConsensusEntry(nil), entries[:min(len(entries), max(limit, 0))]...)
}
