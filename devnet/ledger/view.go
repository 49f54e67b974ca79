package ledger

import (
	"context"
	"iter"
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// View is the ledger as a mirror node shows it at one moment: closed blocks with
// their records, and the state at the end of the newest of them. It never changes
// and may be shared; what it shows goes away only when it falls out of the
// ledger's history.
type View struct {
	l      *Ledger
	reader state.Reader
}

func (l *Ledger) viewAt(asOf int64) *View {
	return &View{l, state.Reader{Store: l.store, AsOf: asOf, Shared: true}}
}

// At returns the view as it was at t, which may lie inside a block: what happened
// later is invisible. A time after the view's own gives the view itself.
func (v *View) At(t hedera.Timestamp) *View {
	return v.l.viewAt(min(t.UnixNano(), v.reader.AsOf))
}

// Time returns the consensus time the view stands at.
func (v *View) Time() hedera.Timestamp { return hedera.FromNanos(v.reader.AsOf) }

// read looks at the history under the store's lock.
func read[V any](v *View, look func(*history.Chain) V) V {
	v.l.store.RLock()
	defer v.l.store.RUnlock()
	return look(v.l.chain)
}

// LatestBlock returns the newest block. There is always one: block 0 is made
// with the ledger.
func (v *View) LatestBlock() *history.Block {
	return read(v, func(c *history.Chain) *history.Block { return c.Latest(v.reader.AsOf) })
}

// OldestBlock returns the oldest block that is still kept.
func (v *View) OldestBlock() *history.Block { return read(v, (*history.Chain).Oldest) }

// block is one that the view has.
func (v *View) block(look func(*history.Chain) *history.Block) (*history.Block, bool) {
	b := read(v, look)
	if b == nil || b.To.UnixNano() > v.reader.AsOf {
		return nil, false
	}
	return b, true
}

// BlockByNumber returns a closed block, and false when it does not exist (yet) or
// is no longer kept.
func (v *View) BlockByNumber(number int64) (*history.Block, bool) {
	return v.block(func(c *history.Chain) *history.Block { return c.Number(number) })
}

// BlockByHash finds a block by its 48-byte hash or the first 32 bytes of it.
func (v *View) BlockByHash(hash []byte) (*history.Block, bool) {
	if len(hash) != 32 && len(hash) != 48 {
		return nil, false
	}
	return v.block(func(c *history.Chain) *history.Block { return c.BlockHashed(hash) })
}

// Blocks returns the kept blocks of the view, oldest first. The slice is shared.
func (v *View) Blocks() []*history.Block {
	return read(v, func(c *history.Chain) []*history.Block { return c.UpTo(v.reader.AsOf) })
}

// Records yields the records with low ≤ consensus time ≤ high, children included,
// in consensus order or, with descending, in the opposite one.
func (v *View) Records(low, high hedera.Timestamp, descending bool) iter.Seq[*history.Record] {
	blocks := v.Blocks()
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].To.Compare(low) >= 0 })
	last := sort.Search(len(blocks), func(i int) bool { return blocks[i].From.Compare(high) > 0 })
	if first >= last {
		return func(func(*history.Record) bool) {}
	}
	blocks = blocks[first:last]
	inside := func(r *history.Record) bool { return r.Consensus.Compare(low) >= 0 && r.Consensus.Compare(high) <= 0 }
	return func(yield func(*history.Record) bool) {
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
func (v *View) RecordAt(t hedera.Timestamp) (*history.Record, bool) {
	for r := range v.Records(t, t, false) {
		return r, true
	}
	return nil, false
}

// RecordsByID returns the submitted transactions with that id (more than one when
// duplicates reached consensus) and their children, in consensus order.
func (v *View) RecordsByID(id hedera.TransactionID) []*history.Record {
	id.Nonce = 0
	return v.withChildren(read(v, func(c *history.Chain) []*history.Record { return c.Named(id) }))
}

// RecordsByHash finds records by the 48-byte hash of the HAPI transaction, or its
// first 32 bytes, children included.
func (v *View) RecordsByHash(hash []byte) []*history.Record {
	if len(hash) != 32 && len(hash) != 48 {
		return nil
	}
	r := read(v, func(c *history.Chain) *history.Record { return c.RecordHashed(hash) })
	if r == nil {
		return nil
	}
	return v.withChildren([]*history.Record{r})
}

// RecordsByEthereumHash returns the attempts to handle an Ethereum transaction, in
// consensus order, without children. Most have one; a resubmission after a wrong
// nonce has more.
func (v *View) RecordsByEthereumHash(hash common.Hash) []*history.Record {
	return slices.DeleteFunc(read(v, func(c *history.Chain) []*history.Record { return c.Attempts(hash) }), v.hidden)
}

func (v *View) hidden(r *history.Record) bool { return r.Consensus.UnixNano() > v.reader.AsOf }

func (v *View) withChildren(parents []*history.Record) []*history.Record {
	var all []*history.Record
	for _, r := range parents {
		all = append(append(all, r), r.Children...)
	}
	all = slices.DeleteFunc(all, v.hidden)
	slices.SortFunc(all, func(a, b *history.Record) int { return a.Consensus.Compare(b.Consensus) })
	return all
}

// Resolve finds the entity behind an EVM address, long-zero or alias.
func (v *View) Resolve(a common.Address) (hedera.ID, bool) {
	num, row := v.reader.Find(a)
	return hedera.Entity(num), row.Value != nil
}

// ResolveAlias finds the account behind an alias: a 20-byte EVM address or a
// serialised key.
func (v *View) ResolveAlias(alias []byte) (hedera.ID, bool) {
	if len(alias) == common.AddressLength {
		return v.Resolve(common.Address(alias))
	}
	num, row := v.reader.FindAlias(alias)
	return hedera.Entity(num), row.Value != nil
}

// Account returns an account or contract, deleted ones included.
func (v *View) Account(id hedera.ID) (state.Account, bool) {
	row := v.l.store.World.Entities.Read(&v.reader, numberIn(id))
	if row.Value == nil {
		return state.Account{}, false
	}
	return row.Value.Account(id.Num, row.At), true
}

// AccountByAddress returns the account or contract behind an EVM address.
func (v *View) AccountByAddress(a common.Address) (state.Account, bool) {
	id, ok := v.Resolve(a)
	if !ok {
		return state.Account{}, false
	}
	return v.Account(id)
}

// Accounts yields accounts and contracts with low ≤ number ≤ high by number,
// ascending or descending.
func (v *View) Accounts(low, high int64, descending bool) iter.Seq[state.Account] {
	numbers := v.l.store.World.Entities.ReadKeys(&v.reader, low, high)
	if descending {
		slices.Reverse(numbers)
	}
	return func(yield func(state.Account) bool) {
		for _, num := range numbers {
			if a, ok := v.Account(hedera.Entity(num)); ok && !yield(a) {
				return
			}
		}
	}
}

// Storage returns one storage word of a contract; a slot never written is zero.
func (v *View) Storage(contract hedera.ID, key common.Hash) state.StorageSlot {
	value, since := v.reader.Slot(contract.Num, v.l.store.World.Entities.Read(&v.reader, contract.Num).Value, key)
	found := state.StorageSlot{Slot: key, Value: value}
	if since != 0 {
		found.Modified = hedera.FromNanos(since)
	}
	return found
}

// StorageSlots returns every slot a contract ever wrote, by slot ascending, those
// that are zero again included.
func (v *View) StorageSlots(contract hedera.ID) []state.StorageSlot {
	var slots []state.StorageSlot
	for _, key := range v.l.store.World.Slots.ReadKeys(&v.reader, state.SlotKey{Contract: contract.Num}, state.SlotKey{Contract: contract.Num, Slot: common.MaxHash}) {
		if row := v.l.store.World.Slots.Read(&v.reader, key); row.Value != nil {
			slots = append(slots, state.StorageSlot{Slot: key.Slot, Value: *row.Value, Modified: hedera.FromNanos(row.At)})
		}
	}
	return slots
}

// File returns a file as it is now, whatever the time of the view: there is no
// history of contents. Deleted files are included.
func (v *View) File(id hedera.ID) (state.File, bool) {
	v.l.store.RLock()
	defer v.l.store.RUnlock()
	f := v.l.store.World.Files[id.Num]
	if f == nil || id.Shard != 0 || id.Realm != 0 {
		return state.File{}, false
	}
	return *f, true
}

// ConsensusLog returns the Ethereum transactions that consensus saw, from the
// sequence number on, oldest first, with a maximum of limit. It is not delayed by
// blocks or by the time of the view. Entries that were dropped are left out.
func (v *View) ConsensusLog(since int64, limit int) []history.ConsensusEntry {
	return read(v, func(*history.Chain) []history.ConsensusEntry { return v.l.order.Since(since, limit) })
}

// ChainID returns the EVM chain id.
func (v *View) ChainID() uint64 { return v.l.cfg.ChainID }

// GasPrice returns the network's price of a unit of gas.
func (v *View) GasPrice() hedera.Tinybar { return v.l.net.GasPrice() }

// ExchangeRate returns the price of hbar in US cents as the network states it.
func (v *View) ExchangeRate() core.ExchangeRate { return v.l.net.Rate }

// Nodes returns the consensus nodes, by node id.
func (v *View) Nodes() []NodeInfo {
	return read(v, func(*history.Chain) []NodeInfo { return v.l.nodes })
}

// Supply returns the total and the released supply. The treasury and the reward
// and reserve accounts up to 0.0.750 hold what is not released.
func (v *View) Supply() (total, released hedera.Tinybar) {
	for a := range v.Accounts(0, 1<<62, false) {
		total += a.Balance
		if a.ID.Num > state.LastSystemNumber {
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
func (v *View) Token(id hedera.ID) (state.Token, bool) {
	return state.RowAt(&v.reader, &v.l.store.World.Tokens, numberIn(id))
}

// Tokens yields tokens with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Tokens(low, high int64, descending bool) iter.Seq[*state.Token] {
	return state.RowsAt(&v.reader, &v.l.store.World.Tokens, low, high, descending)
}

// Topic returns a topic, deleted ones included.
func (v *View) Topic(id hedera.ID) (state.Topic, bool) {
	return state.RowAt(&v.reader, &v.l.store.World.Topics, numberIn(id))
}

// Schedule returns a schedule, those that executed, expired or were deleted included.
func (v *View) Schedule(id hedera.ID) (state.Schedule, bool) {
	return state.RowAt(&v.reader, &v.l.store.World.Schedules, numberIn(id))
}

// Schedules yields schedules with low ≤ number ≤ high by number, ascending or descending.
func (v *View) Schedules(low, high int64, descending bool) iter.Seq[*state.Schedule] {
	return state.RowsAt(&v.reader, &v.l.store.World.Schedules, low, high, descending)
}

// Relation returns the relation of an account with a token.
func (v *View) Relation(account, token hedera.ID) (state.Relation, bool) {
	return state.RowAt(&v.reader, &v.l.store.World.Relations, state.RelationKey{Account: account.Num, Token: token.Num})
}

// Relations yields the relations of an account by token number.
func (v *View) Relations(account hedera.ID, descending bool) iter.Seq[*state.Relation] {
	return state.RowsAt(&v.reader, &v.l.store.World.Relations, state.RelationKey{Account: account.Num, Token: 0}, state.RelationKey{Account: account.Num, Token: state.Last}, descending)
}

// Holders yields the relations with a token by account number.
func (v *View) Holders(token hedera.ID, descending bool) iter.Seq[*state.Relation] {
	return joined(v.l.store.World.Holders.ReadKeys(&v.reader, state.RelationKey{Account: token.Num, Token: 0}, state.RelationKey{Account: token.Num, Token: state.Last}), descending,
		func(key state.RelationKey) (state.Relation, bool) { return v.Relation(hedera.Entity(key.Token), token) }) // the two have changed places
}

// joined yields the rows that there are for the keys of another table.
func joined[K, V any](keys []K, descending bool, row func(K) (V, bool)) iter.Seq[*V] {
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*V) bool) {
		for _, key := range keys {
			if r, ok := row(key); ok && !yield(&r) {
				return
			}
		}
	}
}

// NFT returns one NFT, burned ones included.
func (v *View) NFT(token hedera.ID, serial int64) (state.NFT, bool) {
	return state.RowAt(&v.reader, &v.l.store.World.NFTs, state.NFTKey{Token: token.Num, Serial: serial})
}

// NFTs yields the NFTs of a token with low ≤ serial ≤ high, burned ones included.
func (v *View) NFTs(token hedera.ID, low, high int64, descending bool) iter.Seq[*state.NFT] {
	return state.RowsAt(&v.reader, &v.l.store.World.NFTs, state.NFTKey{Token: token.Num, Serial: low}, state.NFTKey{Token: token.Num, Serial: high}, descending)
}

// Allowances yields what an owner lets others spend, by spender and then token.
func (v *View) Allowances(owner hedera.ID, descending bool) iter.Seq[*state.Allowance] {
	return state.RowsAt(&v.reader, &v.l.store.World.Allowances, state.AllowanceKey{Owner: owner.Num}, state.AllowanceKey{Owner: owner.Num, Token: state.Last, Spender: state.Last}, descending)
}

// NFTAllowances yields the permissions to transfer all NFTs of a token: those that an
// owner gave, or all with owner 0.
func (v *View) NFTAllowances(owner hedera.ID, descending bool) iter.Seq[*state.NFTAllowance] {
	low, high := state.AllowanceKey{Owner: owner.Num}, state.AllowanceKey{Owner: owner.Num, Token: state.Last, Spender: state.Last}
	if owner.IsZero() {
		high.Owner = state.Last
	}
	return state.RowsAt(&v.reader, &v.l.store.World.NFTAllowances, low, high, descending)
}

// Airdrops yields the pending airdrops of a sender, by receiver, token and serial, or with
// received those that an account may claim, by sender, token and serial.
func (v *View) Airdrops(party hedera.ID, received, descending bool) iter.Seq[*state.Airdrop] {
	low, high := state.AirdropKey{Sender: party.Num}, state.AirdropKey{Sender: party.Num, Receiver: state.Last, Token: state.Last, Serial: state.Last}
	if !received {
		return state.RowsAt(&v.reader, &v.l.store.World.Airdrops, low, high, descending)
	}
	return joined(v.l.store.World.Claimable.ReadKeys(&v.reader, low, high), descending, func(key state.AirdropKey) (state.Airdrop, bool) {
		return state.RowAt(&v.reader, &v.l.store.World.Airdrops, key.Turned())
	})
}

// Call simulates a transaction on the state of the view. The sender's balance must
// cover the value but not the gas, and the nonce does not matter. The error is
// ErrSenderNotFound or the context's.
func (v *View) Call(ctx context.Context, req evm.CallRequest) (evm.CallResult, error) {
	return v.l.engine.Simulate(ctx, v.reader.AsOf, req, v.env())
}

// Estimate finds a gas limit that is enough, as the network's mirror node does: after a run with all gas it tries a
// little more than what that used, then halves what is unknown, and never answers less than 5 % above the gas used.
// With Config.ExactEstimates it finds the lowest limit. A result that is not SUCCESS says why no limit is enough; the
// gas is then meaningless.
func (v *View) Estimate(ctx context.Context, req evm.CallRequest) (uint64, evm.CallResult, error) {
	return v.l.engine.Estimate(ctx, v.reader.AsOf, req, v.nextEnv(), v.l.cfg.ExactEstimates)
}

// nextEnv is the block that an estimate is for: the one after the newest of the view, where that
// is the newest there is. What it estimates will run there, and may wait for its time.
func (v *View) nextEnv() evm.BlockEnv {
	env := v.env()
	if v.reader.AsOf < v.l.newest.Load().reader.AsOf {
		return env
	}
	env.Number, env.Hashes = env.Number+1, v.hashes(env.Number+1)
	env.Time = max(env.Time, v.l.nextSecond())
	return env
}

// env is the block that a call runs in: the newest of the view.
func (v *View) env() evm.BlockEnv {
	b := v.LatestBlock()
	return evm.BlockEnv{
		Number: b.Number, Time: b.From.Seconds, Seed: b.Hash, Hashes: v.hashes(b.Number),
	}
}

// hashes is what BLOCKHASH shows in a block.
func (v *View) hashes(current int64) func(uint64) common.Hash {
	return func(n uint64) common.Hash {
		if hash, ok := v.l.store.Fork.BlockHash(current, n); ok {
			return hash
		}
		return read(v, func(c *history.Chain) common.Hash { return c.Hash(current, n) })
	}
}

// Opcodes runs a transaction again on the state it ran on, and collects every step.
// The errors are ErrNotExecuted, ErrTraceTooLarge and the context's.
func (v *View) Opcodes(ctx context.Context, r *history.Record, with evm.OpcodeOptions) (*evm.OpcodeTrace, error) {
	return v.l.engine.Replay(ctx, r, v.envOf(r), with)
}

// envOf is the block a transaction ran in.
func (v *View) envOf(r *history.Record) evm.BlockEnv {
	env := evm.BlockEnv{Number: r.Block, Time: r.Consensus.Seconds, Seed: r.Seed, Hashes: v.hashes(r.Block)}
	if b := read(v, func(c *history.Chain) *history.Block { return c.Number(r.Block) }); b != nil {
		env.Time = b.From.Seconds
	}
	return env
}
