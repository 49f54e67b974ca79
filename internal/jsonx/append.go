package jsonx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
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

// Append appends the JSON of a result. Already encoded text and the common
// scalar types are written directly, everything else goes through encoding/json
// without HTML escaping. On error dst is returned as it was.
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
		dst = append(dst, `"0x`...)
		return append(strconv.AppendUint(dst, uint64(v), 16), '"'), nil
	case *hexutil.Big:
		if n := (*big.Int)(v); n != nil && n.Sign() >= 0 {
			return append(n.Append(append(dst, `"0x`...), 16), '"'), nil
		}
	case hexutil.Bytes:
		return appendHex(dst, v), nil
	case common.Hash:
		return appendHex(dst, v[:]), nil
	}
	return appendReflected(dst, v)
}

func appendRaw(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}

func appendHex(dst, data []byte) []byte {
	dst = append(dst, `"0x`...)
	dst = hex.AppendEncode(dst, data)
	return append(dst, '"')
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
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[plain:i]...), "\uFFFD"...)
				plain = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		dst = appendEscape(dst, c)
		i++
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}
