package ledger

import (
	"bytes"
	"iter"
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// View is the ledger as a mirror node shows it at one moment: closed blocks with
// their records, and the state at the end of the newest of them. It never changes
// and may be shared; what it shows goes away only when it falls out of the
// ledger's history.
type View struct{ reader }

func (l *Ledger) viewAt(asOf int64) *View { return &View{reader{l: l, asOf: asOf, shared: true}} }

// At returns the view as it was at t, which may lie inside a block: what happened
// later is invisible. A time after the view's own gives the view itself.
func (v *View) At(t hedera.Timestamp) *View {
	return v.l.viewAt(min(t.UnixNano(), v.asOf))
}

// Time returns the consensus time the view stands at.
func (v *View) Time() hedera.Timestamp { return hedera.FromNanos(v.asOf) }

// LatestBlock returns the newest block. There is always one: block 0 is made
// with the ledger.
func (v *View) LatestBlock() *Block {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.l.chain.latest(v.asOf)
}

// OldestBlock returns the oldest block that is still kept.
func (v *View) OldestBlock() *Block {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.l.chain.blocks[0]
}

// BlockByNumber returns a closed block, and false when it does not exist (yet) or
// is no longer kept.
func (v *View) BlockByNumber(number int64) (*Block, bool) {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	b := v.l.chain.number(number)
	if b == nil || b.To.UnixNano() > v.asOf {
		return nil, false
	}
	return b, true
}

// BlockByHash finds a block by its 48-byte hash or the first 32 bytes of it.
func (v *View) BlockByHash(hash []byte) (*Block, bool) {
	if len(hash) != 32 && len(hash) != 48 {
		return nil, false
	}
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	number, ok := v.l.chain.byHash[[32]byte(hash[:32])]
	if !ok {
		return nil, false
	}
	b := v.l.chain.number(number)
	if b == nil || b.To.UnixNano() > v.asOf || !bytes.Equal(b.Hash[:len(hash)], hash) {
		return nil, false
	}
	return b, true
}

// BlockAt returns the newest block whose first timestamp is not after t.
func (v *View) BlockAt(t hedera.Timestamp) (*Block, bool) {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	blocks := v.visible()
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].From.Compare(t) > 0 })
	if i == 0 {
		return nil, false
	}
	return blocks[i-1], true
}

// Blocks returns the kept blocks of the view, oldest first. The slice is shared.
func (v *View) Blocks() []*Block {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.visible()
}

// visible needs the lock.
func (v *View) visible() []*Block {
	blocks := v.l.chain.blocks
	n := len(blocks)
	if n > 0 && blocks[n-1].To.UnixNano() > v.asOf {
		n = sort.Search(n, func(i int) bool { return blocks[i].To.UnixNano() > v.asOf })
	}
	return blocks[:n:n]
}

// Records yields the records with low ≤ consensus time ≤ high, children included,
// in consensus order or, with descending, in the opposite one.
func (v *View) Records(low, high hedera.Timestamp, descending bool) iter.Seq[*Record] {
	blocks := v.Blocks()
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].To.Compare(low) >= 0 })
	last := sort.Search(len(blocks), func(i int) bool { return blocks[i].From.Compare(high) > 0 })
	if first >= last {
		return func(func(*Record) bool) {}
	}
	blocks = blocks[first:last]
	inside := func(r *Record) bool { return r.Consensus.Compare(low) >= 0 && r.Consensus.Compare(high) <= 0 }
	return func(yield func(*Record) bool) {
		for i := range blocks {
			records := blocks[i].Records
			if descending {
				records = blocks[len(blocks)-1-i].Records
			}
			for j := range records {
				r := records[j]
				if descending {
					r = records[len(records)-1-j]
				}
				if inside(r) && !yield(r) {
					return
				}
			}
		}
	}
}

// RecordAt returns the record with exactly that consensus time.
func (v *View) RecordAt(t hedera.Timestamp) (*Record, bool) {
	for r := range v.Records(t, t, false) {
		return r, true
	}
	return nil, false
}

// RecordsByID returns the submitted transactions with that id (more than one when
// duplicates reached consensus) and their children, in consensus order.
func (v *View) RecordsByID(id hedera.TransactionID) []*Record {
	id.Nonce = 0
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.withChildren(v.l.chain.byID[id])
}

// RecordsByHash finds records by the 48-byte hash of the HAPI transaction, or its
// first 32 bytes, children included.
func (v *View) RecordsByHash(hash []byte) []*Record {
	if len(hash) != 32 && len(hash) != 48 {
		return nil
	}
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	r := v.l.chain.byTxHash[[32]byte(hash[:32])]
	if r == nil || !bytes.Equal(r.Hash[:len(hash)], hash) {
		return nil
	}
	return v.withChildren([]*Record{r})
}

// RecordsByEthereumHash returns the attempts to handle an Ethereum transaction, in
// consensus order, without children. Most have one; a resubmission after a wrong
// nonce has more.
func (v *View) RecordsByEthereumHash(hash common.Hash) []*Record {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(v.l.chain.byEthHash[hash]), v.hidden)
}

func (v *View) hidden(r *Record) bool { return r.Consensus.UnixNano() > v.asOf }

func (v *View) withChildren(parents []*Record) []*Record {
	var all []*Record
	for _, r := range parents {
		all = append(append(all, r), r.Children...)
	}
	all = slices.DeleteFunc(all, v.hidden)
	slices.SortFunc(all, func(a, b *Record) int { return a.Consensus.Compare(b.Consensus) })
	return all
}

// Resolve finds the entity behind an EVM address, long-zero or alias.
func (v *View) Resolve(a common.Address) (hedera.ID, bool) {
	num, row := v.find(a)
	return hedera.Entity(num), row.Value != nil
}

// ResolveAlias finds the account behind an alias: a 20-byte EVM address or a
// serialised key.
func (v *View) ResolveAlias(alias []byte) (hedera.ID, bool) {
	if len(alias) == common.AddressLength {
		return v.Resolve(common.Address(alias))
	}
	num, row := v.findAlias(alias)
	return hedera.Entity(num), row.Value != nil
}

// Account returns an account or contract, deleted ones included.
func (v *View) Account(id hedera.ID) (Account, bool) {
	row := v.l.world.entities.read(&v.reader, numberIn(id))
	if row.Value == nil {
		return Account{}, false
	}
	return row.Value.account(id.Num, row.At), true
}

// AccountByAddress returns the account or contract behind an EVM address.
func (v *View) AccountByAddress(a common.Address) (Account, bool) {
	id, ok := v.Resolve(a)
	if !ok {
		return Account{}, false
	}
	return v.Account(id)
}

// Accounts yields accounts and contracts with low ≤ number ≤ high by number,
// ascending or descending.
func (v *View) Accounts(low, high int64, descending bool) iter.Seq[Account] {
	numbers := v.l.world.entities.readKeys(&v.reader, low, high)
	if descending {
		slices.Reverse(numbers)
	}
	return func(yield func(Account) bool) {
		for _, num := range numbers {
			if a, ok := v.Account(hedera.Entity(num)); ok && !yield(a) {
				return
			}
		}
	}
}

// Storage returns one storage word of a contract; a slot never written is zero.
func (v *View) Storage(contract hedera.ID, key common.Hash) StorageSlot {
	value, since := v.slot(contract.Num, v.l.world.entities.read(&v.reader, contract.Num).Value, key)
	found := StorageSlot{Slot: key, Value: value}
	if since != 0 {
		found.Modified = hedera.FromNanos(since)
	}
	return found
}

// StorageSlots returns every slot a contract ever wrote, by slot ascending, those
// that are zero again included.
func (v *View) StorageSlots(contract hedera.ID) []StorageSlot {
	var slots []StorageSlot
	for _, key := range v.l.world.slots.readKeys(&v.reader, slotKey{Contract: contract.Num}, slotKey{contract.Num, common.MaxHash}) {
		if row := v.l.world.slots.read(&v.reader, key); row.Value != nil {
			slots = append(slots, StorageSlot{Slot: key.Slot, Value: *row.Value, Modified: hedera.FromNanos(row.At)})
		}
	}
	return slots
}

// File returns a file as it is now, whatever the time of the view: there is no
// history of contents. Deleted files are included.
func (v *View) File(id hedera.ID) (File, bool) {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	f := v.l.world.files[id.Num]
	if f == nil || id.Shard != 0 || id.Realm != 0 {
		return File{}, false
	}
	return *f, true
}

// ConsensusLog returns the Ethereum transactions that consensus saw, from the
// sequence number on, oldest first, with a maximum of limit. It is not delayed by
// blocks or by the time of the view. Entries that were dropped are left out.
func (v *View) ConsensusLog(since int64, limit int) []ConsensusEntry {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.l.order.since(since, limit)
}

// ChainID returns the EVM chain id.
func (v *View) ChainID() uint64 { return v.l.cfg.ChainID }

// GasPrice returns the network's price of a unit of gas.
func (v *View) GasPrice() hedera.Tinybar { return v.l.gasPrice() }

// ExchangeRate returns the price of hbar in US cents as the network states it.
func (v *View) ExchangeRate() ExchangeRate { return v.l.rate() }

// Nodes returns the consensus nodes, by node id.
func (v *View) Nodes() []NodeInfo {
	v.l.mu.RLock()
	defer v.l.mu.RUnlock()
	return v.l.nodes
}

// Supply returns the total and the released supply. The treasury and the reward
// and reserve accounts up to 0.0.750 hold what is not released.
func (v *View) Supply() (total, released hedera.Tinybar) {
	for a := range v.Accounts(0, 1<<62, false) {
		total += a.Balance
		if a.ID.Num > lastSystemNumber {
			released += a.Balance
		}
	}
	return total, released
}

// numberIn is the number of an id of this network's shard and realm; no other one is anything's.
func numberIn(id hedera.ID) int64 {
	if id.Shard != 0 || id.Realm != 0 {
		return -1
	}
	return id.Num
}

// Token returns a token, deleted ones included.
func (v *View) Token(id hedera.ID) (Token, bool) {
	return rowAt(v, &v.l.world.tokens, numberIn(id))
}

// Tokens yields tokens with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Tokens(low, high int64, descending bool) iter.Seq[*Token] {
	return rowsAt(v, &v.l.world.tokens, low, high, descending)
}

// Topic returns a topic, deleted ones included.
func (v *View) Topic(id hedera.ID) (Topic, bool) {
	return rowAt(v, &v.l.world.topics, numberIn(id))
}

// Schedule returns a schedule, those that executed, expired or were deleted included.
func (v *View) Schedule(id hedera.ID) (Schedule, bool) {
	return rowAt(v, &v.l.world.schedules, numberIn(id))
}

// Schedules yields schedules with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Schedules(low, high int64, descending bool) iter.Seq[*Schedule] {
	return rowsAt(v, &v.l.world.schedules, low, high, descending)
}

// Relation returns the relation of an account with a token.
func (v *View) Relation(account, token hedera.ID) (Relation, bool) {
	return rowAt(v, &v.l.world.relations, relationKey{account.Num, token.Num})
}

// Relations yields the relations of an account by token number.
func (v *View) Relations(account hedera.ID, descending bool) iter.Seq[*Relation] {
	return rowsAt(v, &v.l.world.relations, relationKey{account.Num, 0}, relationKey{account.Num, every}, descending)
}

// Holders yields the relations with a token by account number.
func (v *View) Holders(token hedera.ID, descending bool) iter.Seq[*Relation] {
	keys := v.l.world.holders.readKeys(&v.reader, relationKey{token.Num, 0}, relationKey{token.Num, every})
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*Relation) bool) {
		for _, key := range keys {
			if r, ok := v.Relation(hedera.Entity(key.Token), token); ok && !yield(&r) { // the two have changed places
				return
			}
		}
	}
}

// NFT returns one NFT, burned ones included.
func (v *View) NFT(token hedera.ID, serial int64) (NFT, bool) {
	return rowAt(v, &v.l.world.nfts, nftKey{token.Num, serial})
}

// NFTs yields the NFTs of a token with low ≤ serial ≤ high, burned ones included.
func (v *View) NFTs(token hedera.ID, low, high int64, descending bool) iter.Seq[*NFT] {
	return rowsAt(v, &v.l.world.nfts, nftKey{token.Num, low}, nftKey{token.Num, high}, descending)
}

// Allowances yields what an owner lets others spend, by spender and then token.
func (v *View) Allowances(owner hedera.ID, descending bool) iter.Seq[*Allowance] {
	return rowsAt(v, &v.l.world.allowances, allowanceKey{Owner: owner.Num}, allowanceKey{owner.Num, every, every}, descending)
}

// NFTAllowances yields the permissions to transfer all NFTs of a token: those that an
// owner gave, or all with owner 0.
func (v *View) NFTAllowances(owner hedera.ID, descending bool) iter.Seq[*NFTAllowance] {
	low, high := allowanceKey{Owner: owner.Num}, allowanceKey{owner.Num, every, every}
	if owner.IsZero() {
		high.Owner = every
	}
	return rowsAt(v, &v.l.world.nftAllowances, low, high, descending)
}

// Airdrops yields the pending airdrops of a sender, by receiver, token and serial, or with
// received those that an account may claim, by sender, token and serial.
func (v *View) Airdrops(party hedera.ID, received, descending bool) iter.Seq[*Airdrop] {
	low, high := airdropKey{Sender: party.Num}, airdropKey{party.Num, every, every, every}
	if !received {
		return rowsAt(v, &v.l.world.airdrops, low, high, descending)
	}
	keys := v.l.world.claimable.readKeys(&v.reader, low, high)
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*Airdrop) bool) {
		for _, key := range keys {
			if a, ok := rowAt(v, &v.l.world.airdrops, key.turned()); ok && !yield(&a) {
				return
			}
		}
	}
}
