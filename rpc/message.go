package rpc

import (
	"bytes"
	"unicode/utf8"
)

// message is the envelope of one call. Its parts are views of the request's
// bytes, except a method name that was written with escapes.
type message struct {
	object    bool   // it is a JSON object at all
	version   bool   // "jsonrpc" is "2.0"
	hasMethod bool   // "method" is a string
	id        Value  // absent, or as it stands
	method    []byte // the name, without quotes
	params    Value
}

// validID reports whether the id is one that an answer can repeat.
func (m *message) validID() bool {
	return m.id.Null() || m.id.IsString() || m.id.IsNumber()
}

// answerID is the id an answer carries: null where the call has no usable one.
func (m *message) answerID() Value {
	if m.validID() {
		return m.id
	}
	return nil
}

// member takes one member of the envelope. The last of several equal keys wins;
// unknown members are ignored.
func (m *message) member(key, value []byte) {
	switch string(key) {
	case `"id"`:
		m.id = value
	case `"method"`:
		m.hasMethod = Value(value).IsString()
		m.method = Value(value).text()
	case `"params"`:
		m.params = value
	case `"jsonrpc"`:
		m.version = string(Value(value).text()) == "2.0"
	default:
		if bytes.IndexByte(key, '\\') < 0 {
			return
		}
		if plain := unquote(key); bytes.IndexByte(plain, '\\') < 0 && bytes.IndexByte(plain, '"') < 0 {
			m.member(append(append([]byte{'"'}, plain...), '"'), value)
		}
	}
}

// shape is what a body turned out to be.
type shape int

const (
	shapeBroken shape = iota // not JSON, or not UTF-8
	shapeScalar              // JSON, but neither object nor array
	shapeSingle
	shapeBatch
)

// parse checks a whole body and takes it apart. One call is appended to calls
// per object or batch item, but never more than limit; count is the number that
// the body holds. An empty body counts as an empty object.
func parse(calls []call, body []byte, limit int) (out []call, count int, s shape) {
	if !utf8.Valid(body) {
		return calls, 0, shapeBroken
	}
	i := skipSpace(body, 0)
	if i == len(body) {
		calls = extend(calls)
		calls[len(calls)-1].object = true
		return calls, 1, shapeSingle
	}
	switch body[i] {
	case '{':
		calls = extend(calls)
		i, count, s = parseItem(&calls[len(calls)-1].message, body, i), 1, shapeSingle
	case '[':
		calls, i, count = parseItems(calls, body, i, limit)
		s = shapeBatch
	default:
		i, s = scanValue(body, i, 0), shapeScalar
	}
	if i < 0 || skipSpace(body, i) != len(body) {
		return calls, 0, shapeBroken
	}
	return calls, count, s
}

// parseItem reads the value at b[i] as an envelope and returns its end, or -1.
func parseItem(m *message, b []byte, i int) int {
	if i >= len(b) || b[i] != '{' {
		return scanValue(b, i, 1)
	}
	m.object = true
	return scanObject(b, i, 1, m.member)
}

func parseItems(calls []call, b []byte, i, limit int) (out []call, end, count int) {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return calls, i + 1, 0
	}
	var beyond message
	for {
		i = skipSpace(b, i)
		if count < limit {
			calls = extend(calls)
			i = parseItem(&calls[len(calls)-1].message, b, i)
		} else {
			i = parseItem(&beyond, b, i)
		}
		if i < 0 {
			return calls, -1, count
		}
		count++
		i = skipSpace(b, i)
		switch {
		case i >= len(b):
			return calls, -1, count
		case b[i] == ']':
			return calls, i + 1, count
		case b[i] == ',':
			i++
		default:
			return calls, -1, count
		}
	}
}

// An answer is written around its result so that nothing is encoded twice:
// appendHead, then the result or the error object, then appendTail.

func appendResultHead(dst []byte) []byte { return append(dst, `{"result":`...) }

func appendErrorHead(dst []byte) []byte { return append(dst, `{"error":`...) }

func appendTail(dst []byte, id Value) []byte {
	dst = append(dst, `,"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, '}')
}

// appendErrorObject writes {"code":…,"message":…,"data":…}. Data that cannot be
// encoded is left out: the error itself matters more.
func appendErrorObject(dst []byte, code int, message string, data any) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendInt(dst, int64(code))
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, message)
	if data != nil {
		if out, ok := appendData(append(dst, `,"data":`...), data); ok {
			dst = out
		}
	}
	return append(dst, '}')
}

// appendData is appendJSON for values that must not do harm, whatever their
// methods do.
func appendData(dst []byte, data any) (out []byte, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	out, err := appendJSON(dst, data)
	return out, err == nil
}
