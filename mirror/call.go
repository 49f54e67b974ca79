package mirror

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lockstep/internal/hedera"
	"lockstep/mirror/fetch"
)

// CallRequest is a contract call to simulate.
type CallRequest struct {
	Block          string // a tag, a number in decimal or hex, or a hash; empty is latest
	Estimate       bool   // the answer is the gas that the call needs
	From, To       *common.Address
	Data           []byte
	Gas            uint64   // 0: the maximum that is allowed
	GasPrice       *big.Int // weibar; nil or 0: none
	Value          hedera.Tinybar
	StateOverrides stdjson.RawMessage // an object; nil: none
	AccessList     stdjson.RawMessage // an array; nil: none
	Authorizations stdjson.RawMessage // an array; nil: none
}

// body is the request as the mirror node reads it.
func (q *CallRequest) body() ([]byte, error) {
	body := struct {
		Estimate       bool            `json:"estimate"`
		Block          string          `json:"block,omitzero"`
		From           *common.Address `json:"from,omitzero"`
		To             *common.Address `json:"to,omitzero"`
		Data           []byte          `json:"data,omitempty"`
		Gas            uint64          `json:"gas,omitzero"`
		GasPrice       *big.Int        `json:"gasPrice,omitzero"`
		Value          hedera.Tinybar  `json:"value,omitzero"`
		StateOverrides jsontext.Value  `json:"state_overrides,omitzero"`
		AccessList     jsontext.Value  `json:"accessList,omitzero"`
		Authorizations jsontext.Value  `json:"authorizationList,omitzero"`
	}{q.Estimate, q.Block, q.From, q.To, q.Data, q.Gas, q.GasPrice, q.Value, jsontext.Value(q.StateOverrides), jsontext.Value(q.AccessList), jsontext.Value(q.Authorizations)}
	if len(q.Data) == 0 {
		body.Data = nil
	}
	if q.GasPrice != nil && q.GasPrice.Sign() <= 0 {
		body.GasPrice = nil
	}
	return json.Marshal(body, form)
}

// Call simulates a contract call and returns its output, or the bytes of the gas it needs. A call that fails is
// an *Error, whose Message is a response code such as CONTRACT_REVERT_EXECUTED and whose Data is what it reverted
// with. Identical calls that are under way at once are one.
func (c *Client) Call(ctx context.Context, q CallRequest) ([]byte, error) {
	body, err := q.body()
	if err != nil {
		return nil, fmt.Errorf("contract call: %w", err)
	}
	type answer struct {
		Result []byte `json:"result"`
	}
	post := fetch.Request{Label: "contracts/call", Service: fetch.Web3, Path: "contracts/call", Body: body, Retries: 1}
	got, err := shared[answer](ctx, c, "call "+string(body), post)
	if err != nil {
		return nil, err
	}
	return got.Result, nil
}
