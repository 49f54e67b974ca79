package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// traceNode answers by path what the mirror node would of one transaction.
func traceNode(t *testing.T, bodies map[string]string) (*Client, *[]string) {
	t.Helper()
	n := newNode(t)
	asked := new([]string)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/")
		*asked = append(*asked, path)
		body, ok := bodies[path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	}
	return connect(t, n.URL), asked
}

func TestActions(t *testing.T) {
	hash := common.HexToHash(txHash)
	const first = `{"call_depth":0,"call_operation_type":"CALL","call_type":"CALL","caller":"0.0.1","from":"0x00000000000000000000000000000000000003f2",` +
		`"to":"0x00000000000000000000000000000000000003eb","gas":100,"gas_used":60,"index":0,"input":"0x01","result_data":"0x02","result_data_type":"OUTPUT","value":7}`
	const second = `{"call_depth":99999999,"call_operation_type":"CREATE","call_type":"CREATE","from":"0x00000000000000000000000000000000000003eb",` +
		`"to":null,"gas":10,"gas_used":9,"index":1,"input":null,"result_data":"0x494e53554646494349454e545f474153","result_data_type":"ERROR","value":0}`
	path := "contracts/results/" + hash.Hex() + "/actions"
	client, _ := traceNode(t, map[string]string{
		path + "?limit=100&order=asc":            `{"actions":[` + first + `],"links":{"next":"/api/v1/` + path + `?limit=100&order=asc&index=gt:0"}}`,
		path + "?limit=100&order=asc&index=gt:0": `{"actions":[` + second + `],"links":{"next":null}}`,
	})
	got := must.Get(client.Actions(t.Context(), hash))(t)
	receiver := hedera.Entity(1003).LongZero()
	want := []*Action{
		{Operation: "CALL", Class: "CALL", From: hedera.Entity(1010).LongZero(), To: &receiver, Value: 7, Gas: 100, GasUsed: 60, Input: []byte{1}, Outcome: "OUTPUT", Result: []byte{2}},
		{Depth: 99_999_999, Operation: "CREATE", Class: "CREATE", From: receiver, Gas: 10, GasUsed: 9, Outcome: OutcomeError, Result: []byte("INSUFFICIENT_GAS")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if none, err := client.Actions(t.Context(), common.Hash{1}); len(none) != 0 || err != nil {
		t.Errorf("of an unknown transaction: %v, %v", none, err)
	}
}

func TestStateChanges(t *testing.T) {
	hash := common.HexToHash(txHash)
	path := "contracts/results/" + hash.Hex() + "?hbar=false"
	client, _ := traceNode(t, map[string]string{path: `{"logs":[{"index":0}],"state_changes":[` +
		`{"address":"0x00000000000000000000000000000000000003eb","contract_id":"0.0.1003","slot":"0x1","value_read":"0x02","value_written":null},` +
		`{"address":"0x00000000000000000000000000000000000003eb","contract_id":"0.0.1003","slot":"0x2","value_read":"0x","value_written":"0x0"}],"x":1}`})
	got := must.Get(client.StateChanges(t.Context(), hash))(t)
	at := hedera.Entity(1003).LongZero()
	want := []StateChange{
		{Address: at, Slot: common.Hash{31: 1}, Read: common.Hash{31: 2}},
		{Address: at, Slot: common.Hash{31: 2}, Written: new(common.Hash)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := client.StateChanges(t.Context(), common.Hash{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an unknown transaction: %v", err)
	}
}

func TestContractInThePast(t *testing.T) {
	address := common.Address{0xc0, 0xff, 0xee}
	path := "contracts/" + lowerHex(address)
	const body = `{"contract_id":"0.0.1003","created_timestamp":"5.000000000","nonce":3,"bytecode":"0xaa","runtime_bytecode":"0xbb"}`
	client, _ := traceNode(t, map[string]string{
		path + "?timestamp=lte:9.000000000": body, path + "?timestamp=lte:4.999999999": body, path: body,
	})
	contract, err := client.ContractAt(t.Context(), address, hedera.Timestamp{Seconds: 9})
	if err != nil || *contract.Nonce != 3 || string(contract.Code) != "\xbb" {
		t.Errorf("%+v, %v", contract, err)
	}
	for _, at := range []hedera.Timestamp{{Seconds: 4, Nanos: 999_999_999}, {Seconds: 1}} {
		if contract, err := client.ContractAt(t.Context(), address, at); !errors.Is(err, ErrNotFound) {
			t.Errorf("at %s: %+v, %v", at, contract, err)
		}
	}
	made, err := client.Deployment(t.Context(), address)
	if diff := cmp.Diff(&Deployment{Init: []byte{0xaa}, Code: []byte{0xbb}}, made); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestOpcodes(t *testing.T) {
	hash := common.HexToHash(txHash)
	path := "contracts/results/" + hash.Hex() + "/opcodes?stack=true&memory=false&storage=true"
	const body = `{"address":"0x","contract_id":null,"failed":true,"gas":21064,"return_value":"0x2a","opcodes":[` +
		`{"depth":1,"gas":99,"gas_cost":3,"memory":null,"op":"PUSH1","pc":0,"reason":null,"stack":[],"storage":{}},` +
		`{"depth":1,"gas":96,"gas_cost":0,"memory":null,"op":"SSTORE","pc":2,"reason":"0x6f6f","stack":["0x1","02"],"storage":{"0x1":"0x2"}}]}`
	client, asked := traceNode(t, map[string]string{path: body})
	query := OpcodesQuery{Stack: true, Storage: true}
	got := must.Get(client.Opcodes(t.Context(), hash, query))(t)
	want := &Opcodes{Gas: 21064, Failed: true, Return: []byte{42}, Steps: []Step{
		{Op: "PUSH1", Gas: 99, Cost: 3, Depth: 1, Stack: []common.Hash{}, Storage: []Word{}},
		{PC: 2, Op: "SSTORE", Gas: 96, Depth: 1, Stack: []common.Hash{{31: 1}, {31: 2}}, Storage: []Word{{common.Hash{31: 1}, common.Hash{31: 2}}}, Reason: "0x6f6f"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	query.MaxBytes = int64(len(body)) - 1
	if _, err := client.Opcodes(t.Context(), hash, query); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long trace: %v", err)
	}
	if _, err := client.Opcodes(t.Context(), common.Hash{1}, query); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an unknown transaction: %v", err)
	}
	if len(*asked) != 3 {
		t.Errorf("asked for %v", *asked)
	}
}
