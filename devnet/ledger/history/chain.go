package history

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hedera"
)

// Chain is the history: closed blocks, the block that is being filled, and the
// ways to find a record. The ledger's lock guards it.
type Chain struct {
	blocks []*Block // closed, oldest first, numbers without gaps
	Open   *Block   // nil between blocks
	limit  int      // maximum of closed blocks that are kept

	weightLimit int64 // maximum of bytes that are kept, roughly
	weight      int64 // bytes of the closed blocks

	// Records of the open block are in these too; views filter by time.
	byHash map[common.Hash]int64 // blocks
	byID   map[hedera.TransactionID][]*Record
	byTx   map[common.Hash][]*Record // by the first 32 bytes of their hash, and by that of the Ethereum transaction

	// touched lists, per closed block, what got a new version in it, so that the
	// versions can go when the block goes.
	touched     [][]versions.Ref
	OpenTouched []versions.Ref

	Running [4]state.Hash48 // running hashes of the newest records, newest first
	Chosen  *state.Hash48   // randomness that a tool chose for the block that is open or next; nil: none
}

// NewChain makes a history that keeps so many blocks, and so many bytes of them.
func NewChain(limit int, weightLimit int64) *Chain {
	return &Chain{
		limit: limit, weightLimit: weightLimit,
		byHash: map[common.Hash]int64{}, byID: map[hedera.TransactionID][]*Record{}, byTx: map[common.Hash][]*Record{},
	}
}

// Latest returns the newest block that ended by a time; the oldest kept one when
// none did.
func (c *Chain) Latest(ns int64) *Block {
	last := len(c.blocks) - 1
	if c.blocks[last].To.UnixNano() <= ns {
		return c.blocks[last]
	}
	i := sort.Search(last, func(i int) bool { return c.blocks[i].To.UnixNano() > ns })
	return c.blocks[max(i-1, 0)]
}

// Newest is the block that was closed last.
func (c *Chain) Newest() *Block { return c.blocks[len(c.blocks)-1] }

// Number returns a closed block that is still kept, or nil.
func (c *Chain) Number(n int64) *Block {
	i := n - c.blocks[0].Number
	if i < 0 || i >= int64(len(c.blocks)) {
		return nil
	}
	return c.blocks[i]
}

// Oldest is the one that was closed first of those that are kept.
func (c *Chain) Oldest() *Block { return c.blocks[0] }

// UpTo returns the closed blocks that ended by a time, oldest first. The slice is shared.
func (c *Chain) UpTo(ns int64) []*Block {
	n := len(c.blocks)
	if n > 0 && c.blocks[n-1].To.UnixNano() > ns {
		n = sort.Search(n, func(i int) bool { return c.blocks[i].To.UnixNano() > ns })
	}
	return c.blocks[:n:n]
}

// BlockHashed finds a closed block by its 48-byte hash or the first 32 bytes of it; nil for none.
func (c *Chain) BlockHashed(hash []byte) *Block {
	number, ok := c.byHash[common.Hash(hash[:32])]
	if !ok {
		return nil
	}
	if b := c.Number(number); b != nil && bytes.Equal(b.Hash[:len(hash)], hash) {
		return b
	}
	return nil
}

// Named returns the submitted transactions with an id, oldest first.
func (c *Chain) Named(id hedera.TransactionID) []*Record { return c.byID[id] }

// RecordHashed finds a submitted transaction by its 48-byte hash or the first 32 bytes of it, the newest of duplicates; nil for none.
func (c *Chain) RecordHashed(hash []byte) *Record {
	for _, r := range slices.Backward(c.byTx[common.Hash(hash[:32])]) {
		if bytes.Equal(r.Hash[:len(hash)], hash) {
			return r
		}
	}
	return nil
}

// Attempts returns the records of an Ethereum transaction, oldest first.
func (c *Chain) Attempts(hash common.Hash) []*Record {
	return slices.DeleteFunc(slices.Clone(c.byTx[hash]), func(r *Record) bool { return r.EthereumHash != hash })
}

// NextNumber is the number of the open block or, without one, of the next.
func (c *Chain) NextNumber() int64 {
	if len(c.blocks) == 0 {
		return 0
	}
	return c.blocks[len(c.blocks)-1].Number + 1
}

// Enter puts a handled transaction and its children, in consensus order, into the
// open block, which begins with it when there is none.
func (c *Chain) Enter(records []*Record, size int) {
	c.Begin(records[0].Consensus)
	b := c.Open
	for _, r := range records {
		if !r.IsChild() {
			b.place(r)
		}
		r.Block = b.Number
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
func (c *Chain) find(r *Record) {
	if r.IsChild() {
		return
	}
	c.byID[r.ID] = append(c.byID[r.ID], r)
	for _, hash := range r.hashes() {
		c.byTx[hash] = append(c.byTx[hash], r)
	}
}

// hashes are those by which a record is found.
func (r *Record) hashes() []common.Hash {
	hashes := []common.Hash{common.Hash(r.Hash[:32])}
	if r.EthereumHash != (common.Hash{}) {
		hashes = append(hashes, r.EthereumHash)
	}
	return hashes
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

// Begin opens a block where none is open.
func (c *Chain) Begin(at hedera.Timestamp) {
	if c.Open == nil {
		c.Open = c.newBlock(at)
	}
}

// newBlock is the next block, of no records yet.
func (c *Chain) newBlock(at hedera.Timestamp) *Block {
	const size = 600 // bytes, with its place in the index
	return &Block{Number: c.NextNumber(), From: at, To: at, weight: size}
}

// advanceRunning chains a record into the running hash. The previous ones are the
// source of the EVM's randomness.
func (c *Chain) advanceRunning(r *Record) {
	h := sha512.New384()
	h.Write(c.Running[0][:])
	h.Write(r.Hash[:])
	var fixed [16]byte
	binary.BigEndian.PutUint64(fixed[:8], uint64(r.Consensus.UnixNano()))
	binary.BigEndian.PutUint64(fixed[8:], uint64(r.Status))
	h.Write(fixed[:])
	copy(c.Running[1:], c.Running[:3])
	h.Sum(c.Running[0][:0])
}

// Seed is the randomness a transaction sees: the running hash three records back, unless a tool
// chose another.
func (c *Chain) Seed() state.Hash48 {
	if c.Chosen != nil {
		return *c.Chosen
	}
	return c.Running[3]
}

// CloseOpen ends the open block and publishes it. It returns nil when there is none.
func (c *Chain) CloseOpen() *Block {
	b := c.Open
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
	h.Write(c.Running[0][:])
	h.Sum(b.Hash[:0])

	c.blocks = append(c.blocks, b)
	c.weight += b.weight
	c.touched = append(c.touched, c.OpenTouched)
	c.byHash[common.Hash(b.Hash[:32])] = b.Number
	c.Open, c.OpenTouched, c.Chosen = nil, nil, nil
	return b
}

// Adopt makes a block of another history the first one of this.
func (c *Chain) Adopt(b *Block) *Block {
	b.weight = c.newBlock(b.From).weight
	c.blocks, c.touched = append(c.blocks, b), append(c.touched, nil)
	c.weight += b.weight
	c.byHash[common.Hash(b.Hash[:32])] = b.Number
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

// Forget drops the oldest blocks beyond the limits, with every version of the
// state that only they could show.
func (c *Chain) Forget() {
	for len(c.blocks) > c.limit || c.weight > c.weightLimit && len(c.blocks) > 1 {
		c.weight -= c.blocks[0].weight
		b, touched := c.blocks[0], c.touched[0]
		c.blocks, c.touched = c.blocks[1:], c.touched[1:]
		delete(c.byHash, common.Hash(b.Hash[:32]))
		for _, r := range b.Records {
			c.lose(r, false)
		}
		for _, row := range touched {
			row.Prune(b.To.UnixNano())
		}
	}
}

// lose takes a record's names from it, under which it is the oldest that there is, or the newest.
func (c *Chain) lose(r *Record, newest bool) {
	if r.IsChild() {
		return
	}
	drop(c.byID, r.ID, newest)
	for _, hash := range r.hashes() {
		drop(c.byTx, hash, newest)
	}
}

// drop removes the oldest record of a key, or the newest. Readers may hold the old list.
func drop[K comparable](m map[K][]*Record, key K, newest bool) {
	list, at := slices.Clone(m[key]), 0
	if len(list) <= 1 {
		delete(m, key)
		return
	}
	if newest {
		at = len(list) - 1
	}
	m[key] = slices.Delete(list, at, at+1)
}

// Hash is what BLOCKHASH shows of block n in block current: the first 32 bytes, for
// the last 256 blocks.
func (c *Chain) Hash(current int64, n uint64) common.Hash {
	if n >= uint64(current) || uint64(current)-n > 256 {
		return common.Hash{}
	}
	b := c.Number(int64(n))
	if b == nil {
		return common.Hash{}
	}
	return common.Hash(b.Hash[:32])
}

// place numbers the EVM result and its logs within the block.
func (b *Block) place(r *Record) {
	if r.Result != nil && r.Result.Index < 0 {
		return
	}
	if r.Result != nil {
		r.Result.Index = b.results
	} else if r.Effects != nil {
		r.Effects.Index = b.results
	}
	for i, log := range r.Logs() {
		log.Index = b.logs + i
	}
}

// Rewind goes back to a closed block, with every version of the state that is later.
func (c *Chain) Rewind(to *Block, running [4]state.Hash48) {
	at := to.To.UnixNano()
	if c.Open != nil {
		c.drop(c.Open)
		rewind(c.OpenTouched, at)
		c.Open, c.OpenTouched = nil, nil
	}
	c.Chosen = nil
	keep := int(to.Number - c.blocks[0].Number + 1)
	for i := len(c.blocks) - 1; i >= keep; i-- {
		c.drop(c.blocks[i])
		delete(c.byHash, common.Hash(c.blocks[i].Hash[:32]))
		c.weight -= c.blocks[i].weight
		rewind(c.touched[i], at)
	}
	// Readers may hold the old lists: they are not written over.
	c.blocks, c.touched = slices.Clip(c.blocks[:keep]), slices.Clip(c.touched[:keep])
	c.Running = running
}

// TouchedSoFar is how much of the state the open block has touched, for takeBack.
func (c *Chain) TouchedSoFar() int { return len(c.OpenTouched) }

// TakeBack undoes what the open block touched since then and later than a time.
func (c *Chain) TakeBack(sofar int, ns int64) {
	rewind(c.OpenTouched[sofar:], ns)
	c.OpenTouched = c.OpenTouched[:sofar]
}

// drop forgets the records of a block, which are the newest that there are.
func (c *Chain) drop(b *Block) {
	for _, r := range slices.Backward(b.Records) {
		c.lose(r, true)
	}
}

// rewind takes back what was touched after a time.
func rewind(touched []versions.Ref, ns int64) {
	for _, row := range touched {
		row.Rewind(ns)
	}
}

// SavedBlock is a block, whose records follow it.
type SavedBlock struct {
	Block   *Block
	Records []*Record
}

// Restore enters a block that was saved, and tells whether it may be there.
func (c *Chain) Restore(in *SavedBlock) bool {
	b := in.Block
	if b == nil || len(c.blocks) > 0 && b.Number != c.NextNumber() || slices.Contains(in.Records, nil) {
		return false
	}
	b.weight = c.newBlock(b.From).weight
	byTime := map[hedera.Timestamp]*Record{}
	for _, r := range in.Records {
		b.Records = append(b.Records, r)
		byTime[r.Consensus] = r
		b.count(r)
		c.find(r)
	}
	for _, r := range b.Records {
		if parent := byTime[r.Parent]; r.IsChild() && parent != nil {
			parent.Children = append(parent.Children, r)
		}
	}
	c.blocks = append(c.blocks, b)
	c.weight += b.weight
	c.byHash[common.Hash(b.Hash[:32])] = b.Number
	return true
}

// Restored ends what restore began. There must be a block.
func (c *Chain) Restored(running [4]state.Hash48) bool {
	c.Running, c.touched = running, make([][]versions.Ref, len(c.blocks))
	return len(c.blocks) > 0
}

// TouchedAt is what lists the versions of a time.
func (c *Chain) TouchedAt(ns int64) *[]versions.Ref {
	i := sort.Search(len(c.blocks)-1, func(i int) bool { return c.blocks[i].To.UnixNano() >= ns })
	return &c.touched[i]
}

// Order is a bounded log of what consensus saw.
type Order struct {
	entries []ConsensusEntry // oldest first
	next    int64            // sequence number of the next entry
	limit   int
}

// NewOrder makes a log that keeps so many entries.
func NewOrder(limit int) *Order { return &Order{limit: limit} }

// Add enters a transaction.
func (o *Order) Add(e ConsensusEntry) {
	e.Sequence = o.next
	o.next++
	o.entries = append(o.entries, e)
	if len(o.entries) > 2*o.limit { // trimmed in steps, so that it costs little
		o.entries = append([]ConsensusEntry(nil), o.entries[len(o.entries)-o.limit:]...)
	}
}

// Since returns entries from a sequence number on, with a maximum of limit.
func (o *Order) Since(sequence int64, limit int) []ConsensusEntry {
	if len(o.entries) == 0 || sequence >= o.next {
		return nil
	}
	skip := max(sequence-o.entries[0].Sequence, 0)
	entries := o.entries[skip:]
	return append([]ConsensusEntry(nil), entries[:min(len(entries), max(limit, 0))]...)
}

// SavedOrder is a log in the form in which it is saved.
type SavedOrder struct {
	Sequence int64 // of the next entry
	Entries  []ConsensusEntry
}

// Saved is the log to save.
func (o *Order) Saved() SavedOrder { return SavedOrder{o.next, slices.Clone(o.entries)} }

// Restore replaces the log by a saved one.
func (o *Order) Restore(s SavedOrder) { o.next, o.entries = s.Sequence, s.Entries }
