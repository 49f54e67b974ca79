package mirror

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

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
	StateOverrides json.RawMessage // an object; nil: none
	AccessList     json.RawMessage // an array; nil: none
	Authorizations json.RawMessage // an array; nil: none
}

func (q *CallRequest) body() []byte {
	b := make([]byte, 0, 256+2*len(q.Data)+len(q.StateOverrides))
	b = append(b, `{"estimate":`...)
	b = strconv.AppendBool(b, q.Estimate)
	b = appendText(b, "block", q.Block)
	if q.From != nil {
		b = appendText(b, "from", lowerHex(*q.From))
	}
	if q.To != nil {
		b = appendText(b, "to", lowerHex(*q.To))
	}
	if len(q.Data) > 0 {
		b = append(b, `,"data":"0x`...)
		b = append(hex.AppendEncode(b, q.Data), '"')
	}
	if q.Gas > 0 {
		b = strconv.AppendUint(append(b, `,"gas":`...), q.Gas, 10)
	}
	if q.GasPrice != nil && q.GasPrice.Sign() > 0 {
		b = q.GasPrice.Append(append(b, `,"gasPrice":`...), 10)
	}
	if q.Value != 0 {
		b = strconv.AppendInt(append(b, `,"value":`...), int64(q.Value), 10)
	}
	b = appendRaw(b, "state_overrides", q.StateOverrides)
	b = appendRaw(b, "accessList", q.AccessList)
	b = appendRaw(b, "authorizationList", q.Authorizations)
	return append(b, '}')
}

func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":"`...)
	return append(append(b, text...), '"')
}

func appendRaw(b []byte, name string, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return append(b, raw...)
}

// Call simulates a contract call and returns its output, or the bytes of the gas it needs. A call that fails is
// an *Error, whose Message is a response code such as CONTRACT_REVERT_EXECUTED and whose Data is what it reverted
// with. Identical calls that are under way at once are one.
func (c *Client) Call(ctx context.Context, q CallRequest) ([]byte, error) {
	body := q.body()
	post := fetch.Request{Label: "contracts/call", Service: fetch.Web3, Path: "contracts/call", Body: body, Retries: 1}
	result, err := shared(ctx, c, "call "+string(body), post, func(r *reader, result *[]byte) {
		r.object(func(key []byte) {
			if string(key) == "result" {
				*result = r.bytes()
				return
			}
			r.skip()
		})
	})
	if err != nil {
		return nil, err
	}
	return *result, nil
}
