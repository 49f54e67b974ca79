package ethapi

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"
)

// simulated is a block of eth_simulateV1 as a client reads it.
type simulated struct {
	Hash, ParentHash  common.Hash
	Number, Timestamp hexutil.Uint64
	GasUsed, GasLimit hexutil.Uint64
	BaseFeePerGas     *hexutil.Big
	Transactions      []json.RawMessage
	LogsBloom         types.Bloom
	Calls             []struct {
		ReturnData                  hexutil.Bytes
		Logs                        []*types.Log
		GasUsed, MaxUsedGas, Status hexutil.Uint64
		Error                       *struct {
			Message, Data string
			Code          int
		}
	}
}

func (n *network) simulate(payload, block string) (blocks []simulated) {
	n.t.Helper()
	unmarshal(n.t.(*testing.T), n.call("eth_simulateV1", fmt.Sprintf(`[%s,"%s"]`, payload, block)), &blocks)
	return blocks
}

// What is simulated must be what happens: every transaction of a chain, one simulated
// after the other on the state before the first, agrees with its receipt.
func TestSimulateAgreesWithNetwork(t *testing.T) {
	s := newTraced(t)
	sent := []*types.Transaction{s.call, s.fail, s.outOfGas, s.plain, s.withLog}
	var blocks []string
	for _, tx := range sent {
		blocks = append(blocks, fmt.Sprintf(`{"calls":[%s]}`, s.callOf(tx)))
	}
	got := s.simulate(`{"validation":true,"blockStateCalls":[`+strings.Join(blocks, ",")+`]}`, s.before(s.call))
	if len(got) != len(sent) {
		t.Fatalf("%d blocks", len(got))
	}
	for i, tx := range sent {
		receipt, call := s.receipt(tx), got[i].Calls[0]
		if price := got[i].BaseFeePerGas.ToInt(); price.Cmp(receipt.EffectiveGasPrice) != 0 {
			t.Errorf("transaction %d: base fee %d, the network took %d", i, price, receipt.EffectiveGasPrice)
		}
		if uint64(call.GasUsed) != receipt.GasUsed || uint64(call.Status) != receipt.Status || len(call.Logs) != len(receipt.Logs) || got[i].LogsBloom != receipt.Bloom {
			t.Errorf("transaction %d: %+v, receipt %+v", i, call, receipt)
			continue
		}
		for j, l := range call.Logs {
			want := receipt.Logs[j]
			if l.Address != want.Address || !cmp.Equal(l.Topics, want.Topics) || !cmp.Equal(l.Data, want.Data) || l.BlockHash != got[i].Hash || l.TxHash == (common.Hash{}) {
				t.Errorf("transaction %d log %d: %+v, want %+v", i, j, l, want)
			}
		}
		if i > 0 && (got[i].ParentHash != got[i-1].Hash || got[i].Number != got[i-1].Number+1 || got[i].Timestamp != got[i-1].Timestamp+simulatedBlockTime) {
			t.Errorf("block %d: %+v after %+v", i, got[i], got[i-1])
		}
	}
	if e := got[1].Calls[0].Error; e == nil || e.Code != 3 || e.Message != "execution reverted: never" || !strings.HasPrefix(e.Data, "0x08c379a0") || len(got[1].Calls[0].ReturnData) != 0 {
		t.Errorf("revert: %+v", e)
	}
	if e := got[2].Calls[0].Error; e == nil || e.Code != -32015 || e.Message != "out of gas" {
		t.Errorf("out of gas: %+v", e)
	}
}

func TestSimulate(t *testing.T) {
	s := newTraced(t)
	const (
		alice = "0xa11ce00000000000000000000000000000000001"
		bob   = "0xb0b0000000000000000000000000000000000002"
	)
	// Alice, who has 3 hbar by assumption, sends Bob one; he sends her back half in the
	// next block, seven numbers later; the counter counts on.
	payload := fmt.Sprintf(`{"traceTransfers":true,"returnFullTransactions":true,"blockStateCalls":[
		{"stateOverrides":{"%[1]s":{"balance":"0x29a2241af62c0000","nonce":"0x5"}},"calls":[{"from":"%[1]s","to":"%[2]s","value":"0xde0b6b3a7640000"},{"to":"%[3]s"},{"to":"%[3]s"}]},
		{"blockOverrides":{"number":"0x3e8","time":"0xffffffffff","baseFeePerGas":"0x7","gasLimit":"0x1000000"},"calls":[{"from":"%[2]s","to":"%[1]s","value":"0x6f05b59d3b20000","gasPrice":"0x0"},{"to":"%[3]s"}]}
	]}`, alice, bob, s.counter)
	head := hexutil.Uint64(s.ledger.View().LatestBlock().Number)
	payload = strings.Replace(payload, "0x3e8", hexutil.EncodeUint64(uint64(head)+8), 1)
	got := s.simulate(payload, "latest")
	if len(got) != 8 || got[0].Number != head+1 || got[7].Number != head+8 || len(got[3].Calls) != 0 {
		t.Fatalf("%d blocks: %+v", len(got), got)
	}
	if got[3].Transactions == nil {
		t.Error("the transactions of an empty block are null")
	}
	first, last := got[0], got[7]
	if fee := first.BaseFeePerGas; fee == nil || fee.ToInt().Sign() != 0 {
		t.Errorf("base fee without validation: %s", fee)
	}
	if last.Timestamp != 0xffffffffff || last.BaseFeePerGas.ToInt().Int64() != 7 || last.GasLimit != 0x1000000 || last.ParentHash != got[6].Hash {
		t.Errorf("overrides: %+v", last)
	}
	// Balances by transfers: logs in weibar, of the address that stands for hbar.
	transfer := first.Calls[0].Logs
	if len(transfer) != 1 || transfer[0].Address != common.HexToAddress("0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee") ||
		new(big.Int).SetBytes(transfer[0].Data).Cmp(big.NewInt(1e18)) != 0 || common.BytesToAddress(transfer[0].Topics[1][:]) != common.HexToAddress(alice) {
		t.Errorf("transfer: %+v", transfer)
	}
	if first.LogsBloom != types.CreateBloom(&types.Receipt{Logs: append(first.Calls[1].Logs, first.Calls[2].Logs...)}) {
		t.Error("the bloom is not that of the events")
	}
	counts := []byte{first.Calls[1].ReturnData[31], first.Calls[2].ReturnData[31], last.Calls[1].ReturnData[31]}
	if start := counts[0]; counts[1] != start+1 || counts[2] != start+2 {
		t.Errorf("counts %v", counts)
	}
	if l := first.Calls[2].Logs; len(l) != 1 || l[0].Index != 2 || l[0].TxIndex != 2 || l[0].BlockHash != first.Hash {
		t.Errorf("log: %+v", l[0])
	}
	var tx struct {
		From       common.Address
		Nonce      hexutil.Uint64
		Type       hexutil.Uint64
		BlockHash  common.Hash
		AccessList types.AccessList
	}
	if err := json.Unmarshal(first.Transactions[0], &tx); err != nil || tx.AccessList == nil || tx.From != common.HexToAddress(alice) || tx.Nonce != 5 || tx.Type != 2 || tx.BlockHash != first.Hash {
		t.Errorf("transaction: %s %v", first.Transactions[0], err)
	}
	// The hash of a simulated block is what BLOCKHASH says of it.
	const lastHash = "6001430340" + "60005260206000f3" // BLOCKHASH(NUMBER - 1)
	hashes := s.simulate(`{"blockStateCalls":[{},{"stateOverrides":{"`+bob+`":{"code":"0x`+lastHash+`"}},"calls":[{"to":"`+bob+`"}]}]}`, "latest")
	if common.BytesToHash(hashes[1].Calls[0].ReturnData) != hashes[0].Hash {
		t.Errorf("BLOCKHASH %x, want %s", hashes[1].Calls[0].ReturnData, hashes[0].Hash)
	}
	hashes = s.simulate(`{"blockStateCalls":[{"stateOverrides":{"`+bob+`":{"code":"0x`+lastHash+`"}},"calls":[{"to":"`+bob+`"}]}]}`, "latest")
	if common.BytesToHash(hashes[0].Calls[0].ReturnData) != hashes[0].ParentHash {
		t.Errorf("BLOCKHASH %x, want %s", hashes[0].Calls[0].ReturnData, hashes[0].ParentHash)
	}
}

func TestSimulateRefuses(t *testing.T) {
	s := newTraced(t)
	from, to := s.sender.Hex(), s.counter.Hex()
	block := func(text string) string { return `[{"blockStateCalls":[` + text + `]}]` }
	strict := func(call string) string { return `[{"validation":true,"blockStateCalls":[{"calls":[` + call + `]}]}]` }
	nonce := s.quantity("eth_getTransactionCount", `["`+from+`"]`).Uint64()
	head := s.ledger.View().LatestBlock()
	fee := `"maxFeePerGas":"0xba43b7400000"`
	for _, w := range [][2]string{
		{`[{}]`, "-32602 missing value for required argument 'blockStateCalls' for SimulatePayload"},
		{block(``), "-32602 invalid argument 0: empty input"},
		{block(`1`), "-32602 invalid argument 'blockStateCalls' for SimulatePayload: Expected Object, value: 1"},
		{block(`{"calls":[7]}`), "-32602 invalid argument 'calls' for BlockStateCall: Expected TransactionObject, value: 7"},
		{block(`{"calls":[{"to":"0x1"}]}`), "-32602 invalid argument 'to' for TransactionObject: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
		{block(`{"stateOverrides":{"0x1":{}}}`), "-32602 invalid argument 0: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
		{block(strings.TrimSuffix(strings.Repeat(`{},`, maxSimulatedBlocks+1), ",")), "-38026 too many blocks"},
		{block(`{"blockOverrides":{"number":"0xffffff"}}`), "-38026 too many blocks"},
		{block(`{"calls":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxSimulatedCalls+1), ",") + `]}`), "-38026 too many calls: more than 5000"},
		{block(`{"blockOverrides":{"number":"0x0"}}`), fmt.Sprintf("-38020 block numbers must be in order: 0 <= %d", head.Number)},
		{block(`{"blockOverrides":{"time":"0x1"}}`), fmt.Sprintf("-38021 block timestamps must be in order: 1 <= %d", head.From.Seconds)},
		{block(`{"blockOverrides":{"difficulty":"0x1"}}`), `-32000 Invalid arguments: block override "difficulty" is not supported`},
		{block(`{"blockOverrides":{"withdrawals":[]}}`), `-32000 Invalid arguments: block override "withdrawals" is not supported`},
		{block(`{"blockOverrides":{"gasLimit":"0x5208"},"calls":[{"to":"` + to + `","gas":"0x5209"}]}`), "-38015 block gas limit reached: remaining: 21000, required: 21001"},
		{block(`{"calls":[{"to":"` + to + `","gas":"0x5"}]}`), "-38013 intrinsic gas too low: have 5, want 21000"},
		{block(`{"calls":[{"from":"` + to + `","to":"` + to + `","value":"0xde0b6b3a7640000"}]}`), "-38014 insufficient funds for gas * price + value: address " + to},
		{block(`{"calls":[{"to":"0x0000000000000000000000000000000000000167"}]}`), "-32000 Error occurred during transaction simulation: the system contract at 0x0000000000000000000000000000000000000167 runs on the network only; use eth_call without block overrides"},
		{strict(`{"from":"` + from + `","to":"` + to + `","nonce":"0x0",` + fee + `}`), fmt.Sprintf("-38010 nonce too low: address %s, tx: 0 state: %d", from, nonce)},
		{strict(`{"from":"` + from + `","to":"` + to + `","nonce":"0xffff",` + fee + `}`), fmt.Sprintf("-38011 nonce too high: address %s, tx: 65535 state: %d", from, nonce)},
		{strict(`{"from":"` + from + `","to":"` + to + `","maxFeePerGas":"0x1"}`), "-38012 max fee per gas less than block base fee: address " + from + ", maxFeePerGas: 1, baseFee: 710000000000"},
		{strict(`{"from":"` + to + `","to":"` + to + `",` + fee + `}`), "-38014 insufficient funds for gas * price + value: address " + to},
	} {
		s.expect([3]string{"eth_simulateV1", w[0], w[1]})
	}
	s.relay = newRelay(t, s.node, func(s *settings) { s.API.Simulation.Bytes = 400 })
	s.expect([3]string{"eth_simulateV1", block(`{"calls":[{"to":"` + to + `"},{"to":"` + to + `"}]}`), "-38026 the calls return and log more than 400 bytes"})
	s.relay = newRelay(t, s.node, func(s *settings) { s.API.Simulation.Gas = 60_000 })
	call := `{"to":"` + to + `"}`
	s.expect([3]string{"eth_simulateV1", block(`{"calls":[` + call + `,` + call + `,` + call + `]}`), "-38026 the calls need more than the 60000 gas that one request may use"})
}
