package rpc

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"iter"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
)

// Value is one JSON value of a request, as it stands in the text, already known
// to be well formed. The zero Value is an absent one.
//
// A Value is a view of the request's bytes: what it returns as a string, number,
// address, hash or Bytes is a copy, all other results are views too. A method
// marked Inline must not keep views after it returned.
//
// The typed accessors are for values that a parameter rule has accepted; on
// others they return zero values, never panic.
type Value []byte

// Present reports whether the value was in the request at all, be it as null.
func (v Value) Present() bool { return len(v) > 0 }

// Null reports whether the value is an explicit null.
func (v Value) Null() bool { return len(v) > 0 && v[0] == 'n' }

// Given reports whether the value is present and not null.
func (v Value) Given() bool { return len(v) > 0 && v[0] != 'n' }

// IsString reports whether the value is a string.
func (v Value) IsString() bool { return len(v) > 0 && v[0] == '"' }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return len(v) > 0 && v[0] == '{' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return len(v) > 0 && v[0] == '[' }

// IsNumber reports whether the value is a number.
func (v Value) IsNumber() bool {
	return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

// IsBool reports whether the value is true or false.
func (v Value) IsBool() bool { return len(v) > 0 && (v[0] == 't' || v[0] == 'f') }

// text returns a string's text without copying it where possible.
func (v Value) text() []byte {
	if !v.IsString() {
		return nil
	}
	return unquote(v)
}

// Text returns a string's text; "" if the value is not a string.
func (v Value) Text() string { return string(v.text()) }

// Bool returns true for the literal true.
func (v Value) Bool() bool { return len(v) > 0 && v[0] == 't' }

// Address returns the 20 bytes of a hex string.
func (v Value) Address() common.Address { return common.BytesToAddress(v.Bytes()) }

// Hash returns the 32 bytes of a hex string; a shorter one is padded on the left.
func (v Value) Hash() common.Hash { return common.BytesToHash(v.Bytes()) }

// Bytes returns the bytes of a 0x-prefixed hex string; nil if it is not one or
// has an odd number of digits.
func (v Value) Bytes() []byte {
	digits, ok := hexDigits(v.text())
	if !ok || len(digits)%2 != 0 {
		return nil
	}
	out := make([]byte, len(digits)/2)
	if _, err := hex.Decode(out, digits); err != nil {
		return nil
	}
	return out
}

// Uint64 returns the number of a 0x-prefixed hex string of any digit count, or
// of a plain non-negative JSON integer. ok is false if it is neither or does not
// fit.
func (v Value) Uint64() (n uint64, ok bool) {
	if v.IsNumber() {
		n, err := strconv.ParseUint(string(v), 10, 64)
		return n, err == nil
	}
	digits, ok := hexDigits(v.text())
	if !ok || len(digits) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 16, 64)
	return n, err == nil
}

// Big returns the number of a 0x-prefixed hex string, or nil if it is not one.
// "0x" alone is zero.
func (v Value) Big() *big.Int {
	digits, ok := hexDigits(v.text())
	if !ok {
		return nil
	}
	if len(digits) == 0 {
		return new(big.Int)
	}
	n, ok := new(big.Int).SetString(string(digits), 16)
	if !ok {
		return nil
	}
	return n
}

// Float returns a JSON number as a float; 0 if the value is not a number.
func (v Value) Float() float64 {
	if !v.IsNumber() {
		return 0
	}
	f, _ := strconv.ParseFloat(string(v), 64) // out of range gives ±Inf, as the caller wants
	return f
}

// Len returns the number of elements of an array.
func (v Value) Len() int {
	n := 0
	for range v.Elements() {
		n++
	}
	return n
}

// Elements iterates over the elements of an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if !v.IsArray() {
			return
		}
		more := true
		scanArray(v, 0, 0, func(element []byte) {
			more = more && yield(Value(element))
		})
	}
}

// Fields iterates over the members of an object, in the order of the text. A key
// that occurs twice is shown twice.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if !v.IsObject() {
			return
		}
		more := true
		scanObject(v, 0, 0, func(key, value []byte) {
			more = more && yield(string(unquote(key)), Value(value))
		})
	}
}

// Field returns the member of an object with exactly that key; the last one if
// it occurs more than once; an absent Value if there is none.
func (v Value) Field(name string) Value {
	if !v.IsObject() {
		return nil
	}
	var found Value
	scanObject(v, 0, 0, func(key, value []byte) {
		if string(unquote(key)) == name {
			found = Value(value)
		}
	})
	return found
}

// Decode stores the value in dst with encoding/json. Beware that encoding/json
// matches keys without regard to case; Field does not.
func (v Value) Decode(dst any) error { return json.Unmarshal(v, dst) }

// MarshalJSON returns the value as it stands.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// display renders the value for an error message: strings without quotes, arrays
// and objects as compact JSON.
func (v Value) display() string {
	const longest = 4096 // a message is for reading; data can be a megabyte
	var text []byte
	switch {
	case v.IsString():
		text = v.text()
	case v.IsObject() || v.IsArray():
		var compact bytes.Buffer
		if json.Compact(&compact, v) != nil {
			return ""
		}
		text = compact.Bytes()
	default:
		text = v
	}
	if len(text) > longest {
		return string(bytes.ToValidUTF8(text[:longest], nil)) + "…"
	}
	return string(text)
}

// hexDigits returns what follows 0x, if that is nothing but hex digits.
func hexDigits(text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X') {
		return nil, false
	}
	for _, c := range text[2:] {
		if !isHexDigit(c) {
			return nil, false
		}
	}
	return text[2:], true
}
