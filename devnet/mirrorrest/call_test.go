package mirrorrest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// counted is what the counter contract returns.
func counted(n byte) string { return text(hexOf(common.LeftPadBytes([]byte{n}, 32))) }

func TestCall(t *testing.T) {
	s := newScene(t) // the counter stands at 1
	s.mustSucceed(s.network.call(0, &types.DynamicFeeTx{To: &s.contract}))
	first, _ := s.ledger.View().BlockByNumber(s.call.Block)
	to := `"to":"` + s.contract.Hex() + `"`
	for body, want := range map[string]string{
		`{` + to + `,"data":"0x02"}`:                                                                              counted(2),
		`{` + to + `,"data":"02","block":"latest"}`:                                                               counted(2),
		`{` + to + `,"data":"0x02","block":"PENDING","from":null,"gas":24000}`:                                    counted(2),
		`{` + to + `,"data":"0x02","block":"` + fmt.Sprint(s.call.Block) + `"}`:                                   counted(1),
		`{` + to + `,"data":"0x02","block":"` + fmt.Sprintf("0x%X", s.call.Block) + `"}`:                          counted(1),
		`{` + to + `,"data":"0x02","block":"` + hexOf(first.Hash[:]) + `"}`:                                       counted(1),
		`{` + to + `,"data":"0x02","block":"` + hexOf(first.Hash[:32]) + `"}`:                                     counted(1),
		`{` + to + `,"data":"0x02","block":"earliest"}`:                                                           `"0x"`,
		`{"to":"` + s.contractID.LongZero().Hex() + `","data":"0x02"}`:                                            counted(2),
		`{"to":"` + account(1).EVMAddress().Hex() + `"}`:                                                          `"0x"`,
		`{"to":"` + account(1).EVMAddress().Hex() + `","value":5,"from":"` + account(0).EVMAddress().Hex() + `"}`: `"0x"`,
		`{"data":"` + hexOf(initCode(counterCode())) + `"}`:                                                       text(hexOf(counterCode())),
		`{` + to + `,"data":"0x02","state_overrides":[{"address":"` + s.contract.Hex() + `","state_diff":[{"key":"0x` + zeros(64) + `","value":"0x` + zeros(63) + `9"}]}]}`:                    counted(9),
		`{"to":"0x9999999999999999999999999999999999999999","data":"0x02","state_overrides":[{"address":"0x9999999999999999999999999999999999999999","code":"` + hexOf(counterCode()) + `"}]}`: counted(0),
	} {
		if got := text(s.post(body, http.StatusOK)["result"]); got != want {
			t.Errorf("%.200s: %s, want %s", body, got, want)
		}
	}
	if got := text(s.post(`{`+to+`,"data":"0x02"}`, http.StatusOK)["result"]); got != counted(2) {
		t.Errorf("simulations changed the state: %s", got)
	}
}

func TestEstimate(t *testing.T) {
	s := newScene(t)
	result := s.post(`{"to":"`+s.contract.Hex()+`","estimate":true,"from":"`+account(0).EVMAddress().Hex()+`"}`, http.StatusOK)["result"].(string)
	var gas uint64
	if _, err := fmt.Sscanf(result, "0x%016x", &gas); err != nil || len(result) != 18 {
		t.Fatalf("%s: %v", result, err)
	}
	rec := s.mustSucceed(s.network.call(0, &types.DynamicFeeTx{To: &s.contract, Gas: gas}))
	if gas < rec.Result.GasUsed || gas > rec.Result.GasUsed*3/2 {
		t.Errorf("estimate %d for %d", gas, rec.Result.GasUsed)
	}
	plain := s.post(`{"to":"`+account(1).EVMAddress().Hex()+`","estimate":true}`, http.StatusOK)["result"]
	if plain != "0x0000000000005622" { // 5 % above 21,000
		t.Errorf("a plain transfer: %s", plain)
	}
	failed := s.post(`{"to":"`+s.contract.Hex()+`","data":"0x01","estimate":true}`, http.StatusBadRequest)
	if firstMessage(failed) != "CONTRACT_REVERT_EXECUTED" {
		t.Errorf("what always reverts: %s", text(failed))
	}
}

func TestCallErrors(t *testing.T) {
	s := newScene(t)
	to := `"to":"` + s.contract.Hex() + `"`
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{
			`{` + to + `,"data":"0x01"}`, http.StatusBadRequest,
			`{"message":"CONTRACT_REVERT_EXECUTED","detail":"no more","data":"0x08c379a0` + zeros(62) + `20` + zeros(63) + `7` + `6e6f206d6f7265` + zeros(50) + `"}`,
		},
		{`{` + to + `,"data":"0x03"}`, http.StatusBadRequest, `{"message":"CONTRACT_EXECUTION_EXCEPTION","detail":"","data":""}`},
		{`{` + to + `,"gas":21000,"data":"0x02"}`, http.StatusBadRequest, `{"message":"INSUFFICIENT_GAS","detail":"","data":""}`},
		{
			`{` + to + `,"data":"0x02","from":"0x9999999999999999999999999999999999999999"}`, http.StatusBadRequest,
			`{"message":"PAYER_ACCOUNT_NOT_FOUND","detail":"Sender account not found.","data":""}`,
		},
		{`{` + to + `,"gas":15000001}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"gas field must be less than or equal to 15000000","data":""}`},
		{`{` + to + `,"block":"99999"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 99999","data":""}`},
		{`{` + to + `,"block":"99999999999999999999"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 99999999999999999999","data":""}`},
		{`{` + to + `,"block":"0x` + zeros(64) + `"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 0x` + zeros(64) + `","data":""}`},
		{`{` + to + `,"block":"newest"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"block":"-1"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"block":"0x` + zeros(17) + `"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"gas":"many"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
		{`{`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
		{`[]`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
	} {
		r := s.do(http.MethodPost, "/api/v1/contracts/call", test.body, "Content-Type", "application/json; charset=utf-8")
		want := `{"_status":{"messages":[` + test.want + `]}}`
		if got := strings.TrimSpace(string(r.body)); got != want || r.status != test.status {
			t.Errorf("%.200s: %d %s\nwant %d %s", test.body, r.status, got, test.status, want)
		}
	}
	several := s.post(`{"gas":1,"value":-1}`, http.StatusBadRequest)
	if n := len(several["_status"].(map[string]any)["messages"].([]any)); n != 3 {
		t.Errorf("%d messages for three faults: %s", n, text(several))
	}
	r := s.do(http.MethodPost, "/api/v1/contracts/call", `{"data":"`+strings.Repeat("0", 1<<20)+`"}`, "Content-Type", "application/json")
	if r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: status %d", r.status)
	}
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		if r := s.do(http.MethodPost, "/api/v1/contracts/call", `{}`, "Content-Type", media); r.status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: status %d", media, r.status)
		}
	}
}
