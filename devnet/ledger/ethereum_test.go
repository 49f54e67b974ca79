package ledger

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// An integer of a transaction has no leading zeros.
func TestIntegersWithLeadingZeros(t *testing.T) {
	padded := []byte{0}
	for i := range 5 { // nonce, price, gas limit, receiver, value
		fields := []any{uint64(1), uint64(1), uint64(21_000), make([]byte, 20), uint64(1), []byte{}, uint64(27), uint64(1), uint64(1)}
		raw := must.Get(rlp.EncodeToBytes(fields))(t)
		if _, ok := evm.ParseEthereum(raw); !ok {
			t.Fatal("a transaction without them is not read")
		}
		if i == 3 {
			continue
		}
		fields[i] = padded
		if _, ok := evm.ParseEthereum(must.Get(rlp.EncodeToBytes(fields))(t)); ok {
			t.Errorf("field %d is read with a leading zero", i)
		}
	}
}

// deploy creates a contract with the given runtime code and returns its address.
func (r *rig) deploy(from party, nonce uint64, runtime []byte) common.Address {
	r.t.Helper()
	rec := r.ethereum(from, dynamic(nonce, nil, 0, 5_000_000, program.New().ReturnViaCodeCopy(runtime).Bytes()))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	return rec.Result.Address
}

func (r *rig) nonce(a common.Address) int64 {
	r.t.Helper()
	acct, ok := r.View().AccountByAddress(a)
	if !ok {
		r.t.Fatalf("no account at %s", a)
	}
	return acct.Nonce
}

// returnTop returns the word on top of the stack.
func returnTop(p *program.Program) []byte {
	return p.Push(0).Op(vm.MSTORE).Return(0, 32).Bytes()
}

func TestWrongNonceIsRecorded(t *testing.T) {
	for name, nonce := range map[string]uint64{"too low": 0, "too high": 5} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			from, to := dev(t, 0), dev(t, 1)
			r.want(r.ethereum(from, dynamic(0, &to.address, 1, 21_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
			before := r.balance(from.address)
			rec := r.ethereum(from, dynamic(nonce, &to.address, 7, 21_000, nil))
			r.want(rec, hapi.ResponseCodeEnum_WRONG_NONCE)
			if got := r.balance(from.address); got != before {
				t.Errorf("sender paid %d", before-got)
			}
			if got := r.nonce(from.address); got != 1 {
				t.Errorf("nonce %d", got)
			}
			res := rec.Result
			if res.ErrorMessage != "0x57524f4e475f4e4f4e4345" || res.SignerNonce != 1 || res.GasUsed != 0 ||
				res.Index >= 0 || res.From != from.id || !res.HasResult {
				t.Errorf("result %+v", res)
			}
			if rec.Fee != 21_000*71 || len(rec.Transfers) != 2 {
				t.Errorf("who sent it on is charged %d: %+v", rec.Fee, rec.Transfers)
			}
			if found := r.View().RecordsByEthereumHash(rec.EthereumHash); len(found) != 1 || found[0] != rec {
				t.Errorf("by hash: %v", found)
			}
			log := r.View().ConsensusLog(1, 10)
			if len(log) != 1 || log[0].Nonce != nonce || log[0].Status != hapi.ResponseCodeEnum_WRONG_NONCE || log[0].Sequence != 1 {
				t.Errorf("log %+v", log)
			}
		})
	}
}

// What offers the price of before is refused when the price has risen, and another for the new price
// takes its nonce.
func TestRisenPrice(t *testing.T) {
	r, from, to, relayer := newRig(t, Config{}), dev(t, 0), dev(t, 1), dev(t, 9)
	must.Do(t, r.SetGasPrice(2*price))
	if r.View().GasPrice() != 2*price || r.SetGasPrice(0) == nil {
		t.Errorf("the price is %d, and may be 0", r.View().GasPrice())
	}
	tx := dynamic(0, &to.address, 1, 21_000, nil)
	tx.GasFeeCap, tx.GasTipCap = big.NewInt(weiPrice), new(big.Int)
	r.want(r.relayed(from, tx, 0), hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE)
	tx.GasFeeCap = big.NewInt(2 * weiPrice)
	r.want(r.relayed(from, tx, 0), hapi.ResponseCodeEnum_SUCCESS)
	if paid := devaccounts.RichBalance - r.balance(from.address) - 1; paid != 2*21_000*price || r.balance(relayer.address) != devaccounts.RichBalance {
		t.Errorf("the sender paid %d", paid)
	}
}

// A refusal has one of three shapes, by where it happens.
func TestRefusals(t *testing.T) {
	from, to, stranger := dev(t, 0), dev(t, 1), fresh(t, 1)
	relayer := dev(t, 9)
	offChain := dynamic(0, &to.address, 1, 21_000, nil)
	offChain.ChainID = big.NewInt(1)
	cheap := dynamic(0, &to.address, 1, 21_000, nil)
	cheap.GasFeeCap, cheap.GasTipCap = big.NewInt(weiPrice/2), new(big.Int)
	const noCharge, intrinsic = 0, eth.TxGas * price
	tests := []struct {
		name      string
		from      party
		tx        *types.DynamicFeeTx
		allowance hedera.Tinybar
		want      hedera.Status
		result    bool // a function result
		sender    hedera.ID
		charge    hedera.Tinybar // taken from the relayer
	}{
		{"negative allowance", from, dynamic(0, &to.address, 1, 21_000, nil), -1, hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT, false, hedera.ID{}, noCharge},
		{"other chain", from, offChain, 0, hapi.ResponseCodeEnum_WRONG_CHAIN_ID, false, hedera.ID{}, noCharge},
		{"creation of nothing", from, dynamic(0, nil, 0, 100_000, nil), 0, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION, false, hedera.ID{}, noCharge},
		{"too much gas", from, dynamic(0, &to.address, 1, evm.MaxGas+1, nil), 0, hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED, true, relayer.id, intrinsic},
		{"too much data", from, dynamic(0, &to.address, 1, evm.MaxGas, make([]byte, evm.MaxCallData+1)), 0, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE, true, relayer.id, intrinsic},
		{"unknown sender", stranger, dynamic(0, &to.address, 1, 21_000, nil), 0, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, true, hedera.ID{}, noCharge},
		{"cheap without allowance", from, cheap, 1, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE, true, from.id, noCharge},
		{"value beyond the balance", from, dynamic(0, &to.address, devaccounts.RichBalance, 21_000, nil), 0, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, true, from.id, noCharge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			if tt.tx.ChainID.Uint64() != testChain {
				signed := must.Get(types.SignNewTx(tt.from.key, types.LatestSignerForChainID(tt.tx.ChainID), tt.tx))(t)
				raw := must.Get(signed.MarshalBinary())(t)
				body := ethereumBody(t, tt.from, dynamic(0, &to.address, 1, 21_000, nil), tt.allowance)
				body.GetEthereumTransaction().EthereumData = raw
				rec := r.submit(relayer.id, body, relayer.key)
				r.want(rec, tt.want)
				return
			}
			rec := r.relayed(tt.from, tt.tx, tt.allowance)
			r.want(rec, tt.want)
			res := rec.Result
			placed := tt.want == hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE // all others have no place in a block
			if res.HasResult != tt.result || rec.Executed() != placed || res.GasUsed != 0 || res.From != tt.sender {
				t.Errorf("result %+v", res)
			}
			if got := devaccounts.RichBalance - r.balance(relayer.address); got != tt.charge || rec.Fee != tt.charge {
				t.Errorf("relayer paid %d (fee %d), want %d", got, rec.Fee, tt.charge)
			}
			if got := devaccounts.RichBalance - r.balance(from.address); got != 0 || r.nonce(from.address) != 0 {
				t.Errorf("sender paid %d", got)
			}
		})
	}
}

func TestWhoPaysForGas(t *testing.T) {
	const half = price / 2 // offered: rounded down to 35
	tests := []struct {
		name            string
		offered         int64 // weibar
		allowance       hedera.Tinybar
		sender, relayer hedera.Tinybar // per 100,000 of limit and 21,000 used
	}{
		{"sender", weiPrice, 0, 21_000 * price, 0},
		{"sender, over-offer", 5 * weiPrice, 0, 21_000 * price, 0},
		{"relayer", 0, 100_000 * price, 0, 21_000 * price},
		// The refund of 79,000 goes to the relayer first, as far as it paid.
		{"both", int64(half) * hedera.WeibarPerTinybar, 100_000 * (price - half), 100_000*half - (79_000*price - 100_000*(price-half)), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from, to, relayer := dev(t, 0), dev(t, 1), dev(t, 9)
			rec := r.relayed(from, &types.LegacyTx{
				To: &to.address, Value: wei(3), Gas: 100_000, GasPrice: big.NewInt(tt.offered),
			}, tt.allowance)
			r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
			if got := devaccounts.RichBalance - r.balance(from.address); got != tt.sender+3 {
				t.Errorf("sender paid %d, want %d", got, tt.sender+3)
			}
			if got := devaccounts.RichBalance - r.balance(relayer.address); got != tt.relayer {
				t.Errorf("relayer paid %d, want %d", got, tt.relayer)
			}
			if rec.Fee != 21_000*price {
				t.Errorf("fee %d", rec.Fee)
			}
		})
	}
}

func TestValueIsCutToTinybar(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	tx := dynamic(0, &to.address, 0, 21_000, nil)
	tx.Value = big.NewInt(3*hedera.WeibarPerTinybar + 9_999_999_999)
	rec := r.ethereum(from, tx)
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if got := r.balance(to.address) - devaccounts.RichBalance; got != 3 || rec.Result.Amount != 3 {
		t.Errorf("received %d", got)
	}
}

func TestHollowAccount(t *testing.T) {
	r := newRig(t, Config{})
	from, hollow, to := dev(t, 0), fresh(t, 1), dev(t, 1)
	rec := r.ethereum(from, dynamic(0, &hollow.address, 10*hedera.Hbar, 700_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if rec.Result.GasUsed != eth.TxGas+evm.LazyCreationGas {
		t.Errorf("gas %d", rec.Result.GasUsed)
	}
	if len(rec.Children) != 1 {
		t.Fatalf("children %v", rec.Children)
	}
	child := rec.Children[0]
	acct, ok := r.View().AccountByAddress(hollow.address)
	if !ok || !acct.IsHollow() || acct.ID.Num != 1042 || acct.Balance != 10*hedera.Hbar || acct.MaxAutoAssociations != -1 {
		t.Fatalf("account %+v", acct)
	}
	if child.Kind != history.KindCryptoCreate || child.Account != acct.ID || child.ID.Nonce != 1 ||
		child.Parent != rec.Consensus || rec.Consensus.UnixNano()-child.Consensus.UnixNano() != 1 {
		t.Errorf("child %+v", child)
	}
	if b := r.View().LatestBlock(); len(b.Records) != 2 || b.Records[0] != child || b.Records[1] != rec || b.From != child.Consensus {
		t.Errorf("block %+v", b)
	}

	// Its first transaction completes it, in a child that precedes.
	rec = r.ethereum(hollow, dynamic(0, &to.address, 1, 21_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	acct, _ = r.View().AccountByAddress(hollow.address)
	if want := hapikey.Secp256k1(crypto.CompressPubkey(&hollow.key.PublicKey)); acct.IsHollow() ||
		!bytes.Equal(acct.Key.GetECDSASecp256K1(), want.GetECDSASecp256K1()) || acct.Nonce != 1 {
		t.Errorf("completed %+v", acct)
	}
	if len(rec.Children) != 1 || rec.Children[0].Kind != history.KindCryptoUpdate {
		t.Errorf("children %+v", rec.Children)
	}
	// It was hollow when it was: history keeps that.
	if old, _ := r.View().At(child.Consensus).AccountByAddress(hollow.address); old.ID.Num != 0 {
		t.Errorf("the account exists before its parent's time: %+v", old)
	}
	if old, ok := r.View().At(rec.Children[0].Consensus).AccountByAddress(hollow.address); !ok || !old.IsHollow() {
		t.Errorf("before completion: %+v", old)
	}
}

// A hollow sender is completed even when its transaction is refused.
func TestHollowCompletionSurvivesRefusal(t *testing.T) {
	r := newRig(t, Config{})
	from, hollow := dev(t, 0), fresh(t, 1)
	r.want(r.ethereum(from, dynamic(0, &hollow.address, hedera.Hbar, 700_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
	r.want(r.ethereum(hollow, dynamic(9, &from.address, 1, 21_000, nil)), hapi.ResponseCodeEnum_WRONG_NONCE)
	if acct, _ := r.View().AccountByAddress(hollow.address); acct.IsHollow() || acct.Nonce != 0 {
		t.Errorf("account %+v", acct)
	}
}

func TestTargetsWithoutCode(t *testing.T) {
	unused, unusedNum := common.HexToAddress("0xabcdef0000000000000000000000000000000001"), hedera.Entity(5_000).LongZero()
	system := hedera.Entity(700).LongZero()
	tests := []struct {
		name  string
		to    common.Address
		value hedera.Tinybar
		want  hedera.Status
		gas   uint64
	}{
		{"value to an unused address, gas short", unused, 1, hapi.ResponseCodeEnum_INSUFFICIENT_GAS, 500_000},
		{"nothing to an unused address", unused, 0, hapi.ResponseCodeEnum_SUCCESS, eth.TxGas},
		{"value to an unused number", unusedNum, 1, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY, 500_000},
		{"nothing to an unused number", unusedNum, 0, hapi.ResponseCodeEnum_SUCCESS, eth.TxGas},
		{"value to the system", system, 1, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, 500_000},
		{"value to a precompile", common.BytesToAddress([]byte{4}), 1, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, 500_000},
		{"value to the fee collector", hedera.Entity(98).LongZero(), 1, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, 500_000},
		{"nothing to the system", system, 0, hapi.ResponseCodeEnum_SUCCESS, 500_000},
		{"a number with an alias", hedera.Entity(1003).LongZero(), 1, hapi.ResponseCodeEnum_SUCCESS, eth.TxGas},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from := dev(t, 0)
			rec := r.ethereum(from, dynamic(0, &tt.to, tt.value, 500_000, nil))
			r.want(rec, tt.want)
			if rec.Result.GasUsed != tt.gas {
				t.Errorf("gas %d, want %d", rec.Result.GasUsed, tt.gas)
			}
			spent := devaccounts.RichBalance - r.balance(from.address) - hedera.Tinybar(tt.gas)*price
			if ok := tt.want == hapi.ResponseCodeEnum_SUCCESS; ok && spent != tt.value || !ok && spent != 0 {
				t.Errorf("spent %d beside gas", spent)
			}
			if tt.want != hapi.ResponseCodeEnum_SUCCESS && rec.Result.ErrorMessage != tt.want.String() {
				t.Errorf("message %q", rec.Result.ErrorMessage)
			}
			if r.nonce(from.address) != 1 || !rec.Executed() {
				t.Error("the nonce was not spent")
			}
			if _, ok := r.View().AccountByAddress(unused); ok {
				t.Error("an account was left behind")
			}
		})
	}
}

func TestFailuresOfCalls(t *testing.T) {
	tests := []struct {
		name    string
		code    []byte
		want    hedera.Status
		message string
		revert  []byte
	}{
		{"revert", program.New().Mstore([]byte{1, 2, 3}, 0).Push(3).Push(0).Op(vm.REVERT).Bytes(), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, "0x010203", []byte{1, 2, 3}},
		{"revert with nothing", program.New().Push(0).Push(0).Op(vm.REVERT).Bytes(), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, "0x", nil},
		{"revert that names a status", program.New().Mstore([]byte("INVALID_CONTRACT_ID"), 0).Push(19).Push(0).Op(vm.REVERT).Bytes(), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, hexutil.Encode([]byte("INVALID_CONTRACT_ID")), []byte("INVALID_CONTRACT_ID")},
		{"invalid opcode", []byte{0xfe}, hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INVALID_OPERATION", nil},
		{"jump", program.New().Push(77).Op(vm.JUMP).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INVALID_JUMP_DESTINATION", nil},
		{"stack", []byte{byte(vm.POP)}, hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INSUFFICIENT_STACK_ITEMS", nil},
		{"return data", program.New().Push(1).Push(0).Push(0).Op(vm.RETURNDATACOPY).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INVALID_RETURN_DATA_BUFFER_ACCESS", nil},
		{"out of gas", program.New().Push(uint64(1) << 32).Op(vm.MLOAD).Bytes(), hapi.ResponseCodeEnum_INSUFFICIENT_GAS, "INSUFFICIENT_GAS", nil},
		{"self-destruct to nobody", program.New().Selfdestruct(common.HexToAddress("0xabcdef0000000000000000000000000000000001")).Bytes(), hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS, "INVALID_SOLIDITY_ADDRESS", nil},
		{"self-destruct to itself", program.New().Op(vm.ADDRESS, vm.SELFDESTRUCT).Bytes(), hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID, "OBTAINER_SAME_CONTRACT_ID", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from := dev(t, 0)
			// Whatever the code did before it failed leaves no trace.
			before := program.New().Sstore(1, 2).Push(0).Push(0).Op(vm.LOG0).Bytes()
			contract := r.deploy(from, 0, append(before, tt.code...))
			paid := r.balance(from.address)
			rec := r.ethereum(from, dynamic(1, &contract, 5, 200_000, nil))
			r.want(rec, tt.want)
			res := rec.Result
			if res.ErrorMessage != tt.message || len(res.Output) != 0 || len(res.Logs) != 0 || res.Bloom != nil || rec.ContractID.IsZero() {
				t.Errorf("result %+v", res)
			}
			if got := paid - r.balance(from.address); got != hedera.Tinybar(res.GasUsed)*price {
				t.Errorf("sender paid %d for %d gas", got, res.GasUsed)
			}
			if acct, _ := r.View().AccountByAddress(contract); acct.Balance != 0 || acct.Nonce != 1 {
				t.Errorf("contract %+v", acct)
			}
			if got := r.View().Storage(rec.ContractID, common.BigToHash(big.NewInt(1))); got.Value != (common.Hash{}) {
				t.Errorf("slot %s", got.Value)
			}
			if r.nonce(from.address) != 2 {
				t.Error("the nonce was not spent")
			}
			call, err := r.View().Call(t.Context(), evm.CallRequest{To: &contract, Gas: 200_000})
			if err != nil || call.Status != tt.want || !bytes.Equal(call.RevertData, tt.revert) {
				t.Errorf("simulated: %+v, %v", call, err)
			}
		})
	}
}

func TestStaticWrite(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	writer := r.deploy(from, 0, program.New().Sstore(1, 2).Bytes())
	caller := r.deploy(from, 1, program.New().StaticCall(nil, writer, 0, 0, 0, 0).Push(0).Op(vm.MSTORE).Return(0, 32).Bytes())
	rec := r.ethereum(from, dynamic(2, &caller, 0, 300_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	inner := rec.Result.Actions[1]
	if common.BytesToHash(rec.Result.Output) != (common.Hash{}) || inner.ResultType != history.ResultError ||
		string(inner.Result) != "ILLEGAL_STATE_CHANGE" || inner.Operation != "STATICCALL" || inner.Depth != 1 {
		t.Errorf("inner %+v", inner)
	}
}

// Inner calls follow the rules about targets too, and a caller survives them, but for
// those about the system's addresses (see TestValueToTheSystemInsideACall).
func TestInnerTransfers(t *testing.T) {
	nobody := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	tests := []struct {
		name    string
		to      common.Address
		works   bool
		failure string
	}{
		{"account", dev(t, 1).address, true, ""},
		{"account by number", hedera.Entity(1003).LongZero(), true, ""},
		{"new account", nobody, true, ""},
		{"unused number", hedera.Entity(7_777).LongZero(), false, "INVALID_ALIAS_KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from := dev(t, 0)
			contract := r.deploy(from, 0, program.New().Call(nil, tt.to, 3, 0, 0, 0, 0).
				Push(0).Op(vm.MSTORE).Return(0, 32).Bytes())
			rec := r.ethereum(from, dynamic(1, &contract, 3, 2_000_000, nil))
			r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
			if worked := common.BytesToHash(rec.Result.Output) != (common.Hash{}); worked != tt.works {
				t.Errorf("worked: %v", worked)
			}
			inner := rec.Result.Actions[1]
			if !tt.works && (string(inner.Result) != tt.failure || inner.GasUsed != inner.Gas) {
				t.Errorf("inner %+v", inner)
			}
			if got := r.balance(contract); (got == 0) != tt.works {
				t.Errorf("the contract has %d", got)
			}
			if tt.to == nobody && (len(rec.Children) != 1 || rec.Children[0].Consensus.Compare(rec.Consensus) >= 0) {
				t.Errorf("children %+v", rec.Children)
			}
		})
	}
}

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

func TestCreation(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	runtime := returnTop(program.New().Push(42))
	rec := r.ethereum(from, dynamic(0, nil, 9, 1_000_000, program.New().ReturnViaCodeCopy(runtime).Bytes()))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	address := crypto.CreateAddress(from.address, 0)
	res := rec.Result
	if res.Address != address || res.Target.Num != 1042 || rec.ContractID != res.Target || !res.Create {
		t.Errorf("result %+v", res)
	}
	if diff := cmp.Diff([]hedera.ID{res.Target}, res.Created); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]history.ContractNonce{{Contract: res.Target, Nonce: 1}}, res.Nonces); diff != "" {
		t.Error(diff)
	}
	acct, ok := r.View().Account(res.Target)
	if !ok || acct.Address != address || acct.Balance != 9 || acct.Nonce != 1 || !bytes.Equal(acct.Contract.Runtime, runtime) ||
		acct.Key.GetContractID().GetContractNum() != 1042 || len(acct.Contract.Initcode) == 0 {
		t.Errorf("contract %+v", acct)
	}
	if len(rec.Children) != 0 || res.Actions[0].CallType != history.CallTypeCreate || res.Actions[0].Recipient != res.Target {
		t.Errorf("children %v, actions %+v", rec.Children, res.Actions)
	}
	got, err := r.View().Call(t.Context(), evm.CallRequest{To: &address})
	if err != nil || common.BytesToHash(got.Output) != common.BigToHash(big.NewInt(42)) {
		t.Errorf("call: %+v, %v", got, err)
	}
}

func TestFailedCreation(t *testing.T) {
	tests := []struct {
		name    string
		init    []byte
		want    hedera.Status
		message string
	}{
		{"revert", program.New().Mstore([]byte{0xab}, 0).Push(1).Push(0).Op(vm.REVERT).Bytes(), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, "0xab"},
		{"invalid prefix", program.New().ReturnData([]byte{0xef, 1}).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INVALID_CODE"},
		{"too large", program.New().Push(24_577).Push(0).Op(vm.RETURN).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "CODE_TOO_LARGE"},
		{"deposit", program.New().Push(20_000).Push(0).Op(vm.RETURN).Bytes(), hapi.ResponseCodeEnum_INSUFFICIENT_GAS, "INSUFFICIENT_GAS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from := dev(t, 0)
			gas := uint64(10_000_000)
			if tt.name == "deposit" {
				gas = 1_000_000
			}
			rec := r.ethereum(from, dynamic(0, nil, 0, gas, tt.init))
			r.want(rec, tt.want)
			res := rec.Result
			if res.ErrorMessage != tt.message || !rec.ContractID.IsZero() || len(res.Created) != 0 || len(res.Output) != 0 ||
				res.Address != (common.Address{}) || r.nonce(from.address) != 1 {
				t.Errorf("record %+v result %+v", rec, res)
			}
			// The number that the creation would have taken is still free.
			r.deploy(from, 1, []byte{0})
			if _, ok := r.View().Account(hedera.Entity(1042)); !ok {
				t.Error("the number was lost")
			}
		})
	}
}

func TestCollision(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	// A contract cannot be created where one is: the factory tries it twice.
	factory := r.deploy(from, 0, program.New().Create2(program.New().ReturnData([]byte{0}).Bytes(), 7).
		Push(0).Op(vm.MSTORE).Return(0, 32).Bytes())
	first := r.ethereum(from, dynamic(1, &factory, 0, 1_000_000, nil))
	r.want(first, hapi.ResponseCodeEnum_SUCCESS)
	if len(first.Result.Created) != 1 || len(first.Children) != 1 || first.Children[0].Kind != history.KindContractCreate ||
		first.Children[0].Consensus.UnixNano() != first.Consensus.UnixNano()+1 {
		t.Fatalf("first %+v", first.Result)
	}
	if diff := cmp.Diff([]history.ContractNonce{{Contract: first.Result.Target, Nonce: 2}, {Contract: first.Result.Created[0], Nonce: 1}}, first.Result.Nonces); diff != "" {
		t.Error(diff)
	}
	second := r.ethereum(from, dynamic(2, &factory, 0, 1_000_000, nil))
	r.want(second, hapi.ResponseCodeEnum_SUCCESS)
	if common.BytesToHash(second.Result.Output) != (common.Hash{}) || len(second.Result.Created) != 0 {
		t.Errorf("second %+v", second.Result)
	}
}

// An account created inside a frame that reverts is gone, and its number is free.
func TestRevertedCreation(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	nobody := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	giver := r.deploy(from, 0, program.New().Call(nil, nobody, 3, 0, 0, 0, 0).Push(0).Push(0).Op(vm.REVERT).Bytes())
	outer := r.deploy(from, 1, program.New().Call(nil, giver, 3, 0, 0, 0, 0).Bytes())
	rec := r.ethereum(from, dynamic(2, &outer, 3, 3_000_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if _, ok := r.View().AccountByAddress(nobody); ok || len(rec.Children) != 0 {
		t.Errorf("children %v", rec.Children)
	}
	r.deploy(from, 3, []byte{0})
	if a, _ := r.View().AccountByAddress(crypto.CreateAddress(from.address, 3)); a.ID.Num != 1044 {
		t.Errorf("next number %d", a.ID.Num)
	}
}

func TestTooManyChildren(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	p := program.New()
	for i := range 4 {
		p.Call(nil, common.BytesToAddress([]byte{0xaa, 19: byte(i)}), 1, 0, 0, 0, 0)
	}
	contract := r.deploy(from, 0, p.Bytes())
	rec := r.ethereum(from, dynamic(1, &contract, 4, 10_000_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_MAX_CHILD_RECORDS_EXCEEDED)
	if rec.Result.ErrorMessage != hexutil.Encode([]byte("MAX_CHILD_RECORDS_EXCEEDED")) || len(rec.Children) != 0 {
		t.Errorf("result %+v", rec.Result)
	}
}

func TestSelfDestructInCreation(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	rec := r.ethereum(from, dynamic(0, nil, 8, 1_000_000, program.New().Selfdestruct(to.address).Bytes()))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	acct, ok := r.View().Account(rec.ContractID)
	if !ok || !acct.Deleted || acct.Balance != 0 || acct.Obtainer != to.id || r.balance(to.address) != devaccounts.RichBalance+8 {
		t.Errorf("contract %+v", acct)
	}
	// The address is that of something deleted: value cannot go there.
	r.want(r.ethereum(from, dynamic(1, &acct.Address, 1, 700_000, nil)), hapi.ResponseCodeEnum_INVALID_ALIAS_KEY)
}

func TestDeterministicDeployer(t *testing.T) {
	raw := common.FromHex("0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222")
	r := newRig(t, Config{})
	keyless := common.HexToAddress("0x3fab184622dc19b6109349b94811493bf2a45362")
	r.want(r.ethereum(dev(t, 0), dynamic(0, &keyless, hedera.Hbar, 700_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
	relayer := dev(t, 9)
	rec := r.submit(relayer.id, core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw}), relayer.key)
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if want := common.HexToAddress("0x4e59b44847b379578588920ca78fbf26c0b4956c"); rec.Result.Address != want {
		t.Errorf("deployed at %s", rec.Result.Address)
	}
	if rec.Result.GasUsed == 0 || r.balance(relayer.address) != devaccounts.RichBalance {
		t.Error("the relayer paid")
	}
}
