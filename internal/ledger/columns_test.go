package ledger

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"testing"

	"lockstep/internal/must"
)

type inner struct {
	Number *big.Int `db:"number"`
	Sum    *big.Int `db:"amount,0"`
}

type record struct {
	*inner
	Serial int64           `db:"serial,serial"`
	Name   string          `db:"name"`
	Flag   bool            `db:"flag"`
	Large  uint64          `db:"large"`
	Bytes  []byte          `db:"bytes"`
	Raw    json.RawMessage `db:"raw"`
	List   []string        `db:"list"`
	Other  string
}

// TestColumns stores records of all kinds of fields, reads them again, and changes some of their columns.
func TestColumns(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), opened(t, url)
		full := &record{&inner{big.NewInt(7), big.NewInt(8)}, 1, "full", true, math.MaxUint64, []byte{1, 255}, json.RawMessage(`{"a":"<"}`), []string{"x", "y"}, ""}
		empty := &record{inner: &inner{}, Serial: 2, Name: "empty"}
		read := func(tx *Tx) (list []*record, err error) {
			return All(ctx, tx, "SELECT "+Names[record]("r.")+" FROM columns_test r ORDER BY serial", nil, func(r Row) (*record, error) {
				one := &record{inner: &inner{}}
				return one, Scan(r, one)
			})
		}
		var found []*record
		must.Do(t, db.Write(ctx, func(tx *Tx) error {
			must.Get(tx.Exec(ctx, "DROP TABLE IF EXISTS columns_test"))(t)
			must.Get(tx.Exec(ctx, `CREATE TABLE columns_test (serial BIGINT, name TEXT PRIMARY KEY, flag BOOLEAN, large BIGINT, bytes TEXT, raw TEXT, list TEXT, number TEXT, amount TEXT)`))(t)
			must.Do(t, Insert(ctx, tx, "columns_test", []*record{full, empty}, "", nil))
			must.Get(tx.Exec(ctx, "UPDATE columns_test SET serial = CASE WHEN name = 'full' THEN 1 ELSE 2 END"))(t)
			found = must.Get(read(tx))(t)
			return nil
		}))
		empty.Sum = new(big.Int)
		if !reflect.DeepEqual(found, []*record{full, empty}) {
			t.Errorf("read %+v and %+v", found[0], found[1])
		}
		must.Do(t, db.Write(ctx, func(tx *Tx) error {
			full.Flag, full.Large, full.List, full.Bytes = false, 3, nil, []byte{9}
			if n := must.Get(Update(ctx, tx, "columns_test", "name", "flag large list", []*record{full, {inner: &inner{}, Name: "nobody"}}))(t); n != 1 {
				t.Errorf("%d records changed", n)
			}
			empty.Number = big.NewInt(5)
			must.Do(t, Put(ctx, tx, "columns_test", "name", []*record{empty}))
			found = must.Get(read(tx))(t)
			return nil
		}))
		if full.Bytes = []byte{1, 255}; !reflect.DeepEqual(found, []*record{full, empty}) {
			t.Errorf("after a change: %+v and %+v", found[0], found[1])
		}
	})
}
