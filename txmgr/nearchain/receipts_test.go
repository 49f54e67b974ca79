package nearchain

import (
	"strings"
	"testing"

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
