package chaintest

import (
	"context"
	"errors"
	"math/big"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// Harness is a driver on a chain of its own.
type Harness struct {
	Chain     txmgr.Chain
	Dead      txmgr.Chain // the same driver, whose endpoints do not answer
	Key       txmgr.Key   // of an account with money that has sent nothing yet
	Stranger  txmgr.Key   // of another account
	To        string      // an account that takes money
	Value     *big.Int    // what it is sent
	Reverting string      // an account that fails every call
	Garbage   []string    // what names no account
	Mine      func()      // brings what was sent into a block, where that needs help
}

// suite is one run on one chain.
type suite struct {
	*testing.T
	Harness
	signer string
	behind string // tag of the newest transaction
}

// patience bounds every wait for the chain.
const patience = 5 * time.Minute

// Run runs the contract. Its parts build on each other.
func Run(t *testing.T, h Harness) {
	s := &suite{T: t, Harness: h}
	var err error
	if s.signer, err = h.Chain.Account(h.Key.Account()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"names", (*suite).names},
		{"blocks", (*suite).blocks},
		{"an account that has sent nothing", (*suite).unused},
		{"fees", (*suite).fees},
		{"simulation", (*suite).simulation},
		{"bytes", (*suite).bytes},
		{"one transaction", (*suite).one},
		{"a used nonce", (*suite).used},
		{"a nonce above the next one", (*suite).above},
		{"what waits", (*suite).waits},
		{"several at once", (*suite).several},
		{"validity", (*suite).validity},
		{"a dead endpoint", (*suite).dead},
		{"a context that is over", (*suite).over},
	} {
		passed := t.Run(part.name, func(t *testing.T) {
			one := *s
			one.T = t
			part.test(&one)
			s.behind = one.behind
		})
		if !passed {
			return // what follows stands on it
		}
	}
}

func (s *suite) until(what string, holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
			s.Mine()
		case <-ctx.Done():
			s.Fatalf("never: %s", what)
		}
	}
}

func (s *suite) next() uint64 {
	s.Helper()
	n := must.Get(s.Chain.Nonces(s.Context(), s.signer))(s)
	return n.Latest
}

// signed makes a transaction of the account. Behind a transaction it has that one's tag.
func (s *suite) signed(nonce uint64, value *big.Int, behind string) txmgr.Signed {
	s.Helper()
	market := must.Get(s.Chain.Market(s.Context()))(s)
	call := txmgr.Call{From: s.signer, To: s.To, Value: value}
	tried := must.Get(s.Chain.Simulate(s.Context(), call))(s)
	call.Gas = tried.Gas
	draft := txmgr.Draft{Signer: s.signer, Nonce: nonce, Call: call, Fees: market.Tips[txmgr.SpeedFast]}
	if s.Chain.Traits().InLine() {
		draft.Behind = behind
	}
	return must.Get(s.seal(draft, s.Key))(s)
}

func (s *suite) seal(draft txmgr.Draft, key txmgr.Key) (txmgr.Signed, error) {
	s.Helper()
	unsigned := must.Get(s.Chain.Prepare(s.Context(), draft))(s)
	signature := must.Get(key.Sign(s.Context(), unsigned.Bytes))(s)
	return s.Chain.Seal(unsigned, signature)
}

func (s *suite) offer(list ...txmgr.Signed) []txmgr.Class {
	s.Helper()
	answers := s.Chain.Send(s.Context(), list)
	if len(answers) != len(list) {
		s.Fatalf("%d answers to %d offers", len(answers), len(list))
	}
	classes := make([]txmgr.Class, len(list))
	for n, err := range answers {
		var send *txmgr.SendError
		if err != nil && !errors.As(err, &send) {
			s.Fatalf("offer %d: %v is no SendError", n, err)
		}
		classes[n] = txmgr.ClassOf(err)
	}
	return classes
}

func taken(c txmgr.Class) bool { return c == "" || c == txmgr.ClassKnown }

// executed waits for the receipt of a transaction.
func (s *suite) executed(tx txmgr.Signed) *txmgr.Receipt {
	s.Helper()
	var receipt *txmgr.Receipt
	s.until("a receipt of "+tx.Hash, func() bool {
		_, list := must.Get2(s.Chain.Receipts(s.Context(), []txmgr.Signed{tx}))(s)
		receipt = list[0].Receipt
		return receipt != nil
	})
	return receipt
}

// unknown checks that nothing is known of a transaction.
func (s *suite) unknown(tx txmgr.Signed) {
	s.Helper()
	_, list := must.Get2(s.Chain.Receipts(s.Context(), []txmgr.Signed{tx}))(s)
	if list[0].Receipt != nil {
		s.Errorf("%s was executed: %+v", tx.Hash, list[0].Receipt)
	}
}
