package mirrorrest

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"lockstep/internal/hedera"
)

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
