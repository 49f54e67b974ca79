package ledger

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"lockstep/devnet/ledger/codec"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// Errors of saved state.
var (
	// ErrNotState is what has another form than saved state.
	ErrNotState = errors.New("it is no saved state")

	// ErrOtherVersion is state that another version of the program saved.
	ErrOtherVersion = errors.New("another version saved it: its layout differs")

	// ErrOtherNetwork is the state of a network with another chain id or other accounts.
	ErrOtherNetwork = errors.New("it is the state of another network")

	// ErrTurnedBack is a ledger that went back while it was saved.
	ErrTurnedBack = errors.New("the ledger went back meanwhile")
)

// stateMagic begins saved state; the layout and a gzip stream follow.
const stateMagic = "lockstep state\n"

// header is what saved state begins with.
type header struct {
	ChainID  uint64
	NextNum  int64
	LastTime int64 // newest consensus time, ns
	Settled  int64
	NextTime int64
	Offset   int64 // of consensus time against the machine's clock, ns
	Running  [4]state.Hash48
	AsOf     int64 // end of the newest block, ns
	Files    []*state.File
	Order    history.SavedOrder
	Block    int64 // the newest one
}

// stateTypes are what saved state is made of.
func stateTypes() []reflect.Type {
	parts := []reflect.Type{reflect.TypeFor[header](), reflect.TypeFor[history.SavedBlock]()}
	return append(parts, state.SavedTypes()...)
}

// Mark tells whether anything happened: it differs after every block and every generation.
type Mark struct {
	Generation uint64
	Block      int64
}

// Mark is the present one.
func (l *Ledger) Mark() Mark {
	return Mark{l.Generation().Number, l.View().LatestBlock().Number}
}

// Save closes the open block, as Snapshot does, and writes all that there is: accounts,
// contracts, storage, tokens, topics, schedules, files, blocks, records, and the clock.
// Transactions are handled meanwhile; they are not in it. It returns the mark of what it wrote.
func (l *Ledger) Save(w io.Writer) (Mark, error) {
	if l.fork != nil {
		return Mark{}, ErrForked
	}
	l.handling.Lock()
	if l.chain.Open != nil {
		l.closeBlock()
	}
	s := l.newSaving()
	l.handling.Unlock()
	return s.write(w)
}

// SaveClosed is Save without what is in an open block: where there is one, it waits for its end.
func (l *Ledger) SaveClosed(ctx context.Context, w io.Writer) (Mark, error) {
	if l.fork != nil {
		return Mark{}, ErrForked
	}
	l.handling.Lock()
	if l.chain.Open == nil {
		s := l.newSaving()
		l.handling.Unlock()
		return s.write(w)
	}
	ended := make(chan *saving, 1)
	l.atClose = append(l.atClose, ended)
	l.handling.Unlock()
	select {
	case s := <-ended:
		return s.write(w)
	case <-ctx.Done():
		return Mark{}, ctx.Err()
	}
}

// beginSaves begins the runs of Save that wait for the end of a block. The caller holds handling.
func (l *Ledger) beginSaves() {
	for _, ended := range l.atClose {
		ended <- l.newSaving()
	}
	l.atClose = nil
}

// Dump is Save into memory, with a maximum of so many bytes.
func (l *Ledger) Dump(limit int) ([]byte, error) {
	var buf bytes.Buffer
	_, err := l.Save(&limited{&buf, limit})
	return buf.Bytes(), err
}

// limited refuses what is too much.
type limited struct {
	io.Writer
	left int
}

func (w *limited) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("the state is too large for one answer")
	}
	return w.Writer.Write(p)
}

// saving is one run of Save. Blocks are immutable, and so are versions that there are: it
// takes the ledger's lock for some of them at a time, and leaves out what came after it began.
// It comes to blocks last, so that it has every version that their time shows.
type saving struct {
	l       *Ledger
	mark    Mark
	header  header
	encoder *codec.Encoder
	to      *gzip.Writer
}

// newSaving notes the present moment, at which no block is open. The caller holds handling.
func (l *Ledger) newSaving() *saving {
	l.store.RLock()
	defer l.store.RUnlock()
	newest := l.chain.Newest()
	files := slices.SortedFunc(maps.Values(l.store.World.Files), func(a, b *state.File) int { return cmp.Compare(a.ID.Num, b.ID.Num) })
	return &saving{
		l: l, encoder: new(codec.Encoder), mark: Mark{l.Generation().Number, newest.Number},
		header: header{
			ChainID: l.cfg.ChainID, NextNum: l.store.NextNum, LastTime: l.lastTime, Settled: l.settled, NextTime: l.nextTime.Load(), Offset: l.offset.Load(),
			Running: l.chain.Running, AsOf: newest.To.UnixNano(), Files: files, Order: l.order.Saved(),
			Block: newest.Number,
		},
	}
}

func (s *saving) write(w io.Writer) (Mark, error) {
	sum := codec.Layout(stateTypes()...)
	if _, err := w.Write(append([]byte(stateMagic), sum[:]...)); err != nil {
		return s.mark, err
	}
	s.to, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // there is this level
	s.encoder.Put(s.header)
	for _, part := range []func() error{s.flush, s.rows, s.blocks, s.to.Close} {
		if err := part(); err != nil {
			return s.mark, err
		}
	}
	if s.l.Generation().Number != s.mark.Generation {
		return s.mark, ErrTurnedBack
	}
	return s.mark, nil
}

// flush writes what is encoded. No lock is held.
func (s *saving) flush() error { return s.encoder.Flush(s.to) }

func (s *saving) rows() error { return s.l.store.Save(s.header.AsOf, s.encoder, s.flush) }

func (s *saving) blocks() error {
	s.l.store.RLock()
	blocks := s.l.chain.UpTo(s.header.AsOf)
	s.l.store.RUnlock()
	s.encoder.Put(len(blocks))
	for _, b := range blocks {
		s.encoder.Put(history.SavedBlock{Block: b, Records: b.Records})
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

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
	l.store.Lock()
	l.adopt(loaded)
	l.store.Unlock()
	l.wake() // schedules may be due
	l.subscribers.notify()
	return nil
}

// loading is saved state that is being read.
type loading struct {
	*codec.Decoder
	header header
	world  state.World
	chain  *history.Chain
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
	text, err := io.ReadAll(in) // whole, since the checksum comes last: what is damaged may read as anything
	switch {
	case in.N == 0:
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	case err != nil:
		return nil, errDamaged(err)
	}
	s := &loading{Decoder: codec.NewDecoder(bytes.NewReader(text)), world: state.NewWorld(nil), chain: history.NewChain(l.cfg.History, l.cfg.HistoryBytes)}
	s.Get(&s.header)
	s.tables()
	s.blocks()
	s.End()
	switch {
	case s.Err() != nil:
		return nil, errDamaged(s.Err())
	case s.header.ChainID != l.cfg.ChainID:
		return nil, fmt.Errorf("%w: its chain id is %d and not %d", ErrOtherNetwork, s.header.ChainID, l.cfg.ChainID)
	}
	return s, l.knows(&s.world)
}

func errDamaged(err error) error { return fmt.Errorf("it is damaged: %w", err) }

// knows tells whether the accounts of this network are in a world.
func (l *Ledger) knows(w *state.World) error {
	for _, a := range l.cfg.Accounts {
		if e := w.Entities.Now(a.ID.Num); e == nil || e.Address != a.EVMAddress() {
			return fmt.Errorf("%w: there account %s is not the one of this network", ErrOtherNetwork, a.ID)
		}
	}
	return nil
}

// adopt makes what was loaded the state of the ledger. The caller holds both locks.
func (l *Ledger) adopt(s *loading) {
	h := &s.header
	l.store.World, *l.chain = s.world, *s.chain
	l.store.NextNum, l.lastTime, l.settled = h.NextNum, h.LastTime, h.Settled
	l.nextTime.Store(h.NextTime)
	l.offset.Store(h.Offset)
	l.order.Restore(h.Order)
	l.published = h.AsOf
	l.chain.Forget()
	l.bookFiles()
	l.newest.Store(l.viewAt(h.AsOf))
	l.newGeneration(0, h.Block)
}

func (s *loading) tables() {
	s.world.Load(s.Decoder)
	if s.Err() != nil {
		return
	}
	for _, f := range s.header.Files {
		if f == nil {
			s.Fail(codec.ErrMalformed)
			return
		}
		s.world.Files[f.ID.Num] = f
	}
}

func (s *loading) blocks() {
	blocks := 0
	for s.Get(&blocks); blocks > 0 && s.Err() == nil; blocks-- {
		var in history.SavedBlock
		if s.Get(&in); s.Err() == nil && !s.chain.Restore(&in) {
			s.Fail(codec.ErrMalformed)
		}
	}
	if s.Err() != nil || !s.chain.Restored(s.header.Running) {
		s.Fail(codec.ErrMalformed)
		return
	}
	s.world.Touch(s.chain.TouchedAt)
}

// Snapshot is a moment that the ledger can go back to: accounts, contracts, tokens, topics,
// files, blocks and records alike. It costs next to nothing, since all state has history.
// It is good as long as the ledger keeps the block that it was taken at.
type Snapshot struct {
	ledger  *Ledger
	block   *history.Block // the newest one
	clock   clockState
	nextNum int64
	running [4]state.Hash48
	files   map[int64]*state.File // which have no history
}

// Snapshot closes the open block, if there is one, and takes a snapshot after it.
func (l *Ledger) Snapshot() *Snapshot {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.Open != nil {
		l.closeBlock()
	}
	l.store.RLock()
	defer l.store.RUnlock()
	return &Snapshot{
		ledger: l, block: l.chain.Newest(), clock: l.clock(), nextNum: l.store.NextNum, running: l.chain.Running,
		files: maps.Clone(l.store.World.Files),
	}
}

// Revert goes back to a snapshot: what was handled since then has not happened. It returns
// false, and does nothing, where the snapshot is another ledger's, lies after a moment that
// the ledger went back to since, or is no longer kept. The clock goes back, too, and on from there.
//
// It costs what was changed since the snapshot. Views of moments that are gone show the
// state of the snapshot.
func (l *Ledger) Revert(s *Snapshot) bool {
	l.handling.Lock()
	defer l.handling.Unlock()
	if !l.rewind(s) {
		return false
	}
	l.subscribers.notify()
	return true
}

func (l *Ledger) rewind(s *Snapshot) bool {
	l.store.Lock()
	defer l.store.Unlock()
	c := l.chain
	if s.ledger != l || c.Number(s.block.Number) != s.block {
		return false
	}
	at := s.block.To.UnixNano()
	c.Rewind(s.block, s.running)
	l.store.World.Files = maps.Clone(s.files)
	l.store.NextNum = s.nextNum
	l.published = at
	l.turnBack(s.clock)
	l.newest.Store(l.viewAt(at))
	l.newGeneration(s.block.Number, s.block.Number)
	return true
}

// Reset begins again: the ledger has its genesis accounts and its first block alone, and the clock is the
// machine's. Consensus nodes stay in the address book.
func (l *Ledger) Reset() error {
	l.handling.Lock()
	defer l.handling.Unlock()
	if err := l.restart(); err != nil {
		return err
	}
	l.subscribers.notify()
	return nil
}

func (l *Ledger) restart() error {
	l.store.Lock()
	defer l.store.Unlock()
	l.store.World, *l.chain = state.NewWorld(l.store.Fork), *history.NewChain(l.cfg.History, l.cfg.HistoryBytes)
	l.offset.Store(0)
	l.ahead = 0
	l.nextTime.Store(0)
	l.settled = 0
	l.pace = newPace(l.cfg)
	if err := l.genesis(l.Now()); err != nil {
		return err
	}
	first := l.chain.Oldest().Number
	l.newGeneration(first, first)
	return nil
}

// ForkPoint is where a ledger leaves the history of its upstream.
type ForkPoint struct {
	Upstream state.Upstream
	Block    history.Block // the newest one of the upstream that the fork has; its records stay there
	Rate     core.ExchangeRate
	GasPrice hedera.Tinybar

	// First is the number of the first entity that the fork makes. The upstream's are below it.
	First int64
	// System are the balances of the accounts up to 0.0.1000, of which the fork has copies
	// with keys of its own.
	System map[int64]hedera.Tinybar
	// Accounts are those of Config.Accounts that the upstream has under the same number and
	// with the same key: they go on there. For an address that another account of it has,
	// Nonces says how far that is, so that contracts get new addresses.
	Accounts map[int64]state.Account
	Nonces   map[int64]int64

	CacheBytes int64 // of facts about the upstream that are kept, roughly; 64 MiB
}

// upstream is what rows come from.
func (p *ForkPoint) upstream() *state.Origin {
	if p == nil {
		return nil
	}
	return &state.Origin{Upstream: p.Upstream, At: p.Block.To.UnixNano(), Block: p.Block.Number, First: p.First, CacheBytes: p.CacheBytes}
}

// ErrForked is state of a fork that was to be saved or replaced: it is whole only together with its upstream.
var ErrForked = errors.New("the network is a fork: its state is not saved or loaded")

// Prepare fetches what a transaction needs to know of a fork's upstream, as long as no other one waits
// for that. It changes nothing. The error is the upstream's.
func (l *Ledger) Prepare(sub *core.Submission) error {
	if l.fork == nil {
		return nil
	}
	const rounds = 10_000 // each learns something
	r := facts.NewRehearsal[state.FactKey]()
	for range rounds {
		done, err := r.Attempt(func() { l.rehearse(sub, r) })
		if done || err != nil {
			return err
		}
	}
	return &facts.UpstreamError{Err: errors.New("a transaction needs too much of it")}
}

// rehearse handles a transaction on an overlay that is thrown away.
func (l *Ledger) rehearse(sub *core.Submission, r *facts.Rehearsal[state.FactKey]) {
	l.handling.Lock()
	defer l.handling.Unlock()
	h := l.net.Handle(sub, l.upcoming())
	h.State.Rehearsal = r
	h.Run()
}

// genesisBlock is the fork point as the ledger's first block.
func (p *ForkPoint) genesisBlock() *history.Block {
	b := p.Block
	b.Records = nil
	return &b
}

// startAfter keeps the clock from standing before the fork point.
func (l *Ledger) startAfter(at int64) {
	if now := l.Now(); now.UnixNano() < at {
		l.setClock(at)
		l.closedAt = time.Unix(0, at)
	}
}

// rate is the price of hbar: without a fork the bootstrap rate of every network, where 1 ℏ is 12 cents.
func (p *ForkPoint) rate() core.ExchangeRate {
	if p == nil {
		return core.ExchangeRate{Hbar: 1, Cents: 12, Expires: 4_102_444_800}
	}
	return p.Rate
}
