package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A record's columns are its fields with a tag: `db:"max_fee"`. Texts, numbers and flags are stored as they are, big numbers as decimal text, bytes as hex,
// and all else as JSON; nil and what is empty as "". Behind the name may stand ",0" (a nil number is "0", so that it can be added up) or ",serial" (the
// database counts it up).
type column struct {
	name   SQL
	option string
	index  []int
}

var columnsByType sync.Map // reflect.Type → []column

func columnsOf[T any]() []column {
	t := reflect.TypeFor[T]()
	if known, ok := columnsByType.Load(t); ok {
		return known.([]column)
	}
	var list []column
	for _, f := range reflect.VisibleFields(t) {
		if name, option, _ := strings.Cut(f.Tag.Get("db"), ","); name != "" {
			list = append(list, column{SQL(name), option, f.Index})
		}
	}
	columnsByType.Store(t, list)
	return list
}

// named picks columns by their names, which stand behind one another.
func named[T any](names string) (list []column) {
	for name := range strings.FieldsSeq(names) {
		at := slices.IndexFunc(columnsOf[T](), func(c column) bool { return string(c.name) == name })
		list = append(list, columnsOf[T]()[at])
	}
	return list
}

func namesOf(prefix SQL, list []column) SQL {
	names := make([]SQL, len(list))
	for n, c := range list {
		names[n] = prefix + c.name
	}
	return Join(names, ", ")
}

// Names lists a record's columns for SELECT, each behind a prefix such as "i.".
func Names[T any](prefix SQL) SQL { return namesOf(prefix, columnsOf[T]()) }

// Scan reads a record's columns, in the order of Names, and what is selected behind them.
func Scan[T any](r Row, into *T, more ...any) error {
	record := reflect.ValueOf(into).Elem()
	targets := make([]any, 0, len(columnsOf[T]())+len(more))
	for _, c := range columnsOf[T]() {
		field := record.FieldByIndex(c.index)
		switch field.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
			targets = append(targets, field.Addr().Interface())
		default:
			targets = append(targets, formed{field})
		}
	}
	return r.Scan(append(targets, more...)...)
}

// formed is a field that its column has in another form.
type formed struct{ field reflect.Value }

// Scan implements sql.Scanner.
func (f formed) Scan(value any) (err error) {
	var text string
	switch v := value.(type) {
	case int64:
		f.field.SetUint(uint64(v))
		return nil
	case string:
		text = v
	case []byte:
		text = string(v)
	default:
		return fmt.Errorf("a column has a %T", value)
	}
	if text == "" {
		return nil
	}
	switch to := f.field.Addr().Interface().(type) {
	case **big.Int:
		var ok bool
		if *to, ok = new(big.Int).SetString(text, 10); !ok {
			err = errors.New("a stored number is not decimal")
		}
	case *[]byte:
		*to, err = hex.DecodeString(text)
	case *json.RawMessage:
		*to = json.RawMessage(text)
	default:
		err = json.Unmarshal([]byte(text), to)
	}
	return err
}

// stored is what a column has for a field.
func (c column) stored(record reflect.Value) any {
	field := record.FieldByIndex(c.index)
	switch v := field.Interface().(type) {
	case *big.Int:
		if v == nil {
			return c.option
		}
		return v.String()
	case []byte:
		return hex.EncodeToString(v)
	case json.RawMessage:
		return string(v)
	}
	switch field.Kind() {
	case reflect.String:
		return field.String()
	case reflect.Bool:
		return field.Bool()
	case reflect.Int, reflect.Int64:
		return field.Int()
	case reflect.Uint64:
		return int64(field.Uint())
	default:
		if field.IsZero() {
			return ""
		}
		text, err := json.Marshal(field.Interface())
		if err != nil {
			panic("column " + string(c.name) + ": " + err.Error()) // plain fields
		}
		return string(text)
	}
}

func storedOf[T any](list []column) func(*T) []any {
	return func(one *T) []any {
		record, out := reflect.ValueOf(one).Elem(), make([]any, len(list))
		for n, c := range list {
			out[n] = c.stored(record)
		}
		return out
	}
}

// given are a record's columns that the database does not count up.
func given[T any]() []column {
	return slices.DeleteFunc(slices.Clone(columnsOf[T]()), func(c column) bool { return c.option == "serial" })
}

// Insert stores records. The clause follows the values; what it returns is scanned.
func Insert[T any](ctx context.Context, tx *Tx, table SQL, list []*T, clause SQL, scan func(Row) error) error {
	columns := given[T]()
	_, err := Values(ctx, tx, "INSERT INTO "+table+" ("+namesOf("", columns)+") VALUES %s "+clause, list, storedOf[T](columns), scan)
	return err
}

// assigned writes "column = value" for each column.
func assigned(before SQL, list []column, value func(n int, c column) SQL, between SQL) SQL {
	parts := make([]SQL, len(list))
	for n, c := range list {
		parts[n] = before + c.name + " = " + value(n, c)
	}
	return Join(parts, between)
}

// Put stores records, each in the place of the one with the same key: the names of columns behind one another.
func Put[T any](ctx context.Context, tx *Tx, table SQL, key string, list []*T) error {
	keys := named[T](key)
	rest := slices.DeleteFunc(given[T](), func(c column) bool { return slices.ContainsFunc(keys, func(k column) bool { return k.name == c.name }) })
	set := assigned("", rest, func(_ int, c column) SQL { return "excluded." + c.name }, ", ")
	return Insert(ctx, tx, table, list, "ON CONFLICT ("+namesOf("", keys)+") DO UPDATE SET "+set, nil)
}

// Update writes columns of records, by their key, and returns how many of the records are there. Columns are named behind one another.
func Update[T any](ctx context.Context, tx *Tx, table SQL, key, set string, list []*T) (int64, error) {
	columns, keys := named[T](key+" "+set), len(strings.Fields(key))
	value := func(n int, c column) SQL {
		value := "v.column" + Number(n+1)
		switch reflect.TypeFor[T]().FieldByIndex(c.index).Type.Kind() { // PostgreSQL takes the parameters of VALUES for texts
		case reflect.Bool:
			return "CAST(" + value + " AS BOOLEAN)"
		case reflect.Int, reflect.Int64, reflect.Uint64:
			return "CAST(" + value + " AS BIGINT)"
		default:
			return value
		}
	}
	changes := assigned("", columns[keys:], func(n int, c column) SQL { return value(keys+n, c) }, ", ")
	text := "UPDATE " + table + " SET " + changes + " FROM (VALUES %s) AS v WHERE " + assigned(table+".", columns[:keys], value, " AND ")
	return Values(ctx, tx, text, list, storedOf[T](columns), nil)
}

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

// ReadOne reads the value of a query's only row, zero without a row.
func ReadOne[T any](ctx context.Context, db *DB, query SQL, args ...any) (value T, err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		_, err := tx.One(ctx, query, args, &value)
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

// First is the first of records that were read, nil if there are none.
func First[T any](list []*T, err error) (*T, error) {
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
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
	parts := make([]SQL, rows)
	for n := range parts {
		parts[n] = List(1+n*columns, columns)
	}
	return Join(parts, ", ")
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

// Moment is a time in microseconds since 1970; 0 is never. As text it is RFC 3339.
type Moment int64

// MarshalText implements encoding.TextMarshaler.
func (m Moment) MarshalText() ([]byte, error) {
	return time.UnixMicro(int64(m)).UTC().AppendFormat(nil, time.RFC3339Nano), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	*m = Moment(at.UnixMicro())
	return err
}
