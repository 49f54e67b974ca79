// Package sysabi is the part of Solidity's ABI that system contracts speak: words, bytes,
// strings, arrays of any length and tuples. Types are read from the spelling that they have in
// a function's signature; values are decoded strictly, since they come from contracts, and
// hold no more than a bounded number of others.
package sysabi

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// kind is how a type is laid out.
type kind uint8

const (
	kindWord kind = iota
	kindBytes
	kindArray
	kindTuple
)

// Type is a type of the ABI, read from its spelling in a signature.
type Type struct {
	kind  kind
	name  string // of a word
	parts []Type // of a tuple; the one type of an array's elements
}

// Value is a value of some type; which of its fields counts, the type says.
type Value struct {
	Word common.Hash
	Data []byte  // of bytes and strings
	List []Value // of arrays and tuples
}

// maxValues bounds what one input is decoded to: arrays may name the same bytes often.
const maxValues = 4096

// ParseTypes reads a list of types without the brackets around it.
func ParseTypes(text string) []Type {
	var list []Type
	for text != "" {
		end, depth := len(text), 0
		for i := range len(text) {
			switch c := text[i]; {
			case c == '(':
				depth++
			case c == ')':
				depth--
			case c == ',' && depth == 0 && end == len(text):
				end = i
			}
		}
		list = append(list, parseType(text[:end]))
		text = strings.TrimPrefix(text[end:], ",")
	}
	return list
}

func parseType(text string) Type {
	if element, ok := strings.CutSuffix(text, "[]"); ok {
		return Type{kind: kindArray, parts: []Type{parseType(element)}}
	}
	if strings.HasPrefix(text, "(") {
		return Type{kind: kindTuple, parts: ParseTypes(text[1 : len(text)-1])}
	}
	if text == "bytes" || text == "string" {
		return Type{kind: kindBytes}
	}
	return Type{name: text}
}

// dynamic tells whether a type stands behind an offset.
func (t *Type) dynamic() bool {
	if t.kind == kindTuple {
		return slices.ContainsFunc(t.parts, func(part Type) bool { return part.dynamic() })
	}
	return t.kind == kindBytes || t.kind == kindArray
}

// head is how many bytes a value takes in place.
func (t *Type) head() int {
	if t.kind != kindTuple || t.dynamic() {
		return 32
	}
	n := 0
	for i := range t.parts {
		n += t.parts[i].head()
	}
	return n
}

// decoder reads values; it stops at what no well-formed input has.
type decoder struct {
	budget int
	bad    bool
}

// Decode reads the values of a list of types.
func Decode(types []Type, data []byte) ([]Value, bool) {
	d := &decoder{budget: maxValues}
	values := d.tuple(types, data)
	return values, !d.bad
}

func (d *decoder) tuple(types []Type, data []byte) []Value {
	values := make([]Value, 0, len(types))
	at := 0
	for i := range types {
		if values = append(values, d.value(&types[i], data, at)); d.bad {
			return nil
		}
		at += types[i].head()
	}
	return values
}

func (d *decoder) value(t *Type, data []byte, at int) Value {
	if d.budget--; d.budget < 0 {
		d.bad = true
	}
	switch {
	case d.bad:
		return Value{}
	case !t.dynamic() && t.kind == kindTuple:
		return Value{List: d.tuple(t.parts, d.from(data, at))}
	case !t.dynamic():
		return Value{Word: d.word(t, data, at)}
	}
	rest := d.from(data, d.size(data, at, len(data)))
	if t.kind == kindTuple {
		return Value{List: d.tuple(t.parts, rest)}
	}
	if t.kind == kindBytes {
		n := d.size(rest, 0, len(rest)-32)
		if d.bad {
			return Value{}
		}
		return Value{Data: rest[32 : 32+n]}
	}
	n := d.size(rest, 0, (len(rest)-32)/32)
	elements := make([]Type, 0, min(n, maxValues))
	for range min(n, maxValues+1) {
		elements = append(elements, t.parts[0])
	}
	return Value{List: d.tuple(elements, d.from(rest, 32))}
}

// from is the data from an offset on.
func (d *decoder) from(data []byte, at int) []byte {
	if at > len(data) {
		d.bad = true
	}
	if d.bad {
		return nil
	}
	return data[at:]
}

// size reads a length or an offset; most is its maximum.
func (d *decoder) size(data []byte, at, most int) int {
	var w common.Hash
	if d.bad || at+32 > len(data) {
		d.bad = true
		return 0
	}
	copy(w[:], data[at:])
	n := binary.BigEndian.Uint64(w[24:])
	if !isZero(w[:24]) || most < 0 || n > uint64(most) {
		d.bad = true
		return 0
	}
	return int(n)
}

// word reads a word that a value of the type may have.
func (d *decoder) word(t *Type, data []byte, at int) (w common.Hash) {
	if at+32 > len(data) {
		d.bad = true
		return w
	}
	copy(w[:], data[at:])
	ok := true
	switch t.name {
	case "address":
		ok = isZero(w[:12])
	case "bool":
		ok = isZero(w[:31]) && w[31] <= 1
	case "uint32":
		ok = isZero(w[:28])
	case "uint64":
		ok = isZero(w[:24])
	case "int32":
		ok = extends(w[:28], w[28])
	case "int64":
		ok = extends(w[:24], w[24])
	}
	d.bad = d.bad || !ok
	return w
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// extends tells whether bytes repeat the sign of what follows them.
func extends(b []byte, next byte) bool {
	sign := byte(0)
	if next >= 0x80 {
		sign = 0xff
	}
	for _, c := range b {
		if c != sign {
			return false
		}
	}
	return true
}

// Encode writes the values of a list of types.
func Encode(types []Type, values []Value) []byte {
	size := 0
	for i := range types {
		size += types[i].head()
	}
	head, tail := make([]byte, 0, size), []byte(nil)
	for i := range types {
		body := types[i].encode(&values[i])
		if !types[i].dynamic() {
			head = append(head, body...)
			continue
		}
		head = append(head, Word(int64(size+len(tail))).Bytes()...)
		tail = append(tail, body...)
	}
	return append(head, tail...)
}

func (t *Type) encode(v *Value) []byte {
	switch t.kind {
	case kindWord:
		return v.Word.Bytes()
	case kindTuple:
		return Encode(t.parts, v.List)
	case kindArray:
		types := make([]Type, len(v.List))
		for i := range types {
			types[i] = t.parts[0]
		}
		return append(Word(int64(len(v.List))).Bytes(), Encode(types, v.List)...)
	default:
		out := append(Word(int64(len(v.Data))).Bytes(), v.Data...)
		return append(out, make([]byte, (32-len(v.Data)%32)%32)...)
	}
}

// Zero is the value of a type with nothing in it.
func Zero(t *Type) Value {
	var v Value
	if t.kind == kindTuple {
		for i := range t.parts {
			v.List = append(v.List, Zero(&t.parts[i]))
		}
	}
	return v
}

// Word is a number as a word.
func Word(n int64) (w common.Hash) {
	if n < 0 {
		for i := range 24 {
			w[i] = 0xff
		}
	}
	binary.BigEndian.PutUint64(w[24:], uint64(n))
	return w
}

// Int is a number, of any size and sign that the type may have.
func Int(n int64) Value { return Value{Word: Word(n)} }

// Text is a string.
func Text(s string) Value { return Value{Data: []byte(s)} }

// Bytes are bytes of any length.
func Bytes(b []byte) Value { return Value{Data: b} }

// Address is an address.
func Address(a common.Address) Value { return Value{Word: common.BytesToHash(a[:])} }

// List is an array or a tuple.
func List(values ...Value) Value { return Value{List: values} }

// Bool is true or false.
func Bool(b bool) Value {
	if b {
		return Int(1)
	}
	return Int(0)
}

// Address reads an address.
func (v *Value) Address() common.Address { return common.Address(v.Word[12:]) }

// Bool reads true or false.
func (v *Value) Bool() bool { return v.Word[31] == 1 }

// Text reads a string.
func (v *Value) Text() string { return string(v.Data) }

// Int64 reads a number that fits; larger ones become the largest, which nothing has.
func (v *Value) Int64() int64 {
	if extends(v.Word[:24], v.Word[24]) {
		return int64(binary.BigEndian.Uint64(v.Word[24:]))
	}
	return math.MaxInt64
}

// Uint256 reads a whole word.
func (v *Value) Uint256() *uint256.Int { return new(uint256.Int).SetBytes32(v.Word[:]) }

// Int64s reads the numbers of an array.
func (v *Value) Int64s() []int64 {
	list := make([]int64, len(v.List))
	for i := range v.List {
		list[i] = v.List[i].Int64()
	}
	return list
}
