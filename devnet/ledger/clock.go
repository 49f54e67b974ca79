package ledger

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// LastSecond is where the clock ends, in seconds since the Unix epoch: consensus time has 63 bits of
// nanoseconds.
const LastSecond = 1 << 33

// Reasons why the next block cannot have a time.
var (
	ErrTimeBack = errors.New("the time lies before that of the newest block")
	ErrTimeFar  = errors.New("the clock ends in the year 2242")
)

// pace says when blocks end and what time it is: as Config says at first, and as tools for
// development say later. handling guards it.
type pace struct {
	automine bool          // each transaction is a block
	interval time.Duration // of blocks that end by time; 0: none do
	apart    int64         // seconds from the time of a block to that of the next one; 0: as the clock goes
}

func newPace(cfg Config) pace {
	p := pace{automine: cfg.BlockTime == 0, interval: cfg.BlockTime}
	if cfg.Deterministic {
		p.apart = 1
	}
	return p
}

// deterministicStart is the time of genesis of a deterministic ledger: the beginning of 2026.
const deterministicStart = 1_767_225_600 * int64(time.Second)

// base is what consensus time is counted from: the machine's clock, or one that stands still.
func (l *Ledger) base() time.Time {
	if l.cfg.Deterministic {
		return time.Unix(0, deterministicStart)
	}
	return time.Now()
}

// byMachine is the machine's time at a consensus time that is now.
func (l *Ledger) byMachine(at int64) int64 {
	if l.cfg.Deterministic {
		return time.Now().UnixNano()
	}
	return at - l.offset.Load()
}

// afterBegin is how far into its second a block begins whose time was set: children of a
// transaction come before it.
const afterBegin = 1_000 // ns

// Now is consensus time: the machine's clock, and what it was moved by. That of a deterministic
// ledger is moved by its blocks and by tools alone.
func (l *Ledger) Now() time.Time { return l.base().Add(time.Duration(l.offset.Load())) }

// tick takes the next consensus time. The caller holds handling.
func (l *Ledger) tick() int64 {
	at, moved := l.next()
	if l.chain.Open == nil {
		if l.nextTime.Swap(0) != 0 || l.pace.apart > 0 {
			l.ahead = 0
		} else {
			l.ahead += moved
		}
		l.offset.Add(moved)
	}
	l.lastTime = at
	return at
}

// upcoming is the consensus time that a transaction would have now. The caller holds handling.
func (l *Ledger) upcoming() int64 {
	at, _ := l.next()
	return at
}

// next is upcoming, and by how much the clock moves if the time is taken: to where a tool or the pace has
// the next block begin, and from there it goes on.
func (l *Ledger) next() (at, moved int64) {
	at = l.Now().UnixNano()
	if l.chain.Open == nil {
		now := at
		switch next := l.nextTime.Load(); {
		case next != 0:
			at = next
		case l.pace.apart > 0:
			at = l.secondsLater(l.pace.apart)
		case l.pace.rising():
			if back := now - l.ahead; back > l.lastTime+int64(resting) {
				at = back
			}
			at = max(at, (l.chain.Newest().From.Seconds+1)*int64(time.Second)+afterBegin)
		}
		moved = at - now
	}
	return max(at, l.lastTime+spacing), moved
}

// secondsLater begins a block so many seconds after the one before.
func (l *Ledger) secondsLater(n int64) int64 {
	return min(l.lastTime/int64(time.Second)+n, LastSecond)*int64(time.Second) + afterBegin
}

// resting is how long nothing must have happened before the clock goes back to where tools left it, or to the
// machine's, from where blocks have hurried it: mirror nodes that are behind by less never take back what they showed.
const resting = time.Minute

// rising tells whether each block has a later second than the one before, though they come faster: where
// each transaction is a block, contracts that keep something for a time would see two at once.
func (p pace) rising() bool { return p.automine || p.interval == 0 }

// over tells whether the open block has ended by a time. The caller holds handling.
func (l *Ledger) over(open *history.Block, at int64) bool {
	return l.pace.interval > 0 && at >= open.From.UnixNano()+int64(l.pace.interval)
}

func (l *Ledger) setClock(ns int64) {
	l.offset.Store(ns - l.base().UnixNano())
	l.ahead = 0
}

// IncreaseTime moves the clock on, to LastSecond at most, and returns by how much it is ahead of the machine's.
func (l *Ledger) IncreaseTime(by time.Duration) time.Duration {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.ahead = 0
	l.offset.Add(int64(min(by, max(time.Unix(LastSecond, 0).Sub(l.Now()), 0))))
	l.follow()
	return time.Duration(l.offset.Load())
}

// follow has the next block begin where a tool has just moved the clock, even where blocks come at a distance
// that the clock has no say in.
func (l *Ledger) follow() {
	if l.pace.apart > 0 {
		l.nextTime.Store(max(l.Now().Unix()*int64(time.Second)+afterBegin, l.secondsLater(l.pace.apart)))
	}
	l.wake()
}

// SetTime moves the clock to a time, and returns by how much it is ahead of the machine's.
func (l *Ledger) SetTime(to time.Time) time.Duration {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.setClock(to.UnixNano())
	l.follow()
	return time.Duration(l.offset.Load())
}

// SetNextTime gives the next block its time, in seconds since the Unix epoch; the clock goes
// on from there. It must not lie before the newest block.
func (l *Ledger) SetNextTime(seconds int64) error {
	l.handling.Lock()
	defer l.handling.Unlock()
	switch {
	case seconds < l.lastTime/int64(time.Second):
		return ErrTimeBack
	case seconds > LastSecond:
		return ErrTimeFar
	}
	l.nextTime.Store(seconds*int64(time.Second) + afterBegin)
	return nil
}

// nextSecond is the time of the block that a transaction would be in now.
func (l *Ledger) nextSecond() int64 {
	l.handling.Lock()
	defer l.handling.Unlock()
	at := l.upcoming()
	if open := l.chain.Open; open != nil && !l.over(open, at) {
		return open.From.Seconds
	}
	return at / int64(time.Second)
}

// SetAutomine says whether each transaction is a block of its own. A block that is open stays
// so until it is mined.
func (l *Ledger) SetAutomine(on bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.pace.automine = on
}

// Automine tells whether each transaction is a block of its own.
func (l *Ledger) Automine() bool {
	l.handling.Lock()
	defer l.handling.Unlock()
	return l.pace.automine
}

// SetInterval has Run end a block whenever so much time has passed, transactions or not; 0
// ends none by time.
func (l *Ledger) SetInterval(interval time.Duration) {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.pace.interval = max(interval, 0)
	l.wake()
}

// SetApart has blocks begin so many seconds one after another, whatever the clock says, which
// goes on from each; 0: they begin as the clock goes.
func (l *Ledger) SetApart(seconds int64) {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.pace.apart = max(seconds, 0)
}

// SetSeed chooses the randomness that the transactions of the next block see, or those that are
// still to come of the open one.
func (l *Ledger) SetSeed(seed common.Hash) {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.store.Lock()
	defer l.store.Unlock()
	l.chain.Chosen = new(state.Hash48)
	copy(l.chain.Chosen[:], seed[:])
}

// Mine makes blocks without transactions, so many seconds apart; 0: as the clock goes. An open
// block is closed first and is the first of them.
func (l *Ledger) Mine(blocks int, seconds int64) { l.mine(blocks, seconds, false) }

// MineApart is Mine whose first block is so many seconds after the one before, too.
func (l *Ledger) MineApart(blocks int, seconds int64) { l.mine(blocks, seconds, true) }

func (l *Ledger) mine(blocks int, seconds int64, apart bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.Open != nil && blocks > 0 {
		l.closeBlock()
		blocks--
		apart = true
	}
	for range blocks {
		if apart && seconds > 0 && l.nextTime.Load() == 0 {
			l.nextTime.Store(l.secondsLater(seconds))
		}
		l.executeDue(l.upcoming())
		l.openEmpty()
		l.closeBlock()
		apart = true
	}
}

// clockState is what a snapshot keeps of the clock.
type clockState struct{ now, lastTime, next, settled int64 }

// clock returns the state of the clock. The caller holds handling.
func (l *Ledger) clock() clockState {
	return clockState{now: l.Now().UnixNano(), lastTime: l.lastTime, next: l.nextTime.Load(), settled: l.settled}
}

// turnBack sets the clock to what it was. The caller holds handling.
func (l *Ledger) turnBack(to clockState) {
	l.setClock(to.now)
	l.lastTime, l.settled = to.lastTime, to.settled
	l.nextTime.Store(to.next)
}

// opened is when a block was opened, by the machine's clock.
func (l *Ledger) opened(b *history.Block) time.Time {
	return b.From.Time().Add(-time.Duration(l.offset.Load()))
}

// Generation names the history that there is now: it grows whenever the ledger goes back, and
// from one ledger to a later one. Block is the newest one that was left when it last did, and
// Newest the newest one then: where state was loaded, none was left and there are others.
type Generation struct {
	Number        uint64
	Block, Newest int64
}

// Generation returns the present one. What was read of the ledger before a later one may be
// gone.
func (l *Ledger) Generation() Generation { return *l.generation.Load() }

// Generation is the ledger's.
func (v *View) Generation() Generation { return v.l.Generation() }

// LeftSince tells whoever knows a generation which one there is now, and the time up to which all that began
// meanwhile left what there was. Of one that is too long ago that time is zero.
func (v *View) LeftSince(generation uint64) (now uint64, left hedera.Timestamp) {
	return v.l.turns.since(generation)
}

// maxTurns is how many times of going back a ledger remembers.
const maxTurns = 1_000

// turn is the beginning of a generation.
type turn struct {
	generation uint64
	left       hedera.Timestamp // end of the newest block that was left
}

// turns are the newest ones, oldest first. They are safe for concurrent use.
type turns struct {
	mu   sync.Mutex
	list []turn
}

func (t *turns) add(newest turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == maxTurns {
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, newest)
}

func (t *turns) since(generation uint64) (now uint64, left hedera.Timestamp) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.list[len(t.list)-1].generation
	if generation < t.list[0].generation {
		return now, left
	}
	left = hedera.FromNanos(math.MaxInt64)
	for _, turn := range slices.Backward(t.list) {
		if turn.generation <= generation {
			break
		}
		if turn.left.Compare(left) < 0 {
			left = turn.left
		}
	}
	return now, left
}

// newGeneration begins one. The caller has published the view that it begins with.
func (l *Ledger) newGeneration(block, newest int64) {
	number := uint64(time.Now().UnixMicro())
	if before := l.generation.Load(); before != nil {
		number = max(number, before.Number+1)
	}
	begun := turn{generation: number}
	if block == newest { // its end is where the view begins
		begun.left = l.View().Time()
	}
	l.turns.add(begun)
	l.generation.Store(&Generation{Number: number, Block: block, Newest: newest})
}

// timestamp of a view that is behind by a lag.
func (l *Ledger) before(lag time.Duration) hedera.Timestamp {
	return hedera.TimestampOf(l.Now().Add(-lag))
}

// ViewBehind is ViewBefore for what a mirror node shows that is so much behind.
func (l *Ledger) ViewBehind(lag time.Duration) *View { return l.ViewBefore(l.before(lag)) }

// Run closes blocks when their time is over, and makes a block without transactions for
// each interval in which there were none, so that heads flow as on the network. It executes
// schedules that wait for their time. Without an interval and without such schedules there is
// nothing to do, and it waits for them.
func (l *Ledger) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.deadline:
		case <-timer.C:
		}
		left, timed := l.closeDue()
		if next, any := l.executeWaiting(); any && (!timed || next < left) {
			left, timed = next, true
		}
		if timed {
			timer.Reset(left)
		}
	}
}

// entered ends what a transaction or an edit has done to the open block. The caller holds
// handling.
func (l *Ledger) entered() {
	if l.pace.automine {
		l.closeBlock()
	} else {
		l.wake()
	}
}

// wake has Run look at what has its time: blocks and schedules.
func (l *Ledger) wake() {
	select {
	case l.deadline <- struct{}{}:
	default:
	}
}

// CloseBlock publishes the open block, if there is one, before its time is over.
func (l *Ledger) CloseBlock() {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.Open != nil {
		l.closeBlock()
	}
}

// closeDue closes the open block if its time is over, and a block without transactions
// where the time since the last one is over. It returns how long the next one has; any is
// false where no block ends by time.
func (l *Ledger) closeDue() (left time.Duration, any bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.pace.interval == 0 {
		return 0, false
	}
	begin := l.closedAt
	if open := l.chain.Open; open != nil {
		begin = l.opened(open)
	}
	if left := time.Until(begin.Add(l.pace.interval)); left > 0 {
		return left, true
	}
	if l.chain.Open == nil {
		l.openEmpty()
	}
	l.closeBlock()
	return l.pace.interval, true
}

// openEmpty begins a block that ends at once. It has a consensus time of its own, as if a
// transaction had come. The caller holds handling.
func (l *Ledger) openEmpty() {
	at := l.tick()
	l.store.Lock()
	defer l.store.Unlock()
	l.chain.Begin(hedera.FromNanos(at))
}

// closeBlock publishes the open block. The caller holds handling.
func (l *Ledger) closeBlock() {
	l.closedAt = time.Now()
	l.store.Lock()
	b := l.chain.CloseOpen()
	if b != nil {
		l.published = b.To.UnixNano()
		l.newest.Store(l.viewAt(l.published))
		l.chain.Forget()
	}
	l.store.Unlock()
	if b != nil {
		l.beginSaves()
		l.subscribers.notify()
	}
}

// subscribers are told that there is a new block.
type subscribers struct {
	mu   sync.Mutex
	list map[chan struct{}]struct{}
}

// Subscribe returns a channel that receives after new blocks were published. It
// holds one notice: several blocks may come with one. Cancel ends it.
func (l *Ledger) Subscribe() (changed <-chan struct{}, cancel func()) {
	s := &l.subscribers
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[chan struct{}]struct{}{}
	}
	s.list[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.list, ch)
	}
}

func (s *subscribers) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.list {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
