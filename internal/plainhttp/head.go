package plainhttp

import (
	"bytes"
	"strings"
)

const (
	maxHead   = bufferSize // bytes of a head that is taken
	maxFields = 32         // of them, most have about ten
	maxDigits = 9          // of a Content-Length
)

// verdict is what the bytes read so far are.
type verdict int

const (
	odd     verdict = iota // not plain, whatever may follow
	partial                // may become a plain request
	plain                  // begin with one
)

// head is the head of a plain request. Its spans are offsets in what was read.
type head struct {
	path   span
	fields [maxFields]field
	count  int // of fields

	size   int // bytes of the head, with the empty line
	length int // bytes of the body
	hosts  int
	bodies int // number of Content-Length fields
}

type span struct{ from, to uint16 }

func (s span) of(in []byte) []byte { return in[s.from:s.to] }

type field struct{ name, value span }

// parse reads the head that in begins with.
func (h *head) parse(in []byte) verdict {
	*h = head{}
	in = in[:min(len(in), maxHead)]
	for at, first := 0, true; ; first = false {
		end := bytes.IndexByte(in[at:], '\n')
		switch {
		case end < 0:
			return h.unfinished(in, first)
		case end == 0 || in[at+end-1] != '\r':
			return odd
		}
		line := span{uint16(at), uint16(at + end - 1)}
		at += end + 1
		switch {
		case first && !h.requestLine(in, line), !first && end > 1 && !h.field(in, line):
			return odd
		case end == 1:
			h.size = at
			return h.complete()
		}
	}
}

// unfinished judges a head whose end is not there.
func (h *head) unfinished(in []byte, first bool) verdict {
	if len(in) == maxHead || first && !bytes.HasPrefix(in, post) && !bytes.HasPrefix(post, in) {
		return odd
	}
	return partial
}

var (
	post    = []byte("POST ")
	version = []byte(" HTTP/1.1")
)

func (h *head) requestLine(in []byte, line span) bool {
	text := line.of(in)
	if !bytes.HasPrefix(text, post) || !bytes.HasSuffix(text, version) || len(text) <= len(post)+len(version) {
		return false
	}
	target := span{line.from + uint16(len(post)), line.to - uint16(len(version))}
	if in[target.from] != '/' {
		return false
	}
	path := target.from
	for path < target.to && pathBytes[in[path]] {
		path++
	}
	h.path = span{target.from, path}
	if path == target.to {
		return true
	}
	return in[path] == '?' && all(in[path+1:target.to], &queryBytes)
}

// field takes a line of the head.
func (h *head) field(in []byte, line span) bool {
	colon := bytes.IndexByte(line.of(in), ':')
	if colon <= 0 || h.count == maxFields {
		return false
	}
	f := field{
		name:  span{line.from, line.from + uint16(colon)},
		value: trim(in, span{line.from + uint16(colon) + 1, line.to}),
	}
	name, value := f.name.of(in), f.value.of(in)
	if !all(name, &tokenBytes) || !all(value, &valueBytes) || !h.special(name, value) {
		return false
	}
	h.fields[h.count] = f
	h.count++
	return true
}

func trim(in []byte, s span) span {
	for s.from < s.to && in[s.from] == ' ' {
		s.from++
	}
	for s.from < s.to && in[s.to-1] == ' ' {
		s.to--
	}
	return s
}

// special looks at the fields that say what the request is; the others are the handler's.
func (h *head) special(name, value []byte) bool {
	switch len(name) {
	case len("Host"):
		if is(name, "Host") {
			h.hosts++
			return len(value) > 0 && all(value, &hostBytes)
		}
	case len("Expect"):
		return !is(name, "Expect")
	case len("Upgrade"):
		return !is(name, "Upgrade") && !is(name, "Trailer")
	case len("Connection"):
		return !is(name, "Connection") || is(value, "keep-alive")
	case len("Content-Length"):
		if is(name, "Content-Length") {
			h.bodies++
			return h.bodyLength(value)
		}
	case len("Content-Encoding"):
		return !is(name, "Content-Encoding")
	case len("Transfer-Encoding"):
		return !is(name, "Transfer-Encoding")
	}
	return true
}

func (h *head) bodyLength(digits []byte) bool {
	if len(digits) == 0 || len(digits) > maxDigits {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
		h.length = 10*h.length + int(c-'0')
	}
	return true
}

// complete judges a head that is there to its end.
func (h *head) complete() verdict {
	if h.hosts != 1 || h.bodies != 1 {
		return odd
	}
	return plain
}

// first returns the value of the first field of a name.
func (h *head) first(in []byte, name string) (value []byte, ok bool) {
	for i := range h.fields[:h.count] {
		if f := &h.fields[i]; is(f.name.of(in), name) {
			return f.value.of(in), true
		}
	}
	return nil, false
}

// last returns the value of the last field of a name.
func (h *head) last(in []byte, name string) (value []byte, ok bool) {
	for i := h.count - 1; i >= 0; i-- {
		if f := &h.fields[i]; is(f.name.of(in), name) {
			return f.value.of(in), true
		}
	}
	return nil, false
}

// is tells whether text is the name, in any case. Names are of letters and hyphens.
func is(text []byte, name string) bool {
	if len(text) != len(name) {
		return false
	}
	for i, c := range text {
		if c|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}

// byteSet is a set of bytes.
type byteSet [256]bool

func all(text []byte, set *byteSet) bool {
	for _, c := range text {
		if !set[c] {
			return false
		}
	}
	return true
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var (
	tokenBytes = setOf(alphanumeric + "!#$%&'*+-.^_`|~")      // RFC 9110, 5.6.2
	pathBytes  = setOf(alphanumeric + "-._~/")                // a percent sign would have to be decoded
	queryBytes = setOf(alphanumeric + "-._~/?:@!$&'()*+,;=%") // RFC 3986, 3.4; nobody decodes it
	hostBytes  = setOf(alphanumeric + "-._:[]")
	valueBytes = printable()
)

func setOf(members string) (s byteSet) {
	for c := range s {
		s[c] = strings.IndexByte(members, byte(c)) >= 0
	}
	return s
}

func printable() (s byteSet) {
	for c := byte(' '); c <= '~'; c++ {
		s[c] = true
	}
	return s
}
