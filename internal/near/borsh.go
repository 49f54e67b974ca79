package near

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
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

// codec writes Borsh, or reads it, so that what a type consists of is said once. Its first error stays; after one, everything reads as zero.
type codec struct {
	reading bool
	data    []byte // what is written, or what is left to read
	err     error
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	if c.reading {
		c.data = nil
	}
}

// coded is a type that is more than its fields one after the other.
type coded interface{ code(c *codec) }

// value takes a value by its type. As says what its tag says.
func (c *codec) value(v reflect.Value, as string) {
	switch at := v.Addr().Interface().(type) {
	case coded:
		at.code(c)
	case *[]Action:
		c.actions(at, as == delegated)
	case *uint256.Int:
		c.amount(at)
	case *uint64:
		c.u64(at)
	case *uint32:
		c.u32(at)
	case *[]byte:
		c.bytes(at)
	case *Hash:
		c.raw(at[:])
	case *string:
		if c.text(at); as == account {
			c.check(CheckAccount(*at))
		}
	default:
		for i := range v.NumField() {
			c.value(v.Field(i), v.Type().Field(i).Tag.Get("near"))
		}
	}
}

// What the tag of a field may say.
const account, arguments, delegated = "account", "arguments", "delegated"

// encode returns the bytes of what a pointer points at, which decode takes.
func encode(value any) ([]byte, error) {
	var c codec
	c.value(reflect.ValueOf(value).Elem(), "")
	if c.err == nil && len(c.data) > MaxTransaction {
		c.err = tooLong(len(c.data))
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.data, nil
}

// decode reads all of some bytes.
func decode(data []byte, into any) error {
	if len(data) > MaxTransaction {
		return tooLong(len(data))
	}
	c := codec{reading: true, data: data}
	c.value(reflect.ValueOf(into).Elem(), "")
	if c.err == nil && len(c.data) > 0 {
		return fmt.Errorf("%d bytes are left over", len(c.data))
	}
	return c.err
}

func tooLong(size int) error {
	return fmt.Errorf("%d bytes; the chain takes %d", size, MaxTransaction)
}

// raw takes bytes whose number is known. Those that are read stay zero after an error.
func (c *codec) raw(b []byte) {
	switch {
	case !c.reading:
		c.data = append(c.data, b...)
	case len(b) > len(c.data):
		c.fail(errShort)
	default:
		c.data = c.data[copy(b, c.data):]
	}
}

func (c *codec) byte(b *byte) {
	one := [1]byte{*b}
	c.raw(one[:])
	if c.reading {
		*b = one[0]
	}
}

func (c *codec) u32(n *uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], *n)
	c.raw(b[:])
	if c.reading {
		*n = binary.LittleEndian.Uint32(b[:])
	}
}

func (c *codec) u64(n *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *n)
	c.raw(b[:])
	if c.reading {
		*n = binary.LittleEndian.Uint64(b[:])
	}
}

func (c *codec) amount(n *uint256.Int) {
	if n.BitLen() > 128 {
		c.fail(fmt.Errorf("the amount %s has more than 128 bits", n.Dec()))
	}
	c.u64(&n[0])
	c.u64(&n[1])
}

// count takes how many elements follow, each of which is at least size bytes.
func (c *codec) count(n, size int) int {
	count := uint32(n)
	c.u32(&count)
	if c.reading && uint64(count)*uint64(size) > uint64(len(c.data)) {
		c.fail(errShort)
		return 0
	}
	return int(count)
}

// bytes takes a list of bytes. What is read lives longer than the input.
func (c *codec) bytes(b *[]byte) {
	if n := c.count(len(*b), 1); c.reading {
		*b = make([]byte, n)
	}
	c.raw(*b)
}

func (c *codec) text(s *string) {
	b := []byte(*s)
	if c.bytes(&b); !utf8.Valid(b) {
		c.fail(errNotText)
		return
	}
	*s = string(b)
}

func (c *codec) check(err error) {
	if err != nil && c.err == nil {
		c.err = err
	}
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
