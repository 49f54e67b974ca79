package watch_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

// ask returns the rows of a query, their values separated by spaces.
func ask(t *testing.T, db *ledger.DB, columns int, query ledger.SQL) []string {
	t.Helper()
	list, err := tryAsk(t, db, columns, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return list
}

func tryAsk(t *testing.T, db *ledger.DB, columns int, query ledger.SQL) (list []string, err error) {
	err = db.Read(t.Context(), func(tx *ledger.Tx) error {
		list = nil
		return tx.Query(t.Context(), query, nil, func(r ledger.Row) error {
			values, targets := make([]any, columns), make([]any, columns)
			for i := range values {
				targets[i] = &values[i]
			}
			if err := r.Scan(targets...); err != nil {
				return err
			}
			texts := make([]string, columns)
			for i, v := range values {
				switch v := v.(type) {
				case []byte:
					texts[i] = string(v)
				default:
					texts[i] = fmt.Sprint(v)
				}
			}
			list = append(list, strings.Join(texts, " "))
			return nil
		})
	})
	return list, err
}

// rows waits until a query gives these.
func rows(t *testing.T, db *ledger.DB, query ledger.SQL, want ...string) {
	t.Helper()
	columns := strings.Count(strings.SplitN(string(query), "FROM", 2)[0], ",") + 1
	watchtest.Until(t, string(query), func() (bool, error) {
		got, err := tryAsk(t, db, columns, query)
		return slices.Equal(got, want), fmt.Errorf("%w: %s", err, cmp.Diff(want, got)) // the tables may not be there yet
	})
}

// TestTables has the events of a factory and its contracts in tables of their own: what strangers write, overloads, a reorganisation, a depth,
// tables that are turned on later, and the queries of the document.
func TestTables(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		tables(t, db, strings.HasSuffix(t.Name(), "/SQLite"))
	})
}

func tables(t *testing.T, db *ledger.DB, lite bool) {
	c, b := watchtest.New(t, 4), &book{t: t}
	plan := escrows(t, c.URL)
	w := &plan.Watches[0]
	w.Tables = true
	w.Factory.Event = signature(t, "Named(address indexed escrow, string address, uint48 at, bool amount)")
	w.Fields = nil
	w.Events = []*decode.Signature{
		signature(t, "Released(address indexed to, uint256 amount)"), signature(t, "Released(address indexed to)"),
		signature(t, "Listed(address indexed to, (string note, int256 tokenId)[] TOKENS, bytes4 xmin)"),
	}
	other := given(t, "other", 3)
	other.Events, other.Tables = []*decode.Signature{signature(t, "Released(address indexed who, uint256 much)")}, true
	plan.Watches = append(plan.Watches, other)
	w = &plan.Watches[0]
	if diff := cmp.Diff([]string{
		"escrows: new watch: it is read from block 0", "other: new watch: it is read from block 0",
		"escrows: tables event_escrows_named, event_escrows_released, event_escrows_released_74bc695c, event_escrows_listed: what is stored of their events already is written to them; what is found from now on is written as it is stored",
		"other: tables event_other_released: what is stored of their events already is written to them; what is found from now on is written as it is stored",
	}, differences(t, db, plan)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	stop := start(t, db, plan, "a", b)
	one, to := watchtest.Emitter(1), watchtest.Word(common.Address{2})
	c.Emit(watchtest.Emitter(0), "Named(address,string,uint48,bool)", watchtest.Word(one), words(96, 1795372316, 1, 3, "a\x00\xff")...)
	c.Emit(one, "Listed(address,(string,int256)[],bytes4)", to, words(64, "\x01\x02\x03\x04", 1, 32, 64, 5, 2, "\"\x00")...)
	c.Emit(one, "Listed(address,(string,int256)[],bytes4)", to, words(1<<40)...) // cannot be decoded
	c.Emit(one, "Released(address)", to)
	c.Commit() // 1
	release(c, 1, 7)
	c.EmitMany(one, 1, released, to, common.HexToHash("0x"+strings.Repeat("f", 64)))
	release(c, 3, 9)
	c.Commit() // 2
	yes, list, none := "true", `[{"note": "\"�", "tokenId": "5"}]`, "<nil>"
	if lite {
		yes, list = "1", `[{"note":"\"�","tokenId":"5"}]`
	}
	huge := "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	twice := func() {
		t.Helper()
		rows(t, db, `SELECT escrow, arg_address, at, amount FROM event_escrows_named`, one.Hex()+" a�� 1795372316 "+yes)
		rows(t, db, `SELECT log_index, tokens, arg_xmin FROM event_escrows_listed ORDER BY log_index`, "1 "+list+" 0x01020304", "2 "+none+" "+none)
		rows(t, db, `SELECT block_number, "to" FROM event_escrows_released_74bc695c`, "1 "+common.Address{2}.Hex())
		rows(t, db, `SELECT amount, address FROM event_escrows_released ORDER BY block_number, log_index`, "7 "+one.Hex(), huge+" "+one.Hex())
		rows(t, db, `SELECT watch, amount FROM all_released ORDER BY watch, log_index`, "escrows 7", "escrows "+huge, "other 9")
		rows(t, db, `SELECT c.status, c.arg_address, r.amount FROM contracts_escrows c JOIN event_escrows_released r ON r.address = c.address ORDER BY r.log_index`,
			"released a�� 7", "released a�� "+huge)
	}
	twice()
	rows(t, db, "SELECT log_index, seq FROM event_escrows_released ORDER BY log_index", "0 4", "1 5")

	// A block is replaced by one without its transactions.
	c.Reorg(1, true)
	rows(t, db, "SELECT amount, seq FROM event_escrows_released")
	rows(t, db, "SELECT watch, amount FROM all_released")
	release(c, 1, 8)
	c.Commit() // 4
	rows(t, db, "SELECT amount, seq FROM event_escrows_released", "8 8")
	stop()

	// Without tables, and then with them again and a depth: what is missing is filled in, and numbers come when events are handed on.
	w.Tables = false
	if got := differences(t, db, plan); len(got) != 1 || !strings.Contains(got[0], "escrows: without the tables event_escrows_listed, ") {
		t.Error(got)
	}
	stop = start(t, db, plan, "a", b)
	release(c, 1, 10)
	release(c, 3, 10)
	c.Commit() // 5
	rows(t, db, "SELECT much FROM event_other_released", "10")
	watchtest.Until(t, "the event is stored", func() (bool, error) {
		return len(ask(t, db, 1, "SELECT 1 FROM chain_events WHERE watch = 'escrows' AND block_number = 5")) == 1, nil
	})
	stop()
	w.Tables, w.Depth = true, watch.Depth{Blocks: 1}
	start(t, db, plan, "a", b)
	rows(t, db, "SELECT amount FROM event_escrows_released ORDER BY block_number", "8", "10")
	release(c, 1, 11)
	c.Commit() // 6
	rows(t, db, "SELECT amount, seq FROM event_escrows_released ORDER BY block_number", "8 8", "10 <nil>", "11 <nil>")
	c.Commit() // 7
	rows(t, db, "SELECT amount, seq FROM event_escrows_released ORDER BY block_number", "8 8", "10 <nil>", "11 10")

	text := must.Get(os.ReadFile("../docs/WATCH.md"))(t)
	queries := regexp.MustCompile("(?s)```sql\n(.*?);\n```").FindAllStringSubmatch(string(text), -1)
	if len(queries) < 5 {
		t.Errorf("the document has %d queries", len(queries))
	}
	for _, q := range queries {
		columns := strings.Count(strings.SplitN(q[1], "FROM", 2)[0], ",") + 1
		if got := ask(t, db, columns, ledger.SQL(q[1])); len(got) == 0 && !strings.Contains(q[1], "1000000000") {
			t.Errorf("nothing: %s", q[1])
		}
	}
}

// TestNamesOfTables settles names that collide: of overloads, of watches, of the database's own tables, of what is too long, and of arguments.
func TestNamesOfTables(t *testing.T) {
	db := ledgertest.Open(t)
	long := strings.Repeat("Long", 25)
	plan := escrows(t, "http://127.0.0.1:1")
	first := given(t, "a_b", 1)
	first.Events = []*decode.Signature{signature(t, "C(uint8 from, uint8 From, uint8 FROM, uint8 block_number, uint8 watch, uint8, uint8 arg_from)"), signature(t, "C()"), signature(t, long+"(uint8 "+long+", uint8 "+long+"A)")}
	second := given(t, "a", 1)
	second.Events = []*decode.Signature{signature(t, "B_C()"), signature(t, "$select()"), signature(t, "drop()")}
	third := given(t, "A-b", 1)
	third.Events = []*decode.Signature{signature(t, "C()")}
	plan.Watches = []watch.Watch{first, second, third}
	for i := range plan.Watches {
		plan.Watches[i].Tables, plan.Watches[i].Start = true, 1
	}
	must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(t.Context(), "CREATE TABLE Event_A_Drop (mine INTEGER)")
		return err
	}))
	names := func() map[string]string {
		m := map[string]string{}
		for _, row := range ask(t, db, 3, "SELECT watch, signature, name FROM watch_tables WHERE watch <> '' ORDER BY watch, signature") {
			parts := strings.Split(row, " ")
			m[parts[0]+" "+parts[1]] = parts[2]
		}
		return m
	}
	stop := start(t, db, plan, "a", &book{t: t})
	watchtest.Until(t, "the tables are made", func() (bool, error) { // the process is in its work
		return len(ask(t, db, 1, "SELECT 1 FROM sqlite_master WHERE name = 'watch_tables'")) == 1 && len(names()) == 7, nil
	})
	stop()
	got := names()
	if n := len(slices.Compact(slices.Sorted(maps.Values(got)))); n != 7 {
		t.Errorf("%d names of 7 tables: %v", n, got)
	}
	for key, name := range got {
		if len(name) > 63 || !regexp.MustCompile(`^event_[a-z0-9_]+$`).MatchString(name) {
			t.Errorf("%s is called %q", key, name)
		}
	}
	for key, want := range map[string]string{"a_b C(uint8,uint8,uint8,uint8,uint8,uint8,uint8)": "event_a_b_c", "a $select()": "event_a_select"} {
		if got[key] != want {
			t.Errorf("%s is called %s, want %s", key, got[key], want)
		}
	}
	columns := ask(t, db, 1, "SELECT columns FROM watch_tables WHERE signature = 'C(uint8,uint8,uint8,uint8,uint8,uint8,uint8)'")
	found := []string{}
	for _, m := range regexp.MustCompile(`"name":"([^"]*)"`).FindAllStringSubmatch(columns[0], -1) {
		found = append(found, m[1])
	}
	if diff := cmp.Diff([]string{"from", "arg_from", "arg2_2_from", "arg_block_number", "arg_watch", "arg5", "arg_arg_from"}, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	// An event more, in front of the others: nothing is called otherwise.
	plan.Watches[1].Events = append([]*decode.Signature{signature(t, "B_C(uint8)")}, plan.Watches[1].Events...)
	plan.Watches = []watch.Watch{plan.Watches[1], plan.Watches[2], plan.Watches[0]}
	stop = start(t, db, plan, "a", &book{t: t})
	watchtest.Until(t, "the table is made", func() (bool, error) { return len(names()) == 8, nil })
	stop()
	for key, name := range names() {
		if before, known := got[key]; known && before != name {
			t.Errorf("%s was called %s and is now %s", key, before, name)
		}
	}
}
