package ledger

import (
	"compress/gzip"
	"fmt"
	"io"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/codec"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hedera"
)

// Load replaces all that there is by what [Ledger.Save] wrote; of blocks it keeps as many as
// Config says. The clock is as far ahead of the machine's as it was. Consensus nodes stay in the
// address book. What cannot be read changes nothing, and of more than limit bytes nothing is read.
func (l *Ledger) Load(r io.Reader, limit int64) error {
	if l.fork != nil {
		return ErrForked
	}
	loaded, err := l.read(r, limit)
	if err != nil {
		return err
	}
	l.handling.Lock()
	defer l.handling.Unlock()
	l.mu.Lock()
	l.adopt(loaded)
	l.mu.Unlock()
	l.wake() // schedules may be due
	l.subscribers.notify()
	return nil
}

// loading is saved state that is being read.
type loading struct {
	*codec.Decoder
	header header
	world  *world
	chain  *chain
}

func (l *Ledger) read(r io.Reader, limit int64) (*loading, error) {
	sum := codec.Layout(stateTypes()...)
	begin := make([]byte, len(stateMagic)+len(sum))
	n, err := io.ReadFull(r, begin)
	switch {
	case n < len(stateMagic) || string(begin[:len(stateMagic)]) != stateMagic:
		return nil, ErrNotState
	case err != nil:
		return nil, errDamaged(err)
	case [32]byte(begin[len(stateMagic):]) != sum:
		return nil, ErrOtherVersion
	}
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, errDamaged(err)
	}
	in := &io.LimitedReader{R: unzipped, N: limit}
	s := &loading{Decoder: codec.NewDecoder(in), world: newWorld(nil), chain: newChain(l.cfg.History, l.cfg.HistoryBytes)}
	s.Get(&s.header)
	s.entities()
	s.tables()
	s.blocks()
	s.End() // the checksum comes last
	switch {
	case in.N == 0:
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	case s.Err() != nil:
		return nil, errDamaged(s.Err())
	case s.header.ChainID != l.cfg.ChainID:
		return nil, fmt.Errorf("%w: its chain id is %d and not %d", ErrOtherNetwork, s.header.ChainID, l.cfg.ChainID)
	}
	return s, l.knows(s.world)
}

func errDamaged(err error) error { return fmt.Errorf("it is damaged: %w", err) }

// knows tells whether the accounts of this network are in a world.
func (l *Ledger) knows(w *world) error {
	for _, a := range l.cfg.Accounts {
		if e := w.entities[a.ID.Num]; e == nil || e.versions[0].meta.address != a.EVMAddress() {
			return fmt.Errorf("%w: there account %s is not the one of this network", ErrOtherNetwork, a.ID)
		}
	}
	return nil
}

// adopt makes what was loaded the state of the ledger. The caller holds both locks.
func (l *Ledger) adopt(s *loading) {
	h := &s.header
	l.world, l.chain = s.world, s.chain
	l.nextNum, l.lastTime, l.settled = h.NextNum, h.LastTime, h.Settled
	l.nextTime.Store(h.NextTime)
	l.offset.Store(h.Offset)
	l.order.entries, l.order.next = h.Order, h.Sequence
	l.published = h.AsOf
	l.chain.forget(l.world)
	l.bookFiles()
	l.newest.Store(&View{l: l, asOf: h.AsOf})
	l.newGeneration(0, h.Block)
}

func (s *loading) entities() {
	for range s.header.Entities {
		var in savedEntity
		if s.Get(&in); s.Err() != nil {
			return
		}
		s.entity(&in)
	}
	if s.Err() == nil && s.world.entities[treasury] == nil {
		s.Fail(codec.ErrMalformed)
	}
	for _, f := range s.header.Files {
		if f == nil {
			s.Fail(codec.ErrMalformed)
			return
		}
		s.world.files[f.ID.Num] = f
	}
}

func (s *loading) entity(in *savedEntity) {
	if s.world.entities[in.Num] != nil || len(in.Versions) == 0 || in.Versions[0].Described == nil {
		s.Fail(codec.ErrMalformed)
		return
	}
	var described *meta
	for i, v := range in.Versions {
		if v.Described != nil {
			described = metaOf(v.Described)
		}
		made := version{at: v.At, balance: hedera.Tinybar(v.Balance), nonce: v.Nonce, meta: described}
		if i == 0 {
			s.world.add(in.Num, made)
			continue
		}
		s.world.entities[in.Num].versions.Put(made)
		if v.Described != nil {
			s.world.index(in.Num, described)
		}
	}
	e := s.world.entities[in.Num]
	if in.Slots != nil {
		e.slots = make(map[common.Hash]*versions.List[slotVersion], len(in.Slots))
	}
	for _, saved := range in.Slots {
		if len(saved.At) != len(saved.Values) {
			s.Fail(codec.ErrMalformed)
			return
		}
		made := new(versions.List[slotVersion])
		for i, at := range saved.At {
			made.Put(slotVersion{at: at, value: saved.Values[i]})
		}
		e.slots[saved.Key] = made
	}
}

// metaOf is what an account was assembled from.
func metaOf(a *Account) *meta {
	return &meta{
		address: a.Address, alias: a.Alias, key: a.Key, memo: a.Memo, created: a.Created, expires: a.Expires,
		autoRenewPeriod: a.AutoRenewPeriod, autoRenewAccount: a.AutoRenewAccount, maxAutoAssociations: a.MaxAutoAssociations,
		receiverSigRequired: a.ReceiverSigRequired, declineReward: a.DeclineReward, stakedAccount: a.StakedAccount, stakedNode: a.StakedNode, stakePeriodStart: a.StakePeriodStart,
		deleted: a.Deleted, obtainer: a.Obtainer, contract: a.Contract, delegation: a.Delegation,
	}
}

func (s *loading) tables() {
	t := &s.world.tables
	loadTable(s, t.tokens, numbered)
	loadTable(s, t.relations, relationKeyOf)
	loadTable(s, t.holders, relationKeyOf)
	loadTable(s, t.nfts, nftKeyOf)
	loadTable(s, t.allowances, allowanceKeyOf)
	loadTable(s, t.nftAllowances, allowanceKeyOf)
	loadTable(s, t.topics, numbered)
	loadTable(s, t.schedules, numbered)
	loadTable(s, t.expiries, expiryKeyOf)
	loadTable(s, t.identical, func(k Hash48) Hash48 { return k })
	loadTable(s, t.airdrops, airdropKeyOf)
	loadTable(s, t.claimable, airdropKeyOf)
}

// loadTable reads a table. key is what a saved key stands for.
func loadTable[K, S comparable, V any](s *loading, t *table[K, V], key func(S) K) {
	rows := 0
	s.Get(&rows)
	for range rows {
		var row savedRow[S, V]
		if s.Get(&row); s.Err() != nil || len(row.At) != len(row.Rows) {
			s.Fail(codec.ErrMalformed)
			return
		}
		for i, at := range row.At {
			t.Put(key(row.Key), at, row.Rows[i])
		}
	}
}

func (s *loading) blocks() {
	blocks := 0
	for s.Get(&blocks); blocks > 0 && s.Err() == nil; blocks-- {
		var in savedBlock
		if s.Get(&in); s.Err() == nil {
			s.block(&in)
		}
	}
	c := s.chain
	if s.Err() != nil || len(c.blocks) == 0 {
		s.Fail(codec.ErrMalformed)
		return
	}
	c.running = s.header.Running
	c.touched = make([]touchedSet, len(c.blocks))
	for num, e := range s.world.entities {
		for _, v := range e.versions {
			t := c.touchedAt(v.at)
			t.entities = append(t.entities, num)
		}
		for key, slot := range e.slots {
			for _, v := range *slot {
				t := c.touchedAt(v.at)
				t.slots = append(t.slots, slotKey{num, key})
			}
		}
	}
	s.world.tables.touch(c)
}

// block enters a block that is read.
func (s *loading) block(in *savedBlock) {
	c, b := s.chain, in.Block
	if b == nil || len(c.blocks) > 0 && b.Number != c.nextNumber() {
		s.Fail(codec.ErrMalformed)
		return
	}
	made := c.newBlock(b.From)
	b.weight = made.weight
	byTime := map[hedera.Timestamp]*Record{}
	for _, saved := range in.Records {
		r := saved.Record
		if r == nil {
			s.Fail(codec.ErrMalformed)
			return
		}
		r.seed, r.effects = saved.Seed, saved.Effects
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
	c.byHash[[32]byte(b.Hash[:32])] = b.Number
}

// touchedAt is what lists the versions of a time.
func (c *chain) touchedAt(ns int64) *touchedSet {
	i := sort.Search(len(c.blocks)-1, func(i int) bool { return c.blocks[i].To.UnixNano() >= ns })
	return &c.touched[i]
}

// touch lists the versions of all rows where the blocks have them.
func (t *tables) touch(c *chain) {
	touchRows(t.tokens, c)
	touchRows(t.relations, c)
	touchRows(t.holders, c)
	touchRows(t.nfts, c)
	touchRows(t.allowances, c)
	touchRows(t.nftAllowances, c)
	touchRows(t.topics, c)
	touchRows(t.schedules, c)
	touchRows(t.expiries, c)
	touchRows(t.identical, c)
	touchRows(t.airdrops, c)
	touchRows(t.claimable, c)
}

func touchRows[K comparable, V any](t *table[K, V], c *chain) {
	for _, key := range t.Keys() {
		for _, v := range t.Versions(key) {
			touched := c.touchedAt(v.At)
			touched.rows = append(touched.rows, t.Ref(key))
		}
	}
}
