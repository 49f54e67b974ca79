package jsonx

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth bounds the nesting of a text. It keeps the stack of the recursive scanner small.
const MaxDepth = 512

// Valid reports whether b is one JSON value, with white space around it or not.
func Valid(b []byte) bool {
	end := ScanValue(b, SkipSpace(b, 0), 0)
	return end >= 0 && SkipSpace(b, end) == len(b)
}

// SkipSpace returns the position of the first byte from i on that is not white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// ScanValue reads the value of any kind that starts at b[i], inside depth arrays and objects.
func ScanValue(b []byte, i, depth int) int {
	if i >= len(b) || depth > MaxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return ScanString(b, i)
	case c == '{':
		return ScanObject(b, i, depth, nil)
	case c == '[':
		return ScanArray(b, i, depth, nil)
	case c == '-' || (c >= '0' && c <= '9'):
		return ScanNumber(b, i)
	case c == 't':
		return scanLiteral(b, i, "true")
	case c == 'f':
		return scanLiteral(b, i, "false")
	case c == 'n':
		return scanLiteral(b, i, "null")
	}
	return -1
}

func scanLiteral(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// ScanString reads the string that starts at b[i], a quote.
func ScanString(b []byte, i int) int {
	for i++; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = scanEscape(b, i); i < 0 {
				return -1
			}
		case c < ' ':
			return -1
		default:
			i++
		}
	}
	return -1
}

func scanEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 > len(b) {
			return -1
		}
		for _, c := range b[i+2 : i+6] {
			if !isHexDigit(c) {
				return -1
			}
		}
		return i + 6
	}
	return -1
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// ScanNumber reads the number that starts at b[i].
func ScanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = scanDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = scanDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return scanDigits(b, i)
	}
	return i
}

// scanDigits reads one or more decimal digits.
func scanDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// ScanArray reads the array that starts at b[i] and shows each element to visit,
// which may be nil.
func ScanArray(b []byte, i, depth int, visit func(element []byte)) int {
	return ScanItems(b, i, func(start int) int {
		end := ScanValue(b, start, depth+1)
		if end >= 0 && visit != nil {
			visit(b[start:end])
		}
		return end
	})
}

// ScanItems reads the array that starts at b[i]. The function item reads each element: it is
// given where the element starts and returns where it ends, or -1.
func ScanItems(b []byte, i int, item func(start int) (end int)) int {
	i, more := ScanOpening(b, i, ']')
	for more {
		i, more = ScanComma(b, item(SkipSpace(b, i)), ']')
	}
	return i
}

// ScanObject reads the object that starts at b[i] and shows each member to visit,
// which may be nil. The key is shown with its quotes, as it stands in the text.
func ScanObject(b []byte, i, depth int, visit func(key, value []byte)) int {
	i, more := ScanOpening(b, i, '}')
	for more {
		key, start := ScanKey(b, i)
		end := ScanValue(b, start, depth+1)
		if end >= 0 && visit != nil {
			visit(key, b[start:end])
		}
		i, more = ScanComma(b, end, '}')
	}
	return i
}

// ScanOpening reads the bracket that opens an array or object at b[i]. Without more, it was empty,
// and its closing bracket is read.
func ScanOpening(b []byte, i int, closing byte) (after int, more bool) {
	i = SkipSpace(b, i+1)
	if i < len(b) && b[i] == closing {
		return i + 1, false
	}
	return i, true
}

// ScanComma reads what follows an element or a member that ended at i: a comma, with more to come, or the
// closing bracket.
func ScanComma(b []byte, i int, closing byte) (after int, more bool) {
	if i < 0 {
		return -1, false
	}
	if i = SkipSpace(b, i); i >= len(b) {
		return -1, false
	}
	switch b[i] {
	case ',':
		return i + 1, true
	case closing:
		return i + 1, false
	}
	return -1, false
}

// ScanKey reads a member's key and its colon. It returns the key with its quotes, and where the value
// starts, which is the end of the text if the text is not JSON.
func ScanKey(b []byte, i int) (key []byte, value int) {
	i = SkipSpace(b, i)
	if i >= len(b) || b[i] != '"' {
		return nil, len(b)
	}
	end := ScanString(b, i)
	if end < 0 {
		return nil, len(b)
	}
	colon := SkipSpace(b, end)
	if colon >= len(b) || b[colon] != ':' {
		return nil, len(b)
	}
	return b[i:end], SkipSpace(b, colon+1)
}

// Unquote returns the text of a string that ScanString has read, quotes included. Without
// escapes, the usual case, the result is a view of the input.
func Unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, _ := jsontext.AppendUnquote(make([]byte, 0, len(inner)), quoted) // the error is of halves of pairs, which become U+FFFD
	return text
}

// IsKey reports whether a key, which stands in its quotes, is name. It allocates nothing, even
// if the key is written with escapes.
func IsKey(quoted []byte, name string) bool {
	const longest = len(`\u0000`) // that a byte of a name can be
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 || len(inner) > longest*len(name) {
		return string(inner) == name
	}
	var room [64]byte
	text, _ := jsontext.AppendUnquote(room[:0], quoted) // as in Unquote
	return string(text) == name
}
