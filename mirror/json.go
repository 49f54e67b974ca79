package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// A reader walks over one JSON text and stores values straight into structs,
// without a tree and without reflection: the answers of a mirror node are long,
// and most of their bytes are hex that is wanted as bytes. The first error sticks;
// after it every method returns zero values and every loop ends.
//
// null is the zero value of whatever is read, unless a method says otherwise.
type reader struct {
	b      []byte
	i      int
	err    error
	newest uint64   // the highest number of a block that the text told of
	block  lastHash // of the log before
	origin lastHash // the transaction of the log before
	data   slab[byte]
	hashes slab[common.Hash]
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
		key := r.key()
		if r.err != nil {
			return
		}
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

// key reads the name of a member, with the colon after it. Names are short: a look at
// each byte costs less than a search.
func (r *reader) key() (key []byte) {
	if r.peek() != '"' {
		r.syntax()
		return nil
	}
	start := r.i + 1
	end := start
	for end < len(r.b) && r.b[end] != '"' && r.b[end] != '\\' {
		end++
	}
	if end < len(r.b) && r.b[end] == '"' {
		key, r.i = r.b[start:end], end+1
	} else {
		key = r.text()
	}
	if r.peek() != ':' {
		r.syntax()
		return nil
	}
	r.i++
	return key
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

// quoted passes over a string and returns what is between its quotes, as it is written.
// Control characters in it are not objected to; looking for them would cost more than
// all else.
func (r *reader) quoted() (raw []byte) {
	start := r.i + 1
	for end := start; ; end++ {
		n := bytes.IndexByte(r.b[end:], '"')
		if n < 0 {
			r.syntax()
			return nil
		}
		end += n
		slashes := 0
		for r.b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			r.i = end + 1
			return r.b[start:end]
		}
	}
}

// text reads a string. The result may be a view of the input.
func (r *reader) text() []byte {
	switch r.peek() {
	case '"':
	case 'n':
		r.literal("null")
		return nil
	default:
		r.fail("want a string")
		return nil
	}
	start := r.i
	raw := r.quoted()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var s string
	if json.Unmarshal(r.b[start:r.i], &s) != nil {
		r.syntax()
		return nil
	}
	return []byte(s)
}

func (r *reader) str() string { return string(r.text()) }

// number reads the text of a number. Most are whole, and need no second look.
func (r *reader) number() []byte {
	r.peek()
	start, whole := r.i, true
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c >= '0' && c <= '9':
		case c == '-', c == '+', c == '.', c == 'e', c == 'E':
			whole = false
		default:
			return r.numberText(start, whole)
		}
		r.i++
	}
	return r.numberText(start, whole)
}

func (r *reader) numberText(start int, whole bool) []byte {
	text := r.b[start:r.i]
	switch {
	case len(text) == 0:
		r.fail("want a value")
		return nil
	case whole && (text[0] != '0' || len(text) == 1):
		return text
	case !json.Valid(text):
		r.fail("want a number")
		return nil
	}
	return text
}

// end checks that nothing follows.
func (r *reader) end() error {
	if r.err == nil && r.peek() != 0 {
		r.syntax()
	}
	return r.err
}

// note remembers that the text tells of a block.
func (r *reader) note(block uint64) { r.newest = max(r.newest, block) }

// decode reads one JSON text.
func decode(body []byte, read func(*reader)) error {
	r := reader{b: body}
	read(&r)
	return r.end()
}
