package ledger

import (
	"strconv"
	"strings"
)

// Rows returns the placeholders of a VALUES list: ($1, $2), ($3, $4) … It is the only text
// that is put into a query at run time; values never are.
func Rows(rows, columns int) string {
	var b strings.Builder
	n := 0
	for r := range rows {
		if r > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('(')
		for c := range columns {
			if c > 0 {
				b.WriteString(", ")
			}
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// List returns the placeholders of an IN list of n values, beginning at $first.
func List(first, n int) string {
	var b strings.Builder
	b.WriteByte('(')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(first + i))
	}
	b.WriteByte(')')
	return b.String()
}

// manyArguments is from when on the text of a query is worth a change.
const manyArguments = 16

// text returns a query as the database takes it fastest. For SQLite $1 is a name that it
// looks up in a list of all names before it, at a cost that grows with the square of their
// number. Where the numbers only count up, as in long lists of values, "?" means the same.
func (t *Tx) text(query string, args int) string {
	if t.dialect != SQLite || args < manyArguments {
		return query
	}
	var b strings.Builder
	b.Grow(len(query))
	next := 1
	for at := 0; at < len(query); at++ {
		if query[at] != '$' {
			b.WriteByte(query[at])
			continue
		}
		end := at + 1
		for end < len(query) && query[end] >= '0' && query[end] <= '9' {
			end++
		}
		if query[at+1:end] != strconv.Itoa(next) {
			return query
		}
		b.WriteByte('?')
		next++
		at = end - 1
	}
	return b.String()
}
