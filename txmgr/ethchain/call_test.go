package ethchain

import (
	"testing"

	"lockstep/internal/ethrpc"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestJudged: what an endpoint said of itself refuses nothing for ever. Only what certainly had no effect is certain.
func TestJudged(t *testing.T) {
	for class, want := range map[ethrpc.Class]txmgr.Class{
		ethrpc.Known: txmgr.ClassKnown, ethrpc.SlotTaken: txmgr.ClassSlotTaken, ethrpc.NonceUsed: txmgr.ClassNonceUsed, ethrpc.Gap: txmgr.ClassGap,
		ethrpc.FeeTooLow: txmgr.ClassFeeTooLow, ethrpc.Funds: txmgr.ClassFunds, ethrpc.Fatal: txmgr.ClassFatal, ethrpc.Policy: txmgr.ClassPoolPolicy,
		ethrpc.Unknown: txmgr.ClassAmbiguous, ethrpc.Reverted: txmgr.ClassAmbiguous, ethrpc.Malformed: txmgr.ClassAmbiguous,
		ethrpc.Limited: txmgr.ClassPoolPolicy, ethrpc.Denied: txmgr.ClassPoolPolicy, ethrpc.WrongChain: txmgr.ClassPoolPolicy,
		ethrpc.Unsupported: txmgr.ClassPoolPolicy, ethrpc.TooMuch: txmgr.ClassPoolPolicy,
		ethrpc.Broken: txmgr.ClassTransport, ethrpc.Missing: txmgr.ClassTransport, ethrpc.Lost: txmgr.ClassTransport, ethrpc.Unsent: txmgr.ClassNotSent,
	} {
		got := judged(&ethrpc.Error{Class: class, Text: "words"})
		if got.Class != want {
			t.Errorf("%s is %s, want %s", class, got.Class, want)
		}
	}
	if judged(nil) != nil {
		t.Error("no error is not taken as taken")
	}
}

// TestReverted: why a call would fail is told in words, also where an endpoint names a status of the network behind it.
func TestReverted(t *testing.T) {
	for text, want := range map[string]string{
		"Error occurred during transaction simulation: INVALID_ALIAS_KEY": "Error occurred during transaction simulation: INVALID_ALIAS_KEY (nothing is at the number, and nothing can be made there)",
		"execution reverted: NOT_THE_OWNER":                               "execution reverted: NOT_THE_OWNER",
		"":                                                                "",
	} {
		if got := reverted(&ethrpc.Error{Class: ethrpc.Reverted, Text: text}).Reason; got != want {
			t.Errorf("%q: the reason is %q, want %q", text, got, want)
		}
	}
}

// TestWorse: what one endpoint may have taken is not refused by another's word.
func TestWorse(t *testing.T) {
	say := func(c txmgr.Class) *txmgr.SendError { return &txmgr.SendError{Class: c} }
	for _, row := range []struct{ first, second, want txmgr.Class }{
		{txmgr.ClassTransport, txmgr.ClassFatal, txmgr.ClassTransport},
		{txmgr.ClassTransport, txmgr.ClassNonceUsed, txmgr.ClassTransport},
		{txmgr.ClassTransport, txmgr.ClassKnown, txmgr.ClassKnown},
		{txmgr.ClassPoolPolicy, txmgr.ClassFatal, txmgr.ClassFatal},
		{txmgr.ClassNotSent, txmgr.ClassTransport, txmgr.ClassTransport},
	} {
		if got := txmgr.ClassOf(worse(say(row.first), say(row.second))); got != row.want {
			t.Errorf("%s, then %s: got %s, want %s", row.first, row.second, got, row.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0xc0})
	c := must.Get(New(Config{ID: 31337, URLs: []string{"http://127.0.0.1:1"}}))(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tx, err := c.Decode(raw); err == nil && (tx.Signer == "" || tx.Hash == "") {
			t.Fatalf("decoded without a signer: %+v", tx)
		}
	})
}
