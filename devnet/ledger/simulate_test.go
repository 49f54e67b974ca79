package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// Whatever data a call or a creation carries, its estimate is accepted by the relay's check and by the network, and is
// enough: one rule says what data costs (EIP-7623).
func TestEstimatesWithDataAreEnough(t *testing.T) {
	r, from, to := newRig(t, Config{}), dev(t, 0), dev(t, 1).address
	random := rand.New(rand.NewPCG(1, 2))
	for nonce, size := range []int{0, 1, 31, 32, 1000, 1024, random.IntN(5_000), random.IntN(50_000), random.IntN(130_000), 130_000, -1, -1000} {
		target, data := &to, make([]byte, max(size, -size))
		for i := range data {
			data[i] = byte(random.IntN(3)) // a third are zeros
		}
		if size < 0 {
			target = nil
			data[0] = 0 // STOP
		}
		gas, full, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: target, Data: data})
		if err != nil || full.Status != okay {
			t.Fatalf("%d bytes: %+v, %v", size, full, err)
		}
		needed := max(eth.DataGas(data, target == nil))
		if rec := r.ethereum(from, dynamic(uint64(nonce), target, 0, gas, data)); rec.Status != okay || gas < needed || rec.Result.GasUsed < needed {
			t.Errorf("%d bytes: estimate %d, needed %d: %s, used %d", size, gas, needed, rec.Status, rec.Result.GasUsed)
		}
	}
}

// An estimate sees the blocks that a transaction in the next block will see.
func TestEstimateSeesTheLastBlock(t *testing.T) {
	r, from := newRig(t, Config{}), dev(t, 0)
	// Reverts if blockhash(number-1) is 0.
	lottery := r.deploy(from, 0, common.FromHex("6001430340600d5760006000fd5b00"))
	for i := range uint64(3) {
		gas, full, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &lottery})
		if err != nil || full.Status != okay {
			t.Fatalf("%+v, %v", full, err)
		}
		r.want(r.ethereum(from, dynamic(1+i, &lottery, 0, gas, nil)), okay)
	}
}

// The estimate is enough, and what is needed is not far below it.
func TestEstimate(t *testing.T) {
	from, to, nobody := dev(t, 0), dev(t, 1), fresh(t, 1)
	loop := func() []byte { // spends gas by calldata, and needs more at hand than it uses
		p := program.New()
		for i := range 20 {
			p.Sstore(i, 0)
		}
		return p.Bytes()
	}()
	spender := program.New().Push(0).Op(vm.CALLDATALOAD).Push(1).Op(vm.SSTORE).Bytes()
	one := number(1)
	tests := []struct {
		name  string
		code  []byte // of a contract to call; nil for the address
		to    common.Address
		data  []byte
		value hedera.Tinybar
	}{
		{"transfer", nil, to.address, nil, 5},
		{"creation of an account", nil, nobody.address, nil, 5},
		{"store", spender, common.Address{}, one[:], 0},
		{"reads", loop, common.Address{}, nil, 0},
		{"forwards to a call", program.New().Call(nil, to.address, 1, 0, 0, 0, 0).Bytes(), common.Address{}, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			target := tt.to
			nonce := uint64(0)
			if tt.code != nil {
				target, nonce = r.deploy(from, 0, tt.code), 1
			}
			gas, full, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &target, Data: tt.data, Value: tt.value})
			if err != nil || full.Status != okay {
				t.Fatalf("%+v, %v", full, err)
			}
			if gas*20 < full.GasUsed*21 || gas > full.GasUsed*13/10 {
				t.Errorf("estimate %d for %d used", gas, full.GasUsed)
			}
			r.cfg.ExactEstimates = true
			least, _, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &target, Data: tt.data, Value: tt.value})
			below, _ := r.View().Call(t.Context(), evm.CallRequest{From: &from.address, To: &target, Data: tt.data, Value: tt.value, Gas: least - 1})
			if err != nil || least > gas || below.Status == okay {
				t.Errorf("at least %d, one less ends with %s, %v", least, below.Status, err)
			}
			rec := r.ethereum(from, dynamic(nonce, &target, tt.value, gas, tt.data))
			r.want(rec, okay)
			if rec.Result.GasUsed != full.GasUsed {
				t.Errorf("simulated %d, used %d", full.GasUsed, rec.Result.GasUsed)
			}
		})
	}
}

func TestCall(t *testing.T) {
	r := newRig(t, Config{})
	from, stranger := dev(t, 0), fresh(t, 1)
	contract := r.deploy(from, 0, returnTop(program.New().Push(0).Op(vm.SLOAD).Op(vm.CALLVALUE, vm.ADD)))
	zero := common.Address{}
	high, nothing := hedera.Tinybar(500), hedera.Tinybar(0)
	tests := []struct {
		name string
		req  evm.CallRequest
		want hedera.Status
		out  common.Hash
		err  error
	}{
		{"treasury calls", evm.CallRequest{To: &contract}, okay, common.Hash{}, nil},
		{"so does nobody in particular", evm.CallRequest{From: &zero, To: &contract, Value: 3}, okay, number(3), nil},
		{"stranger", evm.CallRequest{From: &stranger.address, To: &contract}, 0, common.Hash{}, evm.ErrSenderNotFound},
		{"value beyond the balance", evm.CallRequest{From: &from.address, To: &contract, Value: 2 * devaccounts.RichBalance}, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, common.Hash{}, nil},
		{"too little gas", evm.CallRequest{To: &contract, Gas: 20_000}, hapi.ResponseCodeEnum_INSUFFICIENT_GAS, common.Hash{}, nil},
		{"stranger with means", evm.CallRequest{From: &stranger.address, To: &contract, Value: 3, Override: map[common.Address]state.Override{stranger.address: {Balance: &high}}}, okay, number(3), nil},
		{"sender without means", evm.CallRequest{From: &from.address, To: &contract, Value: 3, Override: map[common.Address]state.Override{from.address: {Balance: &nothing}}}, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, common.Hash{}, nil},
		{"other storage", evm.CallRequest{To: &contract, Override: map[common.Address]state.Override{contract: {State: map[common.Hash]common.Hash{{}: number(9)}}}}, okay, number(9), nil},
		{"another slot", evm.CallRequest{To: &contract, Override: map[common.Address]state.Override{contract: {StateDiff: map[common.Hash]common.Hash{{}: number(8)}}}}, okay, number(8), nil},
		{"other code", evm.CallRequest{To: &contract, Override: map[common.Address]state.Override{contract: {Code: returnTop(program.New().Push(5))}}}, okay, number(5), nil},
		{"creation", evm.CallRequest{Data: returnTop(program.New().Push(6))}, okay, number(6), nil},
	}
	before := r.View().LatestBlock()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.View().Call(t.Context(), tt.req)
			if !errors.Is(err, tt.err) || got.Status != tt.want || common.BytesToHash(got.Output) != tt.out {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if r.View().LatestBlock() != before || r.balance(from.address) >= devaccounts.RichBalance {
		t.Error("a simulation changed something")
	}
}

// A simulation ends with its context.
func TestCallIsCancelled(t *testing.T) {
	r := newRig(t, Config{})
	p, at := program.New().Jumpdest()
	contract := r.deploy(dev(t, 0), 0, p.Jump(at).Bytes())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for range 1_000 { // fast machines finish one before the time is over
		if _, err := r.View().Call(ctx, evm.CallRequest{To: &contract}); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return
		}
	}
	t.Error("never cancelled")
}

// A replay sees what the transaction saw, whatever happened since.
func TestOpcodes(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	code := program.New().Op(vm.PREVRANDAO, vm.NUMBER, vm.TIMESTAMP, vm.ADD, vm.ADD).Push(0).Op(vm.SLOAD, vm.ADD).
		Op(vm.CALLER, vm.BALANCE, vm.ADD).Push(0).Op(vm.SSTORE)
	contract := r.deploy(from, 0, returnTop(code.Push(0).Op(vm.SLOAD)))
	var records []*history.Record
	for i := range uint64(3) {
		rec := r.ethereum(from, dynamic(i+1, &contract, 1, 200_000, nil))
		r.want(rec, okay)
		records = append(records, rec)
	}
	for i, rec := range records {
		trace := must.Get(r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{Stack: true, Memory: true, Storage: true}))(t)
		if common.BytesToHash(trace.ReturnValue) != common.BytesToHash(rec.Result.Output) || trace.Failed || trace.GasUsed != rec.Result.GasUsed {
			t.Errorf("replay %d: returned %x with %d gas, was %x with %d", i, trace.ReturnValue, trace.GasUsed, rec.Result.Output, rec.Result.GasUsed)
		}
		first, last := trace.Steps[0], trace.Steps[len(trace.Steps)-1]
		if first.Op != "PREVRANDAO" && first.Op != "DIFFICULTY" || first.Depth != 1 || len(first.Stack) != 0 || last.Op != "RETURN" || len(last.Memory) != 1 {
			t.Errorf("steps %+v … %+v", first, last)
		}
	}
	failed := r.ethereum(from, dynamic(4, nil, 0, 100_000, program.New().Sstore(1, 2).Op(vm.INVALID).Bytes()))
	trace, err := r.View().Opcodes(t.Context(), failed, evm.OpcodeOptions{Storage: true})
	if err != nil || !trace.Failed || len(trace.Steps) != 4 || len(trace.Steps[3].Reason) == 0 ||
		trace.Steps[2].Storage[number(1)] != number(2) || trace.Steps[0].Stack != nil {
		t.Errorf("failed: %+v, %v", trace, err)
	}
	refused := r.ethereum(from, dynamic(99, &contract, 0, 100_000, nil))
	if _, err := r.View().Opcodes(t.Context(), refused, evm.OpcodeOptions{}); !errors.Is(err, evm.ErrNotExecuted) {
		t.Errorf("refused: %v", err)
	}
}

func TestHugeTrace(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	p, at := program.New().Jumpdest()
	contract := r.deploy(from, 0, p.Jump(at).Bytes())
	rec := r.ethereum(from, dynamic(1, &contract, 0, evm.MaxGas, nil))
	r.want(rec, hapi.ResponseCodeEnum_INSUFFICIENT_GAS)
	if _, err := r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{Stack: true}); !errors.Is(err, evm.ErrTraceTooLarge) {
		t.Errorf("error %v", err)
	}
}
