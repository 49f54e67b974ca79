package mirrorrest

import (
	"net/url"
	"slices"
	"strings"
)

// Links is where a list continues; Next is null on the last page.
type links struct {
	Next *string `json:"next"`
}

// Paged is embedded in every list answer.
type paged struct {
	Links links `json:"links"`
}

func (p paged) nextLink() *string { return p.Links.Next }

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
// column on that side. full says whether the page has as many rows as the limit
// allows: otherwise there is nothing behind it.
func (q *query) next(path string, full bool, cursors ...cursor) links {
	if !full {
		return links{}
	}
	var b strings.Builder
	b.WriteString(path)
	separator := byte('?')
	add := func(name, text string) {
		b.WriteByte(separator)
		separator = '&'
		b.WriteString(name)
		b.WriteByte('=')
		// A colon is legal in a query and clients compare these links by eye.
		b.WriteString(strings.ReplaceAll(url.QueryEscape(text), "%3A", ":"))
	}
	for _, f := range q.filters {
		replaced := slices.ContainsFunc(cursors, func(c cursor) bool { return c.name == f.name })
		if !replaced || !q.behind(f.op) {
			add(f.name, f.text)
		}
	}
	for _, c := range cursors {
		add(c.name, q.cursorOperator(c.inclusive)+c.value)
	}
	link := b.String()
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
