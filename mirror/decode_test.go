package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

var compareBig = cmp.Comparer(func(a, b *big.Int) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Cmp(b) == 0)
})

func TestDecodeContractResult(t *testing.T) {
	var got ContractResult
	must.Do(t, unmarshal([]byte(resultJSON()), &got))
	to := address(receiver)
	amount, _ := new(big.Int).SetString("10000000000000000000000", 10)
	want := ContractResult{
		Hash: common.HexToHash(txHash), BlockHash: common.HexToHash(blockHash), BlockNumber: new(uint64(17)), BlockGas: new(uint64(21000)), Index: new(uint64(0)),
		Timestamp: hedera.Timestamp{Seconds: 1767225600, Nanos: 1}, Result: "SUCCESS", Status: 1,
		From: address(sender), To: &to, Address: &to, Contract: hedera.Entity(1003), Created: []hedera.ID{},
		Type: new(uint64(2)), ChainID: big.NewInt(298), Nonce: new(uint64(5)), GasLimit: 30000, GasUsed: 21000,
		MaxFee: big.NewInt(710_000_000_000), MaxTip: big.NewInt(1), Amount: amount, Input: []byte{0xa9, 0x05, 0x9c, 0xbb}, Output: []byte{},
		V: big.NewInt(1), R: big.NewInt(1), S: big.NewInt(2),
		AccessList:     types.AccessList{{Address: to, StorageKeys: []common.Hash{common.HexToHash("0x1")}}},
		Authorizations: []types.SetCodeAuthorization{{ChainID: *uint256.NewInt(298), Address: to, Nonce: 7, V: 1, R: *uint256.NewInt(10), S: *uint256.NewInt(11)}},
		Bloom:          make([]byte, 256),
		Logs:           []*Log{{Log: eth.Log{Address: to, Topics: []common.Hash{common.HexToHash(txHash)}, Data: []byte{1, 2}, Index: 4}}},
	}
	if diff := cmp.Diff(want, got, compareBig, cmpopts.IgnoreUnexported(Log{})); diff != "" {
		t.Error(diff)
	}
}

// into decodes a text into a new value.
func into[T any](text string) error { return unmarshal([]byte(text), new(T)) }

// A mirror node writes null for what it does not know.
func TestDecodeNulls(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		read func(string) error
	}{
		"result":      {resultJSON(), into[ContractResult]},
		"block":       {blockJSON(1), into[Block]},
		"account":     {`{"account":"0.0.2","evm_address":"0x","balance":{},"key":{},"ethereum_nonce":1,"created_timestamp":"1.0","delegation_address":"","deleted":false,"receiver_sig_required":true,"transactions":[],"links":{}}`, into[Account]},
		"log":         {`{"address":"0x","data":"0x","topics":[],"index":1,"block_hash":"0x","block_number":1,"timestamp":"1.0","transaction_hash":"0x","transaction_index":1}`, into[Log]},
		"contract":    {`{"contract_id":"0.0.1","evm_address":"0x","created_timestamp":"1.0","deleted":true,"nonce":1,"runtime_bytecode":"0x"}`, into[Contract]},
		"transaction": {`{"transaction_id":"","name":"","result":"","consensus_timestamp":"","entity_id":"0.0.1","nonce":0,"scheduled":false,"charged_tx_fee":1,"transfers":[]}`, into[Transaction]},
		"fees":        {`{"fees":[],"timestamp":"1.0"}`, into[Fees]},
		"action":      {`{"call_depth":0,"call_operation_type":"","call_type":"","from":"0x","to":"0x","value":1,"gas":1,"gas_used":1,"input":"0x","result_data_type":"","result_data":"0x"}`, into[Action]},
		"opcodes":     {`{"gas":1,"failed":false,"return_value":"0x","opcodes":[{"stack":null,"memory":null,"storage":null,"reason":null}]}`, into[Opcodes]},
		"node":        {`{"node_account_id":"0.0.3","node_cert_hash":"","service_endpoints":[]}`, into[Node]},
	} {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(test.text), &members); err != nil {
			t.Fatal(name, err)
		}
		if err := test.read(test.text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for member := range members {
			if err := test.read(`{"` + member + `":null}`); err != nil {
				t.Errorf("%s: null for %s: %v", name, member, err)
			}
			if err := test.read(`{"` + member + `":`); err == nil {
				t.Errorf("%s: a text cut after %s is accepted", name, member)
			}
		}
		if err := test.read("null"); err != nil {
			t.Errorf("%s: null: %v", name, err)
		}
	}
}

// Integers are numbers or strings, hex is aligned to the right, and a word of storage may be given with any number of digits.
func TestDecodeForms(t *testing.T) {
	var got struct {
		Number, Text, Hex  uint64
		Big                []*big.Int
		Hash               []common.Hash
		Address            []*common.Address
		Data               [][]byte
		Words, None, Empty []Word
	}
	must.Do(t, unmarshal([]byte(`{"Number":17,"Text":"18446744073709551615","Hex":"0x1f","Big":[-7,"12","0x12","0x",null,"0x`+strings.Repeat("f", 64)+`"],
		"Hash":["0x1","123","0x`+strings.Repeat("ab", 48)+`","",null],"Address":["0x1","0x","",null],"Data":["0x","0x123","\u0030x12",null],
		"Words":{"0x1":"0x2"},"None":null,"Empty":{},"Number":18}`), &got))
	one := common.HexToAddress("0x1")
	want := got
	want.Number, want.Text, want.Hex = 18, math.MaxUint64, 31
	want.Big = []*big.Int{big.NewInt(-7), big.NewInt(12), big.NewInt(18), nil, nil, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))}
	want.Hash = []common.Hash{common.HexToHash("0x1"), common.HexToHash("0x123"), common.HexToHash("0x" + strings.Repeat("ab", 32)), {}, {}}
	want.Address, want.Data = []*common.Address{&one, nil, nil, nil}, [][]byte{{}, {1, 0x23}, {0x12}, nil}
	want.Words, want.None, want.Empty = []Word{{common.HexToHash("0x1"), common.HexToHash("0x2")}}, nil, []Word{}
	if diff := cmp.Diff(want, got, compareBig); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeIncompleteResult(t *testing.T) {
	for name, text := range map[string]string{
		"no index":        resultJSON(`"transaction_index":0`, `"transaction_index":null`),
		"no block number": resultJSON(`"block_number":17`, `"block_number":null`),
		"no block hash":   resultJSON(`"block_hash":"`+blockHash+tail+`"`, `"block_hash":"0x"`),
	} {
		var got ContractResult
		if err := unmarshal([]byte(text), &got); err != nil || got.Complete() {
			t.Errorf("%s: complete %v, %v", name, got.Complete(), err)
		}
	}
}

func TestDecodeWrongKinds(t *testing.T) {
	for _, text := range []string{
		`{"hash":true}`, `{"hash":"0xzz"}`, `{"block_number":"x"}`, `{"block_number":1.5}`, `{"block_number":-1}`, `{"from":"0x` + strings.Repeat("00", 21) + `"}`,
		`{"created_contract_ids":"0.0.1"}`, `{"created_contract_ids":["0.1"]}`, `{"timestamp":"now"}`, `{"amount":"ten"}`, `[]`, `{"status":"0x10000000000000000"}`,
		`{"gas_price":"0x` + strings.Repeat("f", 65) + `"}`, `{"hash":"0x00"} x`, `{"bloom":"0x0g"}`, `{"logs":[1]}`, `{hash:1}`, `{"hash"}`, `{"a":1,}`, ``,
		`{"nested":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
	} {
		if err := into[ContractResult](text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// Whatever a mirror node answers, reading it does not panic, and what is no JSON is not accepted.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{resultJSON(), blockJSON(1), logJSON("1", "2"), `{"a":[1,"\"\\",{"b":null}],"c":true}`, `{"opcodes":[{"storage":{"0x1":"0x2"}}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func(string) error{into[ContractResult], into[Block], into[Account], into[Log], into[Fees], into[Action], into[StateChange], into[Opcodes], into[links]} {
			if read(string(text)) == nil && !json.Valid(text) {
				t.Errorf("%q is accepted", text)
			}
		}
	})
}

// Records are what they were, in every field; of another version, cut or damaged they are none.
func TestRecords(t *testing.T) {
	full, block, empty := new(ContractResult), new(Block), new(Block)
	for text, to := range map[string]any{resultJSON(`"created_contract_ids":[]`, `"created_contract_ids":["0.0.1003"]`): full, blockJSON(17): block} {
		must.Do(t, stdunmarshal(text, to))
	}
	odd := *full
	odd.Amount, odd.Input, odd.Output, odd.GasPrice, odd.Contract = big.NewInt(-7), []byte{}, nil, new(big.Int), hedera.ID{Shard: 1, Realm: 2, Num: 1 << 62}
	log := &Log{Log: eth.Log{Topics: []common.Hash{{1}, {2}}, Data: []byte{3}, BlockTime: 7, Index: 300, BlockHash: common.Hash{4}}, Timestamp: hedera.Timestamp{Seconds: 7, Nanos: 8}, complete: true}
	sameAfter(t, "block", block)
	sameAfter(t, "nothing", empty)
	sameAfter(t, "result", full)
	sameAfter(t, "empty result", new(ContractResult))
	sameAfter(t, "odd result", &odd)
	sameAfter(t, "results", &[]*ContractResult{full, &odd})
	sameAfter(t, "no results", &[]*ContractResult{})
	sameAfter(t, "logs", &[]*Log{log, {Log: eth.Log{Topics: []common.Hash{}}}})
	sameAfter(t, "nil logs", new([]*Log))
	sameAfter(t, "alias", &common.Address{1, 2})
	block.Bloom = make([]byte, types.BloomByteLength)
	if raw, _ := encodeRecord(block); len(raw) > 500 {
		t.Errorf("a block without logs takes %d bytes", len(raw))
	}
}

func stdunmarshal(text string, to any) error {
	switch to := to.(type) {
	case *ContractResult:
		return unmarshal([]byte(text), to)
	case *Block:
		return unmarshal([]byte(text), to)
	}
	return errors.ErrUnsupported
}

func sameAfter[T any](t *testing.T, name string, value *T) {
	t.Helper()
	raw, err := encodeRecord(value)
	if err != nil {
		t.Fatal(name, err)
	}
	got := decodeRecord[T](raw)
	if got == nil {
		t.Fatalf("%s: cannot be read", name)
	}
	if diff := sameRecord(value, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", name, diff)
	}
	for i := range raw {
		damaged := bytes.Clone(raw)
		damaged[i] ^= 0x10
		if decodeRecord[T](damaged) != nil {
			t.Fatalf("%s: byte %d can change", name, i)
		}
		if decodeRecord[T](raw[:i]) != nil {
			t.Fatalf("%s: the first %d bytes are enough", name, i)
		}
	}
}

// sameRecord compares records field by field, hidden ones included.
func sameRecord(want, got any) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(Log{}), compareBig)
}

func TestNextPath(t *testing.T) {
	for link, want := range map[string]string{
		"/api/v1/blocks?limit=2&block.number=lt:5":            "blocks?limit=2&block.number=lt:5",
		"https://evil.example/api/v1/blocks?limit=2":          "blocks?limit=2",
		"/proxy/api/v1/contracts/results/logs?timestamp=gt:1": "contracts/results/logs?timestamp=gt:1",
		"/api/v1/accounts/0.0.2?limit=1":                      "accounts/0.0.2?limit=1",
	} {
		if got, err := nextPath(link); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", link, got, err, want)
		}
	}
	for _, link := range []string{"/blocks", "//evil.example/x", "/api/v1/../../secret", "/api/v1/", ":", "http://[::1/api/v1/x"} {
		if got, err := nextPath(link); err == nil {
			t.Errorf("%s is accepted as %q", link, got)
		}
	}
}

func TestPagesErrorText(t *testing.T) {
	var pages *PagesError
	if err := error(&PagesError{Limit: 3}); !errors.As(err, &pages) || !strings.Contains(err.Error(), "3 pages") {
		t.Errorf("%v", err)
	}
}
