package hederachain

import (
	"errors"
	"testing"

	"lockstep/consensus"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestClassify: what a node says to an offer, and what follows.
func TestClassify(t *testing.T) {
	refused := func(s hedera.Status) error { return &consensus.StatusError{Status: s} }
	node := hedera.Entity(3)
	for _, test := range []struct {
		err   error
		again bool
		want  txmgr.Class
	}{
		{nil, false, ""},
		{refused(hapi.ResponseCodeEnum_BUSY), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_CREATING_SYSTEM_ENTITIES), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_WAITING_FOR_LEDGER_ID), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_TRANSACTION_EXPIRED), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_INVALID_TRANSACTION_START), true, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_INVALID_SIGNATURE), false, txmgr.ClassPoolPolicy},
		{refused(hapi.ResponseCodeEnum_WRONG_NONCE), false, txmgr.ClassNonceUsed},
		{refused(hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE), false, txmgr.ClassFunds},
		{refused(hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE), false, txmgr.ClassFunds},
		{refused(hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE), false, txmgr.ClassFeeTooLow},
		{refused(hapi.ResponseCodeEnum_INSUFFICIENT_GAS), false, txmgr.ClassFatal},
		{refused(hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION), false, txmgr.ClassFatal},
		{refused(hapi.ResponseCodeEnum_WRONG_CHAIN_ID), false, txmgr.ClassFatal},
		{refused(hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED), false, txmgr.ClassFatal},
		{refused(hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE), false, txmgr.ClassFatal},
		{refused(hapi.ResponseCodeEnum_FAIL_INVALID), false, txmgr.ClassAmbiguous},
		{refused(hedera.Status(99999)), false, txmgr.ClassAmbiguous},
		{&consensus.SentError{Pending: new(consensus.Pending), Err: errors.New("reset")}, false, txmgr.ClassTransport},
		{&consensus.NotSentError{Err: errors.New("refused")}, true, txmgr.ClassNotSent},
		{errors.New("nobody knows"), false, txmgr.ClassAmbiguous},
	} {
		var got error
		if answer := classify(node, test.err, test.again); answer != nil {
			got = answer
		}
		if class := txmgr.ClassOf(got); class != test.want {
			t.Errorf("%v, again %t: got %q, want %q", test.err, test.again, class, test.want)
		}
		if class := txmgr.ClassOf(got); elsewhere(got) != (class == txmgr.ClassPoolPolicy || class == txmgr.ClassNotSent) {
			t.Errorf("%v: goes to another node: %t", test.err, elsewhere(got))
		}
	}
}

// TestRefusals: what the network's own receipts mean. What spends the nonce is no refusal, and
// what another copy's record says of this node's copy alone proves nothing.
func TestRefusals(t *testing.T) {
	for status, want := range map[hedera.Status]txmgr.Class{
		hapi.ResponseCodeEnum_WRONG_NONCE:                  txmgr.ClassNonceUsed,
		hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED:      txmgr.ClassPoolPolicy,
		hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS:       txmgr.ClassPoolPolicy,
		hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID:           txmgr.ClassPoolPolicy,
		hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION: txmgr.ClassFatal,
		hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED:       txmgr.ClassFatal,
		hapi.ResponseCodeEnum_WRONG_CHAIN_ID:               txmgr.ClassFatal,
		hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE:   txmgr.ClassFunds,
		hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:          txmgr.ClassFeeTooLow,
	} {
		if !never[status] {
			t.Errorf("%s is not a refusal", status)
		}
		if got := refusal(status).Class; got != want {
			t.Errorf("%s: got %s, want %s", status, got, want)
		}
	}
	for _, status := range []hedera.Status{
		hapi.ResponseCodeEnum_SUCCESS, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, hapi.ResponseCodeEnum_INSUFFICIENT_GAS,
		hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION, hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT, hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE,
	} {
		if never[status] {
			t.Errorf("%s passes for a refusal", status)
		}
	}
}

// TestTag: what is stored is read back, and nothing else is read.
func TestTag(t *testing.T) {
	id := must.Get(hedera.ParseTransactionID("0.0.2@1700000000.000000001"))(t)
	alone := tag{place: place{id, hedera.Entity(3)}}
	behind := tag{place: place{id, hedera.Entity(3)}, before: &place{id, hedera.Entity(4)}}
	for _, want := range []tag{alone, behind} {
		got, err := parseTag(want.String())
		if err != nil || got.String() != want.String() || (got.before == nil) != (want.before == nil) {
			t.Errorf("%s: got %s, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "x", "0.0.2@1.0", "0.0.2@1.0 x", "x 0.0.3", alone.String() + " 0.0.3", behind.String() + " x x", "0.0.2@1.0  0.0.3"} {
		if _, err := parseTag(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// FuzzTag: no text makes it fail but with an error, and what is read is written the same.
func FuzzTag(f *testing.F) {
	f.Add("0.0.2@1700000000.000000001 0.0.3")
	f.Add("0.0.2@1700000000.000000001 0.0.3 0.0.2@1700000000.000000000 0.0.4")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := parseTag(text)
		if err != nil {
			return
		}
		if again, err := parseTag(read.String()); err != nil || again.String() != read.String() {
			t.Errorf("%q: %s, then %s, %v", text, read, again, err)
		}
	})
}
