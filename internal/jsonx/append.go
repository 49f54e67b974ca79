package jsonx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/go-json-experiment/json/jsontext"
)

// Size returns about how many bytes Append will append, never less, and whether that is known.
func Size(v any) (bytes int, known bool) {
	const fixed = 80 // what is never longer
	switch v := v.(type) {
	case json.RawMessage:
		return len(v) + len("null"), true
	case Value:
		return len(v) + len("null"), true
	case hexutil.Bytes:
		return 2*len(v) + len(`"0x"`), true
	case nil, bool, hexutil.Uint64, common.Hash, *hexutil.Big:
		return fixed, true
	}
	return 0, false
}

// Append appends the JSON of a result. What may be long already, or is what calls that do not wait return, is written directly:
// a connection would keep the stack that encoding/json needs. That has the rest, without HTML escaping. On error dst is returned as it was.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case json.RawMessage:
		return appendRaw(dst, v), nil
	case Value:
		return appendRaw(dst, v), nil
	case string:
		return AppendString(dst, v), nil
	case hexutil.Bytes:
		return append(hex.AppendEncode(append(dst, `"0x`...), v), '"'), nil
	}
	return appendReflected(dst, v)
}

func appendRaw(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

func appendReflected(dst []byte, v any) ([]byte, error) {
	text := bytes.NewBuffer(dst)
	enc := json.NewEncoder(text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, fmt.Errorf("encode result: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error is of invalid UTF-8
	return dst
}
