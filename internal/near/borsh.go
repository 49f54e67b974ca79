package near

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/holiman/uint256"
)

// The chain's own bounds.
const (
	MaxTransaction = 1_572_864 // bytes of a signed transaction
	MaxActions     = 100       // of a transaction, and of a delegate action
)

var (
	errShort   = errors.New("the bytes end too early")
	errNotText = errors.New("a text is not UTF-8")
)

// encoder appends Borsh. Its first error stays.
type encoder struct {
	out []byte
	err error
}

func (e *encoder) byte(b byte)    { e.out = append(e.out, b) }
func (e *encoder) raw(b []byte)   { e.out = append(e.out, b...) }
func (e *encoder) u32(n int)      { e.out = binary.LittleEndian.AppendUint32(e.out, uint32(n)) }
func (e *encoder) u64(n uint64)   { e.out = binary.LittleEndian.AppendUint64(e.out, n) }
func (e *encoder) bytes(b []byte) { e.u32(len(b)); e.raw(b) }

func (e *encoder) text(s string) {
	if !utf8.ValidString(s) {
		e.fail(errNotText)
	}
	e.u32(len(s))
	e.out = append(e.out, s...)
}

func (e *encoder) account(id string) {
	if err := CheckAccount(id); err != nil {
		e.fail(err)
	}
	e.text(id)
}

func (e *encoder) amount(n uint256.Int) {
	if n.BitLen() > 128 {
		e.fail(fmt.Errorf("the amount %s has more than 128 bits", n.Dec()))
	}
	e.u64(n[0])
	e.u64(n[1])
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// done returns the bytes, which a decoder takes.
func (e *encoder) done() ([]byte, error) {
	if e.err == nil && len(e.out) > MaxTransaction {
		e.err = tooLong(len(e.out))
	}
	if e.err != nil {
		return nil, e.err
	}
	return e.out, nil
}

func tooLong(size int) error {
	return fmt.Errorf("%d bytes; the chain takes %d", size, MaxTransaction)
}

// decoder reads Borsh. After its first error everything reads as zero.
type decoder struct {
	in  []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.in = nil
}

// raw takes n bytes. They belong to the input.
func (d *decoder) raw(n int) []byte {
	if n > len(d.in) {
		d.fail(errShort)
		return nil
	}
	taken := d.in[:n]
	d.in = d.in[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.raw(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.raw(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.raw(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) amount() uint256.Int { return uint256.Int{d.u64(), d.u64()} }

// count reads how many elements follow, each of which takes at least size bytes.
func (d *decoder) count(size int) int {
	n := d.u32()
	if uint64(n)*uint64(size) > uint64(len(d.in)) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

// bytes copies a list of bytes, so that it lives longer than the input.
func (d *decoder) bytes() []byte { return append([]byte{}, d.raw(d.count(1))...) }

func (d *decoder) text() string {
	b := d.raw(d.count(1))
	if !utf8.Valid(b) {
		d.fail(errNotText)
		return ""
	}
	return string(b)
}

func (d *decoder) account() string {
	id := d.text()
	if d.err == nil {
		if err := CheckAccount(id); err != nil {
			d.fail(err)
		}
	}
	return id
}

// end returns the error, or that bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.in) > 0 {
		return fmt.Errorf("%d bytes are left over", len(d.in))
	}
	return d.err
}

// CheckAccount tells what is wrong with an account id: it has 2 to 64 characters, which are
// lower-case letters and digits, with single separators (- _ .) between them.
func CheckAccount(id string) error {
	if len(id) < 2 || len(id) > 64 {
		return fmt.Errorf("an account id has 2 to 64 characters, not %d", len(id))
	}
	separator := true // none at the beginning
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			separator = false
		case (c == '-' || c == '_' || c == '.') && !separator:
			separator = true
		default:
			return fmt.Errorf("%q is not an account id", id)
		}
	}
	if separator {
		return fmt.Errorf("%q is not an account id", id)
	}
	return nil
}
