package chaintest

import (
	"bytes"
	"context"
	"errors"
	"math/big"
	"slices"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

func (s *suite) names() {
	if s.Chain.ID() == "" {
		s.Error("the chain has no id")
	}
	if s.Chain.Traits().InFlight < 1 {
		s.Error("the traits allow nothing in flight")
	}
	if s.Chain.Traits().Mempool && s.Chain.Traits().InLine() {
		s.Error("a chain with a pool keeps what is above the next nonce")
	}
	again, err := s.Chain.Account(s.signer)
	if err != nil || again != s.signer {
		s.Errorf("the ledger's form of %s is %s, %v", s.signer, again, err)
	}
	for _, text := range append([]string{"", " ", "\x00"}, s.Garbage...) {
		if name, err := s.Chain.Account(text); err == nil {
			s.Errorf("%q is taken as the account %s", text, name)
		}
	}
}

func (s *suite) blocks() {
	s.Mine()
	head := must.Get(s.Chain.Head(s.Context()))(s)
	if head.Hash == "" || head.Time == 0 {
		s.Errorf("the head is %+v", head)
	}
	hash, err := s.Chain.BlockHash(s.Context(), head.Number, 0)
	if err != nil || hash != head.Hash {
		s.Errorf("block %d is %s by one question and %s, %v by another", head.Number, head.Hash, hash, err)
	}
	if hash, err := s.Chain.BlockHash(s.Context(), head.Number+1_000_000, 0); err != nil || hash != "" {
		s.Errorf("a block that is not there has the hash %q, %v", hash, err)
	}
	first := must.Get(s.Chain.Identity(s.Context()))(s)
	if again, err := s.Chain.Identity(s.Context()); err != nil || again != first || first == "" {
		s.Errorf("the identity is %q and %q, %v", first, again, err)
	}
}

func (s *suite) unused() {
	nonces := must.Get(s.Chain.Nonces(s.Context(), s.signer))(s)
	if nonces.Head.Hash == "" {
		s.Error("an account's nonce comes without a head")
	}
	latest, pending, err := s.Chain.HighestPending(s.Context(), s.signer)
	if err != nil || pending != nonces.Latest || latest != nonces.Latest {
		s.Errorf("the next nonce is %d and %d, and with what waits %d, %v", nonces.Latest, latest, pending, err)
	}
	if user, err := s.Chain.Consumer(s.Context(), s.signer, nonces.Latest); err != nil || user != nil {
		s.Errorf("nonce %d was used by %+v, %v", nonces.Latest, user, err)
	}
	balance, err := s.Chain.Balance(s.Context(), s.signer)
	if err != nil || balance.Sign() <= 0 {
		s.Errorf("its money is %v, %v", balance, err)
	}
	if delegated, err := s.Chain.Delegated(s.Context(), s.signer); err != nil || delegated {
		s.Errorf("it is delegated: %t, %v", delegated, err)
	}
}

func (s *suite) fees() {
	market := must.Get(s.Chain.Market(s.Context()))(s)
	if market.At == 0 {
		s.Error("nobody knows when the fees were measured")
	}
	for _, speed := range []string{txmgr.SpeedSlow, txmgr.SpeedStandard, txmgr.SpeedFast} {
		fees, there := market.Tips[speed]
		switch {
		case !there || fees.Max == nil || fees.Max.Sign() < 0:
			s.Errorf("%s costs %v", speed, fees.Max)
		case market.BaseFee != nil && (fees.Max.Cmp(market.BaseFee) < 0 || fees.Tip == nil || fees.Tip.Cmp(fees.Max) > 0):
			s.Errorf("%s pays %s with a tip of %v; the base fee is %s", speed, fees.Max, fees.Tip, market.BaseFee)
		}
	}
}

func (s *suite) simulation() {
	good, err := s.Chain.Simulate(s.Context(), txmgr.Call{From: s.signer, To: s.To, Value: s.Value})
	if err != nil || !good.Success || good.Gas == 0 {
		s.Errorf("a transfer: %+v, %v", good, err)
	}
	bad, err := s.Chain.Simulate(s.Context(), txmgr.Call{From: s.signer, To: s.Reverting, Value: new(big.Int), Data: []byte{1, 2, 3, 4}})
	if err != nil || bad.Success || bad.Reason == "" {
		s.Errorf("a call that fails: %+v, %v", bad, err)
	}
}

func (s *suite) bytes() {
	nonce := s.next()
	more := new(big.Int).Add(s.Value, s.Value)
	one, other, later := s.signed(nonce, s.Value, ""), s.signed(nonce, more, ""), s.signed(nonce+1, s.Value, "")
	if one.Hash == other.Hash || one.Hash == later.Hash || one.Hash == "" || len(one.Raw) == 0 {
		s.Error("different transactions are not told apart")
	}
	read := must.Get(s.Chain.Decode(one.Raw))(s)
	if read.Hash != one.Hash || read.Signer != s.signer || read.Nonce != nonce || read.Value.Cmp(s.Value) != 0 || !bytes.Equal(read.Raw, one.Raw) {
		s.Errorf("it is read as %+v", read)
	}
	if to, err := s.Chain.Account(s.To); err != nil || read.To != to {
		s.Errorf("it is read as one to %s, %v", read.To, err)
	}
	draft := txmgr.Draft{Signer: s.signer, Nonce: nonce, Call: read.Call, Fees: read.Fees}
	if signed, err := s.seal(draft, s.Stranger); err == nil {
		s.Errorf("somebody else's signature was put to it: %s", signed.Hash)
	}
	spoiled := slices.Clone(one.Raw)
	spoiled[len(spoiled)-1] ^= 1
	if read, err := s.Chain.Decode(spoiled); err == nil && read.Signer == s.signer {
		s.Error("a spoiled signature is the account's")
	}
	for _, raw := range [][]byte{nil, {}, {0}, one.Raw[:len(one.Raw)/2], append(slices.Clone(one.Raw), 0)} {
		if read, err := s.Chain.Decode(raw); err == nil {
			s.Errorf("%x is read as %s", raw, read.Hash)
		}
	}
}

func (s *suite) one() {
	nonce := s.next()
	before := must.Get(s.Chain.Balance(s.Context(), s.To))(s)
	tx, never := s.signed(nonce, s.Value, ""), s.signed(nonce+1000, s.Value, "")
	s.unknown(tx)
	if got := s.offer(tx); got[0] != "" {
		s.Fatalf("the next transaction: %s", got[0])
	}
	again := tx
	again.Again = true
	if got := s.offer(again); !taken(got[0]) && got[0] != txmgr.ClassNonceUsed && got[0].Certain() {
		s.Errorf("the same bytes again: %s, which says that no endpoint has them", got[0])
	}
	receipt := s.executed(tx)
	head, list := must.Get2(s.Chain.Receipts(s.Context(), []txmgr.Signed{tx, never}))(s)
	if len(list) != 2 || list[0].Hash != tx.Hash || list[1].Hash != never.Hash || list[0].Receipt == nil || list[1].Receipt != nil || list[1].Refused != nil {
		s.Errorf("what was sent and what was not: %+v", list)
	}
	if receipt.Hash != tx.Hash || !receipt.Success || receipt.GasUsed == 0 || receipt.GasPrice == nil || receipt.GasPrice.Sign() <= 0 {
		s.Errorf("the receipt is %+v at head %d", receipt, head.Number)
	}
	if hash, err := s.Chain.BlockHash(s.Context(), receipt.Block, 0); err != nil || hash != receipt.BlockHash {
		s.Errorf("its block %d is %s, %v, not %s", receipt.Block, hash, err, receipt.BlockHash)
	}
	s.until("its nonce is used", func() bool { return s.next() == nonce+1 })
	user := must.Get(s.Chain.Consumer(s.Context(), s.signer, nonce))(s)
	if user == nil || user.Hash != tx.Hash || user.Block != receipt.Block || user.BlockHash != receipt.BlockHash || user.Head.Number < user.Block {
		s.Errorf("its nonce was used by %+v", user)
	}
	after := must.Get(s.Chain.Balance(s.Context(), s.To))(s)
	if got := new(big.Int).Sub(after, before); got.Cmp(s.Value) != 0 {
		s.Errorf("the receiver has got %s, not %s", got, s.Value)
	}
	s.behind = tx.Tag
}

func (s *suite) used() {
	nonce := s.next() - 1
	first := must.Get(s.Chain.Consumer(s.Context(), s.signer, nonce))(s)
	tx := s.signed(nonce, new(big.Int).Add(s.Value, s.Value), "")
	if got := s.offer(tx); taken(got[0]) {
		s.Errorf("another payload at a used nonce: %q", got[0])
	}
	s.Mine()
	s.unknown(tx)
	if user, err := s.Chain.Consumer(s.Context(), s.signer, nonce); err != nil || user == nil || user.Hash != first.Hash {
		s.Errorf("its nonce was used by %+v, %v, not by %s", user, err, first.Hash)
	}
}

func (s *suite) above() {
	nonce := s.next()
	lower, upper := s.signed(nonce, s.Value, ""), s.signed(nonce+1, s.Value, "")
	got := s.offer(upper)[0]
	switch s.Chain.Traits().Order {
	case txmgr.OrderPool:
		if got != "" {
			s.Fatalf("a pool did not take it: %s", got)
		}
		s.Mine()
		s.unknown(upper)
		if _, pending, err := s.Chain.HighestPending(s.Context(), s.signer); err != nil || pending < nonce {
			s.Errorf("the highest pending nonce is %d, %v", pending, err)
		}
		if got := s.offer(lower)[0]; got != "" {
			s.Fatalf("the missing one: %s", got)
		}
		s.executed(lower)
		s.executed(upper)
	case txmgr.OrderStrict:
		if taken(got) || !got.Certain() {
			s.Fatalf("it cannot be executed, and the answer is %q", got)
		}
		s.Mine()
		s.unknown(upper)
		if s.next() != nonce {
			s.Error("the nonce moved")
		}
	case txmgr.OrderRising:
		if got != "" {
			s.Fatalf("it was not taken: %s", got)
		}
		s.executed(upper)
		s.until("the nonce is past both", func() bool { return s.next() == nonce+2 })
		if got := s.offer(lower)[0]; taken(got) {
			s.Errorf("what is below was taken")
		}
		s.Mine()
		s.unknown(lower)
		if user, err := s.Chain.Consumer(s.Context(), s.signer, nonce); err != nil || user == nil || user.Hash != upper.Hash {
			s.Errorf("what is below was ended by %+v, %v", user, err)
		}
	}
	if s.Chain.Traits().Order != txmgr.OrderStrict {
		s.behind = upper.Tag
	}
}

// waits looks into the pool, where a chain has one that can be looked into.
func (s *suite) waits() {
	chain, ok := s.Chain.(txmgr.Pooled)
	if !ok {
		return
	}
	nonce := s.next()
	tx, other := s.signed(nonce, s.Value, ""), s.signed(nonce, new(big.Int).Add(s.Value, s.Value), "")
	look := func(when string, wantNext uint64, want ...bool) {
		s.Helper()
		next, held := must.Get2(chain.Pool(s.Context(), s.signer, []txmgr.Signed{tx, other}))(s)
		if next != wantNext || !slices.Equal(held, want) {
			s.Errorf("%s: the next nonce is %d, not %d, and held is %v, not %v", when, next, wantNext, held, want)
		}
	}
	look("before", nonce, false, false)
	if got := s.offer(tx); got[0] != "" {
		s.Fatalf("the next transaction: %s", got[0])
	}
	look("sent", nonce+1, true, false) // it waits, or is executed already
	s.executed(tx)
	look("executed", nonce+1, true, false)
}

func (s *suite) several() {
	const n = 5
	nonce := s.next()
	list := make([]txmgr.Signed, n)
	behind := ""
	for i := range list {
		list[i] = s.signed(nonce+uint64(i), s.Value, behind)
		behind = list[i].Tag
	}
	for i, class := range s.offer(list...) {
		if class != "" {
			s.Errorf("transaction %d of %d: %s", i, n, class)
		}
	}
	last := uint64(0)
	for i, tx := range list {
		block := s.executed(tx).Block
		if block < last {
			s.Errorf("transaction %d is in block %d, before the one before it", i, block)
		}
		last = block
	}
	s.until("all nonces are used", func() bool { return s.next() == nonce+n })
	s.behind = behind
}

func (s *suite) validity() {
	tx := s.signed(s.next(), s.Value, "")
	if expired, err := s.Chain.Expired(s.Context(), tx); err != nil || expired {
		s.Errorf("a fresh transaction has expired: %t, %v", expired, err)
	}
	renewed, err := s.Chain.Renew(s.Context(), tx, "")
	if s.Chain.Traits().Validity != txmgr.ValidTag {
		if !errors.Is(err, txmgr.ErrNotPossible) {
			s.Errorf("a tag where there is none: %v", err)
		}
		return
	}
	if err != nil || renewed.Hash != tx.Hash || !bytes.Equal(renewed.Raw, tx.Raw) || renewed.Tag == tx.Tag || renewed.Tag == "" {
		s.Fatalf("it was renewed as %+v, %v", renewed, err)
	}
	// The same bytes under two tags are executed once, and both say so.
	if got := s.offer(tx)[0]; got != "" {
		s.Fatalf("under its first tag: %s", got)
	}
	receipt := s.executed(tx)
	if got := s.offer(renewed)[0]; taken(got) {
		s.Errorf("under its second tag: %q", got)
	}
	if again := s.executed(renewed); again.Block != receipt.Block {
		s.Errorf("under its second tag it is in block %d, not %d", again.Block, receipt.Block)
	}
}

func (s *suite) dead() {
	tx := s.signed(s.next(), s.Value, "")
	ctx := s.Context()
	for what, question := range map[string]func() error{
		"Identity":       func() error { _, err := s.Dead.Identity(ctx); return err },
		"Head":           func() error { _, err := s.Dead.Head(ctx); return err },
		"BlockHash":      func() error { _, err := s.Dead.BlockHash(ctx, 1, 0); return err },
		"Nonces":         func() error { _, err := s.Dead.Nonces(ctx, s.signer); return err },
		"HighestPending": func() error { _, _, err := s.Dead.HighestPending(ctx, s.signer); return err },
		"Balance":        func() error { _, err := s.Dead.Balance(ctx, s.signer); return err },
		"Delegated":      func() error { _, err := s.Dead.Delegated(ctx, s.signer); return err },
		"Market":         func() error { _, err := s.Dead.Market(ctx); return err },
		"Simulate": func() error {
			_, err := s.Dead.Simulate(ctx, txmgr.Call{From: s.signer, To: s.To, Value: s.Value})
			return err
		},
		"Consumer": func() error { _, err := s.Dead.Consumer(ctx, s.signer, 0); return err },
		"Receipts": func() error { return asked(s.Dead.Receipts(ctx, []txmgr.Signed{tx})) },
		"Pool": func() error {
			chain, ok := s.Dead.(txmgr.Pooled)
			if !ok {
				return errors.New("it has no pool")
			}
			_, _, err := chain.Pool(ctx, s.signer, []txmgr.Signed{tx})
			return err
		},
	} {
		if question() == nil {
			s.Errorf("%s has an answer of nobody", what)
		}
	}
	if expired, err := s.Dead.Expired(ctx, tx); expired {
		s.Errorf("it has expired by nobody's word (%v)", err)
	}
	s.lost(s.Dead.Send(ctx, []txmgr.Signed{tx, tx}))
}

// asked is the error of a question for receipts, of the whole or of one.
func asked(_ txmgr.Head, list []txmgr.Lookup, err error) error {
	for _, one := range list {
		err = errors.Join(err, one.Err)
	}
	return err
}

// lost checks answers of nobody: nothing was taken, and nothing is wrong with the transactions.
func (s *suite) lost(answers []error) {
	s.Helper()
	for n, err := range answers {
		switch class := txmgr.ClassOf(err); class {
		case txmgr.ClassTransport, txmgr.ClassNotSent, txmgr.ClassAmbiguous:
		default:
			s.Errorf("offer %d is answered with %q by nobody", n, class)
		}
	}
}

func (s *suite) over() {
	tx := s.signed(s.next(), s.Value, "")
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.lost(s.Chain.Send(ctx, []txmgr.Signed{tx}))
	if asked(s.Chain.Receipts(ctx, []txmgr.Signed{tx})) == nil {
		s.Error("a question that was given up has an answer")
	}
}
