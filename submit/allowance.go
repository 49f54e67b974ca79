package submit

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/limit"
	"lockstep/internal/sleep"
	"lockstep/internal/telemetry"
	"lockstep/lock"
)

// What a sender can cost the operator by transactions that the network refuses. A transaction that is not known to be
// next needs one of its sender's risks before it is sent. One that is next when it is sent can only be refused if a
// transaction before it fails, or takes what it was to cost: see waitForRoom.

// takeRisk takes one of the sender's risks if the network may refuse this transaction for its nonce: it is not the
// next one, or others have its nonce, too. Where nothing is looked up the network judges the nonce. takeRisk waits
// for a free risk while all earlier transactions are on their way. wait means that it waited for as long as a turn
// may take: the transaction goes back into its line. The error is the client's.
func (s *Submitter) takeRisk(ctx context.Context, e *Entry, expected uint64) (wait bool, err error) {
	mine := e.tx.Nonce()
	if s.cfg.SkipLookUps || s.nonces.Budget() == 0 || mine == expected && s.isAlone(e) || e.upload != nil {
		return false, nil // its file has taken one
	}
	// In a line it waits in its turn: those behind it must not get the free one first.
	since, limit := time.Now(), s.awaitLimit()
	if e.way == unordered {
		since, limit = e.arrived, s.ordering.Recovery.Duration()
	}
	var looked time.Time
	for {
		near := mine < expected+uint64(s.nonces.Budget())
		if near && s.tryRisk(ctx, e, mine == expected) {
			return false, nil
		}
		if mine < expected {
			return false, tooRisky(mine, expected)
		}
		pace := freshness * time.Duration(1+min(mine-expected, maxPaced)/16)
		if looked.IsZero() || time.Since(looked) > pace {
			if !looked.IsZero() {
				if account, found, err := s.chain.Account(ctx, e.tx.From()); err == nil && found {
					expected = max(expected, account.Nonce)
				}
			}
			looked = time.Now()
			if mine >= expected && !s.pool.Follows(ctx, e.tx, expected) {
				if !near && s.tryRisk(ctx, e, false) { // nobody on the way needs it
					return false, nil
				}
				return false, tooRisky(mine, expected)
			}
		}
		if time.Since(since) > limit || !sleep.For(ctx, riskPace) {
			return e.way != unordered, tooRisky(mine, expected)
		}
		expected = max(expected, s.pool.Proven(e.tx.From()))
		switch {
		case mine < expected:
			return false, eth.ErrNonceTooLow(mine, expected)
		case mine == expected && s.isAlone(e):
			return false, nil
		}
	}
}

// isAlone tells whether nothing else can have taken the nonce of a transaction that is next. In a line nothing
// can. Without a line another relay may have the same nonce. So nothing is alone in a fleet, and in one relay what a
// sender with recent wrong nonces sends is not.
func (s *Submitter) isAlone(e *Entry) bool {
	return e.way != unordered || !s.nonces.Shared() && s.pool.Alone(e.tx) && !s.nonces.Watched(e.tx.From())
}

// tryRisk takes a risk, if one is free. Without a line the last ones are kept for transactions that are next.
func (s *Submitter) tryRisk(ctx context.Context, e *Entry, isNext bool) (ok bool) {
	spare := 0
	if e.way == unordered && !isNext {
		spare = s.nonces.Budget() / 4
	}
	e.risk, ok = s.nonces.Take(ctx, e.tx.From(), spare)
	return ok
}

// riskPace is how often a transaction that waits for a risk without a line looks. The mirror node is asked less
// often, and the more rarely the further off the nonce is, up to maxPaced nonces.
const (
	riskPace = 25 * time.Millisecond
	maxPaced = 1024
)

func tooRisky(mine, expected uint64) error {
	if mine > expected {
		return eth.ErrNonceTooHigh(mine, expected)
	}
	return eth.ErrWrongNonces()
}

// settleRisk applies the verdict: the risk is given back, unless the operator paid for a refusal that its sender
// caused. A transaction that was refused without a risk is charged one.
func (e *Entry) settleRisk(r Result) {
	switch {
	case !r.refusedForSender():
		e.risk.GiveBack()
	case e.risk == nil:
		e.s.nonces.Charge(e.tx.From())
	}
	if r.back == backVanished {
		e.s.nonces.Excuse(e.tx.From())
	}
	e.risk = nil
}

// refusedForSender tells whether consensus refused the transaction for a reason that its sender has in hand: the nonce,
// or what the sender has. The network says the latter as well when the operator has nothing left. Then nothing of
// anybody is executed, so it does no harm that senders are charged for it.
func (r Result) refusedForSender() bool {
	if !r.atConsensus || r.ran {
		return false
	}
	switch r.Status {
	case hapi.ResponseCodeEnum_WRONG_NONCE, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID,
		hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:
		return true
	default:
		return false
	}
}

// Where a sender's transactions may fail, the number of them that are at nodes without a verdict is bounded: if one fails, the network
// refuses those behind it, and the operator pays.

// waitForRoom waits while the lane has so many transactions at nodes without a verdict that e would be one too
// many. It returns false if there is no room in time. waited: something may have changed.
func (s *Submitter) waitForRoom(ctx context.Context, lease *lock.Lease, e *Entry, known *known) (waited, ok bool) {
	if e.way == unordered {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
	defer cancel()
	for {
		most := s.maxOpen(ctx, e, *known)
		if most == 0 {
			return waited, true
		}
		decided := lease.Room(most)
		if decided != nil && !waited && time.Since(known.at) >= freshness { // the balance may be enough by now
			s.readSender(ctx, e, known)
			waited = true
			continue
		}
		if decided == nil {
			return waited, true
		}
		select {
		case <-decided:
			waited = true
		case <-ctx.Done():
			return true, false
		}
		s.readSender(ctx, e, known)
	}
}

// maxOpen is how many transactions of the sender may be without a verdict, e included; 0: any number.
func (s *Submitter) maxOpen(ctx context.Context, e *Entry, known known) int {
	most := s.ordering.MaxOpen
	if left, charged := s.nonces.Left(ctx, e.tx.From()); charged && (most == 0 || left < most) {
		most = max(left, 1)
	}
	if !s.cfg.SkipLookUps && !s.spendings.covered(e.tx, s.costOf(e.tx, known), known, s.pool.Proven(e.tx.From())) {
		most = 1
	}
	return most
}

// costOf is the balance that the sender needs for a transaction to be executed.
func (s *Submitter) costOf(tx *eth.Tx, known known) *big.Int {
	if subsidy, ok := s.subsidy(tx.To()); ok && subsidy.Allowance > 0 {
		return tx.Value()
	}
	price := tx.GasPrice()
	if known.GasPrice != nil && known.GasPrice.Cmp(price) < 0 {
		price = known.GasPrice
	}
	cost := new(big.Int).Mul(price, new(big.Int).SetUint64(tx.Gas()))
	return cost.Add(cost, tx.Value())
}

// spendings are the costs that senders may bear for the transactions that this process handed over, while any of
// them has no verdict. If a sender cannot pay for all of a burst, the network refuses all from some point on.
type spendings struct {
	mu      sync.Mutex
	senders map[common.Address]*spending // guarded by mu
}

type spending struct {
	open  int
	costs map[uint64]*big.Int // by nonce
	sum   big.Int             // of costs
}

func (s *spending) remove(nonce uint64) {
	if cost := s.costs[nonce]; cost != nil {
		s.sum.Sub(&s.sum, cost)
		delete(s.costs, nonce)
	}
}

// spendingsKept bounds what is kept of one sender.
const spendingsKept = 4096

// elsewhere bounds the nonces before a transaction for which a cost is assumed: more are not open at other relays.
const elsewhere = 1024

// assume puts a cost to the nonces of which this process handed nothing over. Another relay has them, or had.
func (s *spending) assume(from, to uint64, cost *big.Int) {
	if to < from || to-from > elsewhere {
		return
	}
	for nonce := from; nonce < to; nonce++ {
		if s.costs[nonce] == nil {
			s.costs[nonce] = cost
			s.sum.Add(&s.sum, cost)
		}
	}
}

// covered tells whether the balance is enough for a transaction and for those before it that are not yet taken
// from the balance. Relays do not tell each other what transactions cost. So each nonce from proven on that another
// relay handed over is taken to cost as much as this one; else a sender could split a burst over relays, and cost the
// operator more.
func (p *spendings) covered(tx *eth.Tx, cost *big.Int, known known, proven uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.senders[tx.From()]
	if s == nil {
		return true // the precheck asks for more
	}
	s.assume(max(known.shown, proven), tx.Nonce(), cost)
	balance := known.Balance.Weibar()
	if new(big.Int).Add(&s.sum, cost).Cmp(balance) <= 0 {
		return true
	}
	sum := new(big.Int).Set(cost)
	for nonce, cost := range s.costs {
		if nonce >= known.shown && nonce < tx.Nonce() {
			sum.Add(sum, cost)
		}
	}
	return sum.Cmp(balance) <= 0
}

// add notes the cost of a transaction that a node has.
func (p *spendings) add(tx *eth.Tx, cost *big.Int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.senders[tx.From()]
	if s == nil {
		s = &spending{costs: map[uint64]*big.Int{}}
		p.senders[tx.From()] = s
	}
	s.open++
	s.remove(tx.Nonce())
	s.costs[tx.Nonce()] = cost
	s.sum.Add(&s.sum, cost)
	s.remove(tx.Nonce() - spendingsKept) // wraps around to none where the nonce is lower
}

// settle notes that a transaction has its verdict.
func (p *spendings) settle(tx *eth.Tx, executed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.senders[tx.From()]
	if s == nil {
		return
	}
	if !executed {
		s.remove(tx.Nonce())
	}
	if s.open--; s.open == 0 {
		delete(p.senders, tx.From())
	}
}

// cost is what a transaction may cost the payer.
type cost struct {
	ip          string             // of who asks
	reservation *limit.Reservation // nil: none, or off
}

// Asker is the request with which a transaction came, for the log.
type Asker struct {
	ID     string // of the request
	Client string // its address, as far as the log may show it
}

// whoAsks notes who asks, and whose budget a transaction counts against.
func (s *Submitter) whoAsks(ctx context.Context, e *Entry) {
	e.traceID = telemetry.TraceID(ctx)
	e.asker = s.whose(ctx)
	if s.budget.On() {
		e.cost.ip = s.clientIP(ctx)
	}
}

// reserve sets aside the expected cost of a submission, or returns the client's error. It comes last before the
// submission, so that a transaction that cannot be sent reserves nothing.
func (s *Submitter) reserve(ctx context.Context, e *Entry, known known, submission consensus.Submission) error {
	if !s.budget.On() {
		return nil
	}
	var price hedera.Tinybar // 0: not known
	if !s.cfg.SkipLookUps {
		price, _ = hedera.TinybarOf(known.GasPrice)
	}
	offered, _ := hedera.TinybarOf(e.tx.GasPrice())
	reservation, err := s.setAside(ctx, e, limit.EthereumCost(price, offered, e.tx.Gas(), submission.MaxGasAllowance))
	if err == nil {
		e.cost.reservation = reservation
	}
	return err
}

func (s *Submitter) setAside(ctx context.Context, e *Entry, amount hedera.Tinybar) (*limit.Reservation, error) {
	reservation, ok := s.budget.Reserve(ctx, limit.Spending{
		Sender: e.tx.From(), IP: e.cost.ip, Method: "eth_sendRawTransaction", Amount: amount,
	})
	if !ok {
		return nil, eth.ErrHbarLimited()
	}
	return reservation, nil
}

// reserveFile sets aside the expected cost of putting call data into a file, or returns the client's error.
func (s *Submitter) reserveFile(ctx context.Context, e *Entry, digits int) (cost, error) {
	if !s.budget.On() {
		return cost{}, nil
	}
	reservation, err := s.setAside(ctx, e, s.budget.FileCost(ctx, digits, s.rules.FileChunkSize))
	return cost{reservation: reservation}, err
}

// stored ends the reservation for a file that could not be made, and tells whether anything may have been paid. The reservation
// for a file that was made lasts until the file is deleted.
func (c *cost) stored(file File, err error) (paid bool) {
	var failed *consensus.ReceiptError
	var refused *consensus.StatusError
	var unsent *consensus.NotSentError
	var unavailable *consensus.NodeUnavailableError
	switch {
	case file != nil:
	case errors.As(err, &failed):
		c.reservation.Settle(failed.TransactionID)
	case errors.As(err, &refused), errors.As(err, &unsent), errors.As(err, &unavailable):
		c.reservation.Release()
		return false
	default: // nobody knows the cost
		c.reservation.Settle()
	}
	return true
}

// settle ends the reservation. Only what reached consensus is charged. If that is not known, the network tells
// later, or the estimate stays.
func (c *cost) settle(r Result) {
	switch {
	case !r.atConsensus && r.Outcome != Unknown:
		c.reservation.Release()
	case r.TransactionID.IsZero():
		c.reservation.Settle()
	default:
		c.reservation.Settle(r.TransactionID)
	}
}

// giveBack ends what was set aside for a turn in which nothing was sent. The next turn sets its own aside.
func (e *Entry) giveBack() {
	e.cost.reservation.Release()
	e.risk.GiveBack()
	e.risk = nil
}

// TellNobody is a Deps.Charged for those who do not want to know.
func TellNobody(common.Hash, ...hedera.TransactionID) {}

// tellCharged reports the transactions that reached consensus.
func (e *Entry) tellCharged(r Result) {
	if r.atConsensus && !r.TransactionID.IsZero() {
		e.s.charged(e.tx.Hash(), r.TransactionID)
	}
}
