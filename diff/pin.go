package diff

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

// lowerHead asks both relays for their head.
func lowerHead(ctx context.Context, a, b *peer) (uint64, error) {
	headA, err := a.head(ctx)
	if err != nil {
		return 0, err
	}
	headB, err := b.head(ctx)
	return min(headA, headB), err
}

// pin replaces "latest" in the parameters of a request, or of each of a batch, by the
// number of a block. What is no request stays as it is.
func pin(r request, head uint64) request {
	if !bytes.Contains(r.body, []byte(`"latest"`)) || !json.Valid(r.body) {
		return r
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var body any
	if decoder.Decode(&body) != nil {
		return r
	}
	number := hexutil.EncodeUint64(head)
	switch body := body.(type) {
	case map[string]any:
		pinParams(body, number)
	case []any:
		for _, item := range body {
			if call, ok := item.(map[string]any); ok {
				pinParams(call, number)
			}
		}
	}
	if text, err := json.Marshal(body); err == nil {
		r.body = text
	}
	return r
}

func pinParams(call map[string]any, number string) {
	if params, ok := call["params"]; ok {
		call["params"] = pinValue(params, number)
	}
}

func pinValue(v any, number string) any {
	switch v := v.(type) {
	case string:
		if v == "latest" {
			return number
		}
	case []any:
		for i := range v {
			v[i] = pinValue(v[i], number)
		}
	case map[string]any:
		for key := range v {
			v[key] = pinValue(v[key], number)
		}
	}
	return v
}
