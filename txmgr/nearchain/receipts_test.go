package nearchain

import (
	"net/http"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestReceiptsTellTheWholeTruth: a transaction is a failure if any of its receipts is, with the reason in nearcore's names;
// one that no node knows has no receipt, and is not an error.
func TestReceiptsTellTheWholeTruth(t *testing.T) {
	one := transaction(t)
	whole := func(status string, receipts ...string) string {
		for i, r := range receipts {
			receipts[i] = `{"id":"r","block_hash":"11111111111111111111111111111111","outcome":{"gas_burnt":1,"tokens_burnt":"1","status":` + r + `}}`
		}
		return `{"final_execution_status":"FINAL","status":` + status + `,"transaction_outcome":{"id":"` + one.Hash +
			`","block_hash":"11111111111111111111111111111111","outcome":{"gas_burnt":1,"tokens_burnt":"1","status":{"SuccessReceiptId":"r"}}},"receipts_outcome":[` + strings.Join(receipts, ",") + `]}`
	}
	const good, panicked = `{"SuccessValue":""}`, `{"Failure":{"ActionError":{"index":2,"kind":{"FunctionCallError":{"ExecutionError":"Smart contract panicked: no"}}}}}`
	for text, want := range map[string]string{
		whole(good, good, good): "",
		whole(panicked, good):   "action 2: FunctionCallError: ExecutionError: Smart contract panicked: no",
		whole(good, good, `{"Failure":{"ActionError":{"index":0,"kind":{"AccountAlreadyExists":{"account_id":"a.near"}}}}}`): "action 0: AccountAlreadyExists: account_id: a.near",
		whole(`{"Failure":{"ActionError":{"index":null,"kind":"DelegateActionExpired"}}}`):                                   "DelegateActionExpired",
		whole(`{"Failure":{"InvalidTxError":{"InvalidNonce":{"ak_nonce":2,"tx_nonce":1}}}}`):                                 `InvalidTxError: InvalidNonce: {"ak_nonce":2,"tx_nonce":1}`,
		whole(`{"Failure":{"ActionError":{"index":0,"kind":{"X":"` + strings.Repeat("long ", 1000) + `"}}}}`):                "action 0: X: " + strings.Repeat("long ", 1000)[:1<<10-13] + "…",
		whole(`{"Failure":{"ActionError":{}}}`):                                                                              "",
	} {
		_, found, err := chainSaying(t, saying{result: text, better: map[string]string{"block": blockSays}}).Receipts(t.Context(), []txmgr.Signed{one})
		if err != nil || len(found) != 1 || found[0].Receipt == nil {
			t.Fatalf("%s: %+v, %v", text, found, err)
		}
		if r := found[0].Receipt; r.Reason != want || r.Success != (text == whole(good, good, good)) {
			t.Errorf("%s\nsucceeded: %t, for %q; want %q", text, r.Success, r.Reason, want)
		}
	}
	for text, known := range map[string]bool{
		`{"name":"HANDLER_ERROR","cause":{"name":"UNKNOWN_TRANSACTION","info":{"requested_transaction_hash":"` + one.Hash + `"}},"code":-32000,"message":"Server error","data":"Transaction ` + one.Hash + ` doesn't exist"}`: true,
		`{"name":"HANDLER_ERROR","cause":{"name":"TIMEOUT_ERROR","info":{}},"code":-32000,"message":"Server error","data":"Timeout"}`:                                                                                         false,
		`{"name":"HANDLER_ERROR","cause":{"name":"SOMETHING_NEW","info":{}},"code":-32000}`:                                                                                                                                   false,
	} {
		_, found, err := chainSaying(t, saying{result: `null,"error":` + text, better: map[string]string{"block": blockSays}}).Receipts(t.Context(), []txmgr.Signed{one})
		if err != nil || len(found) != 1 || found[0].Receipt != nil || (found[0].Err == nil) != known {
			t.Errorf("%s: %+v, %v", text, found, err)
		}
	}
}

// TestAnotherNodeKnows: what one node has forgotten, or does not have yet, another may know. What a second node says does not take back what the first one knew.
func TestAnotherNodeKnows(t *testing.T) {
	one := transaction(t)
	refusal := func(cause string) string {
		return `null,"error":{"name":"HANDLER_ERROR","cause":{"name":"` + cause + `","info":{}},"code":-32000,"message":"Server error"}`
	}
	good := `{"final_execution_status":"FINAL","status":{"SuccessValue":""},"transaction_outcome":{"id":"` + one.Hash +
		`","block_hash":"11111111111111111111111111111111","outcome":{"gas_burnt":1,"tokens_burnt":"1","status":{"SuccessReceiptId":"r"}}},"receipts_outcome":[]}`
	two := func(first, second saying) *Chain {
		c := must.Get(New(Config{ID: "near", URLs: []string{"http://127.0.0.1:1", "http://127.0.0.1:1"}}))(t)
		for n, s := range []saying{first, second} {
			c.endpoints[n].client = &http.Client{Transport: s}
		}
		return c
	}
	knows := saying{better: map[string]string{"block": blockSays, "tx": good}}
	for cause, found := range map[string]bool{"UNKNOWN_TRANSACTION": true, "TIMEOUT_ERROR": false} {
		c := two(saying{better: map[string]string{"block": blockSays, "tx": refusal(cause)}}, knows)
		_, list, err := c.Receipts(t.Context(), []txmgr.Signed{one})
		if err != nil || len(list) != 1 || (list[0].Receipt != nil) != found || (list[0].Err == nil) != found {
			t.Errorf("%s: %+v, %v", cause, list, err)
		}
		if _, list, err := c.Receipts(t.Context(), []txmgr.Signed{one}); err != nil || list[0].Receipt != nil {
			t.Errorf("%s: the other one is asked again at once: %+v, %v", cause, list, err)
		}
	}
	for _, cause := range []string{"UNKNOWN_BLOCK", "GARBAGE_COLLECTED_BLOCK", "NO_SYNCED_BLOCKS", "NOT_SYNCED_YET", "UNAVAILABLE_SHARD"} {
		if hash, err := two(saying{result: refusal(cause)}, knows).BlockHash(t.Context(), 500000, 0); err != nil || hash == "" {
			t.Errorf("%s: %q, %v", cause, hash, err)
		}
	}
	if hash, err := two(saying{result: refusal("UNKNOWN_BLOCK")}, saying{result: refusal("UNKNOWN_BLOCK")}).BlockHash(t.Context(), 500000, 0); err != nil || hash != "" {
		t.Errorf("a block that nobody has: %q, %v", hash, err)
	}
	c := two(saying{result: refusal("NO_SYNCED_BLOCKS")}, knows)
	_, _ = c.Head(t.Context())
	if c.order()[0] != c.endpoints[1] {
		t.Error("a node that is not in sync goes on being the first")
	}
	if n, failing := c.Endpoints(); n != 2 || len(failing) != 1 || failing[0].Number != 1 {
		t.Errorf("of %d nodes fail %v", n, failing)
	}
}
