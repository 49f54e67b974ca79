package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Difference is one place where two answers are not the same.
type Difference struct {
	Path string `json:"path"` // "status", "result.logs[0].data", …
	A    string `json:"a"`    // the JSON there, shortened; "" if there is nothing
	B    string `json:"b"`
	Text string `json:"text"` // both in words

	general string // Path with all indices alike
	method  string
}

// rules say what is not compared.
type rules struct {
	ignore, shape []pattern
	shown         int // most differences to keep
}

// alwaysShape are results that no two relays share.
var alwaysShape = []string{
	"web3_clientVersion:result", "eth_newFilter:result", "eth_newBlockFilter:result", "eth_newPendingTransactionFilter:result",
}

// comparison goes through two answers.
type comparison struct {
	*rules
	method string
	prefix string // of shown paths: the item of a batch
	found  []Difference
	more   int // differences beyond the limit
}

// compare returns the differences of two answers to a request.
func (r *rules) compare(q request, a, b answer) (found []Difference, more int) {
	c := &comparison{rules: r, method: q.method}
	if a.status != b.status {
		c.differ(keys{"status"}, strconv.Itoa(a.status), strconv.Itoa(b.status))
	}
	if !bytes.Equal(a.body, b.body) {
		c.bodies(q, a.body, b.body)
	}
	return c.found, c.more
}

func (c *comparison) bodies(q request, a, b []byte) {
	validA, validB := json.Valid(a), json.Valid(b)
	if !validA || !validB {
		c.report(keys{"body"}, printable(a, excerptLength), printable(b, excerptLength), fmt.Sprintf("%s != %s", kindOfBody(a, validA), kindOfBody(b, validB)))
		return
	}
	var listA, listB []json.RawMessage
	if q.methods != nil && json.Unmarshal(a, &listA) == nil && json.Unmarshal(b, &listB) == nil && listA != nil && listB != nil {
		c.batch(q, listA, listB)
		return
	}
	c.values(nil, a, b)
}

func kindOfBody(body []byte, valid bool) string {
	switch {
	case valid:
		return "JSON"
	case len(body) == 0:
		return "no body"
	default:
		return "not JSON: " + printable(body, excerptLength)
	}
}

// batch matches answers by id where that is possible, and by position otherwise.
func (c *comparison) batch(q request, a, b []json.RawMessage) {
	if len(a) != len(b) {
		c.report(keys{"batch"}, strconv.Itoa(len(a)), strconv.Itoa(len(b)), fmt.Sprintf("%d answers != %d", len(a), len(b)))
	}
	byID := map[string]json.RawMessage{}
	for _, item := range b {
		byID[idOf(item)] = item
	}
	if len(byID) != len(b) {
		byID = nil
	}
	for i, item := range a {
		id := idOf(item)
		other, ok := byID[id]
		if byID == nil && i < len(b) {
			other, ok = b[i], true
		}
		c.prefix = "[" + strconv.Itoa(i) + "]."
		c.method = batchMethod
		if name, known := q.methods[id]; known {
			c.method = name
		}
		if !ok {
			c.only("a", keys{"answer"}, item)
			continue
		}
		c.values(nil, item, other)
	}
	c.prefix, c.method = "", batchMethod
}

func idOf(item json.RawMessage) string {
	var e envelope
	if json.Unmarshal(item, &e) != nil {
		return ""
	}
	return string(e.ID)
}

// maxDepth is how far values are taken apart; below it they are compared as text. No
// method nests nearly as deep, and it bounds the work that an answer can cause.
const maxDepth = 64

// values compares two JSON values. Only one level is decoded at a time, and equal text
// not at all, so a large answer needs a small multiple of its size.
func (c *comparison) values(at keys, a, b json.RawMessage) {
	a, b = bytes.TrimSpace(a), bytes.TrimSpace(b)
	switch kind := kindOf(a); {
	case bytes.Equal(a, b), names(c.ignore, c.method, at):
	case kind != kindOf(b):
		c.differ(at, short(a), short(b))
	case names(c.shape, c.method, at):
	case len(at) >= maxDepth:
		if !bytes.Equal(compact(a), compact(b)) {
			c.differ(at, short(a), short(b))
		}
	case kind == '{':
		c.objects(at, a, b)
	case kind == '[':
		c.arrays(at, a, b)
	case kind == '"':
		if textA, textB := c.text(at, a), c.text(at, b); textA != textB {
			c.differ(at, short([]byte(strconv.Quote(textA))), short([]byte(strconv.Quote(textB))))
		}
	default:
		c.differ(at, short(a), short(b))
	}
}

// kindOf returns '{', '[', '"', '0' for a number, 't' for a truth value, 'n' for null.
func kindOf(v json.RawMessage) byte {
	switch c := v[0]; c {
	case '{', '[', '"', 't', 'n':
		return c
	case 'f':
		return 't'
	default:
		return '0'
	}
}

func (c *comparison) objects(at keys, a, b json.RawMessage) {
	var left, right map[string]json.RawMessage
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		c.differ(at, short(a), short(b)) // nested too deep for the decoder
		return
	}
	all := slices.Sorted(maps.Keys(left))
	for key := range right {
		if _, both := left[key]; !both {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	for _, key := range all {
		valueA, inA := left[key]
		valueB, inB := right[key]
		switch place := at.with(plainKey(key)); {
		case inA && inB:
			c.values(place, valueA, valueB)
		case inA:
			c.only("a", place, valueA)
		default:
			c.only("b", place, valueB)
		}
	}
}

func (c *comparison) arrays(at keys, a, b json.RawMessage) {
	var left, right []json.RawMessage
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		c.differ(at, short(a), short(b)) // nested too deep for the decoder
		return
	}
	if len(left) != len(right) {
		c.report(at, strconv.Itoa(len(left)), strconv.Itoa(len(right)), fmt.Sprintf("%d elements != %d", len(left), len(right)))
	}
	for i := range min(len(left), len(right)) {
		c.values(at.at(i), left[i], right[i])
	}
}

// plainKey keeps odd keys from being taken for a place or a command.
func plainKey(key string) string {
	for _, r := range key {
		if r == '.' || r == '[' || !strconv.IsPrint(r) {
			return strconv.Quote(key)
		}
	}
	return key
}

var requestIDs = regexp.MustCompile(`\[Request ID: [^\]]*\] ?`)

// text is a string without the ids of requests, if it belongs to an error.
func (c *comparison) text(at keys, v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return string(v)
	}
	if len(at) > 0 && at[0] == "error" {
		s = requestIDs.ReplaceAllString(s, "")
	}
	return s
}

// only reports what one of the two has alone.
func (c *comparison) only(who string, at keys, v json.RawMessage) {
	if names(c.ignore, c.method, at) {
		return
	}
	value := short(v)
	a, b := value, ""
	if who == "b" {
		a, b = "", value
	}
	c.report(at, a, b, "only "+who+" has it: "+value)
}

func (c *comparison) differ(at keys, a, b string) { c.report(at, a, b, a+" != "+b) }

func (c *comparison) report(at keys, a, b, text string) {
	if names(c.ignore, c.method, at) {
		return
	}
	if len(c.found) >= c.shown {
		c.more++
		return
	}
	place, general := cmp.Or(at.String(), "body"), cmp.Or(at.general(), "body")
	c.found = append(c.found, Difference{Path: c.prefix + place, A: a, B: b, Text: text, general: general, method: c.method})
}

// excerptLength is how much of a value is shown, in bytes.
const excerptLength = 100

func short(v json.RawMessage) string {
	const worthwhile = 4 << 10 // of a longer one white space hides little
	if len(v) <= worthwhile {
		v = compact(v)
	}
	return printable(v, excerptLength)
}

func compact(v json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}

// printable is the beginning of a text with nothing that a terminal would take for a
// command.
func printable(text []byte, most int) string {
	var b strings.Builder
	for len(text) > 0 {
		if b.Len() >= most {
			fmt.Fprintf(&b, "… (%d bytes more)", len(text))
			break
		}
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			r = '·'
		}
		b.WriteRune(r)
		text = text[size:]
	}
	return b.String()
}

// keys is the place of a value: names of members, and indices as "[3]".
type keys []string

func (k keys) String() string {
	var b strings.Builder
	for i, key := range k {
		if i > 0 && !strings.HasPrefix(key, "[") {
			b.WriteByte('.')
		}
		b.WriteString(key)
	}
	return b.String()
}

// general is the place with all indices alike, for counting.
func (k keys) general() string {
	out := make(keys, len(k))
	for i, key := range k {
		if strings.HasPrefix(key, "[") {
			key = "[*]"
		}
		out[i] = key
	}
	return out.String()
}

// with returns the place of a member below. The result shares nothing with its siblings.
func (k keys) with(key string) keys { return append(k[:len(k):len(k)], key) }

func (k keys) at(i int) keys { return k.with("[" + strconv.Itoa(i) + "]") }

// pattern names places, of one method or of all.
type pattern struct {
	method string // with * as in path.Match
	keys   keys
}

func parsePatterns(texts []string) []pattern {
	var out []pattern
	for _, text := range texts {
		method, place, found := strings.Cut(text, ":")
		if !found {
			method, place = "*", text
		}
		out = append(out, pattern{method, parseKeys(place)})
	}
	return out
}

func parseKeys(text string) (out keys) {
	for part := range strings.SplitSeq(text, ".") {
		name, indices, _ := strings.Cut(part, "[")
		if name != "" {
			out = append(out, name)
		}
		if indices != "" {
			for index := range strings.SplitSeq(strings.TrimSuffix(indices, "]"), "][") {
				out = append(out, "["+index+"]")
			}
		}
	}
	return out
}

// names tells whether one of the patterns names the place.
func names(patterns []pattern, method string, place keys) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.match(method, place) })
}

func (p pattern) match(method string, place keys) bool {
	if len(p.keys) != len(place) {
		return false
	}
	if ok, err := path.Match(p.method, method); err != nil || !ok {
		return false
	}
	for i, key := range p.keys {
		if key != place[i] && key != "*" && (key != "[*]" || !strings.HasPrefix(place[i], "[")) {
			return false
		}
	}
	return true
}
