package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
)

// Call is a function of a contract whose arguments come from an event: "release(address,uint256)".
type Call struct {
	function *Signature
	from     []string // the event's arguments, in the order of the function's
}

// NewCall checks that an event has what a function needs. Arguments have one word each: addresses, numbers, truth values, bytes of a fixed length.
func NewCall(function string, from []string, event *Signature) (*Call, error) {
	f, err := Parse(function)
	if err != nil {
		return nil, err
	}
	if len(from) != len(f.args) {
		return nil, fmt.Errorf("%s has %d arguments, not %d", f, len(f.args), len(from))
	}
	for i, a := range f.args {
		if !slices.Contains([]kind{kindAddress, kindUint, kindInt, kindBool, kindFixedBytes}, a.Type.kind) {
			return nil, fmt.Errorf("%s: type %s cannot be passed on", f, a.Type)
		}
		if typ := event.TypeOf(from[i]); typ != a.Type.String() {
			return nil, fmt.Errorf("%s wants %s as argument %d, and %s of %s is %q", f, a.Type, i+1, from[i], event.Name, typ)
		}
	}
	return &Call{function: f, from: from}, nil
}

// String returns the canonical form of the function.
func (c *Call) String() string { return c.function.String() }

// Data returns the call data for the arguments of an event, as its JSON has them.
func (c *Call) Data(args json.RawMessage) ([]byte, error) {
	var values map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(args)))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	data := slices.Clone(c.function.Selector[:4])
	for i, a := range c.function.args {
		w, err := word(a.Type, values[c.from[i]])
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", c.from[i], err)
		}
		data = append(data, w...)
	}
	return data, nil
}

var errValue = errors.New("the value does not fit its type")

// word encodes a value of a static type, as plain has made it.
func word(t *Type, value any) ([]byte, error) {
	text := fmt.Sprint(value)
	switch t.kind {
	case kindAddress:
		if !common.IsHexAddress(text) {
			return nil, errValue
		}
		return common.LeftPadBytes(common.HexToAddress(text).Bytes(), 32), nil
	case kindBool:
		flag, ok := value.(bool)
		if !ok {
			return nil, errValue
		}
		if flag {
			return common.LeftPadBytes([]byte{1}, 32), nil
		}
		return make([]byte, 32), nil
	case kindFixedBytes:
		raw, err := hexutil.Decode(text)
		if err != nil || len(raw) != t.size {
			return nil, errValue
		}
		return common.RightPadBytes(raw, 32), nil
	default:
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return nil, errValue
		}
		return math.U256Bytes(n), nil
	}
}
