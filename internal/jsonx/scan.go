package jsonx

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
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
	i++
	for {
		if i = skipPlain(b, i); i >= len(b) {
			return -1
		}
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
}

// skipPlain returns the position after a run of plain string text, or before it where fewer than eight
// bytes are left. It reads eight bytes at a time, and 32 while they are letters and digits: most
// names are short, and what is long is hex data.
func skipPlain(b []byte, i int) int {
	for first := true; i+8 <= len(b); first = false {
		if marks := special(b[i : i+8]); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
		for i += 8; first && i+32 <= len(b); i += 32 {
			if w := b[i : i+32]; other(w[:8])|other(w[8:16])|other(w[16:24])|other(w[24:]) != 0 {
				break
			}
		}
	}
	return i
}

// other is 0 if eight bytes are letters and digits. It costs half of special: a byte below '0', or not
// below '\\' or its lower case, leaves its highest bit set.
func other(eight []byte) uint64 {
	const ones, highs, lower = 0x0101010101010101, 0x8080808080808080, 0x2020202020202020
	w := binary.LittleEndian.Uint64(eight)
	return ((w - ones*'0') | ((w | lower) + ones*(0x80-('\\'|0x20)))) & highs
}

// special marks, by its highest bit, the first of eight bytes that ends a run of plain string text:
// a control character, a quote or a backslash. Bytes after it may be marked without need. It is 0
// if all are plain.
func special(eight []byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w := binary.LittleEndian.Uint64(eight)
	return ((w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) &^ w & highs
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
	i := bytes.IndexByte(inner, '\\')
	if i < 0 {
		return inner
	}
	text := append(make([]byte, 0, len(inner)), inner[:i]...)
	for i < len(inner) {
		if inner[i] != '\\' {
			plain := bytes.IndexByte(inner[i:], '\\')
			if plain < 0 {
				plain = len(inner) - i
			}
			text = append(text, inner[i:i+plain]...)
			i += plain
			continue
		}
		r, size := unescape(inner[i:])
		text = utf8.AppendRune(text, r)
		i += size
	}
	return text
}

// unescape reads the escape that a valid text begins with, and returns its length. Halves of
// a pair that stand alone are U+FFFD, as for encoding/json.
func unescape(text []byte) (r rune, size int) {
	switch c := text[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(c), 2
	}
	const short, long = len(`\u0000`), 2 * len(`\u0000`)
	r = hexRune(text[2:short])
	if !utf16.IsSurrogate(r) {
		return r, short
	}
	if len(text) >= long && text[short] == '\\' && text[short+1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(text[short+2:long])); pair != utf8.RuneError {
			return pair, long
		}
	}
	return utf8.RuneError, short
}

func hexRune(digits []byte) (r rune) {
	for _, c := range digits {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c | 0x20 - 'a' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// IsKey reports whether a key, which stands in its quotes, is name. It allocates nothing, even
// if the key is written with escapes.
func IsKey(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	for len(inner) > 0 {
		if inner[0] != '\\' {
			if name == "" || inner[0] != name[0] {
				return false
			}
			inner, name = inner[1:], name[1:]
			continue
		}
		r, size := unescape(inner)
		var char [utf8.UTFMax]byte
		n := utf8.EncodeRune(char[:], r)
		if len(name) < n || name[:n] != string(char[:n]) {
			return false
		}
		inner, name = inner[size:], name[n:]
	}
	return name == ""
}
