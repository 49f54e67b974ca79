package nearchain

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/internal/must"
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
		`{"code":429,"message":"Too many requests"}`:                                                                    txmgr.ClassTransport,
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

// TestWhatIsNoAnswer: nobody is asked whom a node names instead of itself, and a part of an answer is none.
func TestWhatIsNoAnswer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("another host was asked")
		_, _ = w.Write([]byte(`{"result":` + blockSays + `}`))
	}))
	defer elsewhere.Close()
	for want, answer := range map[string]http.HandlerFunc{
		"HTTP 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"more than": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append([]byte(`{"result":`+blockSays+`}`), bytes.Repeat([]byte{' '}, maxAnswer)...))
		},
	} {
		server := httptest.NewServer(answer)
		c := must.Get(New(Config{ID: "near", URLs: []string{server.URL}, Timeout: must.Patience}))(t)
		if head, err := c.Head(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the head is %+v, %v; want an error with %q", head, err, want)
		}
		c.Close()
		server.Close()
	}
}
