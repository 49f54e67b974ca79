// Package codec is the form in which a ledger's state is saved. It follows the Go types: fields
// in their order, numbers as varints, messages of HAPI as protobuf, so that a new field is saved
// without further code. Only exported fields are saved, and not those with the tag state:"-". A
// pointer that is the same as the one of its type before is written as such, and is shared again
// after loading. [Layout] names the form that types have; state in another one cannot be read.
package codec

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
)

const (
	pointerNone = iota
	pointerSame
	pointerNew
)

var messageType = reflect.TypeFor[proto.Message]()

// Encoder appends values to a buffer.
type Encoder struct {
	buf    []byte
	last   map[reflect.Type]any // pointer written last, by its type
	fields fieldLists
}

// NewEncoder makes an encoder with nothing in it.
func NewEncoder() *Encoder { return &Encoder{last: map[reflect.Type]any{}, fields: fieldLists{}} }

// Flush writes what was put since the last time.
func (e *Encoder) Flush(to io.Writer) error {
	_, err := to.Write(e.buf)
	e.buf = e.buf[:0]
	return err
}

// Put appends a value.
func (e *Encoder) Put(v any) { e.value(reflect.ValueOf(v)) }

func (e *Encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		e.buf = binary.AppendUvarint(e.buf, map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = binary.AppendVarint(e.buf, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.buf = binary.AppendUvarint(e.buf, v.Uint())
	case reflect.String:
		e.buf = append(binary.AppendUvarint(e.buf, uint64(v.Len())), v.String()...)
	case reflect.Array:
		e.elements(v)
	case reflect.Slice:
		if v.IsNil() {
			e.buf = binary.AppendUvarint(e.buf, 0)
			return
		}
		e.buf = binary.AppendUvarint(e.buf, uint64(v.Len())+1)
		e.elements(v)
	case reflect.Pointer:
		e.pointer(v)
	case reflect.Struct:
		for _, i := range e.fields.of(v.Type()) {
			e.value(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("no saved form of %s", v.Type()))
	}
}

func (e *Encoder) elements(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		n := len(e.buf)
		e.buf = append(e.buf, make([]byte, v.Len())...)
		reflect.Copy(reflect.ValueOf(e.buf[n:]), v)
		return
	}
	for i := range v.Len() {
		e.value(v.Index(i))
	}
}

func (e *Encoder) pointer(v reflect.Value) {
	switch {
	case v.IsNil():
		e.buf = append(e.buf, pointerNone)
		return
	case e.last[v.Type()] == v.Interface():
		e.buf = append(e.buf, pointerSame)
		return
	}
	e.buf = append(e.buf, pointerNew)
	e.last[v.Type()] = v.Interface()
	if !v.Type().Implements(messageType) {
		e.value(v.Elem())
		return
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(v.Interface().(proto.Message))
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", v.Type(), err)) // no required fields, valid text
	}
	e.buf = append(binary.AppendUvarint(e.buf, uint64(len(raw))), raw...)
}

// Decoder reads what an encoder wrote. Its first error stays; what is read after it is zero.
type Decoder struct {
	r      *bufio.Reader
	last   map[reflect.Type]reflect.Value
	fields fieldLists
	err    error
}

// NewDecoder makes a decoder of what a source has.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: bufio.NewReader(r), last: map[reflect.Type]reflect.Value{}, fields: fieldLists{}}
}

// ErrMalformed is saved state that no encoder wrote.
var ErrMalformed = errors.New("it is not in the form in which state is saved")

// Get fills what a pointer points to.
func (d *Decoder) Get(into any) { d.value(reflect.ValueOf(into).Elem()) }

// End fails where something follows, or where the source says only at its end that it is damaged.
func (d *Decoder) End() {
	if d.err != nil {
		return
	}
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		d.Fail(cmp.Or(err, ErrMalformed))
	}
}

// Err is the first error that there was.
func (d *Decoder) Err() error { return d.err }

// Fail ends reading with an error, unless it has ended with one.
func (d *Decoder) Fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if d.err == nil {
		d.err = err
	}
}

func (d *Decoder) uint() uint64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(d.r)
	if err != nil {
		d.Fail(err)
		return 0
	}
	return n
}

func (d *Decoder) int() int64 {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadVarint(d.r)
	if err != nil {
		d.Fail(err)
		return 0
	}
	return n
}

// chunk is how much is made room for before it is read: a damaged length costs no more.
const chunk = 64 << 10

// bytes reads so many bytes.
func (d *Decoder) bytes(n uint64) []byte {
	buf := []byte{}
	for n > 0 && d.err == nil {
		some, begin := min(n, chunk), len(buf)
		buf = append(buf, make([]byte, some)...)
		if _, err := io.ReadFull(d.r, buf[begin:]); err != nil {
			d.Fail(err)
		}
		n -= some
	}
	return buf
}

func (d *Decoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.uint() != 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := d.int()
		if v.OverflowInt(n) {
			d.Fail(ErrMalformed)
			return
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n := d.uint()
		if v.OverflowUint(n) {
			d.Fail(ErrMalformed)
			return
		}
		v.SetUint(n)
	case reflect.String:
		v.SetString(string(d.bytes(d.uint())))
	case reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			reflect.Copy(v, reflect.ValueOf(d.bytes(uint64(v.Len()))))
			return
		}
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Slice:
		d.slice(v)
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Struct:
		for _, i := range d.fields.of(v.Type()) {
			d.value(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("no saved form of %s", v.Type()))
	}
}

func (d *Decoder) slice(v reflect.Value) {
	n := d.uint()
	if n == 0 || d.err != nil {
		return
	}
	n--
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(d.bytes(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, int(min(n, 256)))
	for range n {
		if d.err != nil {
			return
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(element)
		list = reflect.Append(list, element)
	}
	v.Set(list)
}

func (d *Decoder) pointer(v reflect.Value) {
	switch d.uint() {
	case pointerNone:
	case pointerSame:
		last, ok := d.last[v.Type()]
		if !ok {
			d.Fail(ErrMalformed)
			return
		}
		v.Set(last)
	case pointerNew:
		made := reflect.New(v.Type().Elem())
		d.last[v.Type()] = made
		v.Set(made)
		if !v.Type().Implements(messageType) {
			d.value(made.Elem())
			return
		}
		if err := proto.Unmarshal(d.bytes(d.uint()), made.Interface().(proto.Message)); err != nil {
			d.Fail(ErrMalformed)
		}
	default:
		d.Fail(ErrMalformed)
	}
}

// fieldLists keeps the indexes of the fields of structs that are saved.
type fieldLists map[reflect.Type][]int

func (l fieldLists) of(t reflect.Type) []int {
	list, known := l[t]
	if known {
		return list
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("state") != "-" {
			list = append(list, i)
		}
	}
	l[t] = list
	return list
}

// Layout describes the saved form of types: state that was saved in another one cannot be read.
func Layout(types ...reflect.Type) [sha256.Size]byte {
	var text strings.Builder
	known, fields := map[reflect.Type]bool{}, fieldLists{}
	var describe func(t reflect.Type)
	describe = func(t reflect.Type) {
		switch {
		case t.Implements(messageType):
			fmt.Fprintf(&text, "message %s ", t)
			return
		case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
			fmt.Fprintf(&text, "%s ", t.Kind())
			if t.Kind() == reflect.Array {
				fmt.Fprintf(&text, "%d ", t.Len())
			}
			describe(t.Elem())
			return
		case t.Kind() != reflect.Struct:
			fmt.Fprintf(&text, "%s ", t.Kind())
			return
		}
		fmt.Fprintf(&text, "%s ", t)
		if known[t] {
			return
		}
		known[t] = true
		for _, i := range fields.of(t) {
			fmt.Fprintf(&text, "%s ", t.Field(i).Name)
			describe(t.Field(i).Type)
		}
	}
	for _, t := range types {
		describe(t)
	}
	return sha256.Sum256([]byte(text.String()))
}
