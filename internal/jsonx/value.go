package jsonx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"iter"
	"math/big"
	"strconv"
)

// Value is one JSON value as it stands in the text that holds it. The scanner has read it, so
// it is well formed. The zero Value is an absent one.
//
// A Value is a view of the text. Strings, numbers and Bytes that it returns are copies; all
// other results are views too.
//
// The typed accessors return zero values where the value is of another type. They never panic.
type Value []byte

// Present reports whether there is a value at all, null included.
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

// View returns a string's text as bytes, nil if the value is not a string. Without escapes it
// is a view.
func (v Value) View() []byte {
	if !v.IsString() {
		return nil
	}
	return Unquote(v)
}

// Text returns a string's text; "" if the value is not a string.
func (v Value) Text() string { return string(v.View()) }

// Bool returns true for the literal true.
func (v Value) Bool() bool { return len(v) > 0 && v[0] == 't' }

// Bytes returns the bytes of a 0x-prefixed hex string; nil if it is not one or
// has an odd number of digits.
func (v Value) Bytes() []byte {
	digits, ok := HexDigits(v.View())
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
	digits, ok := HexDigits(v.View())
	if !ok || len(digits) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 16, 64)
	return n, err == nil
}

// MaxDigits is the maximum of hex digits in a number that Big reads: the time to read one grows
// with the square of its digits.
const MaxDigits = 1024

// Big returns the number of a 0x-prefixed hex string, or nil if it is not one or has more
// than 1,024 digits. "0x" alone is zero.
func (v Value) Big() *big.Int {
	digits, ok := HexDigits(v.View())
	if !ok {
		return nil
	}
	if len(digits) == 0 {
		return new(big.Int)
	}
	if digits = bytes.TrimLeft(digits, "0"); len(digits) > MaxDigits {
		return nil
	}
	n, ok := new(big.Int).SetString("0"+string(digits), 16)
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
		ScanArray(v, 0, 0, func(element []byte) {
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
		ScanObject(v, 0, 0, func(key, value []byte) {
			more = more && yield(string(Unquote(key)), Value(value))
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
	ScanObject(v, 0, 0, func(key, value []byte) {
		if IsKey(key, name) {
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

// Display renders the value for an error message: strings without quotes, arrays and objects
// as compact JSON. What is longer than 4,096 bytes is cut.
func (v Value) Display() string {
	const longest = 4096 // a message is for reading; data can be a megabyte
	var text []byte
	switch {
	case v.IsString():
		text = v.View()
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

// HexDigits returns what follows 0x or 0X in a text, if all of it is hex digits.
func HexDigits(text []byte) ([]byte, bool) {
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
