package mirror

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// integerText reads an integer, which the mirror node writes as a number or as a string of digits.
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

// plain reads an integer in its usual form: a few digits alone. It reads nothing of any other form.
func (r *reader) plain() (n uint64, ok bool) {
	const few = 19 // digits: no such number is too large
	r.peek()
	rest := r.b[r.i:]
	for i, c := range rest[:min(len(rest), few+1)] {
		if c >= '0' && c <= '9' && (n > 0 || i == 0) {
			n = n*10 + uint64(c-'0')
			continue
		}
		ok = i > 0 && (c == ',' || c == '}' || c == ']')
		if ok {
			r.i += i
		}
		return n, ok
	}
	return 0, false
}

// uint64 reads an integer that cannot be negative.
func (r *reader) uint64() uint64 {
	if n, ok := r.plain(); ok {
		return n
	}
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
	if n, ok := r.known(); ok {
		return &n
	}
	return nil
}

// known reads an integer that can be unknown: null is not ok.
func (r *reader) known() (n uint64, ok bool) {
	if r.null() {
		return 0, false
	}
	return r.uint64(), true
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
	switch c := r.peek(); c {
	case 't', 'f', 'n':
		r.skip()
		return c == 't' && r.err == nil
	}
	r.fail("want true or false")
	return false
}

// digits reads the digits of a hex string, with or without 0x.
func (r *reader) digits() []byte { return hexPart(r.text()) }

// hexPart is text without 0x.
func hexPart(text []byte) []byte {
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
	out := r.data.take((len(digits) + 1) / 2)
	r.decodeHex(out, digits)
	return out
}

// exact reads hex of exactly the length of dst, the mirror node's usual form. Of any other form it reads nothing
// and returns false; dst is zero then.
func (r *reader) exact(dst []byte) bool {
	const prefix = `"0x`
	r.peek()
	rest := r.b[r.i:]
	end := len(prefix) + 2*len(dst)
	if len(rest) <= end || rest[end] != '"' || string(rest[:len(prefix)]) != prefix {
		return false
	}
	if _, err := hex.Decode(dst, rest[len(prefix):end]); err != nil {
		clear(dst)
		return false
	}
	r.i += end + 1
	return true
}

// hash reads the first 32 bytes of a hash that may be 48 bytes long.
func (r *reader) hash() (h common.Hash) {
	if r.exact(h[:]) {
		return h
	}
	digits := r.digits()
	if len(digits) > 2*common.HashLength {
		digits = digits[:2*common.HashLength]
	}
	r.word(h[:], digits)
	return h
}

// lastHash is a hash and how it was written.
type lastHash struct {
	text []byte // quotes included; nil: none yet
	hash common.Hash
}

// hashAgain is hash for lists whose next item often has the same one: an equal text is not decoded again.
func (r *reader) hashAgain(last *lastHash) common.Hash {
	r.peek()
	if len(last.text) > 0 && bytes.HasPrefix(r.b[r.i:], last.text) {
		r.i += len(last.text)
		return last.hash
	}
	start := r.i
	last.hash = r.hash()
	last.text = r.b[start:r.i]
	return last.hash
}

func (r *reader) address() (a common.Address) {
	if r.exact(a[:]) {
		return a
	}
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
	a := new(common.Address)
	if r.exact(a[:]) {
		return a
	}
	digits := r.digits()
	if r.err != nil || len(digits) == 0 {
		return nil
	}
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
		r.fail("want no more than %d bytes", len(dst))
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
		r.fail("want no more than 32 bytes")
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
