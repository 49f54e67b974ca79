package codec

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

type inner struct {
	Hash *[4]byte
	List []*inner
}

type sample struct {
	Memo   string
	Fee    int64
	Small  int8
	Count  uint32
	On     bool
	Alias  []byte
	Amount []int64
	Key    *hapi.Key
	Inner  *inner

	Left   []int `state:"-"`
	hidden int
}

func encoded(t *testing.T, values ...any) []byte {
	t.Helper()
	e := NewEncoder()
	for _, v := range values {
		e.Put(v)
	}
	var buf bytes.Buffer
	must.Do(t, e.Flush(&buf))
	return buf.Bytes()
}

// TestCodec: values come back as they were, nil and empty ones apart, and shared pointers shared.
func TestCodec(t *testing.T) {
	key := &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: bytes.Repeat([]byte{1}, 32)}}
	in := []sample{{
		Memo: "m", Fee: -5, Small: -128, Count: 1 << 31, On: true, Alias: []byte{}, Amount: []int64{1 << 62, -1}, Key: key,
		Inner: &inner{Hash: &[4]byte{3}, List: []*inner{nil, {}, {Hash: &[4]byte{4}, List: []*inner{}}}},
	}, {Key: key}}
	raw := encoded(t, in)
	var out []sample
	d := NewDecoder(bytes.NewReader(raw))
	d.Get(&out)
	d.End()
	must.Do(t, d.Err())
	if out[0].Key != out[1].Key {
		t.Error("a shared key is not shared any more")
	}
	if !bytes.Equal(encoded(t, out), raw) {
		t.Error("what was decoded is another thing")
	}
	out[0].Key, out[1].Key = key, key // compared above
	if !reflect.DeepEqual(in, out) {
		t.Errorf("%+v became %+v", in, out)
	}
	in[0].Left, in[0].hidden = []int{1}, 1
	if !bytes.Equal(encoded(t, in), raw) {
		t.Error("what is not to be saved is")
	}
}

// TestDamaged: what no encoder wrote is an error and nothing worse, and the first error stays.
func TestDamaged(t *testing.T) {
	good := encoded(t, sample{Memo: "text", Alias: []byte{1, 2}, Key: &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: []byte{1}}}, Inner: &inner{List: []*inner{{}}}})
	for n := range good {
		var out sample
		d := NewDecoder(bytes.NewReader(good[:n]))
		if d.Get(&out); !errors.Is(d.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of it: %v", n, d.Err())
		}
	}
	for name, c := range map[string]struct {
		raw  []byte
		into any
	}{
		"a number that does not fit":   {encoded(t, int64(200)), new(int8)},
		"a count that does not fit":    {encoded(t, uint64(1)<<40), new(uint32)},
		"a pointer of no kind":         {[]byte{9}, new(*inner)},
		"the same pointer as no other": {[]byte{pointerSame}, new(*inner)},
		"a message that is none":       {[]byte{pointerNew, 1, 0xff}, new(*hapi.Key)},
	} {
		d := NewDecoder(bytes.NewReader(c.raw))
		if d.Get(c.into); !errors.Is(d.Err(), ErrMalformed) {
			t.Errorf("%s: %v", name, d.Err())
		}
	}
	n := 0
	d := NewDecoder(bytes.NewReader(append(encoded(t, 5), 0)))
	if d.Get(&n); n != 5 || d.Err() != nil {
		t.Errorf("%d, %v", n, d.Err())
	}
	if d.End(); !errors.Is(d.Err(), ErrMalformed) {
		t.Errorf("more at its end: %v", d.Err())
	}
	d.Fail(io.ErrClosedPipe)
	if d.End(); !errors.Is(d.Err(), ErrMalformed) {
		t.Errorf("its first error went: %v", d.Err())
	}
}

// TestLayout: it differs where a type's form does, and for nothing else.
func TestLayout(t *testing.T) {
	one := Layout(reflect.TypeFor[sample](), reflect.TypeFor[inner]())
	if Layout(reflect.TypeFor[sample](), reflect.TypeFor[inner]()) != one {
		t.Error("it is another one each time")
	}
	type thing struct{ A int64 }
	before := Layout(reflect.TypeFor[thing]())
	{
		type thing struct {
			A int64
			B int64 `state:"-"`
		}
		if Layout(reflect.TypeFor[thing]()) != before {
			t.Error("a field that is not saved counts")
		}
	}
	{
		type thing struct{ A, B int64 }
		if Layout(reflect.TypeFor[thing]()) == before {
			t.Error("a new field does not count")
		}
	}
	{
		type thing struct{ A [2]int64 }
		if Layout(reflect.TypeFor[thing]()) == before {
			t.Error("another type does not count")
		}
	}
}
