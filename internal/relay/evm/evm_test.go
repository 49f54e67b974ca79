package evm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// world is a state in memory.
type world struct {
	accounts map[common.Address]*Account
	storage  map[common.Address]map[common.Hash]common.Hash
	asked    int
	failing  error
}

func (w *world) Account(_ context.Context, a common.Address) (*Account, error) {
	w.asked++
	return w.accounts[a], w.failing
}

func (w *world) Storage(_ context.Context, a common.Address, k common.Hash) (common.Hash, error) {
	w.asked++
	return w.storage[a][k], w.failing
}

func (w *world) BlockHash(_ context.Context, n uint64) (common.Hash, error) {
	w.asked++
	return common.BigToHash(new(big.Int).SetUint64(n + 0xb10c0000)), w.failing
}

var (
	rich     = common.HexToAddress("0x1100000000000000000000000000000000000001")
	poor     = common.HexToAddress("0x1100000000000000000000000000000000000002")
	contract = common.HexToAddress("0x1100000000000000000000000000000000000003")
	nobody   = common.HexToAddress("0x1100000000000000000000000000000000000004")
	token    = hedera.Entity(5000).LongZero()
	richID   = hedera.Entity(2001).LongZero()
)

// newWorld has a rich and a poor account, a token, and a contract with some code.
func newWorld(code string) *world {
	w := &world{accounts: make(map[common.Address]*Account), storage: make(map[common.Address]map[common.Hash]common.Hash)}
	w.accounts[rich] = &Account{Address: rich, Balance: 1_000_000, Nonce: 7}
	w.accounts[richID] = w.accounts[rich]
	w.accounts[poor] = &Account{Address: poor, Balance: 5}
	w.accounts[token] = &Account{Address: token, Code: []byte{0xef}, Service: true}
	w.accounts[contract] = &Account{Address: contract, Balance: 100, Nonce: 1, Code: common.FromHex(code)}
	w.storage[contract] = map[common.Hash]common.Hash{{31: 1}: {31: 41}}
	return w
}

func (w *world) state(t *testing.T) *State { return NewState(t.Context(), w, 1000) }

func run(t *testing.T, s *State, msg Message) *Result {
	t.Helper()
	msg.Gas = cmp.Or(msg.Gas, 1_000_000)
	return must.Get(s.Run(298, Block{Number: 77, Time: 1234, Random: common.Hash{9}}, msg, nil))(t)
}

// push is the code that pushes an address.
func push(a common.Address) string { return "73" + common.Bytes2Hex(a[:]) }

// returning is code that returns the word on the stack.
const returning = "60005260206000f3"

func TestEnvironment(t *testing.T) {
	for _, test := range []struct{ name, code, want string }{
		{"number", "43", "0x4d"},
		{"time", "42", "0x4d2"},
		{"chain", "46", "0x12a"},
		{"base fee", "48", "0x0"},
		{"blob base fee", "4a", "0x1"},
		{"coinbase", "41", "0x62"},
		{"random", "44", common.Hash{9}.Big().Text(16)},
		{"gas limit is the message's", "45", "0xf4240"},
		{"gas price", "3a", "0x47"},
		{"value in tinybar", "34", "0x3"},
		{"own balance with the value", "47", "0x67"},
		{"balance in tinybar", push(poor) + "31", "0x5"},
		{"balance of the system", push(hedera.Entity(2).LongZero()) + "31", "0x0"},
		{"code of the system", push(hedera.Entity(0x167).LongZero()) + "3b", "0x0"},
		{"balance by number", push(richID) + "31", "0xf423d"},
		{"code of a token", push(token) + "3b", "0x1"},
		{"block hash", "604c40", "0xb10c004c"},
		{"storage", "600154", "0x29"},
		{"nothing there", push(nobody) + "3f", "0x0"},
	} {
		s := newWorld(test.code + returning).state(t)
		r := run(t, s, Message{From: rich, To: &contract, Value: 3, GasPrice: 71})
		want, _ := new(big.Int).SetString(test.want[min(2, len(test.want)):], 16)
		if test.name == "random" {
			want = common.Hash{9}.Big()
		}
		if r.Err != nil || new(big.Int).SetBytes(r.Output).Cmp(want) != 0 {
			t.Errorf("%s: %x %v, want %s", test.name, r.Output, r.Err, test.want)
		}
	}
}

func TestTargets(t *testing.T) {
	call := func(to common.Address, value byte) string { // returns whether it succeeded, and what it returned
		return fmt.Sprintf("600060006000600060%02x%s5af1", value, push(to)) + returning
	}
	system := hedera.Entity(400).LongZero()
	missing := hedera.Entity(9999).LongZero()
	for _, test := range []struct {
		name   string
		to     common.Address
		value  byte
		status string // of the direct call; empty: success
		gas    uint64 // of the direct call
		inner  byte   // what a contract's CALL pushes; where the system got a value the message fails
	}{
		{"an account", poor, 1, "", 21_000, 1},
		{"an account by its number", richID, 1, "", 21_000, 1},
		{"nothing, without value", nobody, 0, "", 21_000, 1},
		{"nothing, with value", nobody, 1, "", 21_000 + accountCreationGas, 1},
		{"no such number", missing, 1, "INVALID_ALIAS_KEY", 1_000_000, 0},
		{"no such number, without value", missing, 0, "", 21_000, 1},
		{"the system, with value", system, 1, "INVALID_CONTRACT_ID", 1_000_000, 0},
		{"the system, without value", system, 0, "", 1_000_000, 1},
		{"a precompile", common.BytesToAddress([]byte{4}), 0, "", 21_015, 1},
	} {
		w := newWorld(call(test.to, test.value))
		r := run(t, w.state(t), Message{From: rich, To: &test.to, Value: hedera.Tinybar(test.value)})
		if halt := (*HaltError)(nil); test.status == "" && r.Err != nil || test.status != "" && (!errors.As(r.Err, &halt) || halt.Status != test.status) {
			t.Errorf("%s: %v, want %q", test.name, r.Err, test.status)
		}
		if r.GasUsed != test.gas {
			t.Errorf("%s: gas %d, want %d", test.name, r.GasUsed, test.gas)
		}
		r = run(t, w.state(t), Message{From: rich, To: &contract})
		if doomed := test.to == system && test.value > 0; doomed != (r.Err != nil) || !doomed && r.Output[31] != test.inner {
			t.Errorf("%s inside: %x %v, want %d", test.name, r.Output, r.Err, test.inner)
		}
	}
	// What runs on the network only.
	for _, to := range []common.Address{token, hedera.Entity(0x167).LongZero(), hedera.Entity(0x16d).LongZero()} {
		w := newWorld(call(to, 0))
		for _, target := range []common.Address{to, contract} {
			_, err := w.state(t).Run(298, Block{}, Message{From: rich, To: &target, Gas: 100_000}, nil)
			if refused := (*SystemContractError)(nil); !errors.As(err, &refused) || refused.Address != to {
				t.Errorf("%s by way of %s: %v", to, target, err)
			}
		}
		s := w.state(t) // ... unless somebody says what it does
		must.Do(t, s.Override(to, Override{Code: common.FromHex("602a" + returning)}))
		if r := run(t, s, Message{From: rich, To: &to}); r.Err != nil || r.Output[31] != 0x2a {
			t.Errorf("overridden %s: %+v", to, r)
		}
	}
}

// Messages see what those before them did, unless that failed.
func TestMessagesInARow(t *testing.T) {
	s := newWorld("6001546001018060015560005260206000a060206000f3").state(t) // count up, log, return
	for i := range byte(3) {
		r := run(t, s, Message{From: rich, To: &contract, Value: 1, GasPrice: 2, Charge: true, Gas: 100_000})
		if r.Err != nil || r.Output[31] != 42+i || len(r.Logs) != 1 || r.Logs[0].Data[31] != 42+i || r.Logs[0].Address != contract {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	before := s.Balance(rich)
	r := run(t, s, Message{From: rich, To: &contract, Value: 1, GasPrice: 2, Charge: true, Gas: 22_000})
	if !errors.Is(r.Err, vm.ErrOutOfGas) || r.GasUsed != 22_000 || len(r.Logs) != 0 || s.Balance(rich) != before-44_000 {
		t.Errorf("out of gas: %+v, %d → %d", r, before, s.Balance(rich))
	}
	if s.Slot(contract, common.Hash{31: 1}) != (common.Hash{31: 44}) || s.Balance(contract) != 103 || s.Nonce(rich) != 11 {
		t.Errorf("count %s balance %d nonce %d", s.Slot(contract, common.Hash{31: 1}), s.Balance(contract), s.Nonce(rich))
	}
	created := run(t, s, Message{From: rich, Data: common.FromHex("6001600c60003960016000f300" + "00")})
	if created.Err != nil || len(s.Code(crypto.CreateAddress(rich, 11))) != 1 || s.Nonce(rich) != 12 {
		t.Errorf("creation: %+v", created)
	}
}

// A message that is only tried leaves nothing, be it good or bad, and reads nothing twice.
func TestTry(t *testing.T) {
	w := newWorld("6001546001018060015560005260206000a060206000f3") // count up, log, return
	s := w.state(t)
	try := func(msg Message) *Result {
		t.Helper()
		return must.Get(s.Try(298, Block{}, msg))(t)
	}
	paid := Message{From: rich, To: &contract, Value: 1, GasPrice: 2, Charge: true, Gas: 100_000}
	first := try(paid)
	if asked := w.asked; first.Output[31] != 42 || len(first.Logs) != 1 || asked == 0 {
		t.Fatalf("%+v after %d look-ups", first, asked)
	} else if again := try(paid); !bytes.Equal(again.Output, first.Output) || again.GasUsed != first.GasUsed || len(again.Logs) != 1 || w.asked != asked {
		t.Errorf("again: %+v, first %+v; %d look-ups, before %d", again, first, w.asked, asked)
	}
	if r := try(Message{From: rich, To: &contract, Gas: 22_000}); !errors.Is(r.Err, vm.ErrOutOfGas) {
		t.Errorf("out of gas: %v", r.Err)
	}
	if r := try(Message{From: rich, Data: common.FromHex("6001600c60003960016000f30000"), Gas: 100_000}); r.Err != nil {
		t.Errorf("a creation: %v", r.Err)
	}
	created := crypto.CreateAddress(rich, 7)
	if s.Exists(created) || s.Balance(rich) != 1_000_000 || s.Nonce(rich) != 7 || s.Balance(contract) != 100 || s.Slot(contract, common.Hash{31: 1}) != (common.Hash{31: 41}) {
		t.Errorf("created %t, balances %d and %d, nonce %d, word %s", s.Exists(created), s.Balance(rich), s.Balance(contract), s.Nonce(rich), s.Slot(contract, common.Hash{31: 1}))
	}
	if r := run(t, s, paid); r.Output[31] != 42 || r.GasUsed != first.GasUsed || s.Nonce(rich) != 8 {
		t.Errorf("a message after them: %+v, nonce %d", r, s.Nonce(rich))
	}
}

func TestOverride(t *testing.T) {
	s := newWorld("600154600254" + "01" + returning).state(t)
	nonce, balance := uint64(3), hedera.Tinybar(9)
	for _, o := range []Override{
		{Nonce: &nonce, Balance: &balance, Diff: map[common.Hash]common.Hash{{31: 2}: {31: 1}}},
	} {
		must.Do(t, s.Override(contract, o))
	}
	if r := run(t, s, Message{From: rich, To: &contract}); r.Output[31] != 42 || s.Nonce(contract) != 3 || s.Balance(contract) != 9 {
		t.Errorf("%+v nonce %d balance %d", r, s.Nonce(contract), s.Balance(contract))
	}
	must.Do(t, s.Override(contract, Override{State: map[common.Hash]common.Hash{{31: 2}: {31: 5}}}))
	if r := run(t, s, Message{From: rich, To: &contract}); r.Output[31] != 5 {
		t.Errorf("all of the storage: %+v", r)
	}
	if err := s.Override(richID, Override{Balance: &balance}); err != nil || s.Balance(rich) != 9 {
		t.Errorf("by its number: %d %v", s.Balance(rich), err)
	}
}

// Every failure to read ends the run with that failure.
func TestUnreadable(t *testing.T) {
	failure := errors.New("the mirror node is away")
	const loop = "6000" + "5b" + "600101" + "8054" + "50" + "600256" // reads one word after the other
	for name, test := range map[string]struct {
		state func() *State
		want  func(error) bool
	}{
		"a look-up of what the sender has fails": {func() *State {
			w := newWorld("")
			s := w.state(t)
			s.account(contract)
			w.failing = failure
			return s
		}, func(err error) bool { return errors.Is(err, failure) && !errors.Is(err, ErrFunds) }},
		"a look-up fails": {func() *State { w := newWorld(loop); w.failing = failure; return w.state(t) }, func(err error) bool { return errors.Is(err, failure) }},
		"too many look-ups": {func() *State { return NewState(t.Context(), newWorld(loop), 20) }, func(err error) bool {
			reads := (*ReadsError)(nil)
			return errors.As(err, &reads) && reads.Limit == 20
		}},
		"the context ends": {func() *State {
			ctx, cancel := context.WithCancel(t.Context())
			s := NewState(ctx, newWorld("5b600056"), 20)
			s.account(contract)
			s.account(rich)
			cancel()
			return s
		}, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"too little gas":   {func() *State { return newWorld("").state(t) }, nil},
		"too little money": {func() *State { return newWorld("").state(t) }, nil},
	} {
		s := test.state()
		msg := Message{From: rich, To: &contract, Data: []byte{0}, Gas: 15_000_000}
		switch name {
		case "a look-up of what the sender has fails":
			msg.Value = 1
		case "too little gas":
			msg.Gas = 21_003
			test.want = func(err error) bool { short := (*GasError)(nil); return errors.As(err, &short) && short.Want == 21_010 } // the floor of a zero byte
		case "too little money":
			msg.Value = 1_000_001
			test.want = func(err error) bool { return errors.Is(err, ErrFunds) }
		}
		if _, err := s.Run(298, Block{}, msg, nil); !test.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing is asked twice, and what the system owns is not asked for at all.
func TestReadsOnce(t *testing.T) {
	w := newWorld("60015460015401" + push(nobody) + "31" + push(nobody) + "31" + "0101" + push(common.BytesToAddress([]byte{77})) + "3101" + "604c40" + "604c40" + "0101" + returning)
	s := w.state(t)
	run(t, s, Message{From: rich, To: &contract})
	if w.asked != 5 { // two accounts, nobody, a word, a block
		t.Errorf("%d look-ups", w.asked)
	}
}

func TestHooks(t *testing.T) {
	var seen bytes.Buffer
	hooks := &tracing.Hooks{
		OnEnter: func(depth int, typ byte, _, to common.Address, _ []byte, _ uint64, value *big.Int) {
			fmt.Fprintf(&seen, "enter %d %s %d; ", depth, vm.OpCode(typ), value)
		},
		OnExit: func(depth int, _ []byte, _ uint64, err error, _ bool) { fmt.Fprintf(&seen, "exit %d %v; ", depth, err) },
		OnOpcode: func(_ uint64, op byte, _, _ uint64, _ tracing.OpContext, _ []byte, _ int, _ error) {
			fmt.Fprintf(&seen, "%s ", vm.OpCode(op))
		},
		OnLog: func(l *types.Log) { fmt.Fprintf(&seen, "log %x; ", l.Data) },
	}
	s := newWorld("60006000a0" + "6000600060006000" + "6001" + "61012c" + "5af1" + "00").state(t)
	must.Get(s.Run(298, Block{}, Message{From: rich, To: &contract, Value: 2, Gas: 100_000}, hooks))(t)
	const want = "enter 0 CALL 2; PUSH1 PUSH1 LOG0 log ; PUSH1 PUSH1 PUSH1 PUSH1 PUSH1 PUSH2 GAS CALL enter 1 CALL 1; exit 1 INVALID_CONTRACT_ID; STOP exit 0 <nil>; "
	if seen.String() != want {
		t.Errorf("\n got %s\nwant %s", seen.String(), want)
	}
}

// A value sent to the system from inside a call fails the message, whatever the caller
// makes of it.
func TestValueToTheSystemInsideACall(t *testing.T) {
	call := "6000600060006000" + "6001" + "6002" + "5af1" // to address 2
	for name, code := range map[string]string{"goes on": call + "00", "reverts": call + "60006000fd"} {
		s := newWorld(code).state(t)
		r := run(t, s, Message{From: rich, To: &contract, Value: 1})
		halt := (*HaltError)(nil)
		if !errors.As(r.Err, &halt) || halt.Status != "INVALID_CONTRACT_ID" || s.Balance(contract) != 100 || s.Nonce(rich) != 8 || r.GasUsed != r.MaxGasUsed {
			t.Errorf("%s: %v, balance %d, nonce %d", name, r.Err, s.Balance(contract), s.Nonce(rich))
		}
	}
}

// A contract leaves what it has to an account that exists, and to nothing else.
func TestSelfDestruct(t *testing.T) {
	for to, status := range map[common.Address]string{
		poor: "", nobody: "INVALID_SOLIDITY_ADDRESS", hedera.Entity(2).LongZero(): "INVALID_SOLIDITY_ADDRESS", contract: "OBTAINER_SAME_CONTRACT_ID",
	} {
		s := newWorld(push(to) + "ff").state(t)
		r := run(t, s, Message{From: rich, To: &contract, Value: 1})
		halt := (*HaltError)(nil)
		errors.As(r.Err, &halt)
		switch {
		case status == "" && (r.Err != nil || s.Balance(poor) != 106 || s.Balance(contract) != 0):
			t.Errorf("%s: %v, %d", to, r.Err, s.Balance(poor))
		case status != "" && (halt == nil || halt.Status != status || s.Balance(contract) != 100 || s.Nonce(rich) != 8):
			t.Errorf("%s: %v, balance %d", to, r.Err, s.Balance(contract))
		}
	}
}

// A delegated account runs the code of another one.
func TestDelegation(t *testing.T) {
	w := newWorld("30" + returning)
	w.accounts[poor].Code = types.AddressToDelegation(contract)
	if r := run(t, w.state(t), Message{From: rich, To: &poor}); r.Err != nil || common.BytesToAddress(r.Output) != poor {
		t.Errorf("%x %v", r.Output, r.Err)
	}
}
