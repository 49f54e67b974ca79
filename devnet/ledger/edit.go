package ledger

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// ErrNotEditable is an edit of an address that has no account of its own: the system's,
// tokens', and those of accounts that are gone.
var ErrNotEditable = errors.New("the address belongs to the system, to a token, or to an account that was deleted")

// ErrNobody is an edit of an address such as 0x…dEaD, which stands for an entity number that nobody has.
var ErrNobody = errors.New("an address that begins with 12 zero bytes stands for an entity number, and nobody has this one")

// ErrNotThere is an edit that needs more hbar than the treasury has.
var ErrNotThere = errors.New("the treasury has not so much")

// maxNonce is more than transactions ever reach, and has room for many on top of it: the network's nonces
// have 63 bits.
const maxNonce = 1 << 62

// ErrNonce is an edit that gives a nonce beyond maxNonce.
var ErrNonce = errors.New("the highest nonce is 0x4000000000000000")

// Edit changes an account without a transaction, as tools for development may. Nil fields
// are left. An address that nothing is at gets an account.
type Edit struct {
	Address common.Address
	Balance *hedera.Tinybar // the treasury gives or takes the difference
	Nonce   *uint64
	Code    *[]byte // makes a contract of an account
	Storage map[common.Hash]common.Hash
}

// Edit takes effect at once, in a block of its own without a block time.
func (l *Ledger) Edit(e Edit) (err error) {
	defer facts.Catch(&err)
	l.handling.Lock()
	defer l.handling.Unlock()
	h := l.begin(&core.Submission{Body: &hapi.TransactionBody{}, Payer: hedera.Entity(state.Treasury)})
	if err := edit(h, e); err != nil {
		return err
	}
	l.enterEdit(h)
	l.entered()
	return nil
}

// SetGasPrice changes the network's price of a unit of gas for what comes to consensus next, as
// the exchange rate does on the network. The schedule of fees in its file stays.
func (l *Ledger) SetGasPrice(price hedera.Tinybar) error {
	if price < 1 {
		return fmt.Errorf("ledger: a gas price of %d must be positive", price)
	}
	l.handling.Lock()
	defer l.handling.Unlock()
	l.net.Price.Store(int64(price))
	return nil
}

// enterEdit brings an edit into the open block, which it opens where there is none.
func (l *Ledger) enterEdit(h *core.Handling) {
	l.store.Lock()
	defer l.store.Unlock()
	l.chain.Begin(h.Record.Consensus)
	h.Commit()
	l.chain.Open.To = h.Record.Consensus
}

func edit(h *core.Handling, e Edit) error {
	if state.IsSystem(e.Address) || h.State.IsToken(e.Address) {
		return ErrNotEditable
	}
	if e.Nonce != nil && *e.Nonce > maxNonce {
		return ErrNonce
	}
	a := h.State.Get(e.Address)
	if !a.Exists {
		if a.Deleted() {
			return ErrNotEditable
		}
		if _, longZero := hedera.FromLongZero(e.Address); longZero {
			return ErrNobody
		}
		h.State.Create(a, true)
	}
	if e.Balance != nil {
		bank := h.State.EntityAccount(state.Treasury)
		if more := *e.Balance - a.Tinybar(); more > bank.Tinybar() || *e.Balance < 0 {
			return ErrNotThere
		} else if more > 0 {
			h.State.Move(bank, a, more)
		} else {
			h.State.Move(a, bank, -more)
		}
	}
	if e.Nonce != nil {
		h.State.PutNonce(a, *e.Nonce)
	}
	if e.Code != nil {
		editCode(h, a, *e.Code)
	}
	for slot, value := range e.Storage {
		h.State.PutState(a, slot, value)
	}
	return nil
}

// editCode gives a contract other code, or makes one of an account.
func editCode(h *core.Handling, a *state.Party, code []byte) {
	made := a.Contract
	if !made {
		h.State.BecomeContract(a)
	}
	h.State.PutCode(a, code)
	if made {
		m := *a.CurrentMeta()
		c := *m.Contract
		c.Runtime, c.CodeHash = code, a.CodeHash
		m.Contract = &c
		h.State.PutMeta(a, &m)
	}
}
