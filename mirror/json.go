package mirror

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/jsonx"
)

// A reader walks over one JSON text and stores values directly in structs, without a tree and without reflection:
// the answers of a mirror node are long, and most of their bytes are hex that becomes bytes. Package jsonx finds
// where values end. The first error stays; after it every method returns zero values and every loop ends.
//
// null reads as the zero value, unless a method says otherwise.
type reader struct {
	b      []byte
	i      int
	err    error
	newest uint64   // the highest number of a block in the text
	block  lastHash // of the log before
	origin lastHash // the transaction of the log before
	data   slab[byte]
	hashes slab[common.Hash]
}

var errSyntax = errors.New("malformed JSON")

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: "+format, append([]any{r.i}, args...)...)
		r.i = len(r.b)
	}
}

// passed moves on to where a scan ended, and returns the text in between. A scan that failed
// ends at -1.
func (r *reader) passed(end int) (text []byte) {
	if end < 0 || r.err != nil {
		r.fail("%w", errSyntax)
		return nil
	}
	text, r.i = r.b[r.i:end], end
	return text
}

// position is where the reader stands; -1 after an error, which ends a scan.
func (r *reader) position() int {
	if r.err != nil {
		return -1
	}
	return r.i
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	if r.i = jsonx.SkipSpace(r.b, r.i); r.i < len(r.b) {
		return r.b[r.i]
	}
	return 0
}

// null consumes a null, if there is one.
func (r *reader) null() bool {
	if r.peek() != 'n' {
		return false
	}
	r.skip()
	return true
}

// opens tells whether an object or an array begins here, and not a null, which has nothing in it.
func (r *reader) opens(with byte, want string) bool {
	if r.null() {
		return false
	}
	if r.peek() != with {
		r.fail(want)
		return false
	}
	return true
}

// object calls field for every member of an object; field must read the value.
// The key is valid until field returns. A null has no members.
func (r *reader) object(field func(key []byte)) {
	if !r.opens('{', "want an object") {
		return
	}
	i, more := jsonx.ScanOpening(r.b, r.i, '}')
	for more {
		var key []byte
		if key, r.i = jsonx.ScanKey(r.b, i); key == nil {
			i = -1
			break
		}
		field(jsonx.Unquote(key))
		i, more = jsonx.ScanComma(r.b, r.position(), '}')
	}
	r.passed(i)
}

// array calls item for every element; item must read it. A null is empty.
func (r *reader) array(item func()) {
	if !r.opens('[', "want an array") {
		return
	}
	i, more := jsonx.ScanOpening(r.b, r.i, ']')
	for more {
		r.i = i
		item()
		i, more = jsonx.ScanComma(r.b, r.position(), ']')
	}
	r.passed(i)
}

// skip passes over one value of any kind.
func (r *reader) skip() {
	r.peek()
	r.passed(jsonx.ScanValue(r.b, r.i, 0))
}

// text reads a string. The result may be a view of the input.
func (r *reader) text() []byte {
	switch r.peek() {
	case '"':
		if quoted := r.passed(jsonx.ScanString(r.b, r.i)); quoted != nil {
			return jsonx.Unquote(quoted)
		}
	case 'n':
		r.skip()
	default:
		r.fail("want a string")
	}
	return nil
}

func (r *reader) str() string { return string(r.text()) }

// number reads the text of a number.
func (r *reader) number() []byte {
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		r.fail("want a number")
		return nil
	}
	return r.passed(jsonx.ScanNumber(r.b, r.i))
}

// end checks that nothing follows.
func (r *reader) end() error {
	if r.err == nil && jsonx.SkipSpace(r.b, r.i) < len(r.b) {
		r.fail("%w", errSyntax)
	}
	return r.err
}

// note remembers that the text names a block.
func (r *reader) note(block uint64) { r.newest = max(r.newest, block) }
