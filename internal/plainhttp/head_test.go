package plainhttp

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestHeadGrowing: what begins as a plain request is partial until its head is there.
func TestHeadGrowing(t *testing.T) {
	text := []byte(request("/a", "body"))
	whole := len(text) - len("body")
	for n := range text {
		want := partial
		if n >= whole {
			want = plain
		}
		var h head
		if got := h.parse(text[:n]); got != want {
			t.Errorf("%q: got %d, want %d", text[:n], got, want)
		}
	}
}

// FuzzHead: whatever is taken as the head of a plain request, net/http reads in the same
// way.
func FuzzHead(f *testing.F) {
	for _, v := range variants() {
		f.Add([]byte(strings.TrimPrefix(v, "~")))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var h head
		if h.parse(in) != plain {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			t.Fatalf("net/http: %v", err)
		}
		got := fmt.Sprintf("POST %s HTTP/1.1 %d false []", h.path.of(in), h.length)
		want := fmt.Sprintf("%s %s %s %d %t %v", r.Method, r.URL.Path, r.Proto, r.ContentLength, r.Close, r.TransferEncoding)
		if got != want {
			t.Errorf("got %s, net/http reads %s", got, want)
		}
		for i := range h.fields[:h.count] {
			field := &h.fields[i]
			name := string(field.name.of(in))
			if is([]byte(name), "Host") {
				continue
			}
			value, _ := h.first(in, name)
			if want := r.Header.Get(name); string(value) != want {
				t.Errorf("%s: got %q, net/http reads %q", name, value, want)
			}
		}
	})
}
