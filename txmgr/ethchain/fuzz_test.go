package ethchain

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// chainSaying is a chain whose endpoint gives every question the same result.
func chainSaying(t *testing.T, result string) *Chain {
	t.Helper()
	c := must.Get(New(Config{ID: 5, URLs: []string{scripted(t, func(string, []any) (any, error) { return json.RawMessage(result), nil })}}))(t)
	t.Cleanup(c.Close)
	return c
}

const (
	asked = "0x00000000000000000000000000000000000000000000000000000000000000a1"
	other = "0x00000000000000000000000000000000000000000000000000000000000000a2"
	block = "0x00000000000000000000000000000000000000000000000000000000000000b1"
)

// TestReceiptThatProvesNothing: what is not whole, or is another transaction's, is no receipt
// and not "none" either.
func TestReceiptThatProvesNothing(t *testing.T) {
	for _, result := range []string{
		`{"transactionHash":"` + other + `","blockNumber":"0x1","blockHash":"` + block + `","status":"0x1","number":"0x5"}`,
		`{"blockNumber":"0x1","blockHash":"` + block + `","status":"0x1"}`,
		`{"transactionHash":"` + asked + `","blockNumber":"0x1","blockHash":"` + block + `"}`,
		`{"transactionHash":"` + asked + `","blockNumber":"0x1","status":"0x1"}`,
		`{"transactionHash":"` + asked + `","blockNumber":"0x1","blockHash":"` + block + `","status":"0x2"}`,
		`{"transactionHash":"` + asked + `","blockHash":"` + block + `","status":"0x1"}`,
		`{}`,
	} {
		_, found, err := chainSaying(t, result).Receipts(t.Context(), []txmgr.Signed{{Hash: asked}})
		if err != nil || len(found) != 1 || found[0].Err == nil || found[0].Receipt != nil {
			t.Errorf("%s gave %+v, %v", result, found, err)
		}
	}
	whole := `{"transactionHash":"` + asked + `","blockNumber":"0x1","blockHash":"` + block + `","status":"0x0","number":"0x5","hash":"` + block + `"}`
	_, found, err := chainSaying(t, whole).Receipts(t.Context(), []txmgr.Signed{{Hash: asked}})
	if err != nil || len(found) != 1 || found[0].Err != nil || found[0].Receipt == nil || found[0].Receipt.Success {
		t.Errorf("a whole one gave %+v, %v", found, err)
	}
	_, found, err = chainSaying(t, `{"transactionHash":"`+asked+`","blockNumber":null,"blockHash":null}`).Receipts(t.Context(), []txmgr.Signed{{Hash: asked}})
	if err != nil || len(found) != 1 || found[0].Err == nil && found[0].Receipt != nil {
		t.Errorf("one that waits gave %+v, %v", found, err)
	}
}

// Whatever an endpoint answers is read or refused. A receipt is of the transaction that was
// asked for, and of a block.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"transactionHash":"` + asked + `","blockNumber":"0x1","blockHash":"` + block + `","status":"0x1","gasUsed":"0x5208","effectiveGasPrice":"0x1","hash":"` + block + `"}`,
		`{"number":"0x10","hash":"` + block + `","timestamp":"0x1","baseFeePerGas":"0x7","transactions":[{"hash":"` + asked + `","from":"` + common.Address{1}.Hex() + `","nonce":"0x0"}]}`,
		`"0x10"`, `null`, `{}`, `[]`, `{"baseFeePerGas":["0x1","0x2"],"gasUsedRatio":[0.5],"reward":[["0x1","0x2","0x3"]]}`, `{"blockNumber":"0xffffffffffffffff"}`, `true`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) {
			return // what is no JSON is no answer
		}
		c := chainSaying(t, string(result))
		_, found, err := c.Receipts(t.Context(), []txmgr.Signed{{Hash: asked}})
		if err == nil && found[0].Receipt != nil {
			var r receipt
			if json.Unmarshal(result, &r) != nil || r.Hash.Hex() != asked || found[0].Receipt.BlockHash == (common.Hash{}).Hex() {
				t.Errorf("%s is taken for a receipt: %+v", result, found[0].Receipt)
			}
		}
		account := common.Address{1}.Hex()
		if consumer, err := c.Consumer(t.Context(), account, 0); err == nil && consumer != nil && consumer.Hash == "" {
			t.Errorf("%s names a consumer without a hash", result)
		}
		_, _ = c.Nonces(t.Context(), account) // these do not panic
		_, _, _ = c.HighestPending(t.Context(), account)
		_, _ = c.Head(t.Context())
		_, _ = c.BlockHash(t.Context(), 1, 0)
	})
}
