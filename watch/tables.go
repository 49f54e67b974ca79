package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
)

// A watch that asks for tables has one for each of its events, with a column for each argument. A row is written in the transaction that
// stores the event, and leaves in the one that removes it. Events that were stored before the table was there are written to it from the ledger.
//
// What a table and its columns are called is settled when it is made and kept in the ledger: whatever is added later, it keeps its names. Names have
// small letters, digits and underscores, so that nobody needs quotes but for the words of SQL.

// cell is the kind of a column.
type cell string

const (
	cellText    cell = "text"    // addresses, hashes and bytes as 0x and hex digits, texts
	cellInteger cell = "integer" // of up to 64 bits with a sign
	cellNumeric cell = "numeric" // wider integers: NUMERIC, in SQLite their decimal digits
	cellBool    cell = "bool"
	cellJSON    cell = "json" // lists and tuples
)

func (c cell) sql(d ledger.Dialect) ledger.SQL {
	switch {
	case c == cellInteger:
		return "BIGINT"
	case c == cellBool:
		return "BOOLEAN"
	case c == cellNumeric && d == ledger.Postgres:
		return "NUMERIC"
	case c == cellJSON && d == ledger.Postgres:
		return "JSONB"
	default:
		return "TEXT"
	}
}

// cellOf is the kind of column that a type of the ABI needs.
func cellOf(typ string) cell {
	bits, err := strconv.Atoi(strings.TrimLeft(typ, "uint"))
	switch {
	case strings.ContainsAny(typ, "[("):
		return cellJSON
	case typ == "bool":
		return cellBool
	case err == nil && (bits < 64 || bits == 64 && typ[0] == 'i'):
		return cellInteger
	case err == nil:
		return cellNumeric
	default:
		return cellText
	}
}

// value is what a column holds of a value in the form of package decode, or of its JSON. What does not fit is NULL, and no error: the values
// are a stranger's, and the ledger has them as they are. No column holds a NUL byte, which PostgreSQL has not.
func (c cell) value(v any) any {
	switch c {
	case cellText:
		if text, ok := v.(string); ok {
			return printable(text)
		}
	case cellBool:
		if flag, ok := v.(bool); ok {
			return flag
		}
	case cellInteger:
		if n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64); err == nil {
			return n
		}
	case cellNumeric:
		if text := fmt.Sprint(v); decimal.MatchString(text) {
			return text
		}
	case cellJSON:
		if v != nil {
			return encode(printable(v))
		}
	}
	return nil
}

var decimal = regexp.MustCompile(`^-?[0-9]{1,78}$`)

// printable is a value whose texts have no NUL bytes.
func printable(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "\ufffd")
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = printable(v[i])
		}
		return list
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, member := range v {
			all[name] = printable(member)
		}
		return all
	default:
		return v
	}
}

type column struct {
	Name string `json:"name"`
	Kind cell   `json:"kind"`
}

// everyColumn are those that all tables have. The key begins with the block, so that rows are added at its end.
var everyColumn = []column{
	{"chain", cellInteger},
	{"block_number", cellInteger},
	{"block_hash", cellText},
	{"block_time", cellInteger},
	{"tx_hash", cellText},
	{"log_index", cellInteger},
	{"address", cellText},
	{"seq", cellInteger},
}

// callColumns are those that the tables of transactions have behind them.
var callColumns = []column{{"tx_from", cellText}, {"tx_to", cellText}, {"tx_value", cellNumeric}, {"tx_failed", cellBool}}

// systemColumns are names that PostgreSQL keeps for itself in every table.
var systemColumns = []string{"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"}

// watchColumn is what a view of several watches has beside.
const watchColumn = "watch"

const rowKey = `PRIMARY KEY ("block_number", "log_index", "block_hash")`

type tableKey struct{ watch, signature string }

// eventTable is a table as the ledger has it.
type eventTable struct {
	tableKey
	name    string
	columns []column
	live    bool
	made    int64
	args    []string // what the plan calls the arguments, in the order of the columns
}

// tabled is an event that is to have a table.
type tabled struct {
	signature, event string
	args, types      []string
	call             bool
}

// tabled are all events of a watch, transactions included, in the order of the file: of overloads the first has the plain name.
func (w *Watch) tabled() (list []tabled) {
	seen := map[string]bool{}
	add := func(s *decode.Signature, call bool) {
		t := tabled{signature: s.String(), event: s.Name, args: s.Args(), call: call}
		if call {
			t.signature = functionMark + t.signature
		}
		for _, arg := range t.args {
			t.types = append(t.types, s.TypeOf(arg))
		}
		if !seen[t.signature] {
			seen[t.signature] = true
			list = append(list, t)
		}
	}
	if w.Factory != nil {
		add(w.Factory.Event, false)
	}
	for _, e := range w.Events {
		add(e, false)
	}
	for i := range w.Transactions {
		for _, f := range w.Transactions[i].Functions {
			add(f, true)
		}
		if len(w.Transactions[i].Functions) == 0 && !seen[nativeEvent] {
			seen[nativeEvent] = true
			list = append(list, tabled{signature: nativeEvent, event: nativeEvent, call: true})
		}
	}
	return list
}

func (t tabled) columns() []column {
	own := []column{}
	if t.call {
		own = slices.Clone(callColumns)
	}
	taken := append(slices.Clone(systemColumns), watchColumn)
	for _, c := range slices.Concat(everyColumn, own) {
		taken = append(taken, c.Name)
	}
	for i, arg := range t.args {
		name := columnName(arg, i, taken)
		taken = append(taken, name)
		own = append(own, column{name, cellOf(t.types[i])})
	}
	return own
}

// columnName is what the column of an argument is called: as the argument, unless that is taken.
func columnName(arg string, at int, taken []string) string {
	base := snake(arg)
	base = cmp.Or(base, "arg"+strconv.Itoa(at))
	for try := 0; ; try++ {
		name := base
		switch try {
		case 0:
		case 1:
			name = "arg_" + base
		default:
			name = fmt.Sprintf("arg%d_%d_%s", at, try, base)
		}
		if name = fitting(name, arg); !slices.Contains(taken, name) {
			return name
		}
	}
}

// maxIdentifier is the length of a name in PostgreSQL.
const maxIdentifier = 63

// fitting is a name that PostgreSQL does not cut: the end of a long one is a hash of what it stands for.
func fitting(name, of string) string {
	if len(name) <= maxIdentifier {
		return name
	}
	return marked(name, of)
}

// marked is a name that ends with a hash of what it stands for.
func marked(name, of string) string {
	mark := fmt.Sprintf("_%x", sha256.Sum256([]byte(of)))[:9]
	return name[:min(len(name), maxIdentifier-len(mark))] + mark
}

// snake is a name as SQL has it: tokenId is token_id.
func snake(name string) string {
	var b strings.Builder
	is := func(at int, from, to byte) bool {
		return at >= 0 && at < len(name) && name[at] >= from && name[at] <= to
	}
	for i := range len(name) {
		switch {
		case is(i, 'A', 'Z'):
			if is(i-1, 'a', 'z') || is(i-1, '0', '9') || is(i-1, 'A', 'Z') && is(i+1, 'a', 'z') {
				b.WriteByte('_')
			}
			b.WriteByte(name[i] + 'a' - 'A')
		case is(i, 'a', 'z'), is(i, '0', '9'):
			b.WriteByte(name[i])
		default:
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String(), "_")
}

// catalog is what the ledger knows of tables, and which names the database has.
type catalog struct {
	known map[tableKey]*eventTable
	there map[string]bool // all tables, views and indexes
}

func readCatalog(ctx context.Context, tx *ledger.Tx) (c catalog, err error) {
	c = catalog{there: map[string]bool{}}
	if c.known, err = readTables(ctx, tx); err != nil {
		return c, err
	}
	query := ledger.SQL("SELECT lower(name) FROM sqlite_master")
	if tx.Dialect() == ledger.Postgres {
		query = "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (current_schemas(false))"
	}
	err = tx.Query(ctx, query, nil, func(r ledger.Row) error {
		var name string
		err := r.Scan(&name)
		c.there[name] = true
		return err
	})
	return c, err
}

func readTables(ctx context.Context, tx *ledger.Tx) (map[tableKey]*eventTable, error) {
	known := map[tableKey]*eventTable{}
	err := tx.Query(ctx, "SELECT watch, signature, name, columns, live, made FROM watch_tables", nil, func(r ledger.Row) error {
		var t eventTable
		var columns string
		var live int
		if err := r.Scan(&t.watch, &t.signature, &t.name, &columns, &live, &t.made); err != nil {
			return err
		}
		t.live = live == 1
		known[t.tableKey] = &t
		return json.Unmarshal([]byte(columns), &t.columns)
	})
	return known, err
}

// settle names something new. A name that is taken gets a hash behind it.
func (c *catalog) settle(key tableKey, base string, columns []column, version int64) *eventTable {
	of := key.watch + " " + key.signature
	name := fitting(base, of)
	for try := 0; c.there[name]; try++ {
		name = marked(base, of+strings.Repeat("+", try))
	}
	t := &eventTable{tableKey: key, name: name, columns: columns, made: version}
	c.there[name], c.known[key] = true, t
	return t
}

// settleWatch returns the tables of a watch that new events are not written to yet, those that are new among them.
func (c *catalog) settleWatch(w *Watch, version int64) (list []*eventTable) {
	for _, e := range w.tabled() {
		key := tableKey{w.Name, e.signature}
		t := c.known[key]
		if t == nil {
			t = c.settle(key, "event_"+snake(w.Name)+"_"+snake(e.event), e.columns(), version)
		} else if t.live && c.there[t.name] {
			continue
		}
		list = append(list, t)
	}
	return list
}

// tableChanges says which tables a plan makes and leaves.
func (p *Plan) tableChanges(c catalog) (list []Change) {
	wanted := map[tableKey]bool{}
	for i := range p.Watches {
		w := &p.Watches[i]
		if !w.Tables {
			continue
		}
		for _, e := range w.tabled() {
			wanted[tableKey{w.Name, e.signature}] = true
		}
		var names []string
		for _, t := range c.settleWatch(w, 0) {
			names = append(names, t.name)
		}
		if len(names) > 0 {
			list = append(list, Change{Watch: w.Name, What: "tables " + some(names), Does: "what is stored of their events already is written to them; what is found from now on is written as it is stored"})
		}
	}
	left := map[string][]string{}
	for key, t := range c.known {
		if t.live && !wanted[key] {
			left[key.watch] = append(left[key.watch], t.name)
		}
	}
	for _, watch := range sortedKeys(left) {
		list = append(list, Change{Watch: watch, What: "without the tables " + some(slices.Sorted(slices.Values(left[watch]))), Does: "they stay, and no new events are written to them"})
	}
	return list
}

// makeTables makes what tables and views the plan wants and are not there, has stored events written to them, and ends the others.
func (p *Plan) makeTables(ctx context.Context, tx *ledger.Tx, version int64) error {
	c, err := readCatalog(ctx, tx)
	if err != nil {
		return err
	}
	wanted, made := map[tableKey]bool{}, []string{} // signatures of what is new, in the order of the file
	for i := range p.Watches {
		w := &p.Watches[i]
		if !w.Tables {
			continue
		}
		for _, e := range w.tabled() {
			wanted[tableKey{w.Name, e.signature}] = true
		}
		list := c.settleWatch(w, version)
		for _, t := range list {
			if !slices.Contains(made, t.signature) {
				made = append(made, t.signature)
			}
			t.live = true
			if err := t.create(ctx, tx); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		if len(list) == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO watch_fills (watch, unit, block, log_index) SELECT DISTINCT watch, unit, CAST(-1 AS BIGINT), CAST(-1 AS BIGINT) FROM chain_events WHERE watch = $1
			ON CONFLICT (watch, unit) DO UPDATE SET block = -1, log_index = -1`, w.Name); err != nil {
			return err
		}
		if f := w.Factory; f != nil {
			if err := c.viewChildren(ctx, tx, c.known[tableKey{w.Name, f.Event.String()}]); err != nil {
				return err
			}
		}
	}
	for key, t := range c.known {
		if t.live && !wanted[key] {
			if _, err := tx.Exec(ctx, "UPDATE watch_tables SET live = 0 WHERE watch = $1 AND signature = $2", key.watch, key.signature); err != nil {
				return err
			}
		}
	}
	for _, signature := range made {
		if err := c.viewAll(ctx, tx, signature); err != nil {
			return err
		}
	}
	if len(made) > 0 && tx.Dialect() == ledger.Postgres {
		_, err = tx.Exec(ctx, "NOTIFY pgrst, 'reload schema'") // PostgREST serves them at once
	}
	return err
}

// create makes a table unless it is there, and notes it.
func (t *eventTable) create(ctx context.Context, tx *ledger.Tx) error {
	var parts []ledger.SQL
	for _, c := range slices.Concat(everyColumn, t.columns) {
		part := ledger.Quoted(c.Name) + " " + c.Kind.sql(tx.Dialect())
		if slices.Contains(everyColumn, c) && c.Name != "seq" {
			part += " NOT NULL"
		}
		parts = append(parts, part)
	}
	text := "CREATE TABLE IF NOT EXISTS " + ledger.Quoted(t.name) + " (" + ledger.Join(append(parts, rowKey), ", ") + ")"
	if tx.Dialect() == ledger.SQLite {
		text += " WITHOUT ROWID"
	}
	if _, err := tx.Exec(ctx, text); err != nil {
		return err
	}
	return t.note(ctx, tx)
}

func (t *eventTable) note(ctx context.Context, tx *ledger.Tx) error {
	_, err := tx.Exec(ctx, `INSERT INTO watch_tables (watch, signature, name, columns, live, made) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (watch, signature) DO UPDATE SET live = excluded.live`, t.watch, t.signature, t.name, encode(t.columns), int64(bit(t.live)), t.made)
	return err
}

// view makes a view, or makes it anew with the same columns.
func (t *eventTable) view(ctx context.Context, tx *ledger.Tx, query ledger.SQL) error {
	create := ledger.SQL("CREATE OR REPLACE VIEW ")
	if tx.Dialect() == ledger.SQLite {
		create = "CREATE VIEW "
		if _, err := tx.Exec(ctx, "DROP VIEW IF EXISTS "+ledger.Quoted(t.name)); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, create+ledger.Quoted(t.name)+" AS "+query); err != nil {
		return fmt.Errorf("view %s: %w", t.name, err)
	}
	return t.note(ctx, tx)
}

// selected lists columns of a table under the names of a view.
func selected(from ledger.SQL, columns, as []column) ledger.SQL {
	var parts []ledger.SQL
	for i := range columns {
		parts = append(parts, from+ledger.Quoted(columns[i].Name)+" AS "+ledger.Quoted(as[i].Name))
	}
	return ledger.Join(parts, ", ")
}

// viewAll makes the view of an event in all watches.
func (c *catalog) viewAll(ctx context.Context, tx *ledger.Tx, signature string) error {
	var tables []*eventTable
	for _, t := range c.known {
		if t.signature == signature && t.watch != "" {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, func(a, b *eventTable) int {
		return cmp.Or(cmp.Compare(a.made, b.made), strings.Compare(a.watch, b.watch))
	})
	key := tableKey{"", signature}
	v := c.known[key]
	if v == nil {
		event, _, _ := strings.Cut(strings.TrimPrefix(signature, functionMark), "(")
		v = c.settle(key, "all_"+snake(event), slices.Concat(everyColumn, tables[0].columns), tables[0].made)
	}
	var parts []ledger.SQL
	for _, t := range tables {
		parts = append(parts, "SELECT CAST("+ledger.Literal(t.watch)+" AS TEXT) AS "+ledger.Quoted(watchColumn)+", "+selected("", slices.Concat(everyColumn, t.columns), v.columns)+" FROM "+ledger.Quoted(t.name))
	}
	return v.view(ctx, tx, ledger.Join(parts, " UNION ALL "))
}

// contractsOf begins the signature of the view of what a factory has announced.
const contractsOf = "contracts of "

// viewChildren makes the view of the contracts that a factory's event has announced, with what it said of them.
func (c *catalog) viewChildren(ctx context.Context, tx *ledger.Tx, factory *eventTable) error {
	key := tableKey{factory.watch, contractsOf + factory.signature}
	v := c.known[key]
	if v == nil {
		own := []column{{"address", cellText}, {"status", cellText}, {"factory", cellText}, {"chain", cellInteger}, {"block_number", cellInteger}, {"block_time", cellInteger}, {"tx_hash", cellText}}
		taken := []string{}
		for _, o := range own {
			taken = append(taken, o.Name)
		}
		for i, a := range factory.columns {
			name := columnName(a.Name, i, taken)
			taken = append(taken, name)
			own = append(own, column{name, a.Kind})
		}
		v = c.settle(key, "contracts_"+snake(factory.watch), own, factory.made)
	}
	query := ledger.SQL(`SELECT c.address AS "address", c.status AS "status", f."address" AS "factory", f."chain" AS "chain", f."block_number" AS "block_number", f."block_time" AS "block_time", f."tx_hash" AS "tx_hash"`)
	if n := len(factory.columns); n > 0 {
		query += ", " + selected("f.", factory.columns, v.columns[len(v.columns)-n:])
	}
	return v.view(ctx, tx, query+" FROM "+ledger.Quoted(factory.name)+` f JOIN contracts c ON c.watch = `+ledger.Literal(factory.watch)+` AND c.chain = f."chain" AND c.removed = 0
		AND c.discovered_by = `+ledger.Literal(factory.watch+":")+` || f."chain" || ':' || f."block_hash" || ':' || f."log_index"`)
}

// loadTables reads the tables of the plan's watches.
func (w *worker) loadTables(ctx context.Context, tx *ledger.Tx) (err error) {
	if w.tables, err = readTables(ctx, tx); err != nil {
		return err
	}
	for _, watch := range w.watches {
		for _, e := range watch.tabled() {
			if t := w.tables[tableKey{watch.Name, e.signature}]; t != nil {
				t.args = e.args
			}
		}
	}
	w.filling = true
	return nil
}

func (w *worker) tableOf(o *occurrence) *eventTable {
	return w.tables[tableKey{o.contract.watch.Name, o.signature}]
}

// row is what a table has of an event. A column whose argument was called otherwise when the event was stored is NULL, unless it had no name.
func (t *eventTable) row(chain uint64, o *occurrence) ([]any, error) {
	var seq any
	if o.seq > 0 {
		seq = o.seq
	}
	row := []any{int64(chain), int64(o.blockNumber), o.blockHash, int64(o.time), o.txHash, int64(o.logIndex), o.contract.text, seq}
	columns := t.columns
	if extra := len(columns) - len(t.args); extra > 0 { // a transaction's
		var e Extra
		if err := json.Unmarshal([]byte(o.extra), &e); err != nil || e.Call == nil {
			e.Call = &Called{}
		}
		row = append(row, e.Call.From, cellText.value(e.Call.To), cellNumeric.value(e.Call.Value), e.Call.Failed)
		columns = columns[extra:]
	}
	if o.values == nil && !o.undecoded {
		var err error
		if o.values, err = decode.FromJSON([]byte(o.args)); err != nil {
			return nil, err
		}
	}
	for i, c := range columns {
		v, there := o.values[t.args[i]]
		if !there {
			v = o.values["arg"+strconv.Itoa(i)]
		}
		row = append(row, c.Kind.value(v))
	}
	return row, nil
}

// writeRows writes events to their tables.
func (w *worker) writeRows(ctx context.Context, tx *ledger.Tx, list []*occurrence) error {
	rows := map[*eventTable][][]any{}
	for _, o := range list {
		t := w.tableOf(o)
		if t == nil || !t.live {
			continue
		}
		row, err := t.row(w.chain.ID, o)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		rows[t] = append(rows[t], row)
	}
	for t, list := range rows {
		var names []ledger.SQL
		for _, c := range slices.Concat(everyColumn, t.columns) {
			names = append(names, ledger.Quoted(c.Name))
		}
		if _, err := ledger.Values(ctx, tx, tx.InsertInto()+ledger.Quoted(t.name)+" ("+ledger.Join(names, ", ")+") VALUES %s ON CONFLICT DO NOTHING", list, ledger.AsIs, nil); err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}

// writeSeqs writes the numbers of the messages that have handed events on.
func (w *worker) writeSeqs(ctx context.Context, tx *ledger.Tx, list []*occurrence) error {
	rows := map[*eventTable][][]any{}
	for _, o := range list {
		if t := w.tableOf(o); t != nil && t.live {
			rows[t] = append(rows[t], []any{int64(o.blockNumber), int64(o.logIndex), o.blockHash, o.seq})
		}
	}
	for t, list := range rows {
		name := ledger.Quoted(t.name)
		_, err := ledger.Values(ctx, tx, "UPDATE "+name+" SET seq = CAST(v.column4 AS BIGINT) FROM (VALUES %s) AS v WHERE "+name+".block_number = CAST(v.column1 AS BIGINT) AND "+
			name+".log_index = CAST(v.column2 AS BIGINT) AND "+name+".block_hash = v.column3", list, ledger.AsIs, nil)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}

// removeRow takes an event out of its table.
func (w *worker) removeRow(ctx context.Context, tx *ledger.Tx, o *occurrence) error {
	t := w.tableOf(o)
	if t == nil {
		return nil
	}
	_, err := tx.Exec(ctx, "DELETE FROM "+ledger.Quoted(t.name)+" WHERE block_number = $1 AND log_index = $2 AND block_hash = $3", int64(o.blockNumber), int64(o.logIndex), o.blockHash)
	return err
}

// emptyTables empties the tables of a chain's watches.
func emptyTables(ctx context.Context, tx *ledger.Tx, chain uint64) error {
	names, err := ledger.All(ctx, tx, "SELECT t.name FROM watch_tables t JOIN watches w ON w.name = t.watch WHERE w.chain = $1 AND t.signature NOT LIKE '"+contractsOf+"%' ORDER BY t.name", []any{int64(chain)}, ledger.Text)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := tx.Exec(ctx, "DELETE FROM "+ledger.Quoted(name)); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, "DELETE FROM watch_fills WHERE watch IN (SELECT name FROM watches WHERE chain = $1)", int64(chain))
	return err
}

// fillTables writes stored events of one of our units to the tables of their watch.
func (w *worker) fillTables(ctx context.Context, _ chainState) (bool, error) {
	if !w.filling {
		return false, nil
	}
	var name, unit string
	err := w.db.Read(ctx, func(tx *ledger.Tx) (err error) {
		w.filling, err = tx.One(ctx, "SELECT f.watch, f.unit FROM watch_fills f JOIN cursors u ON u.unit = f.unit WHERE u.chain = $1 AND u.owner = $2 ORDER BY f.watch, f.unit LIMIT 1", []any{int64(w.chain.ID), w.owner}, &name, &unit)
		return err
	})
	if err != nil || !w.filling {
		w.filling = err != nil
		return false, err
	}
	return true, w.db.Write(ctx, func(tx *ledger.Tx) error {
		if err := w.fence(ctx, tx, []string{unit}); err != nil {
			return err
		}
		var block, index int64
		if there, err := tx.One(ctx, "SELECT block, log_index FROM watch_fills WHERE watch = $1 AND unit = $2", []any{name, unit}, &block, &index); err != nil || !there {
			return err
		}
		contracts := map[contractKey]*contract{}
		err := w.queryContracts(ctx, tx, "watch = $1 AND unit = $2", []any{name, unit}, func(c *contract) { contracts[c.key()] = c })
		if err != nil {
			return err
		}
		list, err := queryEvents(ctx, tx, contracts, `unit = $1 AND watch = $2 AND removed = 0 AND (block_number > $3 OR block_number = $3 AND log_index > $4)
			ORDER BY block_number, log_index LIMIT `+ledger.Number(maturePerStep), []any{unit, name, block, index})
		if err != nil {
			return err
		}
		if len(list) < maturePerStep {
			_, err = tx.Exec(ctx, "DELETE FROM watch_fills WHERE watch = $1 AND unit = $2", name, unit)
		} else {
			last := list[len(list)-1]
			_, err = tx.Exec(ctx, "UPDATE watch_fills SET block = $1, log_index = $2 WHERE watch = $3 AND unit = $4", int64(last.blockNumber), int64(last.logIndex), name, unit)
		}
		if err != nil {
			return err
		}
		return w.writeRows(ctx, tx, slices.DeleteFunc(list, func(o *occurrence) bool { return o.contract == nil }))
	})
}
