// Package codec is the form in which a ledger's state is saved: JSON, one value after the other. It follows the Go
// types, so that a new field is saved without further code: a field that is zero is left out, and messages of HAPI are
// their protobuf. [Layout] names the form that types have; state in another one cannot be read.
package codec

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
)

var form = json.JoinOptions(
	json.OmitZeroStructFields(true), json.RejectUnknownMembers(true), json.FormatNilSliceAsNull(true),
	jsontext.AllowInvalidUTF8(true), // contracts may call a token anything; what is no text is replaced, as in every answer
	json.WithMarshalers(json.MarshalFunc(func(m proto.Message) ([]byte, error) {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return nil, err
		}
		return json.Marshal(raw)
	})),
	json.WithUnmarshalers(json.UnmarshalFunc(func(text []byte, m proto.Message) error {
		var raw []byte
		if err := json.Unmarshal(text, &raw); err != nil {
			return err
		}
		return proto.Unmarshal(raw, m)
	})),
)

// Encoder appends values to a buffer.
type Encoder struct{ buf bytes.Buffer }

// Put appends a value.
func (e *Encoder) Put(v any) {
	if err := json.MarshalWrite(&e.buf, v, form); err != nil {
		panic(err) // the types of state have this form
	}
	e.buf.WriteByte('\n')
}

// Flush writes what was put since the last time.
func (e *Encoder) Flush(to io.Writer) error {
	_, err := e.buf.WriteTo(to)
	return err
}

// Decoder reads what an encoder wrote. Its first error stays; what is read after it is zero.
type Decoder struct {
	text *jsontext.Decoder
	err  error
}

// NewDecoder makes a decoder of what a source has.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{text: jsontext.NewDecoder(r)} }

// ErrMalformed is saved state that no encoder wrote.
var ErrMalformed = errors.New("it is not in the form in which state is saved")

// Get fills what a pointer points to.
func (d *Decoder) Get(into any) {
	if d.err == nil {
		d.Fail(json.UnmarshalDecode(d.text, into, form))
	}
}

// End fails where something follows.
func (d *Decoder) End() {
	if _, err := d.text.ReadToken(); !errors.Is(err, io.EOF) {
		d.Fail(ErrMalformed)
	}
}

// Err is the first error that there was.
func (d *Decoder) Err() error { return d.err }

// Fail ends reading with an error, unless it has ended with one.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

var messageType = reflect.TypeFor[proto.Message]()

// Layout describes the saved form of types: state that was saved in another one cannot be read.
func Layout(types ...reflect.Type) [sha256.Size]byte {
	var text strings.Builder
	known := map[reflect.Type]bool{}
	var describe func(t reflect.Type)
	describe = func(t reflect.Type) {
		fmt.Fprintf(&text, "%s %s ", t, t.Kind())
		switch {
		case known[t] || t.Implements(messageType):
			return
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
			describe(t.Elem())
		case t.Kind() == reflect.Struct:
			known[t] = true
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					text.WriteString(f.Name + " ")
					describe(f.Type)
				}
			}
		}
	}
	for _, t := range types {
		describe(t)
	}
	return sha256.Sum256([]byte(text.String()))
}
