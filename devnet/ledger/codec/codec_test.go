package codec

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

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

	Left   []int `json:"-"`
	hidden int
}

func encoded(t *testing.T, values ...any) []byte {
	t.Helper()
	e := new(Encoder)
	for _, v := range values {
		e.Put(v)
	}
	var buf bytes.Buffer
	must.Do(t, e.Flush(&buf))
	return buf.Bytes()
}

// TestCodec: values come back as they were, nil and empty ones apart.
func TestCodec(t *testing.T) {
	key := &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: bytes.Repeat([]byte{1}, 32)}}
	in := []sample{{
		Memo: "Grüße", Fee: -5, Small: -128, Count: 1 << 31, On: true, Alias: []byte{}, Amount: []int64{1 << 62, -1}, Key: key,
		Inner: &inner{Hash: &[4]byte{3}, List: []*inner{nil, {}, {Hash: &[4]byte{4}, List: []*inner{}}}},
	}, {Key: new(hapi.Key)}}
	raw := encoded(t, in)
	var out []sample
	d := NewDecoder(bytes.NewReader(raw))
	d.Get(&out)
	d.End()
	must.Do(t, d.Err())
	if !bytes.Equal(encoded(t, out), raw) {
		t.Error("what was decoded is another thing")
	}
	if diff := cmp.Diff(in, out, cmpopts.IgnoreUnexported(sample{}), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := string(encoded(t, "a\xffb")); got != "\"a\ufffdb\"\n" {
		t.Errorf("what is no text became %q", got)
	}
	in[0].Left, in[0].hidden = []int{1}, 1
	if !bytes.Equal(encoded(t, in), raw) {
		t.Error("what is not to be saved is")
	}
}

// TestDamaged: what no encoder wrote is an error and nothing worse, and the first error stays.
func TestDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		into any
	}{
		"nothing":                    {``, new(int)},
		"a part":                     {`{"Memo":"te`, new(sample)},
		"a number that does not fit": {`200`, new(int8)},
		"a member of another form":   {`{"Price":1}`, new(sample)},
		"a message that is none":     {`"/w=="`, new(*hapi.Key)},
		"a message that is no bytes": {`7`, new(*hapi.Key)},
	} {
		d := NewDecoder(strings.NewReader(c.raw))
		if d.Get(c.into); d.Err() == nil {
			t.Errorf("%s: %+v", name, c.into)
		}
	}
	n := 0
	d := NewDecoder(strings.NewReader("5 6"))
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
			B int64 `json:"-"`
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
