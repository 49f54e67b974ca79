package nearchain

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"lockstep/txmgr"
)

// TestClassify has answers in the forms in which nearcore writes them.
func TestClassify(t *testing.T) {
	invalid := func(refusal string) string {
		return `{"name":"HANDLER_ERROR","cause":{"name":"INVALID_TRANSACTION","info":{}},"code":-32000,"message":"Server error","data":{"TxExecutionError":{"InvalidTxError":` + refusal + `}}}`
	}
	for answer, want := range map[string]txmgr.Class{
		invalid(`{"InvalidNonce":{"ak_nonce":9,"tx_nonce":7}}`):                         txmgr.ClassNonceUsed,
		invalid(`{"NonceTooLarge":{"tx_nonce":99000000,"upper_bound":98000000}}`):       txmgr.ClassGap,
		invalid(`{"NotEnoughBalance":{"signer_id":"a.near","balance":"1","cost":"2"}}`): txmgr.ClassFunds,
		invalid(`{"LackBalanceForState":{"signer_id":"a.near","amount":"2"}}`):          txmgr.ClassFunds,
		invalid(`"Expired"`): txmgr.ClassPoolPolicy,
		invalid(`{"ShardCongested":{"shard_id":1,"congestion_level":1.0}}`):                                         txmgr.ClassPoolPolicy,
		invalid(`{"ShardStuck":{"shard_id":1,"missed_chunks":6}}`):                                                  txmgr.ClassPoolPolicy,
		invalid(`{"InvalidAccessKeyError":{"AccessKeyNotFound":{"account_id":"a.near","public_key":"ed25519:1"}}}`): txmgr.ClassPoolPolicy,
		invalid(`"InvalidSignature"`):                              txmgr.ClassFatal,
		invalid(`"CostOverflow"`):                                  txmgr.ClassFatal,
		invalid(`{"ActionsValidation":"DeleteActionMustBeFinal"}`): txmgr.ClassFatal,
		invalid(`{"StorageError":"StorageInternalError"}`):         txmgr.ClassAmbiguous,
		invalid(`"SomethingNew"`):                                  txmgr.ClassAmbiguous,
		`{"name":"HANDLER_ERROR","cause":{"name":"TIMEOUT_ERROR","info":{}},"code":-32000,"data":"Timeout"}`:            txmgr.ClassTransport,
		`{"name":"INTERNAL_ERROR","cause":{"name":"INTERNAL_ERROR","info":{"error_message":"actor is gone"}}}`:          txmgr.ClassTransport,
		`{"name":"REQUEST_VALIDATION_ERROR","cause":{"name":"PARSE_ERROR","info":{"error_message":"x"}},"code":-32700}`: txmgr.ClassFatal,
		`{"name":"HANDLER_ERROR","cause":{"name":"DOES_NOT_TRACK_SHARD","info":{}}}`:                                    txmgr.ClassAmbiguous,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":"1","error":` + answer + `}`))
		}))
		e := &endpoint{name: "node 1", url: server.URL, client: server.Client()}
		var ignored json.RawMessage
		err := classify(e.name, e.call(t.Context(), "send_tx", object{}, &ignored))
		server.Close()
		var send *txmgr.SendError
		if !errors.As(err, &send) || send.Class != want || send.Endpoint != "node 1" || send.Text == "" {
			t.Errorf("%s\nis %+v, want %s", answer, err, want)
		}
	}
	if err := classify("node 1", nil); err != nil {
		t.Errorf("what was taken is %v", err)
	}
}
