package submit

import (
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
)

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
