package jsonx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/go-json-experiment/json/jsontext"
)

// Appender is a result that writes its own JSON. AppendJSON returns dst with one
// valid JSON value appended. It spares large results an intermediate copy.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// Sizer is an Appender that knows about how long its JSON will be, never less, so that room
// can be made once.
type Sizer interface {
	Appender
	JSONSize() int
}

// Size returns about how many bytes Append will append, never less, and whether that is known.
func Size(v any) (bytes int, known bool) {
	const fixed = 80 // what is never longer
	switch v := v.(type) {
	case json.RawMessage:
		return len(v) + len("null"), true
	case Value:
		return len(v) + len("null"), true
	case Sizer:
		return v.JSONSize(), true
	case hexutil.Bytes:
		return 2*len(v) + len(`"0x"`), true
	case nil, bool, hexutil.Uint64, common.Hash, *hexutil.Big:
		return fixed, true
	}
	return 0, false
}

// Append appends the JSON of a result. What may be long, and what calls that do not wait return, is written directly:
// a connection would keep the stack that encoding/json needs. That has the rest, without HTML escaping. On error dst is returned as it was.
func Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case json.RawMessage:
		return appendRaw(dst, v), nil
	case Value:
		return appendRaw(dst, v), nil
	case Appender:
		out, err := v.AppendJSON(dst)
		if err != nil {
			return dst, err
		}
		return out, nil
	case string:
		return AppendString(dst, v), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case hexutil.Uint64:
		return append(strconv.AppendUint(append(dst, `"0x`...), uint64(v), 16), '"'), nil
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
	text := appending(dst)
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return dst, fmt.Errorf("encode result: %w", err)
	}
	return bytes.TrimSuffix(text, []byte{'\n'}), nil
}

// appending is a writer that appends.
type appending []byte

func (a *appending) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error is of invalid UTF-8
	return dst
}
