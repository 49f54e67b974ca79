package ledger

import (
	"bytes"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/evm"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// authorization is signed by a party: its address shall run the code of another.
func authorization(t testing.TB, by party, chain, nonce uint64, to common.Address) types.SetCodeAuthorization {
	t.Helper()
	return must.Get(types.SignSetCode(by.key, types.SetCodeAuthorization{ChainID: *uint256.NewInt(chain), Nonce: nonce, Address: to}))(t)
}

func setCode(nonce uint64, to common.Address, gas uint64, list ...types.SetCodeAuthorization) *types.SetCodeTx {
	return &types.SetCodeTx{
		ChainID: uint256.NewInt(testChain), Nonce: nonce, To: to, Gas: gas, GasFeeCap: uint256.NewInt(uint64(2 * weiPrice)), AuthList: list,
	}
}

// delegated is what an address is known to have after a transaction.
type delegated struct {
	To    common.Address
	Nonce int64
}

func (r *rig) delegated(a common.Address) delegated {
	account, _ := r.View().AccountByAddress(a)
	return delegated{account.Delegation, account.Nonce}
}

// Which authorizations count, and what they leave behind.
func TestAuthorizations(t *testing.T) {
	sender, other := dev(t, 0), dev(t, 1)
	target := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	list := func(all ...types.SetCodeAuthorization) []types.SetCodeAuthorization { return all }
	valid := authorization(t, other, testChain, 0, target)
	unsigned := valid
	unsigned.R.Clear()
	for name, test := range map[string]struct {
		list []types.SetCodeAuthorization
		want delegated // the other's
		gas  uint64
	}{
		"valid":                {list(valid), delegated{target, 1}, 36_800},
		"for any chain":        {list(authorization(t, other, 0, 0, target)), delegated{target, 1}, 36_800},
		"for another chain":    {list(authorization(t, other, 1, 0, target)), delegated{}, 46_000},
		"wrong nonce":          {list(authorization(t, other, testChain, 1, target)), delegated{}, 46_000},
		"bad signature":        {list(unsigned), delegated{}, 46_000},
		"one of two":           {list(authorization(t, other, 1, 0, sender.address), valid), delegated{target, 1}, 58_500},
		"the later one":        {list(valid, authorization(t, other, testChain, 1, sender.address)), delegated{sender.address, 2}, 56_800},
		"given and taken back": {list(valid, authorization(t, other, testChain, 1, common.Address{})), delegated{common.Address{}, 2}, 56_800},
		"twice with the same":  {list(valid, valid), delegated{target, 1}, 58_500},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{SetCode: true})
			third := dev(t, 2)
			rec := r.ethereum(sender, setCode(0, third.address, 100_000, test.list...))
			r.want(rec, okay)
			if diff := cmp.Diff(test.want, r.delegated(other.address)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if rec.Result.GasUsed != test.gas {
				t.Errorf("%d gas used, want %d", rec.Result.GasUsed, test.gas)
			}
		})
	}
}

// The code runs as the account's own, in its storage, also in simulations and in replays;
// and what the sender authorizes itself has the nonce after that of the transaction.
func TestDelegatedCodeRuns(t *testing.T) {
	r := newRig(t, Config{SetCode: true})
	owner, sender := dev(t, 0), dev(t, 1)
	// Stores 7 and returns who runs.
	target := r.deploy(owner, 0, program.New().Sstore(1, 7).Op(vm.ADDRESS).Push(0).Op(vm.MSTORE).Return(0, 32).Bytes())
	rec := r.ethereum(sender, setCode(0, sender.address, 200_000, authorization(t, sender, testChain, 1, target)))
	r.want(rec, okay)
	if want := common.LeftPadBytes(sender.address[:], 32); !bytes.Equal(rec.Result.Output, want) {
		t.Errorf("it ran as %x", rec.Result.Output)
	}
	if got, want := r.delegated(sender.address), (delegated{target, 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.View().Storage(sender.id, common.BigToHash(common.Big1)).Value; got != number(7) {
		t.Errorf("stored %s", got)
	}
	trace, err := r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{})
	if err != nil || trace.Failed || trace.GasUsed != rec.Result.GasUsed {
		t.Errorf("the replay: %+v, %v; want %d gas", trace, err, rec.Result.GasUsed)
	}
	// Whoever calls it later gets the same.
	r.want(r.ethereum(owner, dynamic(1, &sender.address, 3, 200_000, nil)), okay)
	called, err := r.View().Call(t.Context(), evm.CallRequest{To: &sender.address})
	if err != nil || called.Status != okay || !bytes.Equal(called.Output, common.LeftPadBytes(sender.address[:], 32)) {
		t.Errorf("a call: %+v, %v", called, err)
	}
	// It is an account all the same: it can send.
	r.want(r.ethereum(sender, dynamic(2, &owner.address, 1, 100_000, nil)), okay)
	if account, _ := r.View().AccountByAddress(sender.address); account.IsContract() {
		t.Error("the account has become a contract")
	}
	// The state before is as it was.
	before, _ := r.View().At(hedera.FromNanos(rec.Consensus.UnixNano() - 1)).AccountByAddress(sender.address)
	if before.Delegation != (common.Address{}) {
		t.Errorf("before: %+v", before)
	}
}

// A delegation stays although what the transaction runs afterwards fails.
func TestDelegationOutlivesAFailure(t *testing.T) {
	r := newRig(t, Config{SetCode: true})
	owner, other := dev(t, 0), dev(t, 1)
	reverting := r.deploy(owner, 0, program.New().Push(0).Push(0).Op(vm.REVERT).Bytes())
	rec := r.ethereum(owner, setCode(1, reverting, 200_000, authorization(t, other, testChain, 0, reverting)))
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	if got, want := r.delegated(other.address), (delegated{reverting, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.nonce(owner.address); got != 2 {
		t.Errorf("the sender's nonce is %d", got)
	}
}

// Whoever has no account yet gets one, if there is gas for it.
func TestAuthorityWithoutAnAccount(t *testing.T) {
	for name, test := range map[string]struct {
		gas, used uint64
		created   bool
	}{
		"enough gas": {635_000, 635_000, true},
		"too little": {634_999, 46_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{SetCode: true})
			sender, nobody := dev(t, 0), fresh(t, 9)
			rec := r.ethereum(sender, setCode(0, dev(t, 1).address, test.gas, authorization(t, nobody, testChain, 0, sender.address)))
			r.want(rec, okay)
			if rec.Result.GasUsed != test.used {
				t.Errorf("%d gas used, want %d", rec.Result.GasUsed, test.used)
			}
			account, ok := r.View().AccountByAddress(nobody.address)
			if ok != test.created {
				t.Fatalf("there is an account: %v", ok)
			}
			if test.created && (account.Delegation != sender.address || account.Nonce != 1 || !account.IsHollow() || len(rec.Children) != 1) {
				t.Errorf("%+v with %d children", account, len(rec.Children))
			}
		})
	}
}

// Hedera refuses the type so far, and a list without entries for ever.
func TestAuthorizationsAreRefused(t *testing.T) {
	sender, other := dev(t, 0), dev(t, 1)
	for name, test := range map[string]struct {
		on   bool
		list []types.SetCodeAuthorization
	}{"off": {false, []types.SetCodeAuthorization{authorization(t, other, testChain, 0, sender.address)}}, "no entries": {true, nil}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{SetCode: test.on})
			tx := setCode(0, other.address, 100_000, test.list...)
			if got := r.PureCheck(ethereumBody(t, sender, tx, 0)); got != hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION {
				t.Errorf("a node says %s", got)
			}
			r.want(r.ethereum(sender, tx), hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION)
			if got := r.nonce(sender.address); got != 0 {
				t.Errorf("the sender's nonce is %d", got)
			}
		})
	}
	on := newRig(t, Config{SetCode: true})
	short := setCode(0, other.address, 45_999, authorization(t, other, testChain, 0, sender.address))
	if got := on.PureCheck(ethereumBody(t, sender, short, 0)); got != hapi.ResponseCodeEnum_INSUFFICIENT_GAS {
		t.Errorf("with too little gas a node says %s", got)
	}
}
