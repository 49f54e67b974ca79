package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/jsonx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
)

// callOf is the transaction object of a transaction.
func (n *network) callOf(tx *types.Transaction) string {
	to := ""
	if tx.To() != nil {
		to = fmt.Sprintf(`"to":"%s",`, tx.To())
	}
	return fmt.Sprintf(`{"from":"%s",%s"gas":"0x%x","value":"0x%x","input":"0x%x","maxFeePerGas":"0x%x"}`, n.sender, to, tx.Gas(), tx.Value(), tx.Data(), tx.GasFeeCap())
}

// before is the block before that of a transaction.
func (n *network) before(tx *types.Transaction) string {
	return hexutil.EncodeUint64(n.receipt(tx).BlockNumber.Uint64() - 1)
}

// What is run here must show what the network showed when it ran the same: every call,
// every log, every account and every instruction.
func TestTraceCallAgreesWithNetwork(t *testing.T) {
	s := newTraced(t)
	for name, tx := range map[string]*types.Transaction{
		"nested": s.call, "reverted": s.fail, "out of gas": s.outOfGas, "log": s.withLog, "creation": s.deploy, "transfer that creates": s.plain,
	} {
		for _, options := range []string{
			`{"tracer":"callTracer"}`, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`,
			`{"tracer":"prestateTracer"}`, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`, `{"tracer":"prestateTracer","tracerConfig":{"disableCode":true}}`,
			`{}`, `{"enableMemory":true,"disableStack":true,"disableStorage":true}`, `{"limit":100}`,
		} {
			want := s.relay.call("debug_traceTransaction", params(tx, options)).String()
			got := s.relay.call("debug_traceCall", fmt.Sprintf(`[%s,"%s",%s]`, s.callOf(tx), s.before(tx), options)).String()
			if diff := cmp.Diff(comparable(decoded(t, want)), comparable(decoded(t, got))); diff != "" {
				t.Errorf("%s with %s (-network +here)\n%s", name, options, diff)
			}
		}
	}
}

// comparable leaves out what the mirror node's list of instructions has otherwise than
// go-ethereum's: which words of storage it shows where, and that it calls a revert's own
// instruction an error.
func comparable(trace any) any {
	object, _ := trace.(map[string]any)
	steps, _ := object["structLogs"].([]any)
	for _, step := range steps {
		s := step.(map[string]any)
		delete(s, "storage")
		if s["op"] == "REVERT" {
			delete(s, "error")
		}
	}
	return trace
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestTraceCall(t *testing.T) {
	s := newTraced(t)
	// A call of now, of a contract that exists for this call only, with the block's number.
	const number = "4360005260206000f3" // NUMBER, returned
	call := `{"to":"` + mocked + `"},"latest",{"tracer":"callTracer","stateOverrides":` + running(number)
	var frame callFrame
	unmarshal(t, s.relay.call("debug_traceCall", `[`+call+`,"blockOverrides":{"number":"0x1234"}}]`), &frame)
	if string(frame.Output) != string(common.BigToHash(hexutil.MustDecodeBig("0x1234")).Bytes()) {
		t.Errorf("block override: %x", frame.Output)
	}
	var steps struct {
		StructLogs []struct {
			Op      string
			Storage map[string]string
		}
	}
	unmarshal(t, s.relay.call("debug_traceCall", fmt.Sprintf(`[{"to":"%s"},"%s"]`, s.counter, s.before(s.withLog))), &steps)
	var storage []string
	for _, step := range steps.StructLogs {
		if step.Storage != nil {
			storage = append(storage, fmt.Sprint(step.Op, len(step.Storage), step.Storage[common.Hash{}.Hex()][64:]))
		}
	}
	if got := fmt.Sprint(storage); got != "[SLOAD101 SSTORE102]" {
		t.Errorf("storage of instructions: %s", got)
	}
	var tokens callFrame
	token := `{"to":"0x0000000000000000000000000000000000000167"},"latest",{"tracer":"callTracer","stateOverrides":{"0x0000000000000000000000000000000000000167":{"code":"0x602a60005260206000f3"}}}`
	unmarshal(t, s.relay.call("debug_traceCall", `[`+token+`]`), &tokens)
	if len(tokens.Output) != 32 || tokens.Output[31] != 42 {
		t.Errorf("overridden system contract: %+v", tokens)
	}
	to := fmt.Sprintf(`"to":"%s"`, s.counter)
	s.expect(
		[3]string{"debug_traceCall", `[{"to":"0x0000000000000000000000000000000000000167"}]`, "-32000 Error occurred during transaction simulation: the system contract at 0x0000000000000000000000000000000000000167 runs on the network only; use eth_call without block overrides"},
		[3]string{"debug_traceCall", `[{` + to + `},"0x99999"]`, "-39012 header not found"},
		[3]string{"debug_traceCall", `[{` + to + `,"gas":"0x5207"}]`, "-32000 Error occurred during transaction simulation: intrinsic gas too low: have 20999, want 21000"},
		[3]string{"debug_traceCall", `[{` + to + `,"from":"` + s.refuser.Hex() + `","value":"0xffffffffffff"}]`, "-32000 insufficient funds for gas * price + value"},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"txIndex":"0x0"}]`, "-32000 Invalid arguments: txIndex is not supported: the state is that of the end of the block"},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"blockOverrides":{"difficulty":"hard"}}]`, `-32602 invalid argument 2: block override "difficulty": Expected 0x prefixed hexadecimal value without leading zeros, value: hard`},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"blockOverrides":{"time":"now"}}]`, `-32602 invalid argument 2: block override "time": Expected 0x prefixed hexadecimal value without leading zeros, value: now`},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"stateOverrides":{"0x1":{}}}]`, "-32602 invalid argument 2: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
	)
	for _, profile := range []func(*settings){hiero, func(*settings) {}} { // null is what clients send for nothing
		r := newRelay(t, s.node, debugging, profile)
		for method, params := range map[string]string{
			"debug_traceCall": `[{` + to + `},null,null]`, "eth_createAccessList": `[{` + to + `},null,null]`, "eth_simulateV1": `[{"blockStateCalls":[{}]},null]`,
		} {
			if got := r.call(method, params); got.Error != nil {
				t.Errorf("%s%s: %s", method, params, got)
			}
		}
	}
	s.relay = newRelay(t, s.node) // without the gate
	s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, "-32601 Unsupported JSON-RPC method"})
	for change, want := range map[string]func(*settings){
		"-32601 Unsupported JSON-RPC method": func(s *settings) { s.API.Debug.OpcodeLogger = false },
		"-32000 The trace exceeds the limit of 300 bytes: leave out stack, storage and memory, or use callTracer":        func(s *settings) { s.API.Debug.MaxBytes = 300 },
		"-32000 Error occurred during transaction simulation: evm: more than 1 accounts and words of storage are needed": func(s *settings) { s.API.Simulation.Reads = 1 },
	} {
		s.relay = newRelay(t, s.node, debugging, want)
		s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, change})
	}
	s.relay = newRelay(t, s.node, debugging)
	s.relay.api.cfg.Simulation.Timeout = 1 // less than anything takes
	s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, "-32000 Error occurred during transaction simulation: the simulation takes too long"})
}

// An access list names what the network says that the transaction used.
func TestCreateAccessList(t *testing.T) {
	s := newTraced(t)
	var got struct {
		AccessList types.AccessList
		Error      string
		GasUsed    hexutil.Uint64
	}
	unmarshal(t, s.call1("eth_createAccessList", s.callOf(s.call), s.before(s.call)), &got)
	if want := s.receipt(s.call); uint64(got.GasUsed) != want.GasUsed || got.Error != "" {
		t.Errorf("%d gas, the network took %d: %s", got.GasUsed, want.GasUsed, got.Error)
	}
	words := map[common.Address]int{}
	for _, tuple := range got.AccessList {
		words[tuple.Address] = len(tuple.StorageKeys)
	}
	// The caller's own word, which the counter's code wrote by DELEGATECALL, and the sender's
	// absence: what is warm anyhow is named only for its storage.
	if diff := cmp.Diff(map[common.Address]int{s.counter: 1, s.refuser: 0, s.caller: 1}, words); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	unmarshal(t, s.call1("eth_createAccessList", s.callOf(s.fail), s.before(s.fail)), &got)
	if got.Error != "execution reverted" || len(got.AccessList) != 0 {
		t.Errorf("a revert: %+v", got)
	}
	given := strings.TrimSuffix(s.callOf(s.fail), "}") + `,"accessList":[{"address":"` + s.counter.Hex() + `","storageKeys":["0x1"]}]}`
	unmarshal(t, s.call1("eth_createAccessList", given, s.before(s.fail)), &got)
	if len(got.AccessList) != 1 || got.AccessList[0].StorageKeys[0] != (common.Hash{31: 1}) {
		t.Errorf("what was given is lost: %+v", got)
	}
	s.expect([3]string{"eth_createAccessList", `[{"to":"` + s.counter.Hex() + `","accessList":[{"address":"0x1"}]}]`, "-32602 invalid argument 0: 'accessList': Expected 0x prefixed string representing the address (20 bytes)"})
}

func (n *network) call1(method, call, block string) response {
	return n.call(method, fmt.Sprintf(`[%s,"%s"]`, call, block))
}

// TestALongParameterWaitsForAPermit, and a short one at once.
func TestALongParameterWaitsForAPermit(t *testing.T) {
	a := &API{processors: capacity.NewPermits(1, 1)}
	permit := must.Get(a.processors.Enter(t.Context(), nil, 1, false))(t)
	short, long := jsonx.Value("{}"), jsonx.Value(strings.Repeat(" ", 40<<10))
	read := 0
	count := func() error { read++; return nil }
	if err := a.withPermit(t.Context(), short, count); err != nil || read != 1 {
		t.Errorf("a short parameter: read %d times, %v", read, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.withPermit(ended, long, count); !errors.Is(err, context.Canceled) || read != 1 {
		t.Errorf("a long parameter while others have the processors: read %d times, %v", read, err)
	}
	permit.Leave()
	if err := a.withPermit(t.Context(), long, count); err != nil || read != 2 {
		t.Errorf("a long parameter with its permit: read %d times, %v", read, err)
	}
}
