package ledger

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// cents is a price in hundredths of a cent, at 12 cents for an hbar.
func cents(hundredths int64) hedera.Tinybar { return hedera.Tinybar(hundredths * 1_000_000 / 12) }

// offering submits a transaction with an offer of its own.
func (r *rig) offering(payer party, offer hedera.Tinybar, body *hapi.TransactionBody) *history.Record {
	r.t.Helper()
	r.start++
	sub := r.submission(hedera.TransactionID{Payer: payer.id, ValidStart: hedera.Timestamp{Seconds: 1_700_000_000, Nanos: r.start}}, body, payer.key)
	sub.Body.TransactionFee = uint64(offer)
	return r.Handle(sub)
}

// TestFees: what is charged is near the published prices, whatever becomes of the transaction, and goes to the
// account that collects fees.
func TestFees(t *testing.T) {
	r := newRig(t, Config{Fees: true})
	from, to := dev(t, 0), dev(t, 1)
	keys := func(n int) *hapi.Key {
		list := &hapi.KeyList{}
		for range n {
			list.Keys = append(list.Keys, hapikey.Ed25519(devaccounts.OperatorPublicKey()))
		}
		return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: list}}
	}
	for name, c := range map[string]struct {
		body *hapi.TransactionBody
		want hedera.Tinybar
		ends hedera.Status
	}{
		"a transfer": {core.BodyOf(&hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{
			AccountAmounts: []*hapi.AccountAmount{{AccountID: from.id.AccountID(), Amount: -5}, {AccountID: to.id.AccountID(), Amount: 5}},
		}}), cents(1), okay},
		"an account": {core.BodyOf(&hapi.CryptoCreateTransactionBody{
			Key: hapikey.Ed25519(devaccounts.OperatorPublicKey()), AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		}), cents(500), okay},
		"an account with three keys": {core.BodyOf(&hapi.CryptoCreateTransactionBody{
			Key: keys(3), AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		}), cents(700), okay},
		"a topic": {core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
			AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		}), cents(100), okay},
		"a token": {core.BodyOf(&hapi.TokenCreateTransactionBody{
			Name: "n", Symbol: "s", Treasury: from.id.AccountID(), AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000}, AutoRenewAccount: from.id.AccountID(),
		}), cents(10_000), okay},
		"a message to no topic": {core.BodyOf(&hapi.ConsensusSubmitMessageTransactionBody{
			TopicID: &hapi.TopicID{TopicNum: 999_999}, Message: []byte("hello"),
		}), cents(8), hapi.ResponseCodeEnum_INVALID_TOPIC_ID},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := r.View().Account(from.id)
			collected, _ := r.View().Account(hedera.Entity(state.FeeCollector))
			rec := r.offering(from, 1000*hedera.Hbar, c.body)
			r.want(rec, c.ends)
			after, _ := r.View().Account(from.id)
			now, _ := r.View().Account(hedera.Entity(state.FeeCollector))
			sent := hedera.Tinybar(0)
			if name == "a transfer" {
				sent = 5
			}
			if rec.Fee != c.want || before.Balance-after.Balance != c.want+sent || now.Balance-collected.Balance != c.want {
				t.Errorf("charged %d, not %d; the payer lost %d, %d was collected", rec.Fee, c.want, before.Balance-after.Balance, now.Balance-collected.Balance)
			}
		})
	}
}

// TestFeeBeyondTheOffer: nothing happens, and nothing is charged, where less is offered than it costs.
func TestFeeBeyondTheOffer(t *testing.T) {
	r := newRig(t, Config{Fees: true})
	from := dev(t, 0)
	before, _ := r.View().Account(from.id)
	body := core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
		AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
	})
	r.want(r.offering(from, cents(99), body), hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE)
	if after, _ := r.View().Account(from.id); after.Balance != before.Balance {
		t.Errorf("%d of %d is left", after.Balance, before.Balance)
	}
	r.want(r.offering(from, cents(100), body), okay)
}

// TestFeeOfAnEthereumTransaction: who sends it on pays the network, its sender the gas.
func TestFeeOfAnEthereumTransaction(t *testing.T) {
	r := newRig(t, Config{Fees: true})
	from, to, relayer := dev(t, 0), dev(t, 1).address, dev(t, 9)
	sent, paid := r.balance(from.address), r.balance(relayer.address)
	rec := r.ethereum(from, dynamic(0, &to, 5, 21_000, nil))
	r.want(rec, okay)
	gas := 21_000 * DefaultGasPrice
	if rec.Fee != gas+cents(1) || sent-r.balance(from.address) != gas+5 || paid-r.balance(relayer.address) != cents(1) {
		t.Errorf("charged %d; the sender lost %d, the relayer %d", rec.Fee, sent-r.balance(from.address), paid-r.balance(relayer.address))
	}
}

// TestFeeSchedulesTellWhatIsCharged reads the two files of the network.
func TestFeeSchedulesTellWhatIsCharged(t *testing.T) {
	r := newRig(t, Config{Fees: true})
	old, simple := new(hapi.CurrentAndNextFeeSchedule), new(hapi.SimpleFeeSchedule)
	for num, into := range map[int64]proto.Message{fileFeeSchedule: old, fileSimpleFees: simple} {
		if f, ok := r.View().File(hedera.Entity(num)); !ok || proto.Unmarshal(f.Contents, into) != nil {
			t.Fatalf("file %d: %v", num, ok)
		}
	}
	for _, s := range old.GetCurrentFeeSchedule().GetTransactionFeeSchedule() {
		if s.GetHederaFunctionality() == hapi.HederaFunctionality_TokenCreate {
			f := s.GetFees()[0]
			if sum := f.GetNodedata().GetConstant() + f.GetNetworkdata().GetConstant() + f.GetServicedata().GetConstant(); sum != 10_000_000_000_000 {
				t.Errorf("a token costs %d thousandths of a tinycent", sum)
			}
		}
	}
	node := simple.GetNode().GetBaseFee() * uint64(1+simple.GetNetwork().GetMultiplier())
	for _, s := range simple.GetServices() {
		for _, f := range s.GetSchedule() {
			if f.GetName() == hapi.HederaFunctionality_ConsensusCreateTopic && node+f.GetBaseFee() != 100_000_000 {
				t.Errorf("a topic costs %d tinycents", node+f.GetBaseFee())
			}
		}
	}
}
