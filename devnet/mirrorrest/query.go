package mirrorrest

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"iter"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	defaultLimit = 25
	maxLimit     = 100
	maxRepeats   = 100 // occurrences of one parameter
)

// A filter is one parameter of a query string, with its operator split off.
type filter struct {
	name  string // lower case
	op    operator
	value string
	text  string // operator and value as they came, for the link to the next page
}

// A query is the checked query string of a request.
type query struct {
	filters []filter
	limit   int
	desc    bool
}

// A check tells whether a parameter may have this operator and value.
type check func(op operator, value string) bool

// Params lists the parameters that an endpoint takes, beside limit and order.
type params map[string]check

// A listing says how an endpoint pages: whether limit and order are among its
// parameters, and the order when none is asked for.
type listing uint8

const (
	single listing = iota
	ascending
	descending
)

// parseQuery splits and checks a raw query string. Names are matched without
// regard to case. Every fault is reported, not just the first.
func parseQuery(raw string, accepted params, l listing) (*query, error) {
	q := &query{limit: defaultLimit, desc: l == descending}
	var faults []string
	count := map[string]int{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		f, decoded := splitPair(pair)
		count[f.name]++
		switch valid, known := q.accepts(f, decoded, accepted, l); {
		case !known:
			faults = append(faults, "Unknown query parameter: "+f.name)
		case !valid:
			faults = append(faults, "Invalid parameter: "+f.name)
		default:
			q.filters = append(q.filters, f)
		}
		if len(faults) >= maxRepeats {
			break // a hostile query string must not make a huge answer
		}
	}
	for name, n := range count {
		if n > maxRepeats {
			faults = []string{fmt.Sprintf("Parameter values count exceeds maximum number allowed: %s count: %d max: %d", name, n, maxRepeats)}
		}
	}
	if len(faults) > 0 {
		return nil, badRequest(faults...)
	}
	return q, nil
}

// splitPair reads name=op:value. The second result is false when the pair is not
// well formed, which makes the value, not the name, invalid.
func splitPair(pair string) (f filter, ok bool) {
	name, text, _ := strings.Cut(pair, "=")
	name, nameErr := url.QueryUnescape(name)
	text, textErr := url.QueryUnescape(text)
	f = filter{name: strings.ToLower(name), text: text, value: text}
	if nameErr != nil || textErr != nil || text == "" {
		return f, false
	}
	if op, value, has := strings.Cut(text, ":"); has {
		f.op, ok = parseOperator(op)
		f.value = value
		return f, ok && value != "" && !strings.Contains(value, ":")
	}
	return f, true
}

// accepts applies limit and order to the query itself and asks the endpoint's
// check about the rest.
func (q *query) accepts(f filter, decoded bool, accepted params, l listing) (valid, known bool) {
	if l != single && f.name == "limit" {
		n, err := strconv.ParseUint(f.value, 10, 63)
		if !decoded || err != nil || n == 0 {
			return false, true
		}
		q.limit = int(min(n, maxLimit))
		return true, true
	}
	if l != single && f.name == "order" {
		order := strings.ToLower(f.value)
		q.desc = order == "desc"
		return decoded && (order == "asc" || order == "desc"), true
	}
	accepts, known := accepted[f.name]
	return known && decoded && accepts(f.op, f.value), known
}

// last is the value given last for a parameter that counts once.
func (q *query) last(name string) (value string, given bool) {
	for _, f := range q.filters {
		if f.name == name {
			value, given = f.value, true
		}
	}
	return value, given
}

// flag reads a true|false parameter.
func (q *query) flag(name string, fallback bool) bool {
	value, given := q.last(name)
	if !given {
		return fallback
	}
	return strings.EqualFold(value, "true")
}

// count reads a number that was checked.
func (q *query) count(name string, fallback int64) int64 {
	text, given := q.last(name)
	if !given {
		return fallback
	}
	n, _ := parseCount(text)
	return n
}

// bounds gathers the filters on a column. parse turns a checked value into its
// number; a value for which it reports false allows nothing (an address nobody
// has, for example).
func (q *query) bounds(name string, parse func(string) (int64, bool)) bounds {
	b := unbounded()
	for _, f := range q.filters {
		if f.name != name {
			continue
		}
		v, ok := parse(f.value)
		if !ok {
			v = absent
		}
		b.add(f.op, v)
	}
	return b
}

// absent is a number that no entity, block or record has.
const absent = -1

func (q *query) timestamps() bounds { return q.bounds("timestamp", parseNanos) }

// An operator is the comparison in front of a filter's value, as in "gte:17".
type operator uint8

const (
	eq operator = iota
	ne
	gt
	gte
	lt
	lte
)

func parseOperator(text string) (operator, bool) {
	i := slices.Index([]string{"eq", "ne", "gt", "gte", "lt", "lte"}, text)
	return operator(max(i, 0)), i >= 0
}

// Bounds are all filters on one int64 column taken together: a range, both ends
// included, and within it the values asked for with eq (any of them, when there
// are any) and none of those given with ne. Timestamps are nanoseconds, entity
// ids their numbers.
type bounds struct {
	lo, hi  int64
	among   []int64
	without []int64
}

func unbounded() bounds { return bounds{lo: math.MinInt64, hi: math.MaxInt64} }

// add narrows the bounds by one more filter.
func (b *bounds) add(op operator, v int64) {
	switch op {
	case eq:
		b.among = append(b.among, v)
	case ne:
		b.without = append(b.without, v)
	case gt:
		if v == math.MaxInt64 {
			b.hi = math.MinInt64
			return
		}
		b.lo = max(b.lo, v+1)
	case gte:
		b.lo = max(b.lo, v)
	case lt:
		if v == math.MinInt64 {
			b.lo = math.MaxInt64
			return
		}
		b.hi = min(b.hi, v-1)
	case lte:
		b.hi = min(b.hi, v)
	}
}

// span is the smallest range that holds everything the bounds allow; it is empty
// (lo > hi) when they allow nothing.
func (b *bounds) span() (lo, hi int64) {
	lo, hi = b.lo, b.hi
	if len(b.among) > 0 {
		lo, hi = max(lo, slices.Min(b.among)), min(hi, slices.Max(b.among))
	}
	return lo, hi
}

// allows tells whether v passes every filter.
func (b *bounds) allows(v int64) bool { return v >= b.lo && v <= b.hi && b.names(v) }

// names tells whether v passes the filters other than those on the range.
func (b *bounds) names(v int64) bool {
	return !slices.Contains(b.without, v) && (len(b.among) == 0 || slices.Contains(b.among, v))
}

// ends tells whether nothing can follow v, so that a full page is the last one.
func (b *bounds) ends(v int64, desc bool) bool {
	lo, hi := b.span()
	if desc {
		return v <= lo
	}
	return v >= hi
}

// exact tells whether one eq filter pins the column to one value.
func (b *bounds) exact() bool { return len(b.among) == 1 }

// ranged tells whether anything but eq narrows the bounds.
func (b *bounds) ranged() bool { return b.lo != math.MinInt64 || b.hi != math.MaxInt64 }

// object is a JSON object of an answer. Its members are described in testdata/mirror-openapi.yml.
type object map[string]any

// links is where a list continues; Next is null on the last page.
type links struct {
	Next *string `json:"next"`
}

// A column orders a list: the parameter that bounds it, what a row has in it, and how links write that.
type column[T any] struct {
	name  string
	parse func(string) (int64, bool)
	value func(T) int64
	text  func(int64) string
}

func byID[T any](name string, parse func(string) (int64, bool), id func(T) hedera.ID) column[T] {
	return column[T]{name, parse, func(row T) int64 { return id(row).Num }, func(num int64) string { return hedera.Entity(num).String() }}
}

func byNumber[T any](name string, number func(T) int64) column[T] {
	return column[T]{name, parseCount, number, decimal}
}

func byTime[T any](at func(T) hedera.Timestamp) column[T] {
	return column[T]{"timestamp", parseNanos, func(row T) int64 { return at(row).UnixNano() }, func(ns int64) string { return hedera.FromNanos(ns).String() }}
}

// list answers with a page of the rows that the bounds on the columns allow. Rows come in the order of the columns.
func list[T any](r *request, q *query, member string, rows iter.Seq[T], write func(T) any, columns ...column[T]) object {
	page, next := []any{}, links{}
	within, values := make([]bounds, len(columns)), make([]int64, len(columns))
	for i, c := range columns {
		within[i] = q.bounds(c.name, c.parse)
	}
	for row := range rows {
		for i, c := range columns {
			values[i] = c.value(row)
		}
		if !allowed(within, values) {
			continue
		}
		if page = append(page, write(row)); len(page) < q.limit {
			continue
		}
		if len(columns) > 1 || !within[0].ends(values[0], q.desc) {
			cursors := make([]cursor, len(columns))
			for i, c := range columns {
				cursors[i] = cursor{name: c.name, value: c.text(values[i]), inclusive: i < len(columns)-1}
			}
			next = q.next(r.self(), cursors)
		}
		break
	}
	return object{member: page, "links": next}
}

// allowed compares the values of columns that order a list: the range of a column applies at the ends of those of the
// columns before it only.
func allowed(columns []bounds, values []int64) bool {
	atLow, atHigh := true, true
	for i, v := range values {
		b := &columns[i]
		switch {
		case b.exact() && !b.allows(v), !b.names(v):
			return false
		case !b.ranged() || b.exact():
			continue
		case atLow && v < b.lo, atHigh && v > b.hi:
			return false
		}
		atLow, atHigh = atLow && v == b.lo, atHigh && v == b.hi
	}
	return true
}

// where leaves out rows.
func where[T any](rows iter.Seq[T], keep func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for row := range rows {
			if keep(row) && !yield(row) {
				return
			}
		}
	}
}

// inOrder yields what is in a list, from its end if it is to descend.
func inOrder[T any](list []T, desc bool) iter.Seq[T] {
	if !desc {
		return slices.Values(list)
	}
	return func(yield func(T) bool) {
		for _, v := range slices.Backward(list) {
			if !yield(v) {
				return
			}
		}
	}
}

// A cursor is the place of the last row of a page in the column that orders it.
type cursor struct {
	name  string
	value string
	// inclusive keeps rows with the same value in the next page: set for the first
	// of two columns, where the second tells them apart.
	inclusive bool
}

// next returns the link to the page behind the given cursors: the request's own
// path and parameters, with each cursor in place of the filter that bounded its
// column on that side.
func (q *query) next(path string, cursors []cursor) links {
	kept := filters(q.filters).without(func(f filter) bool {
		return q.behind(f.op) && slices.ContainsFunc(cursors, func(c cursor) bool { return c.name == f.name })
	})
	for _, c := range cursors {
		kept = append(kept, filter{name: c.name, text: q.cursorOperator(c.inclusive) + c.value})
	}
	link := path + "?" + kept.text()
	return links{Next: &link}
}

// behind tells whether a filter bounds the side from which paging moves away.
func (q *query) behind(op operator) bool {
	if q.desc {
		return op == lt || op == lte
	}
	return op == gt || op == gte
}

func (q *query) cursorOperator(inclusive bool) string {
	switch {
	case q.desc && inclusive:
		return "lte:"
	case q.desc:
		return "lt:"
	case inclusive:
		return "gte:"
	default:
		return "gt:"
	}
}

// filters are parameters of a query string.
type filters []filter

// text is the query string. A colon is legal in one, and clients compare these links by eye.
func (fs filters) text() string {
	var b strings.Builder
	for i, f := range fs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(f.name) + "=" + strings.ReplaceAll(url.QueryEscape(f.text), "%3A", ":"))
	}
	return b.String()
}

func (fs filters) without(drop func(filter) bool) filters {
	return slices.DeleteFunc(slices.Clone(fs), drop)
}

// The forms in which the API writes values.

// addressText writes an address in lower case, without a checksum.
func addressText(a common.Address) string { return hexutil.Encode(a[:]) }

// quantityText writes a number as hex without leading zeros, and nil as "0x".
func quantityText(n *big.Int) string {
	if n == nil {
		return "0x"
	}
	return hexutil.EncodeBig(n)
}

// idText writes an entity id, and null for the one that names nothing.
func idText(id hedera.ID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

// timeText writes a timestamp, and null for an unset one.
func timeText(t hedera.Timestamp) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.String())
}

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// aliasText writes an alias in base 32 without padding, and null for none.
func aliasText(alias []byte) *string {
	if len(alias) == 0 {
		return nil
	}
	return new(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(alias))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// each writes each value of a list.
func each[T, U any](list []T, write func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = write(v)
	}
	return out
}

type keyJSON struct {
	Type string `json:"_type"`
	Key  string `json:"key"`
}

// keyOf writes a key: a single one by its algorithm, whatever is more than one as
// the bytes of its message, and none, which is also the empty list of a hollow
// account, as null.
func keyOf(k *hapi.Key) *keyJSON {
	for {
		inner, listed := onlyMember(k)
		if !listed {
			break
		}
		k = inner
	}
	switch {
	case k == nil:
		return nil
	case len(k.GetEd25519()) > 0:
		return &keyJSON{Type: "ED25519", Key: hex.EncodeToString(k.GetEd25519())}
	case len(k.GetECDSASecp256K1()) > 0:
		return &keyJSON{Type: "ECDSA_SECP256K1", Key: hex.EncodeToString(k.GetECDSASecp256K1())}
	}
	encoded, err := proto.Marshal(k)
	if err != nil || len(encoded) == 0 {
		return nil
	}
	return &keyJSON{Type: "ProtobufEncoded", Key: hex.EncodeToString(encoded)}
}

// onlyMember unwraps a list or threshold of one key; an empty list is no key.
func onlyMember(k *hapi.Key) (inner *hapi.Key, listed bool) {
	list := k.GetKeyList()
	if threshold := k.GetThresholdKey(); threshold != nil {
		list = threshold.GetKeys()
	}
	switch {
	case list == nil:
		return nil, false
	case len(list.GetKeys()) == 0:
		return nil, true
	case len(list.GetKeys()) == 1:
		return list.GetKeys()[0], true
	default:
		return nil, false
	}
}

// The forms in which it reads them.

// parseNanos reads seconds[.fraction], with a maximum of ten digits and nine, as
// nanoseconds. What lies beyond the range of int64 becomes its end: such a
// timestamp bounds nothing.
func parseNanos(text string) (int64, bool) {
	whole, _, _ := strings.Cut(text, ".")
	t, err := hedera.ParseTimestamp(text)
	if err != nil || len(whole) > 10 || !digits(whole) {
		return 0, false
	}
	if t.Seconds > math.MaxInt64/1_000_000_000-1 {
		return math.MaxInt64, true
	}
	return t.UnixNano(), true
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// parseEntity reads n, realm.n or shard.realm.n. Only shard and realm 0 exist
// here: an id of another one is well formed and names nothing.
func parseEntity(text string) (num int64, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 3 {
		return 0, false
	}
	foreign := false
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 63)
		if err != nil || !digits(part) {
			return 0, false
		}
		if i == len(parts)-1 {
			num = int64(v)
		} else if v != 0 {
			foreign = true
		}
	}
	if foreign {
		return absent, true
	}
	return num, true
}

// parseAddress reads 40 hex digits, with or without 0x, also behind "shard.realm.".
func parseAddress(text string) (common.Address, bool) {
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		for part := range strings.SplitSeq(text[:i], ".") {
			if !digits(part) {
				return common.Address{}, false
			}
		}
		text = text[i+1:]
	}
	b, ok := parseHex(text)
	if !ok || len(b) != common.AddressLength {
		return common.Address{}, false
	}
	return common.BytesToAddress(b), true
}

// parseHex reads whole bytes of hex, with or without 0x.
func parseHex(text string) ([]byte, bool) {
	b, err := hex.DecodeString(trimPrefix(text))
	return b, err == nil
}

func trimPrefix(text string) string {
	if len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:]
	}
	return text
}

// parseWord reads 1 to 64 hex digits as a 32-byte word, filled up on the left.
func parseWord(text string) (common.Hash, bool) {
	text = trimPrefix(text)
	if text == "" || len(text) > 64 {
		return common.Hash{}, false
	}
	b, err := hex.DecodeString(strings.Repeat("0", len(text)%2) + text)
	return common.BytesToHash(b), err == nil
}

// parseHash reads a hash of 32 or 48 bytes.
func parseHash(text string) ([]byte, bool) {
	b, ok := parseHex(text)
	return b, ok && (len(b) == 32 || len(b) == 48)
}

// parseBlockNumber reads a decimal number, or hex after 0x.
func parseBlockNumber(text string) (int64, bool) {
	base := 10
	if digits := trimPrefix(text); digits != text {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 63)
	return int64(n), err == nil && !strings.HasPrefix(text, "+")
}

func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && digits(text)
}

// Checks for the parameters of endpoints.

func isTime(_ operator, v string) bool { _, ok := parseNanos(v); return ok }

func isEntity(_ operator, v string) bool { _, ok := parseEntity(v); return ok }

func isFlag(op operator, v string) bool {
	return op == eq && (strings.EqualFold(v, "true") || strings.EqualFold(v, "false"))
}

func isCount(_ operator, v string) bool { _, ok := parseCount(v); return ok }

func isBlockNumber(op operator, v string) bool {
	_, ok := parseBlockNumber(v)
	return ok && op != ne
}

func isExactBlockNumber(op operator, v string) bool { return op == eq && isBlockNumber(op, v) }

func isExactCount(op operator, v string) bool { return op == eq && isCount(op, v) }

func isHash(op operator, v string) bool { _, ok := parseHash(v); return ok && op == eq }

func isTopic(op operator, v string) bool { _, ok := parseWord(v); return ok && op == eq }

func isSlot(op operator, v string) bool { _, ok := parseWord(v); return ok && op != ne }

// isParty is an entity id in any form, or an address.
func isParty(op operator, v string) bool {
	if _, ok := parseAddress(v); ok {
		return op == eq
	}
	return isEntity(op, v)
}

func oneOf(words ...string) check {
	return func(op operator, v string) bool {
		for _, w := range words {
			if strings.EqualFold(v, w) {
				return op == eq
			}
		}
		return false
	}
}

func isPublicKey(op operator, v string) bool {
	b, ok := parseHex(v)
	return ok && op == eq && (len(b) == 32 || len(b) == 33 || len(b) == 44)
}
