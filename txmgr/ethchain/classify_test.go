package ethchain

import (
	"errors"
	"testing"

	"lockstep/txmgr"
)

// Texts as nodes have given them.
var recorded = []struct {
	node, text string
	want       txmgr.Class
}{
	{"geth", "already known", txmgr.ClassKnown},
	{"anvil", "transaction already imported", txmgr.ClassKnown},
	{"nethermind", "AlreadyKnown", txmgr.ClassKnown},
	{"besu", "Known transaction", txmgr.ClassKnown},
	{"erigon", "block already known", txmgr.ClassKnown},

	{"geth", "replacement transaction underpriced", txmgr.ClassSlotTaken},
	{"geth", "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued", txmgr.ClassSlotTaken},
	{"nethermind", "FeeTooLowToCompete", txmgr.ClassSlotTaken},
	{"besu", "Replacement transaction underpriced", txmgr.ClassSlotTaken},

	{"geth", "nonce too low: next nonce 1, tx nonce 0", txmgr.ClassNonceUsed},
	{"geth", "nonce too low: address 0x0000000000000000000000000000000000000001, tx: 0 state: 1", txmgr.ClassNonceUsed},
	{"anvil", "nonce too low", txmgr.ClassNonceUsed},
	{"nethermind", "OldNonce", txmgr.ClassNonceUsed},
	{"arbitrum", "invalid transaction nonce", txmgr.ClassNonceUsed},
	{"op-geth", "already known", txmgr.ClassKnown},
	{"op-geth", "replacement transaction underpriced", txmgr.ClassSlotTaken},
	{"op-geth", "nonce too low: next nonce 5, tx nonce 4", txmgr.ClassNonceUsed},
	{"op-geth", "nonce too high: tx nonce 7, gapped nonce 5", txmgr.ClassGap},
	{"op-geth", "transaction underpriced: tip needed 1, tip permitted 0", txmgr.ClassFeeTooLow},
	{"op-geth", "max fee per gas less than block base fee: address 0x0000000000000000000000000000000000000001, maxFeePerGas: 1, baseFee: 252", txmgr.ClassFeeTooLow},
	// The balance has to pay for the data on the first layer, too.
	{"op-geth", "insufficient funds for gas * price + value: balance 21000, tx cost 21900, overshot 900", txmgr.ClassFunds},
	{"op-geth", "transaction type not supported", txmgr.ClassFatal},
	{"op-geth", "intrinsic gas too low: needed 21000, allowed 20000", txmgr.ClassFatal},
	{"op-geth", "exceeds block gas limit", txmgr.ClassPoolPolicy},
	{"op-geth", "exceeds maximum per-transaction gas limit", txmgr.ClassPoolPolicy},
	{"op-geth", "in-flight transaction limit reached for delegated accounts", txmgr.ClassPoolPolicy},
	{"op-geth", "oversized data: transaction size 131080, limit 131072", txmgr.ClassPoolPolicy},

	{"relay", "Nonce too low. Provided nonce: 1, current nonce: 2", txmgr.ClassNonceUsed},
	{"relay", "transaction failed: WRONG_NONCE", txmgr.ClassNonceUsed},

	{"nethermind", "NonceGap", txmgr.ClassGap},
	{"besu", "Transaction nonce is too distant; nonce too far in the future", txmgr.ClassGap},
	{"relay", "Nonce too high. Provided nonce: 5, current nonce: 2", txmgr.ClassGap},

	{"geth", "transaction gas price below minimum: gas tip cap 0, minimum needed 1", txmgr.ClassFeeTooLow},
	{"geth", "transaction underpriced", txmgr.ClassFeeTooLow},
	{"anvil", "max fee per gas less than block base fee", txmgr.ClassFeeTooLow},
	{"relay", "Consensus node error: INSUFFICIENT_TX_FEE (9)", txmgr.ClassFeeTooLow},
	{"besu", "Gas price below configured minimum gas price", txmgr.ClassFeeTooLow},
	{"relay", "Gas price '10' is below configured minimum gas price '710000000000'", txmgr.ClassFeeTooLow},

	{"geth", "insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000", txmgr.ClassFunds},
	{"anvil", "Insufficient funds for gas * price + value", txmgr.ClassFunds},
	{"besu", "Upfront cost exceeds account balance", txmgr.ClassFunds},
	{"relay", "INSUFFICIENT_PAYER_BALANCE", txmgr.ClassFunds},

	{"geth", "intrinsic gas too low: gas 20000, minimum needed 21000", txmgr.ClassFatal},
	{"anvil", "intrinsic gas too low", txmgr.ClassFatal},
	{"anvil", "intrinsic gas too high", txmgr.ClassFatal},
	{"geth", "invalid chain id for signer: have 1 want 2", txmgr.ClassFatal},
	{"geth", "invalid sender", txmgr.ClassFatal},

	// One node's own limits: another endpoint may take it.
	{"geth", "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)", txmgr.ClassPoolPolicy},
	{"geth", "address already reserved", txmgr.ClassPoolPolicy},
	{"geth", "in-flight transaction limit reached for delegated accounts", txmgr.ClassPoolPolicy},
	{"geth", "account limit exceeded: pooled 1", txmgr.ClassPoolPolicy},
	{"geth", "txpool is full", txmgr.ClassPoolPolicy},

	// Nobody knows what these mean, so nothing may follow from them.
	{"nobody", "something went wrong", txmgr.ClassAmbiguous},
	{"nobody", "internal error", txmgr.ClassAmbiguous},
	{"nobody", "", txmgr.ClassAmbiguous},
	{"nobody", "execution reverted", txmgr.ClassAmbiguous},
}

func TestClassify(t *testing.T) {
	for _, row := range recorded {
		for _, code := range []int{-32000, -32003, -32602, -32603} { // codes decide nothing
			got := classify("endpoint", &callError{Code: code, Message: row.text})
			if got.Class != row.want {
				t.Errorf("%s: %q with code %d is %s, want %s", row.node, row.text, code, got.Class, row.want)
			}
		}
	}
	if got := classify("endpoint", &transportError{errors.New("nonce too low")}); got.Class != txmgr.ClassTransport {
		t.Errorf("a lost answer is %s, whatever its text", got.Class)
	}
	if classify("endpoint", nil) != nil {
		t.Error("no error is not taken as taken")
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

func FuzzClassify(f *testing.F) {
	for _, row := range recorded {
		f.Add(row.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if classify("endpoint", &callError{Message: text}).Class == txmgr.ClassTransport {
			t.Fatal("an answer counts as a lost one")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0xc0})
	c, err := New(Config{ID: 31337, URLs: []string{"http://127.0.0.1:1"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tx, err := c.Decode(raw); err == nil && (tx.Signer == "" || tx.Hash == "") {
			t.Fatalf("decoded without a signer: %+v", tx)
		}
	})
}
