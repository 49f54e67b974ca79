package mirror

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/hedera"
)

// A reader walks over one JSON text and stores values straight into structs,
// without a tree and without reflection: the answers of a mirror node are long,
// and most of their bytes are hex that is wanted as bytes. The first error sticks;
// after it every method returns zero values and every loop ends.
//
// null is the zero value of whatever is read, unless a method says otherwise.
type reader struct {
	b   []byte
	i   int
	err error
}

// maxNesting bounds the recursion of skip.
const maxNesting = 64

var errSyntax = errors.New("malformed JSON")

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: "+format, append([]any{r.i}, args...)...)
		r.i = len(r.b)
	}
}

func (r *reader) syntax() {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %w", r.i, errSyntax)
		r.i = len(r.b)
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for r.i < len(r.b) {
		switch c := r.b[r.i]; c {
		case ' ', '\n', '\r', '\t':
			r.i++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) literal(word string) {
	if len(r.b)-r.i < len(word) || string(r.b[r.i:r.i+len(word)]) != word {
		r.syntax()
		return
	}
	r.i += len(word)
}

// null consumes a null, if there is one.
func (r *reader) null() bool {
	if r.peek() != 'n' {
		return false
	}
	r.literal("null")
	return true
}

// object calls field for every member of an object; field must read the value.
// The key is valid until field returns. A null has no members.
func (r *reader) object(field func(key []byte)) {
	if r.null() {
		return
	}
	if r.peek() != '{' {
		r.syntax()
		return
	}
	r.i++
	if r.peek() == '}' {
		r.i++
		return
	}
	for r.err == nil {
		if r.peek() != '"' {
			r.syntax()
			return
		}
		key := r.text()
		if r.peek() != ':' {
			r.syntax()
			return
		}
		r.i++
		field(key)
		switch r.peek() {
		case ',':
			r.i++
		case '}':
			r.i++
			return
		default:
			r.syntax()
		}
	}
}

// array calls item for every element; item must read it and returns whether to
// go on. When it does not, the reader stays where it is, for good. A null is empty.
func (r *reader) array(item func() bool) {
	if r.null() {
		return
	}
	if r.peek() != '[' {
		r.syntax()
		return
	}
	r.i++
	if r.peek() == ']' {
		r.i++
		return
	}
	for r.err == nil {
		if !item() {
			return
		}
		switch r.peek() {
		case ',':
			r.i++
		case ']':
			r.i++
			return
		default:
			r.syntax()
		}
	}
}

// skip passes over one value of any kind.
func (r *reader) skip() { r.skipNested(0) }

func (r *reader) skipNested(depth int) {
	if depth > maxNesting {
		r.fail("nested too deeply")
		return
	}
	switch r.peek() {
	case '"':
		r.quoted()
	case '{':
		r.object(func([]byte) { r.skipNested(depth + 1) })
	case '[':
		r.array(func() bool { r.skipNested(depth + 1); return true })
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// quoted passes over a string and returns it with its quotes. Control characters
// in it are not objected to; looking for them would cost more than all else.
func (r *reader) quoted() (raw []byte, escaped bool) {
	start, from := r.i, r.i+1
	for {
		end := bytes.IndexByte(r.b[from:], '"')
		if end < 0 {
			r.syntax()
			return nil, false
		}
		end += from
		slashes := 0
		for r.b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			r.i = end + 1
			raw = r.b[start:r.i]
			return raw, escaped || bytes.IndexByte(raw, '\\') >= 0
		}
		from, escaped = end+1, true
	}
}

// text reads a string. The result may be a view of the input.
func (r *reader) text() []byte {
	if r.null() {
		return nil
	}
	if r.peek() != '"' {
		r.fail("want a string")
		return nil
	}
	raw, escaped := r.quoted()
	if r.err != nil {
		return nil
	}
	if !escaped {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		r.syntax()
		return nil
	}
	return []byte(s)
}

func (r *reader) str() string { return string(r.text()) }

// number reads the text of a number.
func (r *reader) number() []byte {
	r.peek()
	start := r.i
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			r.i++
		default:
			return r.numberText(start)
		}
	}
	return r.numberText(start)
}

func (r *reader) numberText(start int) []byte {
	if start == r.i {
		r.fail("want a value")
		return nil
	}
	text := r.b[start:r.i]
	if !json.Valid(text) {
		r.fail("want a number")
		return nil
	}
	return text
}

// integerText reads an integer that may be written as a number or as a string of
// digits, which the mirror node does for some.
func (r *reader) integerText() []byte {
	if r.peek() == '"' {
		return r.text()
	}
	return r.number()
}

func (r *reader) int64() int64 {
	if r.null() {
		return 0
	}
	text := r.integerText()
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		r.fail("want an integer of 64 bits")
	}
	return n
}

// uint64 reads an integer that cannot be negative.
func (r *reader) uint64() uint64 {
	if r.null() {
		return 0
	}
	text := r.integerText()
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		r.fail("want an unsigned integer of 64 bits")
	}
	return n
}

// optional reads an integer that can be unknown: null is nil.
func (r *reader) optional() *uint64 {
	if r.null() {
		return nil
	}
	n := r.uint64()
	return &n
}

// big reads an integer of any size; null is nil.
func (r *reader) big() *big.Int {
	if r.null() {
		return nil
	}
	text := r.integerText()
	if r.err != nil {
		return nil
	}
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		r.fail("want an integer")
	}
	return n
}

func (r *reader) bool() bool {
	switch r.peek() {
	case 't':
		r.literal("true")
		return true
	case 'n':
		r.literal("null")
	default:
		r.literal("false")
	}
	return false
}

// digits reads the digits of a hex string, with or without 0x.
func (r *reader) digits() []byte {
	text := r.text()
	if len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:]
	}
	return text
}

// bytes reads hex data. null is nil, 0x is empty and not nil.
func (r *reader) bytes() []byte {
	if r.null() {
		return nil
	}
	digits := r.digits()
	out := make([]byte, (len(digits)+1)/2)
	r.decodeHex(out, digits)
	return out
}

// hash reads the first 32 bytes of a hash that may be 48 bytes long.
func (r *reader) hash() (h common.Hash) {
	digits := r.digits()
	if len(digits) > 2*common.HashLength {
		digits = digits[:2*common.HashLength]
	}
	r.word(h[:], digits)
	return h
}

func (r *reader) address() (a common.Address) {
	digits := r.digits()
	if len(digits) > 2*common.AddressLength {
		r.fail("want an address")
		return a
	}
	r.word(a[:], digits)
	return a
}

// maybeAddress reads an address; null and 0x are nil.
func (r *reader) maybeAddress() *common.Address {
	if r.null() {
		return nil
	}
	digits := r.digits()
	if r.err != nil || len(digits) == 0 {
		return nil
	}
	a := new(common.Address)
	if len(digits) > 2*common.AddressLength {
		r.fail("want an address")
		return nil
	}
	r.word(a[:], digits)
	return a
}

// word decodes up to len(dst) bytes of hex, aligned to the right.
func (r *reader) word(dst, digits []byte) {
	n := (len(digits) + 1) / 2
	if n > len(dst) {
		r.fail("want at most %d bytes", len(dst))
		return
	}
	r.decodeHex(dst[len(dst)-n:], digits)
}

// decodeHex decodes hex of any number of digits; dst holds half of them, rounded up.
func (r *reader) decodeHex(dst, digits []byte) {
	if r.err != nil {
		return
	}
	var err error
	if len(digits)%2 == 1 {
		var padded [2]byte
		padded[0], padded[1] = '0', digits[0]
		if _, err = hex.Decode(dst[:1], padded[:]); err == nil {
			_, err = hex.Decode(dst[1:], digits[1:])
		}
	} else {
		_, err = hex.Decode(dst, digits)
	}
	if err != nil {
		r.fail("want hex digits")
	}
}

// quantity reads a number in hex; null and 0x are nil.
func (r *reader) quantity() *big.Int {
	digits := r.digits()
	if r.err != nil || len(digits) == 0 {
		return nil
	}
	var small [32]byte
	if len(digits) > 2*len(small) {
		r.fail("want at most 32 bytes")
		return nil
	}
	n := (len(digits) + 1) / 2
	r.decodeHex(small[:n], digits)
	return new(big.Int).SetBytes(small[:n])
}

// id reads an entity id; null is 0.0.0.
func (r *reader) id() hedera.ID {
	text := r.text()
	if r.err != nil || len(text) == 0 {
		return hedera.ID{}
	}
	id, err := hedera.ParseID(string(text))
	if err != nil {
		r.fail("want an entity id")
	}
	return id
}

// time reads a consensus timestamp; null is the zero time.
func (r *reader) time() hedera.Timestamp {
	text := r.text()
	if r.err != nil || len(text) == 0 {
		return hedera.Timestamp{}
	}
	t, err := hedera.ParseTimestamp(string(text))
	if err != nil {
		r.fail("want a timestamp")
	}
	return t
}

// end checks that nothing follows.
func (r *reader) end() error {
	if r.err == nil && r.peek() != 0 {
		r.syntax()
	}
	return r.err
}

// decode reads one JSON text.
func decode(body []byte, read func(*reader)) error {
	r := reader{b: body}
	read(&r)
	return r.end()
}
