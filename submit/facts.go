package submit

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
	"lockstep/internal/sleep"
	"lockstep/lock"
	"lockstep/precheck"
)

// facts are look-ups under way: they run while the transaction is queued.
type facts struct {
	done  chan struct{}
	value known // once done is closed
	err   error // … why there is none
}

// known is the outcome of the look-ups.
type known struct {
	precheck.Facts
	nonce uint64    // the sender's next one, as far as the mirror node knows
	shown uint64    // … as it goes with the balance
	at    time.Time // when that was; with stale: since when the oldest of it is known
	stale error     // why some of it was only remembered; nil: all was looked up
}

// sees takes what the mirror node shows of the sender. Receipts may have proved a higher nonce before the mirror node shows it. A
// proof stays true, so a lower nonce is refused rightly, and costs nothing.
func (k *known) sees(s *Submitter, sender common.Address, account Account) {
	k.nonce, k.shown = max(k.nonce, account.Nonce, s.Pool.Proven(sender)), account.Nonce
	k.Balance, k.at = account.Balance, time.Now()
}

// get waits for the look-ups.
func (f *facts) get(ctx context.Context) (known, error) {
	select {
	case <-f.done:
	default:
		select {
		case <-f.done:
		case <-ctx.Done():
			return known{}, context.Cause(ctx)
		}
	}
	return f.value, f.err
}

// failure returns why the look-ups failed, or nil if they are under way or succeeded.
func (f *facts) failure() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// lookUp starts the look-ups. They end by themselves: every call to the mirror node has a time limit. When they
// are done, the lane learns what nonce is next: a burst that arrived out of order may be waiting for that. If
// they fail, the transaction cannot be sent, and does not wait for its turn.
func (e *Entry) lookUp(ctx context.Context) {
	s, f := e.s, &facts{done: make(chan struct{})}
	e.facts = f
	if s.cfg.SkipLookUps {
		f.value.GasPrice = e.tx.GasPrice() // needed only for the fee cap
		close(f.done)
		return
	}
	go func() {
		f.value, f.err = s.gather(ctx, e.tx)
		for f.err != nil && e.takenOver && e.remaining() > 0 && !s.tasks.closing() && sleep.For(ctx, retryPace) {
			f.value, f.err = s.gather(ctx, e.tx)
		}
		var ticket *lock.Ticket
		if e.way == direct { // a transaction behind a gate is looked up again
			ticket = e.ticket // once done is closed, the entry may take a new place
		}
		close(f.done)
		switch {
		case f.err != nil:
			e.leave()
		case ticket != nil:
			ticket.Observe(f.value.nonce)
		}
	}()
}

// gather looks everything up. For what cannot be looked up it takes what was remembered, if that is not too old;
// then the result says so.
func (s *Submitter) gather(ctx context.Context, tx *eth.Tx) (k known, err error) {
	var olds [3]remembered // each look-up notes its own
	group, ctx := errgroup.WithContext(ctx)
	account := func(address common.Address, old *remembered) (found, error) {
		return recall(ctx, s.memory, old, address, func() (f found, err error) {
			f.Account, f.exists, err = s.Chain.Account(ctx, address)
			return f, err
		})
	}
	s.beside(group, func() (err error) {
		k.GasPrice, err = recall(ctx, s.memory, &olds[0], "price", func() (*big.Int, error) { return s.Chain.GasPrice(ctx) })
		return err
	})
	if tx.To() != nil {
		s.beside(group, func() error {
			receiver, err := account(*tx.To(), &olds[1])
			k.ReceiverMustSign = receiver.SignatureRequired
			return err
		})
	}
	err = safely(func() error {
		sender, err := account(tx.From(), &olds[2])
		k.sees(s, tx.From(), sender.Account)
		switch {
		case err != nil:
			return err
		case !sender.exists:
			return eth.ErrSenderNotFound(tx.From())
		case sender.BalanceUnknown:
			return eth.ErrBalanceUnknown(tx.From())
		}
		return nil
	})
	if err != nil {
		group.Go(func() error { return err }) // the group keeps the first error
	}
	err = group.Wait()
	for _, old := range olds {
		if old.why != nil && (k.stale == nil || old.at.Before(k.at)) {
			k.stale, k.at = old.why, old.at
		}
	}
	return k, err
}

// maxBeside bounds the look-ups that have a goroutine of their own. Where thousands look up at the same time, as many more
// goroutines would make nothing faster, and a goroutine's memory is never given back.
const maxBeside = 256

// beside runs a look-up in a goroutine of its own, or here if there are many: a transaction's look-ups then come one after another.
func (s *Submitter) beside(group *errgroup.Group, look func() error) {
	select {
	case s.lookers <- struct{}{}:
		group.Go(func() error {
			defer func() { <-s.lookers }()
			return safely(look)
		})
	default:
		if err := safely(look); err != nil {
			group.Go(func() error { return err })
		}
	}
}

// safely turns a panic into an error: in a goroutine of its own a panic would end the process.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in a look-up: %v", r)
		}
	}()
	return f()
}

// memory is what look-ups found last, for the time when the mirror node does not answer: accounts by address, and the price of gas. It is
// good for what rarely changes, or what the network judges anyway. The next nonce is never lower than the remembered one.
type memory struct {
	maxAge time.Duration // 0: nothing is remembered
	last   *lru.Cache[any, remembered]
}

// remembered is what a look-up found, which must not be changed.
type remembered struct {
	value any
	at    time.Time // when that was so
	why   error     // why it was taken; nil: it was not
}

// found is an account, or that there is none.
type found struct {
	Account
	exists bool
}

func newMemory(maxAge time.Duration) *memory {
	const accounts = 16_384
	last, err := lru.New[any, remembered](accounts)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return &memory{maxAge: maxAge, last: last}
}

// recall looks something up. While the mirror node fails it returns what was remembered, if that is not too old, and
// notes it in old; else it repeats the look-up.
func recall[T any](ctx context.Context, m *memory, old *remembered, key any, look func() (T, error)) (value T, err error) {
	began := time.Now()
	again := func() error {
		value, err = look()
		return err
	}
	if again() != nil {
		if r, ok := m.last.Get(key); ok && time.Since(r.at) < m.maxAge {
			*old = remembered{at: r.at, why: err}
			return r.value.(T), nil
		}
		err = persist(ctx, began, err, again)
	}
	if err == nil {
		m.last.Add(key, remembered{value: value, at: time.Now()})
	}
	return value, err
}

const (
	// persistence is for how long a look-up that fails is repeated. The client of the mirror node refuses at once
	// what it would ask of one that failed, and finds out within a second that it answers again. So its refusal
	// alone is no reason to refuse a transaction.
	persistence = 2 * time.Second
	// lookAgain is the wait before the next look-up.
	lookAgain = 250 * time.Millisecond
)

// persist repeats a look-up that began then, and failed because the mirror node does not answer.
func persist(ctx context.Context, began time.Time, err error, look func() error) error {
	for err != nil && upstream(err) && time.Since(began) < persistence {
		if !sleep.For(ctx, lookAgain) {
			return err
		}
		err = look()
	}
	return err
}

func upstream(err error) bool {
	var client *eth.Error
	return errors.As(err, &client) && client.Code == eth.CodeUpstream
}

// goesOnStale tells whether a transaction goes on although something about it could not be looked up. It does if
// it is surely next, since the network judges the rest.
func (e *Entry) goesOnStale() bool {
	if !e.next.Sure() {
		return false
	}
	e.s.metrics.stale.Inc()
	e.s.Log.Warn("the mirror node does not answer; a transaction that is next goes on with what was known",
		"hash", e.tx.Hash(), "age", time.Since(e.known.at).Round(time.Millisecond), "error", e.known.stale)
	return true
}

// refresh looks up again what could not be looked up. It gives up sooner on a transaction that came long
// ago, because others wait behind it.
func (e *Entry) refresh(ctx context.Context) error {
	return persist(ctx, e.arrived, e.known.stale, func() error {
		fresh, err := e.s.gather(ctx, e.tx)
		if err != nil {
			return err
		}
		*e.known = fresh
		return fresh.stale
	})
}

// readSender refreshes what the mirror node shows of the sender, if it answers.
func (e *Entry) readSender(ctx context.Context, known *known) {
	if e.s.cfg.SkipLookUps {
		return
	}
	if account, found, err := e.s.Chain.Account(ctx, e.tx.From()); err == nil && found {
		known.sees(e.s, e.tx.From(), account)
	}
	known.at = time.Now()
}

// freshness is how old the look-ups may be when a decision depends on the nonce alone.
const freshness = 250 * time.Millisecond

// learner looks a sender's nonce up again and again, while a transaction is the first of a lane that holds back.
// Its predecessor may have gone another way, or the lane may not know the next nonce, and with a hold-back window
// all wait for that. One timer serves all transactions; it runs while there are any.
type learner struct {
	chain Chain

	timer   *time.Timer
	mu      sync.Mutex
	waiting map[*lock.Ticket]*watched // guarded by mu
}

// watched is a ticket that waits.
type watched struct {
	ctx     context.Context // of its wait
	cancel  context.CancelFunc
	sender  common.Address
	looking bool // a look-up is under way; guarded by learner.mu
}

func newLearner(chain Chain) *learner {
	l := &learner{chain: chain, waiting: make(map[*lock.Ticket]*watched)}
	l.timer = time.AfterFunc(freshness, l.lookUpNext) // which ends at once while nobody waits
	return l
}

// add begins to look after an entry, unless Notify did.
func (l *learner) add(ctx context.Context, e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[e.ticket] != nil {
		return
	}
	w := &watched{sender: e.tx.From()}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if l.waiting[e.ticket] = w; len(l.waiting) == 1 {
		l.timer.Reset(freshness)
	}
}

// remove also ends the look-up under way: nobody waits for it any more, and a mirror node that hangs would keep it.
func (l *learner) remove(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiting[e.ticket]; w != nil {
		w.cancel()
		delete(l.waiting, e.ticket)
	}
}

// looksPerRound bounds the look-ups of a round, so that many senders do not flood the mirror node. Chance decides
// which of them wait for a later round.
const looksPerRound = 16

// lookUpNext starts a look-up for transactions that need one and have none under way.
func (l *learner) lookUpNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	looks := 0
	for ticket, w := range l.waiting {
		if looks < looksPerRound && !w.looking && ticket.FirstInLine() {
			looks++
			w.looking = true
			go l.lookUp(ticket, w)
		}
	}
	if len(l.waiting) > 0 {
		l.timer.Reset(freshness)
	}
}

func (l *learner) lookUp(ticket *lock.Ticket, w *watched) {
	// A look-up that fails, even by a panic, is tried again in the next round.
	_ = safely(func() error {
		account, found, err := l.chain.Account(w.ctx, w.sender)
		if err == nil && found {
			ticket.Observe(account.Nonce)
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	w.looking = false
}

// learns tells whether the learner is to look after the transaction while it waits.
func (e *Entry) learns() bool {
	return !e.s.cfg.SkipLookUps && (e.s.Ordering.Window > 0 || e.returned || e.s.cfg.Async)
}
