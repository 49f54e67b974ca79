package ledger

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/fees"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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
