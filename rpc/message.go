package rpc

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"lockstep/internal/jsonx"
)

// message is the envelope of one call. Its parts are views of the request's
// bytes, except a method name that was written with escapes.
type message struct {
	object    bool        // it is a JSON object at all
	version   bool        // "jsonrpc" is "2.0"
	hasMethod bool        // "method" is a string
	id        jsonx.Value // absent, or as the client wrote it
	method    []byte      // the name, without quotes
	params    jsonx.Value
}

// validID reports whether the id is one that an answer can repeat.
func (m *message) validID() bool {
	return m.id.Null() || m.id.IsString() || m.id.IsNumber()
}

// answerID is the id an answer carries: null where the call has no usable one.
func (m *message) answerID() jsonx.Value {
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
		m.hasMethod = jsonx.Value(value).IsString()
		m.method = jsonx.Value(value).View()
	case `"params"`:
		m.params = value
	case `"jsonrpc"`:
		m.version = string(jsonx.Value(value).View()) == "2.0"
	default:
		if bytes.IndexByte(key, '\\') >= 0 {
			m.escaped(key, value)
		}
	}
}

// escaped takes a member whose key is written with escapes.
func (m *message) escaped(key, value []byte) {
	for _, name := range [...]string{"id", "method", "params", "jsonrpc"} {
		if jsonx.IsKey(key, name) {
			m.member([]byte(`"`+name+`"`), value)
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

// parse checks a whole body and splits it into one call per object or batch item, but never more than limit; count is the number that the body holds. An empty body counts as an empty object.
func parse(body []byte, limit int) (calls []call, count int, s shape) {
	if !utf8.Valid(body) {
		return nil, 0, shapeBroken
	}
	i := jsonx.SkipSpace(body, 0)
	if i == len(body) {
		return []call{{message: message{object: true}}}, 1, shapeSingle
	}
	switch body[i] {
	case '{':
		calls = make([]call, 1)
		i, count, s = parseItem(&calls[0].message, body, i), 1, shapeSingle
	case '[':
		calls, i, count = parseItems(body, i, limit)
		s = shapeBatch
	default:
		i, s = jsonx.ScanValue(body, i, 0), shapeScalar
	}
	if i < 0 || jsonx.SkipSpace(body, i) != len(body) {
		return nil, 0, shapeBroken
	}
	return calls, count, s
}

// parseItem reads the value at b[i] as an envelope and returns its end, or -1.
func parseItem(m *message, b []byte, i int) int {
	if i >= len(b) || b[i] != '{' {
		return jsonx.ScanValue(b, i, 1)
	}
	m.object = true
	return jsonx.ScanObject(b, i, 1, m.member)
}

// parseItems reads the batch at b[i]. The items beyond limit are checked and counted.
func parseItems(b []byte, i, limit int) (calls []call, end, count int) {
	var beyond message
	calls = make([]call, 0, min(limit, bytes.Count(b, []byte(`"method"`)))) // few batches have more calls
	end = jsonx.ScanItems(b, i, func(start int) int {
		m := &beyond
		if count < limit {
			calls = append(calls, call{})
			m = &calls[len(calls)-1].message
		}
		count++
		return parseItem(m, b, start)
	})
	return calls, end, count
}

// An answer is written around its result so that nothing is encoded twice:
// appendResultHead and the result, or appendErrorHead and the error object, then appendTail.

func appendResultHead(dst []byte) []byte { return append(dst, `{"result":`...) }

func appendErrorHead(dst []byte) []byte { return append(dst, `{"error":`...) }

func appendTail(dst []byte, id jsonx.Value) []byte {
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
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = jsonx.AppendString(dst, message)
	if data != nil {
		if out, ok := appendData(append(dst, `,"data":`...), data); ok {
			dst = out
		}
	}
	return append(dst, '}')
}

// appendData is jsonx.Append for values whose methods may panic.
func appendData(dst []byte, data any) (out []byte, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	out, err := jsonx.Append(dst, data)
	return out, err == nil
}
