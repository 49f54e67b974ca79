package mirrorrest

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
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
