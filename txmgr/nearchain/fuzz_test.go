package nearchain

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/txmgr"
)

// saying is a node that gives every question the same result, but for those that it knows better.
type saying struct {
	result string
	better map[string]string // by method
}

func (s saying) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct{ Method string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		return nil, err
	}
	result, ok := s.better[q.Method]
	if !ok {
		result = s.result
	}
	text := `{"jsonrpc":"2.0","id":"1","result":` + result + `}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

func chainSaying(t testing.TB, s saying) *Chain {
	t.Helper()
	c := must.Get(New(Config{ID: "near", URLs: []string{"http://127.0.0.1:1"}}))(t)
	c.endpoints[0].client = &http.Client{Transport: s}
	return c
}

// transaction is a signed one.
func transaction(t testing.TB) txmgr.Signed {
	t.Helper()
	key := must.Get(near.ParseSecretKey("ed25519:" + near.EncodeBase58(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))))(t)
	tx := near.Transaction{Signer: "a.near", PublicKey: key.Public(), Nonce: 7, Receiver: "b.near", Actions: []near.Action{near.CreateAccount{}}}
	hash := must.Get(tx.Hash())(t)
	signature := must.Get(key.Sign(hash[:]))(t)
	whole := near.SignedTransaction{Transaction: tx, Signature: signature}
	return must.Get(signed(whole, "10"))(t)
}

const blockSays = `{"header":{"height":500000,"hash":"11111111111111111111111111111111","timestamp":1}}`

// TestAnswersThatProveNothing: a node that leaves out a nonce, an outcome or a result, or shows
// another transaction, has not said that a transaction failed, or can never be executed.
func TestAnswersThatProveNothing(t *testing.T) {
	one := transaction(t)
	for _, key := range []string{
		`null`, `{}`, `{"block_height":500000,"block_hash":"11111111111111111111111111111111"}`, `{"nonce":null,"block_height":500000,"block_hash":"11111111111111111111111111111111"}`,
	} {
		c := chainSaying(t, saying{result: key})
		if gone, err := c.Expired(t.Context(), one); gone || err == nil {
			t.Errorf("%s proves %t, %v", key, gone, err)
		}
		if nonces, err := c.Nonces(t.Context(), "a.near/"+keyText(t, one)); err == nil {
			t.Errorf("%s has the nonces %+v", key, nonces)
		}
	}
	c := chainSaying(t, saying{result: `{"nonce":6,"block_height":500000,"block_hash":"11111111111111111111111111111111"}`})
	if gone, err := c.Expired(t.Context(), one); !gone || err != nil {
		t.Errorf("a final state past its time proves %t, %v", gone, err)
	}
	outcome := func(id string) string {
		return `"transaction_outcome":{"id":"` + id + `","block_hash":"11111111111111111111111111111111","outcome":{"gas_burnt":1,"tokens_burnt":"1"}},"receipts_outcome":[]`
	}
	for text, want := range map[string]string{
		`null`: "error", `{}`: "none",
		`{"final_execution_status":"INCLUDED","status":"Started",` + outcome(one.Hash) + `}`:                                     "none",
		`{"final_execution_status":"FINAL",` + outcome(one.Hash) + `}`:                                                           "error",
		`{"final_execution_status":"FINAL","status":{},` + outcome(one.Hash) + `}`:                                               "error",
		`{"final_execution_status":"FINAL","status":"Started",` + outcome(one.Hash) + `}`:                                        "error",
		`{"final_execution_status":"FINAL","status":{"Failure":null},` + outcome(one.Hash) + `}`:                                 "error",
		`{"final_execution_status":"FINAL","status":{"SuccessValue":"","Failure":{"ActionError":{}}},` + outcome(one.Hash) + `}`: "error",
		`{"final_execution_status":"FINAL","status":{"SuccessValue":""},` + outcome("other") + `}`:                               "error",
		`{"final_execution_status":"FINAL","status":{"SuccessValue":""},` + outcome(one.Hash) + `}`:                              "success",
		`{"final_execution_status":"FINAL","status":{"Failure":{"ActionError":{}}},` + outcome(one.Hash) + `}`:                   "failure",
	} {
		_, found, err := chainSaying(t, saying{result: text, better: map[string]string{"block": blockSays}}).Receipts(t.Context(), []txmgr.Signed{one})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", text, found, err)
		}
		got := "none"
		switch r := found[0].Receipt; {
		case found[0].Err != nil:
			got = "error"
		case r != nil && r.Success:
			got = "success"
		case r != nil:
			got = "failure"
		}
		if got != want {
			t.Errorf("%s is %s (%v), want %s", text, got, found[0].Err, want)
		}
	}
}

func keyText(t testing.TB, one txmgr.Signed) string {
	t.Helper()
	tx := must.Get(near.DecodeTransaction(one.Raw))(t)
	return tx.PublicKey.String()
}

// Whatever a node answers is read or refused. Only an answer that shows the key's nonce proves
// that a transaction is gone, and only one that shows the transaction is its receipt.
func FuzzAnswers(f *testing.F) {
	one := transaction(f)
	for _, seed := range []string{
		blockSays, `null`, `{}`, `[]`, `"x"`, `{"nonce":6,"block_height":500000,"block_hash":"11111111111111111111111111111111"}`,
		`{"final_execution_status":"FINAL","status":{"SuccessValue":""},"transaction_outcome":{"id":"` + one.Hash + `","block_hash":"1","outcome":{"gas_burnt":1,"tokens_burnt":"1"}},"receipts_outcome":[]}`,
		`{"amount":"1","locked":"0","block_height":1}`, `{"gas_price":"100000000"}`, `{"chunks":[{"chunk_hash":"1"}],"transactions":[{"hash":"1","signer_id":"a.near","nonce":7}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) {
			return // what is no JSON is no answer
		}
		text := string(result)
		c, ctx := chainSaying(t, saying{result: text}), context.WithoutCancel(t.Context())
		account := "a.near/" + keyText(t, one)
		if gone, err := c.Expired(ctx, one); err == nil && gone && !strings.Contains(strings.ToLower(text), "nonce") && !strings.Contains(text, `\u`) {
			t.Errorf("%s proves that a transaction is gone", text)
		}
		later := chainSaying(t, saying{result: text, better: map[string]string{"block": blockSays}})
		_, found, err := later.Receipts(ctx, []txmgr.Signed{one})
		if err == nil && found[0].Receipt != nil && !strings.Contains(text, one.Hash) && !strings.Contains(text, `\u`) {
			t.Errorf("%s is taken for a receipt: %+v", text, found[0].Receipt)
		}
		_, _ = c.Nonces(ctx, account) // these do not panic
		_, _, _ = c.HighestPending(ctx, account)
		_, _ = c.Head(ctx)
		_, _ = c.Balance(ctx, account)
		_, _ = c.Market(ctx)
		_, _ = c.BlockHash(ctx, 1, 0)
		_, _ = later.Consumer(ctx, account, 7)
		_ = refusalOf(result)
	})
}

// The name of a signer that is read is written as it was read.
func FuzzSigner(f *testing.F) {
	for _, seed := range []string{"a.near", "a.near/ed25519:11111111111111111111111111111111", "/", "a.near/", "0x05fba803be258049a27b820088bab1cad2058871", "a.near/secp256k1:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseSigner(text); err == nil && s.String() != text {
			again, err := parseSigner(s.String())
			if err != nil || again != s {
				t.Errorf("%q became %q", text, s)
			}
		}
	})
}
