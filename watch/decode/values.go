package decode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"golang.org/x/text/encoding/unicode"
)

// ErrTooMuch means that data say far more than they have bytes: many offsets in them lead to the same place.
var ErrTooMuch = errors.New("the data would decode to many times their size")

var errShort = errors.New("the data end too early")

const (
	// readsPerByte bounds how often a byte is read, on the average. Encoders that are not strange lead to each byte once.
	readsPerByte = 2
	// freeReads are read beside that, so that small data may be strange.
	freeReads = 1024
)

// values reads encoded values. It takes what is unusual and unmistakable: bytes behind the values, in any order and with gaps, padding
// that is not zero, an end without padding.
type values struct {
	data []byte
	left int // bytes that may still be read
	// exact is true as long as everything is where the usual encoder puts it.
	exact bool
	path  []step
	hex   map[string]string // by path: bytes of texts that are not UTF-8
}

// step leads from a value to one in it.
type step struct {
	name  string // "": of a list
	index int
}

// here is the path to the value that is read, like "orders[2].note".
func (v *values) here() string {
	var text strings.Builder
	for i, s := range v.path {
		switch {
		case s.name == "":
			fmt.Fprintf(&text, "[%d]", s.index)
		case i > 0:
			text.WriteString("." + s.name)
		default:
			text.WriteString(s.name)
		}
	}
	return text.String()
}

func newValues(data []byte) *values {
	return &values{data: data, left: readsPerByte*len(data) + freeReads, exact: true}
}

func (v *values) spend(n int) error {
	if v.left -= n; v.left < 0 {
		return ErrTooMuch
	}
	return nil
}

// word reads 32 bytes.
func (v *values) word(at int) ([]byte, error) {
	if at > len(v.data)-wordSize {
		return nil, errShort
	}
	return v.data[at : at+wordSize], v.spend(wordSize)
}

// small reads a word that is a length or an offset, neither of which can be more than there are bytes.
func (v *values) small(at int) (int, error) {
	w, err := v.word(at)
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(w[24:])
	if !zero(w[:24]) || n > uint64(len(v.data)) {
		return 0, errShort
	}
	return int(n), nil
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// together reads n values that stand together, and returns where the last of them ends. Offsets count from where they begin.
func (v *values) together(n, at int, which func(i int) (*Type, step), each func(i int, value any)) (end int, err error) {
	head, tail := at, at
	for i := range n {
		t, _ := which(i)
		tail += t.inline
	}
	for i := range n {
		t, s := which(i)
		place := head
		if t.dynamic {
			offset, err := v.small(head)
			if err != nil {
				return 0, err
			}
			place = at + offset
			v.exact = v.exact && place == tail
		}
		v.path = append(v.path, s)
		value, end, err := v.value(t, place)
		if err != nil {
			return 0, err
		}
		v.path = v.path[:len(v.path)-1]
		if t.dynamic {
			tail = end
		}
		each(i, value)
		head += t.inline
	}
	return tail, nil
}

// value reads a value, and returns where it ends.
func (v *values) value(t *Type, at int) (value any, end int, err error) {
	switch t.kind {
	case kindBytes, kindString:
		return v.text(t, at)
	case kindList, kindArray:
		n := t.size
		if t.kind == kindList {
			if n, err = v.small(at); err != nil {
				return nil, 0, err
			}
			at += wordSize
		}
		if n > (len(v.data)-at)/t.elem.inline {
			return nil, 0, errShort
		}
		list := make([]any, 0, min(n, v.left/wordSize+1))
		end, err = v.together(n, at, func(i int) (*Type, step) { return t.elem, step{index: i} }, func(_ int, value any) { list = append(list, value) })
		return list, end, err
	case kindTuple:
		members := make(map[string]any, len(t.members))
		end, err = v.together(len(t.members), at, func(i int) (*Type, step) { return t.members[i].Type, step{name: t.members[i].Name} },
			func(i int, value any) { members[t.members[i].Name] = value })
		return members, end, err
	default:
		w, err := v.word(at)
		if err != nil {
			return nil, 0, err
		}
		value, clean := scalarOf(t, w)
		v.exact = v.exact && clean
		return value, at + wordSize, nil
	}
}

// text reads bytes, or a text. Bytes that are no text are kept beside what can be shown of them.
func (v *values) text(t *Type, at int) (any, int, error) {
	n, err := v.small(at)
	if err != nil {
		return nil, 0, err
	}
	at += wordSize
	if n > len(v.data)-at {
		return nil, 0, errShort
	}
	if err := v.spend(n); err != nil {
		return nil, 0, err
	}
	raw, end := v.data[at:at+n], at+(n+wordSize-1)/wordSize*wordSize
	v.exact = v.exact && end <= len(v.data) && zero(v.data[at+n:min(end, len(v.data))])
	if t.kind == kindBytes {
		return hexutil.Encode(raw), end, nil
	}
	if !utf8.Valid(raw) {
		if v.hex == nil {
			v.hex = map[string]string{}
		}
		v.hex[v.here()] = hexutil.Encode(raw)
		shown, err := unicode.UTF8.NewDecoder().String(string(raw)) // as browsers and Node do, U+FFFD for each part that is no letter
		return shown, end, err
	}
	return string(raw), end, nil
}

// narrow is the widest integer that is shown as a JSON number, in bits.
const narrow = 48

// scalarOf reads a word as JSON shows it. What is in the word beside the value is passed over, and said.
func scalarOf(t *Type, w []byte) (value any, clean bool) {
	switch t.kind {
	case kindBool:
		return !zero(w), zero(w[:wordSize-1]) && w[wordSize-1] <= 1
	case kindAddress:
		return common.BytesToAddress(w).Hex(), zero(w[:12])
	case kindFixedBytes:
		return hexutil.Encode(w[:t.size]), zero(w[t.size:])
	default: // an integer: nothing else fits a word
	}
	beside, own := w[:wordSize-t.size/8], w[wordSize-t.size/8:]
	fill := byte(0)
	if t.kind == kindInt && own[0] >= 0x80 {
		fill = 0xff
	}
	clean = len(bytes.Trim(beside, string([]byte{fill}))) == 0
	if len(own) <= 8 {
		var full [8]byte
		for i := range full {
			full[i] = fill
		}
		copy(full[8-len(own):], own)
		n := binary.BigEndian.Uint64(full[:])
		switch {
		case t.size <= narrow:
			return int64(n), clean
		case t.kind == kindInt:
			return strconv.FormatInt(int64(n), 10), clean
		default:
			return strconv.FormatUint(n, 10), clean
		}
	}
	if fill == 0 && zero(own[:len(own)-8]) {
		return strconv.FormatUint(binary.BigEndian.Uint64(own[len(own)-8:]), 10), clean
	}
	n := new(big.Int).SetBytes(own)
	if fill != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(t.size)))
	}
	return n.String(), clean
}

// read reads the arguments of a log whose indexed ones are marked.
func (s *Signature) read(marks []bool, topics []common.Hash, data []byte) (Values, error) {
	v := newValues(data)
	out := Values{Args: make(map[string]any, len(s.args))}
	var inData []Arg
	for i, a := range s.args {
		if !marks[i] {
			inData = append(inData, a)
			continue
		}
		topic := topics[0]
		topics = topics[1:]
		switch a.Type.kind {
		case kindString, kindBytes, kindList, kindArray, kindTuple: // of which a log has only the hash
			out.Args[a.Name] = topic.Hex()
		default:
			value, clean := scalarOf(a.Type, topic[:])
			v.exact = v.exact && clean
			out.Args[a.Name] = value
		}
	}
	end, err := v.together(len(inData), 0, func(i int) (*Type, step) { return inData[i].Type, step{name: inData[i].Name} }, func(i int, value any) { out.Args[inData[i].Name] = value })
	if err != nil {
		return Values{}, fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	out.Hex, out.Exact = v.hex, v.exact && end == len(data)
	return out, nil
}
