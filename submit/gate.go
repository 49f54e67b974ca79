package submit

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/limit"
	"lockstep/internal/sleep"
	"lockstep/lock"
)

// gates keep a sender's transactions in their order ahead of the lock while one of them has its call
// data put into a file. Every piece waits for consensus, which takes longer than a turn may last, so it must not
// happen in the turn. But later transactions must not overtake it either. So a transaction with a file, and all
// that come after it with higher nonces, draw their tickets when the file is there, in the order of their nonces, as
// in the line itself. One with a lower nonce waits for nobody.
//
// Senders without such a transaction have no gate. The order holds in this process; other
// relays see the tickets when they are drawn.
type gates struct {
	limit int // maximum of entries of a sender; 0: no limit

	mu     sync.Mutex
	queues map[common.Address][]*Entry // by nonce, those with the same one in order of arrival; guarded by mu
	owners map[attempt]*upload         // of those that may make a file, the one for each nonce; guarded by mu
}

// attempt is what only one transaction at a time can succeed with.
type attempt struct {
	sender common.Address
	nonce  uint64
}

func newGates(limit int) *gates {
	return &gates{queues: map[common.Address][]*Entry{}, owners: map[attempt]*upload{}, limit: limit}
}

// owns tells whether the file of a nonce is e's to make. It is, until e ends, unless another transaction was first, or waits here before it.
func (d *gates) owns(ctx context.Context, e *Entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	nonce := attempt{e.tx.From(), e.tx.Nonce()}
	first := slices.IndexFunc(d.queues[nonce.sender], func(o *Entry) bool { return o.tx.Nonce() == nonce.nonce && o.gate.storing })
	if first >= 0 && d.queues[nonce.sender][first] != e {
		return d.owners[nonce] == e.upload
	}
	if d.owners[nonce] == nil && ctx.Err() == nil { // what has ended, which ends ctx, disowns nothing later
		d.owners[nonce] = e.upload
	}
	return d.owners[nonce] == e.upload
}

// disown lets the next one have the nonce.
func (d *gates) disown(e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if nonce := (attempt{e.tx.From(), e.tx.Nonce()}); d.owners[nonce] == e.upload {
		delete(d.owners, nonce)
	}
}

// gate is an entry's place in front of the lock.
type gate struct {
	open    chan struct{} // closed when the entry has passed, or will never pass
	err     error         // why it has no ticket
	storing bool          // its call data is being put into a file; guarded by gates.mu
}

// enter draws the entry's ticket, or lets it wait until those before it, and its own
// file, are ready. The errors are those of lock.Service.Enter.
func (d *gates) enter(e *Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, needsFile := e.tx.From(), e.needsFile()
	queue := d.queues[from]
	place := sort.Search(len(queue), func(i int) bool { return queue[i].tx.Nonce() > e.tx.Nonce() })
	if place == 0 && !needsFile {
		if err := e.draw(); err != nil {
			return err
		}
		e.way = direct
		return nil
	}
	if d.limit > 0 && len(queue) >= d.limit {
		return &lock.QueueFullError{Length: len(queue)}
	}
	e.way, e.gate = gated, &gate{open: make(chan struct{}), storing: needsFile}
	d.queues[from] = slices.Insert(queue, place, e)
	return nil
}

// ready says that an entry's call data is in its file, or will not be.
func (d *gates) ready(e *Entry) {
	if e.way != gated {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.gate.storing = false
	d.advance(e.tx.From())
}

// leave gives up the place at the gate, if the entry is still there. It tells whether the entry has a
// ticket.
func (d *gates) leave(e *Entry) bool {
	if e.way != gated {
		return e.way == direct
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	from := e.tx.From()
	if i := slices.Index(d.queues[from], e); i >= 0 {
		d.queues[from] = slices.Delete(d.queues[from], i, i+1)
		e.gate.err = lock.ErrLeft
		close(e.gate.open)
		d.advance(from)
	}
	return e.gate.err == nil
}

// advance draws the tickets of those that wait neither for a file nor for others. d.mu must be held.
func (d *gates) advance(from common.Address) {
	queue := d.queues[from]
	for len(queue) > 0 && !queue[0].gate.storing {
		first := queue[0]
		queue[0], queue = nil, queue[1:]
		first.gate.err = first.draw()
		close(first.gate.open)
	}
	if d.queues[from] = queue; len(queue) == 0 {
		delete(d.queues, from)
	}
}

// draw takes the entry's place in the sender's line.
func (e *Entry) draw() (err error) {
	s, stay := e.s, lock.Stay{Admitted: e.takenOver}
	switch {
	case s.cfg.Async: // its hash will be promised
		stay.Window, stay.OutlastsGap, stay.Promised = s.Ordering.Promise.Duration(), true, true
	case !s.cfg.SkipLookUps: // else nobody could tell what comes before it
		stay.Window = s.Ordering.Window.Duration()
	}
	e.ticket, err = s.Locks.EnterFor(e.tx.From(), e.tx.Nonce(), stay)
	return err
}

// waitAtGate waits until the entry has its ticket. An entry without a file of its own waits there for no longer
// than it would for its turn.
func (e *Entry) waitAtGate(ctx context.Context) error {
	if e.way != gated {
		return nil
	}
	if !e.s.Ordering.CancelOnDisconnect || e.promised() {
		ctx = context.WithoutCancel(ctx)
	}
	var limit <-chan time.Time
	if !e.needsFile() && !e.promised() {
		timer := time.NewTimer(e.mayWait())
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-e.gate.open:
		if e.needsFile() {
			e.inLineSince = time.Now()
		}
		return e.gate.err
	case <-ctx.Done():
		e.leave()
		return context.Cause(ctx)
	case <-limit:
		e.leave()
		return lock.ErrInVain
	}
}

// Call data that is too long for a transaction travels in a file of the network: as
// hexadecimal text without 0x, written in pieces before the sender's turn comes, since
// every piece waits for consensus. The transaction then goes out with its data field
// empty and the id of the file. However it ends, the file is deleted afterwards.

// Files stores call data on the network. A thin wrapper of *consensus.Client implements it.
type Files interface {
	// StoreFile writes contents in pieces of up to chunk bytes. The caller must remove the File that it gets,
	// also when it comes with an error.
	StoreFile(ctx context.Context, sender common.Address, contents []byte, chunk int) (File, error)
}

// File is a file on the network.
type File interface {
	ID() hedera.ID
	// Transactions are what was submitted about the file so far and may have cost something.
	Transactions() []hedera.TransactionID
	Remove(ctx context.Context) error
}

// upload is call data on its way into a file.
type upload struct {
	cancel   context.CancelFunc
	done     chan struct{}      // closed when file and err are final
	file     File               // nil: there is none
	err      error              // why the transaction cannot go out
	reserved *limit.Reservation // of the cost of the file, until it is deleted
	risk     *limit.NonceRisk   // that the file is paid for in vain
}

// needsFile tells whether the transaction's call data travels in a file.
func (e *Entry) needsFile() bool { return e.s.Rules.InFile(e.tx) }

// store begins to put the call data into a file, if it needs one, as soon as the look-ups show that the
// transaction has a chance. The facts are checked again in the turn.
func (e *Entry) store(ctx context.Context) {
	if !e.needsFile() {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u := &upload{cancel: cancel, done: make(chan struct{})}
	e.upload = u
	go func() {
		defer e.s.gates.ready(e)
		defer close(u.done)
		u.err = safely(func() error {
			known, err := e.facts.get(ctx)
			if err == nil {
				err = e.admitFile(ctx, &known)
			}
			if err != nil {
				return err
			}
			text := hex.AppendEncode(nil, e.tx.Data())
			if u.reserved, err = e.reserveFile(ctx, len(text)); err != nil {
				u.risk.GiveBack()
				return err
			}
			file, err := e.s.Files.StoreFile(ctx, e.tx.From(), text, e.s.Rules.FileChunkSize)
			u.file = file
			if file == nil && !notStored(u.reserved, err) {
				u.risk.GiveBack()
			}
			return fileError(err)
		})
	}()
}

// admitFile waits until a transaction's call data may be put into a file. That is paid for whatever becomes of the
// transaction, and costs more than twenty rejections. So nothing is written while a transaction before it is missing, or
// while another attempt at its nonce is on its way; and each file takes one of its sender's risks, which comes
// back when the transaction was run. Those with the lowest nonces get them first.
func (e *Entry) admitFile(ctx context.Context, known *known) error {
	s, mine, since, last := e.s, e.tx.Nonce(), e.arrived, uint64(0)
	near := func(expected uint64) bool {
		return s.cfg.SkipLookUps || s.Nonces.Budget() == 0 || mine-expected < uint64(s.Nonces.Budget())
	}
	for {
		expected := max(known.nonce, s.Pool.Proven(e.tx.From()))
		if err := e.check(*known, expected, false); err != nil {
			return err
		}
		if expected > last { // those before it get on
			since, last = time.Now(), expected
		}
		var cause error
		limit := fileWait
		switch {
		case !s.gates.owns(ctx, e):
			cause = eth.ErrTurnTooLate(mine)
		case e.misses(ctx, expected):
			cause, limit = eth.ErrNonceTooHigh(mine, expected), s.Ordering.Memory.Duration() // which covers the lag of the mirror node
		case !near(expected):
			cause = eth.ErrTurnTooLate(mine)
		default:
			var ok bool
			if e.upload.risk, ok = s.Nonces.Take(ctx, e.tx.From(), 0); ok {
				return nil
			}
			cause, limit = tooRisky(mine, expected), s.longestWait()
		}
		if s.cfg.Async { // its client has the hash
			limit = max(limit, s.Ordering.Promise.Duration())
		}
		if time.Since(since) > limit {
			s.Nonces.Refused()
			return cause
		}
		if !sleep.For(ctx, askPace) {
			return context.Cause(ctx)
		}
		if time.Since(known.at) > time.Second {
			e.readSender(ctx, known)
		}
	}
}

// fileWait is how long a transaction waits for the file of another one that is to be made first: longer than it takes to write the longest.
const fileWait = 5 * time.Minute

// misses tells whether a transaction before e is missing, as far as the mirror node and the pool know. The mirror
// node lags, so this becomes certain with time only.
func (e *Entry) misses(ctx context.Context, expected uint64) bool {
	s := e.s
	return !s.cfg.SkipLookUps && e.tx.Nonce() > expected && !s.Pool.Follows(ctx, e.tx, expected) &&
		s.Pool.Next(ctx, e.tx.From(), expected) < e.tx.Nonce()
}

// body is the transaction in the form in which it goes out: whole, or without its data
// and with the file that has it.
func (e *Entry) body(ctx context.Context) (raw []byte, callData *hedera.ID, err error) {
	if e.upload == nil {
		return e.tx.Raw(), nil, nil
	}
	select {
	case <-e.upload.done: // the gate opened after it
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if e.upload.err != nil {
		return nil, nil, e.upload.err
	}
	if raw, err = e.tx.WithoutData(); err != nil {
		return nil, nil, err
	}
	id := e.upload.file.ID()
	return raw, &id, nil
}

// discard deletes the file of a transaction that has its verdict, and then counts the
// transaction as done.
func (e *Entry) discard(ran bool) {
	u := e.upload
	if u == nil {
		e.s.tasks.end(len(e.tx.Raw()))
		return
	}
	u.cancel()
	e.s.gates.disown(e)
	if ran {
		u.risk.GiveBack()
	}
	go func() {
		defer e.s.tasks.end(len(e.tx.Raw()))
		<-u.done // cancel ends it between two pieces; the receipt of a piece has a time limit
		if u.file == nil {
			u.reserved.Settle() // unless it has ended
			return
		}
		defer func() {
			u.reserved.Settle(u.file.Transactions()...)
			e.s.Charged(e.tx.Hash(), u.file.Transactions()...)
		}()
		err := safely(func() error { return u.file.Remove(context.Background()) }) //nolint:forbidigo // the request may be long over
		if err != nil {
			e.s.metrics.filesLeft.Inc()
			e.s.Log.Warn("a file with call data was left on the network", "file", u.file.ID().String(), "hash", e.tx.Hash(), "error", err)
		}
	}()
}

// fileError is the client's error for call data that could not be stored. Nothing of
// the transaction itself was submitted.
func fileError(err error) error {
	const detail = "its call data could not be put into a file; the transaction was not submitted"
	var refused *consensus.StatusError
	var failed *consensus.ReceiptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return eth.ErrConsensusNode(refused.Status.String(), int(refused.Status), detail)
	case errors.As(err, &failed):
		return eth.ErrConsensusNode(failed.Status.String(), int(failed.Status), detail)
	case errors.Is(err, consensus.ErrNoOperator), errors.Is(err, consensus.ErrClosed):
		return clientError(err)
	default:
		return eth.ErrNoNode
	}
}
