package ledger

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/fees"
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

// The network's own files decode, agree with the network, and belong to it.
func TestSystemFiles(t *testing.T) {
	r := newRig(t, Config{})
	contents := func(num int64, into proto.Message) {
		t.Helper()
		f, ok := r.View().File(hedera.Entity(num))
		if !ok || proto.Unmarshal(f.Contents, into) != nil {
			t.Fatalf("file %d: %v", num, ok)
		}
	}
	schedule := new(hapi.CurrentAndNextFeeSchedule)
	contents(fileFeeSchedule, schedule)
	for _, s := range schedule.GetCurrentFeeSchedule().GetTransactionFeeSchedule() {
		price := s.GetFees()[0]
		// In tinybar again, at 12 cents for one hbar.
		if got := hedera.Tinybar(price.GetNetworkdata().GetConstant() / 12_000); got != core.Required {
			t.Errorf("%s costs %d", s.GetHederaFunctionality(), got)
		}
		calls := slices.Contains([]hapi.HederaFunctionality{
			hapi.HederaFunctionality_ContractCall, hapi.HederaFunctionality_ContractCreate, hapi.HederaFunctionality_EthereumTransaction,
		}, s.GetHederaFunctionality())
		if got := hedera.Tinybar(price.GetServicedata().GetGas() / 12_000); (got == DefaultGasPrice) != calls {
			t.Errorf("%s: gas for %d", s.GetHederaFunctionality(), got)
		}
	}
	settings, limits := new(hapi.ServicesConfigurationList), new(hapi.ThrottleDefinitions)
	contents(fileProperties, settings)
	contents(fileThrottles, limits)
	values := map[string]string{}
	for _, s := range settings.GetNameValue() {
		values[s.GetName()] = s.GetValue()
	}
	if values["contracts.chainId"] != "298" || values["atomicBatch.maxNumberOfTransactions"] != "50" {
		t.Errorf("properties %v", values)
	}
	if b := limits.GetThrottleBuckets(); len(b) != 1 || len(b[0].GetThrottleGroups()[0].GetOperations()) != len(fees.Functions()) {
		t.Errorf("throttles %v", limits)
	}
	simple, allowed := new(hapi.SimpleFeeSchedule), new(hapi.ServicesConfigurationList)
	contents(fileSimpleFees, simple)
	contents(filePermissions, allowed)
	priced := map[string][]string{}
	for _, s := range simple.GetServices() {
		for _, f := range s.GetSchedule() {
			if f.GetBaseFee() != uint64(core.Required)*12 || (len(f.GetExtras()) == 1) != runsCode(f.GetName()) {
				t.Errorf("simple fee %v", f)
			}
			priced[s.GetName()] = append(priced[s.GetName()], f.GetName().String())
		}
	}
	if got := slices.Sorted(maps.Keys(priced)); !slices.Equal(got, []string{"Atomic", "Consensus", "Contract", "Crypto", "File", "Schedule", "Token", "Util"}) || simple.GetExtras()[0].GetFee() != uint64(DefaultGasPrice)*12 {
		t.Errorf("simple fees of %v", priced)
	}
	if n := len(allowed.GetNameValue()); n < len(fees.Functions()) || allowed.GetNameValue()[0].GetValue() != "0-*" {
		t.Errorf("%d permissions", n)
	}
	payer := dev(t, 0)
	for _, num := range []int64{fileFeeSchedule, fileSimpleFees, fileProperties, filePermissions, fileThrottles} {
		id := &hapi.FileID{FileNum: num}
		update := core.BodyOf(&hapi.FileUpdateTransactionBody{FileID: id, Contents: []byte{1}})
		r.want(r.submit(payer.id, update, payer.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
		remove := core.BodyOf(&hapi.FileDeleteTransactionBody{FileID: id})
		r.want(r.submit(payer.id, remove, payer.key), hapi.ResponseCodeEnum_ENTITY_NOT_ALLOWED_TO_DELETE)
	}
}
