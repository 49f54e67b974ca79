package rpc

import (
	"encoding/binary"
	"encoding/json"
)

// maxDepth bounds the nesting of a request. No method needs more than a few
// levels; the bound keeps the recursive scanner's stack small.
const maxDepth = 512

// The scanner checks JSON and finds where values end, in one pass and without
// decoding anything. Every function takes the whole text and a position and
// returns the position after what it read, or -1 if the text is not JSON. It
// accepts what encoding/json accepts, except that nesting is limited to maxDepth.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func scanValue(b []byte, i, depth int) int {
	if i >= len(b) || depth > maxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return scanString(b, i)
	case c == '{':
		return scanObject(b, i, depth, nil)
	case c == '[':
		return scanArray(b, i, depth, nil)
	case c == '-' || (c >= '0' && c <= '9'):
		return scanNumber(b, i)
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

// scanString reads the string that starts at b[i]. Plain text, such as long hex
// data, is passed over eight bytes at a time.
func scanString(b []byte, i int) int {
	i++
	for {
		for i+8 <= len(b) && plainText(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i >= len(b) {
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

// plainText reports whether none of the eight bytes of w ends a run of plain
// string text: a control character, a quote or a backslash.
func plainText(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((w-ones*' ')&^w|(quote-ones)&^quote|(slash-ones)&^slash)&highs == 0
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

func scanNumber(b []byte, i int) int {
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

// scanArray reads the array that starts at b[i] and shows each element to visit,
// which may be nil.
func scanArray(b []byte, i, depth int, visit func(element []byte)) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		start := skipSpace(b, i)
		if i = scanValue(b, start, depth+1); i < 0 {
			return -1
		}
		if visit != nil {
			visit(b[start:i])
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ']':
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
}

// scanObject reads the object that starts at b[i] and shows each member to visit,
// which may be nil. The key is shown with its quotes, as it stands in the text.
func scanObject(b []byte, i, depth int, visit func(key, value []byte)) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		keyStart, keyEnd, start := scanKey(b, i)
		if start < 0 {
			return -1
		}
		if i = scanValue(b, start, depth+1); i < 0 {
			return -1
		}
		if visit != nil {
			visit(b[keyStart:keyEnd], b[start:i])
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return -1
		}
	}
}

// scanKey reads a member's key and colon and returns where the key starts and
// ends and where the value starts; value is -1 if the text is not JSON.
func scanKey(b []byte, i int) (start, end, value int) {
	start = skipSpace(b, i)
	if start >= len(b) || b[start] != '"' {
		return 0, 0, -1
	}
	if end = scanString(b, start); end < 0 {
		return 0, 0, -1
	}
	i = skipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		return 0, 0, -1
	}
	return start, end, skipSpace(b, i+1)
}

// unquote returns the text of a valid JSON string that stands in quotes. Without
// escapes, the usual case, it is a part of the input.
func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				return inner // cannot happen: the scanner has accepted it
			}
			return []byte(s)
		}
	}
	return inner
}
