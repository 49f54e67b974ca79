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
	"lockstep/internal/relay/limit"
	"lockstep/internal/sleep"
)

// What a sender can cost the operator by transactions that the network refuses. A transaction that is not known to be
// next needs one of its sender's risks before it is sent. One that is next when it is sent can only be refused if a
// transaction before it fails, or takes what it was to cost: see waitForRoom.

// takeRisk takes one of the sender's risks if the network may refuse this transaction for its nonce: it is not the
// next one, or others have its nonce, too. Where nothing is looked up the network judges the nonce. takeRisk waits
// for a free risk while all earlier transactions are on their way. wait means that it waited for as long as a turn
// may take: the transaction goes back into its line. The error is the client's.
func (e *Entry) takeRisk(ctx context.Context) (wait bool, err error) {
	s, mine, expected := e.s, e.tx.Nonce(), e.next.Nonce
	budget := uint64(s.Nonces.Budget())
	if s.cfg.SkipLookUps || budget == 0 || e.upload != nil {
		return false, nil // its file has taken one
	}
	// In a line it waits in its turn: those behind it must not get the free one first.
	since, limit := time.Now(), s.awaitLimit()
	if e.way == unordered {
		since, limit = e.arrived, s.Ordering.Recovery.Duration()
	}
	for looked := (time.Time{}); ; expected = max(expected, s.Pool.Proven(e.tx.From())) {
		switch {
		case mine < expected:
			return false, eth.ErrNonceTooLow(mine, expected)
		case mine == expected && e.isAlone():
			return false, nil
		}
		near := mine-expected < budget
		if near && e.tryRisk(ctx, mine == expected) {
			return false, nil
		}
		pace := freshness * time.Duration(1+min(mine-expected, maxPaced)/16)
		if time.Since(looked) > pace {
			if !looked.IsZero() {
				if account, found, err := s.Chain.Account(ctx, e.tx.From()); err == nil && found {
					expected = max(expected, account.Nonce)
				}
			}
			looked = time.Now()
			if mine >= expected && !s.Pool.Follows(ctx, e.tx, expected) {
				if !near && e.tryRisk(ctx, false) { // nobody on the way needs it
					return false, nil
				}
				return false, tooRisky(mine, expected)
			}
		}
		if time.Since(since) > limit || !sleep.For(ctx, riskPace) {
			return e.way != unordered, tooRisky(mine, expected)
		}
	}
}

// isAlone tells whether nothing else can have taken the nonce of a transaction that is next. In a line nothing
// can. Without a line another relay may have the same nonce. So nothing is alone in a fleet, and in one relay what a
// sender with recent wrong nonces sends is not.
func (e *Entry) isAlone() bool {
	s := e.s
	return e.way != unordered || !s.Nonces.Shared() && s.Pool.Alone(e.tx) && !s.Nonces.Watched(e.tx.From())
}

// tryRisk takes a risk, if one is free. Without a line the last ones are kept for transactions that are next.
func (e *Entry) tryRisk(ctx context.Context, isNext bool) (ok bool) {
	spare := 0
	if e.way == unordered && !isNext {
		spare = e.s.Nonces.Budget() / 4
	}
	e.risk, ok = e.s.Nonces.Take(ctx, e.tx.From(), spare)
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
	return eth.ErrWrongNonces
}

// settleRisk applies the verdict: the risk is given back, unless the operator paid for a refusal that its sender
// caused. A transaction that was refused without a risk is charged one.
func (e *Entry) settleRisk(r Result) {
	switch {
	case !r.refusedForSender():
		e.risk.GiveBack()
	case e.risk == nil:
		e.s.Nonces.Charge(e.tx.From())
	}
	if r.back == backVanished {
		e.s.Nonces.Excuse(e.tx.From())
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
func (e *Entry) waitForRoom(ctx context.Context) (waited, ok bool) {
	if e.way == unordered {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, e.s.awaitLimit())
	defer cancel()
	for {
		most := e.maxOpen(ctx)
		if most == 0 {
			return waited, true
		}
		decided := e.lease.Room(most)
		if decided == nil {
			return waited, true
		}
		if waited || time.Since(e.known.at) < freshness { // else the balance may be enough by now
			select {
			case <-decided:
			case <-ctx.Done():
				return true, false
			}
		}
		e.readSender(ctx, e.known)
		waited = true
	}
}

// maxOpen is how many transactions of the sender may be without a verdict, e included; 0: any number.
func (e *Entry) maxOpen(ctx context.Context) int {
	s, most := e.s, e.s.Ordering.MaxOpen
	if left, charged := s.Nonces.Left(ctx, e.tx.From()); charged && (most == 0 || left < most) {
		most = max(left, 1)
	}
	if !s.cfg.SkipLookUps && !s.spendings.covered(e.tx, e.costOf(), *e.known, s.Pool.Proven(e.tx.From())) {
		most = 1
	}
	return most
}

// costOf is the balance that the sender needs for the transaction to be executed.
func (e *Entry) costOf() *big.Int {
	if subsidy, ok := e.s.Subsidy(e.tx.To()); ok && subsidy.Allowance > 0 {
		return e.tx.Value()
	}
	price := e.tx.GasPrice()
	if network := e.known.GasPrice; network != nil && network.Cmp(price) < 0 {
		price = network
	}
	cost := new(big.Int).Mul(price, new(big.Int).SetUint64(e.tx.Gas()))
	return cost.Add(cost, e.tx.Value())
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
	sum := new(big.Int).Set(cost)
	for nonce, cost := range s.costs {
		if nonce >= known.shown && nonce < tx.Nonce() {
			sum.Add(sum, cost)
		}
	}
	return sum.Cmp(known.Balance.Weibar()) <= 0
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
	s.costs[tx.Nonce()] = cost
	delete(s.costs, tx.Nonce()-spendingsKept) // wraps around to none where the nonce is lower
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
		delete(s.costs, tx.Nonce())
	}
	if s.open--; s.open == 0 {
		delete(p.senders, tx.From())
	}
}

// reserve sets aside the expected cost of a submission, or returns the client's error. It comes last before the
// submission, so that a transaction that cannot be sent reserves nothing.
func (e *Entry) reserve(ctx context.Context, submission consensus.Submission) (err error) {
	if !e.s.Budget.On() {
		return nil
	}
	var price hedera.Tinybar // 0: not known
	if !e.s.cfg.SkipLookUps {
		price, _ = hedera.TinybarOf(e.known.GasPrice)
	}
	offered, _ := hedera.TinybarOf(e.tx.GasPrice())
	e.reserved, err = e.setAside(ctx, limit.EthereumCost(price, offered, e.tx.Gas(), submission.MaxGasAllowance))
	return err
}

// reserveFile sets aside the expected cost of putting call data into a file, or returns the client's error.
func (e *Entry) reserveFile(ctx context.Context, digits int) (r *limit.Reservation, err error) {
	if e.s.Budget.On() {
		r, err = e.setAside(ctx, e.s.Budget.FileCost(ctx, digits, e.s.Rules.FileChunkSize))
	}
	return r, err
}

func (e *Entry) setAside(ctx context.Context, amount hedera.Tinybar) (*limit.Reservation, error) {
	reservation, ok := e.s.Budget.Reserve(ctx, limit.Spending{
		Sender: e.tx.From(), IP: e.asker.IP, Method: "eth_sendRawTransaction", Amount: amount,
	})
	if !ok {
		return nil, eth.ErrHbarLimited
	}
	return reservation, nil
}

// notStored ends the reservation for a file that could not be made, and tells whether anything may have been paid.
func notStored(r *limit.Reservation, err error) (paid bool) {
	var failed *consensus.ReceiptError
	var refused *consensus.StatusError
	var unsent *consensus.NotSentError
	var unavailable *consensus.NodeUnavailableError
	switch {
	case errors.As(err, &failed):
		r.Settle(failed.TransactionID)
	case errors.As(err, &refused), errors.As(err, &unsent), errors.As(err, &unavailable):
		r.Release()
		return false
	default: // nobody knows the cost
		r.Settle()
	}
	return true
}

// settleCost ends the reservation. Only what reached consensus is charged. If that is not known, the network tells
// later, or the estimate stays.
func (e *Entry) settleCost(r Result) {
	switch {
	case !r.atConsensus && r.Outcome != Unknown:
		e.reserved.Release()
	case r.TransactionID.IsZero():
		e.reserved.Settle()
	default:
		e.reserved.Settle(r.TransactionID)
	}
	if r.atConsensus && !r.TransactionID.IsZero() {
		e.s.Charged(e.tx.Hash(), r.TransactionID)
	}
}

// giveBack ends what was set aside for a turn in which nothing was sent. The next turn sets its own aside.
func (e *Entry) giveBack() {
	e.reserved.Release()
	e.risk.GiveBack()
	e.risk = nil
}
