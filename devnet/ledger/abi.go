package ledger

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// The part of Solidity's ABI that system contracts speak: words, bytes, strings, arrays
// of any length and tuples.

// abiKind is how a type is laid out.
type abiKind uint8

const (
	abiWord abiKind = iota
	abiBytes
	abiArray
	abiTuple
)

// abiType is a type of the ABI, read from its spelling in a signature.
type abiType struct {
	kind  abiKind
	name  string    // of a word
	parts []abiType // of a tuple; the one type of an array's elements
}

// abiValue is a value of some type.
type abiValue struct {
	word common.Hash
	data []byte     // of bytes and strings
	list []abiValue // of arrays and tuples
}

// maxABIValues bounds what one input is decoded to: arrays may name the same bytes often.
const maxABIValues = 4096

// parseTypes reads a list of types without the brackets around it.
func parseTypes(text string) []abiType {
	var list []abiType
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

func parseType(text string) abiType {
	if element, ok := strings.CutSuffix(text, "[]"); ok {
		return abiType{kind: abiArray, parts: []abiType{parseType(element)}}
	}
	if strings.HasPrefix(text, "(") {
		return abiType{kind: abiTuple, parts: parseTypes(text[1 : len(text)-1])}
	}
	if text == "bytes" || text == "string" {
		return abiType{kind: abiBytes}
	}
	return abiType{name: text}
}

// dynamic tells whether a type stands behind an offset.
func (t *abiType) dynamic() bool {
	if t.kind == abiTuple {
		return slices.ContainsFunc(t.parts, func(part abiType) bool { return part.dynamic() })
	}
	return t.kind == abiBytes || t.kind == abiArray
}

// head is how many bytes a value takes in place.
func (t *abiType) head() int {
	if t.kind != abiTuple || t.dynamic() {
		return 32
	}
	n := 0
	for i := range t.parts {
		n += t.parts[i].head()
	}
	return n
}

// abiDecoder reads values; it stops at what no well-formed input has.
type abiDecoder struct {
	budget int
	bad    bool
}

// decodeABI reads the values of a list of types.
func decodeABI(types []abiType, data []byte) ([]abiValue, bool) {
	d := &abiDecoder{budget: maxABIValues}
	values := d.tuple(types, data)
	return values, !d.bad
}

func (d *abiDecoder) tuple(types []abiType, data []byte) []abiValue {
	values := make([]abiValue, 0, len(types))
	at := 0
	for i := range types {
		if values = append(values, d.value(&types[i], data, at)); d.bad {
			return nil
		}
		at += types[i].head()
	}
	return values
}

func (d *abiDecoder) value(t *abiType, data []byte, at int) abiValue {
	if d.budget--; d.budget < 0 {
		d.bad = true
	}
	switch {
	case d.bad:
		return abiValue{}
	case !t.dynamic() && t.kind == abiTuple:
		return abiValue{list: d.tuple(t.parts, d.from(data, at))}
	case !t.dynamic():
		return abiValue{word: d.word(t, data, at)}
	}
	rest := d.from(data, d.size(data, at, len(data)))
	if t.kind == abiTuple {
		return abiValue{list: d.tuple(t.parts, rest)}
	}
	if t.kind == abiBytes {
		n := d.size(rest, 0, len(rest)-32)
		if d.bad {
			return abiValue{}
		}
		return abiValue{data: rest[32 : 32+n]}
	}
	n := d.size(rest, 0, (len(rest)-32)/32)
	elements := make([]abiType, 0, min(n, maxABIValues))
	for range min(n, maxABIValues+1) {
		elements = append(elements, t.parts[0])
	}
	return abiValue{list: d.tuple(elements, d.from(rest, 32))}
}

// from is the data from an offset on.
func (d *abiDecoder) from(data []byte, at int) []byte {
	if at > len(data) {
		d.bad = true
	}
	if d.bad {
		return nil
	}
	return data[at:]
}

// size reads a length or an offset; most is its maximum.
func (d *abiDecoder) size(data []byte, at, most int) int {
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
func (d *abiDecoder) word(t *abiType, data []byte, at int) (w common.Hash) {
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

// encodeABI writes the values of a list of types.
func encodeABI(types []abiType, values []abiValue) []byte {
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
		head = append(head, intWord(int64(size+len(tail))).Bytes()...)
		tail = append(tail, body...)
	}
	return append(head, tail...)
}

func (t *abiType) encode(v *abiValue) []byte {
	switch t.kind {
	case abiWord:
		return v.word.Bytes()
	case abiTuple:
		return encodeABI(t.parts, v.list)
	case abiArray:
		types := make([]abiType, len(v.list))
		for i := range types {
			types[i] = t.parts[0]
		}
		return append(intWord(int64(len(v.list))).Bytes(), encodeABI(types, v.list)...)
	default:
		out := append(intWord(int64(len(v.data))).Bytes(), v.data...)
		return append(out, make([]byte, (32-len(v.data)%32)%32)...)
	}
}

// zeroABI is the value of a type with nothing in it.
func zeroABI(t *abiType) abiValue {
	var v abiValue
	if t.kind == abiTuple {
		for i := range t.parts {
			v.list = append(v.list, zeroABI(&t.parts[i]))
		}
	}
	return v
}

func intWord(n int64) (w common.Hash) {
	if n < 0 {
		for i := range 24 {
			w[i] = 0xff
		}
	}
	binary.BigEndian.PutUint64(w[24:], uint64(n))
	return w
}

func abiInt(n int64) abiValue               { return abiValue{word: intWord(n)} }
func abiText(s string) abiValue             { return abiValue{data: []byte(s)} }
func abiData(b []byte) abiValue             { return abiValue{data: b} }
func abiAddress(a common.Address) abiValue  { return abiValue{word: common.BytesToHash(a[:])} }
func abiList(values ...abiValue) abiValue   { return abiValue{list: values} }
func (v *abiValue) address() common.Address { return common.Address(v.word[12:]) }
func (v *abiValue) bool() bool              { return v.word[31] == 1 }
func (v *abiValue) text() string            { return string(v.data) }

func abiBool(b bool) abiValue {
	if b {
		return abiInt(1)
	}
	return abiInt(0)
}

// int64 reads a number that fits; larger ones become the largest, which nothing has.
func (v *abiValue) int64() int64 {
	if extends(v.word[:24], v.word[24]) {
		return int64(binary.BigEndian.Uint64(v.word[24:]))
	}
	return every
}

// uint256 reads a whole word.
func (v *abiValue) uint256() *uint256.Int { return new(uint256.Int).SetBytes32(v.word[:]) }

func (v *abiValue) int64s() []int64 {
	list := make([]int64, len(v.list))
	for i := range v.list {
		list[i] = v.list[i].int64()
	}
	return list
}
