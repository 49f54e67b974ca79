package source_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/watch/source"
)

// wholeTransactions holds what is read of blocks as a whole, by hash and by number, with what came of each.
func wholeTransactions(t *testing.T, c served) {
	p := poolOf(t, c, source.Deps{})
	before := headOf(t, p).Number
	c.emit(emitter, ping, pong)
	c.emit(emitter)
	c.emit(emitter2, ping)
	head := headOf(t, p)
	all := func(*source.Transaction) bool { return true }
	toFirst := func(tx *source.Transaction) bool { return tx.To != nil && *tx.To == emitter }
	list, err := p.TransactionsOfRange(t.Context(), before+1, head.Number, toFirst)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, event := range []common.Hash{ping, pong} {
		tx := &list[i]
		if tx.Index != uint64(i) || !bytes.Equal(tx.Input, logging(event)) || tx.BlockNumber != before+1 || tx.From != c.sender() || tx.Failed || tx.GasUsed == 0 || tx.Value.Sign() != 0 || tx.Time == 0 || tx.Hash == (common.Hash{}) {
			t.Errorf("%+v", tx)
		}
	}
	list, err = p.TransactionsOfBlock(t.Context(), head, all)
	if err != nil || len(list) != 1 || list[0].BlockHash != head.Hash || *list[0].To != emitter2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := p.TransactionsOfBlock(t.Context(), source.Block{Number: head.Number, Hash: common.Hash{1}}, all); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("an unknown block: %v", err)
	}
	if _, err := p.TransactionsOfRange(t.Context(), head.Number, head.Number+1, all); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("a block that is not there yet: %v", err)
	}
}

// TestTransactionsOfALiar: a block that used gas and names no transaction, and a receipt that is not there yet, prove nothing; another endpoint is asked.
func TestTransactionsOfALiar(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)
	for what, liar := range map[string]spoiler{"no transactions": {callless: true}, "no receipts": {receiptless: true}} {
		all := func(*source.Transaction) bool { return true }
		url := liar.proxy(t, c.URL)
		alone := pool(t, source.Config{URLs: []string{url}}, source.Deps{})
		if list, err := alone.TransactionsOfBlock(t.Context(), headOf(t, alone), all); err == nil {
			t.Errorf("%s: %+v", what, list)
		}
		both := pool(t, source.Config{URLs: []string{url, c.URL}}, source.Deps{})
		list, err := both.TransactionsOfBlock(t.Context(), headOf(t, both), all)
		if err != nil || len(list) != 1 {
			t.Errorf("%s, and an honest endpoint: %+v, %v", what, list, err)
		}
	}
}
