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
	"strings"
	"sync"
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
