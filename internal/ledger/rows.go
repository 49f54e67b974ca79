package ledger

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// SQL is the text of a query, or a part of it. A constant is one by itself; a string that the program has made is not, so no value gets
// into a query by mistake. What a text may need is converted here: placeholders, numbers, names. A test of the tree sees to it that nobody
// else converts more than a literal.
type SQL string

// Number is a number as a part of a query.
func Number(n int) SQL { return SQL(strconv.Itoa(n)) }

// Quoted is the name of a table or a column as a part of a query.
func Quoted(name string) SQL { return SQL(`"` + strings.ReplaceAll(name, `"`, `""`) + `"`) }

// Literal is a text as a part of a query, for a view, which takes no arguments.
func Literal(text string) SQL { return SQL("'" + strings.ReplaceAll(text, "'", "''") + "'") }

// Join joins parts of a query.
func Join(parts []SQL, between SQL) SQL {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = string(part)
	}
	return SQL(strings.Join(texts, string(between)))
}

// Fill puts a part where the text has %s.
func Fill(text, part SQL) SQL { return SQL(strings.Replace(string(text), "%s", string(part), 1)) }

// ReadOf is Read for what comes to a value.
func ReadOf[T any](ctx context.Context, db *DB, fn func(*Tx) (T, error)) (value T, err error) {
	err = db.Read(ctx, func(tx *Tx) (err error) {
		value, err = fn(tx)
		return err
	})
	return value, err
}

// WriteOf is WriteAt for what comes to a value.
func WriteOf[T any](ctx context.Context, db *DB, fn func(tx *Tx, now int64) (T, error)) (value T, err error) {
	err = db.WriteAt(ctx, func(tx *Tx, now int64) (err error) {
		value, err = fn(tx, now)
		return err
	})
	return value, err
}

// All returns what the rows of a query are. The error of scan ends it.
func All[T any](ctx context.Context, tx *Tx, query SQL, args []any, scan func(Row) (T, error)) (list []T, err error) {
	err = tx.Query(ctx, query, args, func(r Row) error {
		one, err := scan(r)
		list = append(list, one)
		return err
	})
	return list, err
}

// Select reads records. What is from is a table with what follows it; prefix is how it is named there, such as "i.", or "".
func Select[T any](ctx context.Context, tx *Tx, prefix, from SQL, args ...any) ([]*T, error) {
	return All(ctx, tx, "SELECT "+Names[T](prefix)+" FROM "+from, args, func(r Row) (*T, error) {
		one := new(T)
		return one, Scan(r, one)
	})
}

// perStatement is how many rows one statement takes. SQLite keeps what it needs to undo a statement: a longer INSERT costs more there, not less.
const perStatement, perStatementOfFile = 500, 50

// Values runs a statement for each part of a list, and returns how many rows it changed. %s in the text stands for the placeholders of VALUES, and row
// gives those of one element. With scan, which is called for each row that is returned, the number is 0.
func Values[T any](ctx context.Context, tx *Tx, text SQL, list []T, row func(T) []any, scan func(Row) error) (changed int64, err error) {
	size := perStatement
	if tx.dialect == SQLite {
		size = perStatementOfFile
	}
	for part := range slices.Chunk(list, size) {
		var args []any
		for _, one := range part {
			values := row(one)
			args = append(slices.Grow(args, len(values)*len(part)-len(args)), values...)
		}
		n, err := tx.run(ctx, Fill(text, Rows(len(part), len(args)/len(part))), args, scan)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

// In is Values for a list whose elements stand behind IN, where %s is. args are the other arguments.
func In[T any](ctx context.Context, tx *Tx, text SQL, args []any, list []T, scan func(Row) error) (changed int64, err error) {
	for part := range slices.Chunk(list, perStatement) {
		n, err := tx.run(ctx, Fill(text, List(len(args)+1, len(part))), slices.Concat(args, Args(part)), scan)
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

func (t *Tx) run(ctx context.Context, query SQL, args []any, scan func(Row) error) (int64, error) {
	if scan != nil {
		return 0, t.Query(ctx, query, args, scan)
	}
	return t.Exec(ctx, query, args...)
}

// AsIs is for Values of a list of rows.
func AsIs(row []any) []any { return row }

// Text scans the only column of a row, for All.
func Text(r Row) (text string, err error) {
	err = r.Scan(&text)
	return text, err
}

// Args are values as arguments of a query.
func Args[T any](list []T) []any {
	args := make([]any, len(list))
	for i, one := range list {
		args[i] = one
	}
	return args
}

// Rows returns the placeholders of a VALUES list: ($1, $2), ($3, $4) …
func Rows(rows, columns int) SQL {
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
	return SQL(b.String())
}

// List returns the placeholders of an IN list of n values, beginning at $first.
func List(first, n int) SQL {
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
	return SQL(b.String())
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
