package watch

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"lockstep/internal/ledger"
)

// The ledger remembers which plan the fleet follows, and each watch as it was followed last. A process whose plan is another owns no units,
// so that of two files only one moves cursors. The first process that starts with a new file makes it the fleet's, in one
// transaction with everything that the differences mean.

var (
	// ErrOlderPlan means that the fleet follows another plan than this process has.
	ErrOlderPlan = errors.New("the fleet follows a newer plan than this process has")
	// ErrPlan means that what is followed cannot be changed so.
	ErrPlan = errors.New("the plan cannot be changed so")
)

// followed is a watch as the ledger remembers it: without secrets, and in an order that does not depend on the file's.
type followed struct {
	Chain     uint64   `json:"chain"`
	Start     uint64   `json:"start"`
	Factory   string   `json:"factory,omitempty"`
	Announces string   `json:"announces,omitempty"`
	Child     string   `json:"child,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Events    []string `json:"events,omitempty"`
	Marks     []string `json:"marks,omitempty"` // the events with what is indexed
	Fields    []string `json:"fields,omitempty"`
	Status    []string `json:"status,omitempty"`
	Depth     string   `json:"depth"`
	Sinks     []string `json:"sinks,omitempty"` // names
	Actions   []string `json:"actions,omitempty"`
	Raw       bool     `json:"raw,omitempty"`
	Tables    bool     `json:"tables,omitempty"`
	Where     []string `json:"where,omitempty"` // event: condition
	Since     string   `json:"since,omitempty"` // what Start was settled from
	End       *uint64  `json:"end,omitempty"`
	// Accounts are those of the addresses of which only transactions are followed.
	Accounts     []string `json:"accounts,omitempty"`
	Transactions []string `json:"transactions,omitempty"`
}

func (w *Watch) followed() followed {
	f := followed{Chain: w.Chain, Start: w.Start, Depth: w.Depth.String(), Raw: w.Raw, Tables: w.Tables, Since: w.Since, End: w.End, Status: []string{"initial=" + w.Status.Initial}}
	if w.Factory != nil {
		f.Factory, f.Announces, f.Child = addressText(w.Factory.Address), w.Factory.Event.String(), w.Factory.Child
		f.Marks = append(f.Marks, w.Factory.Event.Declared())
	}
	for _, a := range w.Addresses {
		f.Addresses = append(f.Addresses, addressText(a))
	}
	f.Accounts = addressTexts(w.accounts())
	f.Addresses = append(f.Addresses, f.Accounts...)
	for i := range w.Transactions {
		f.Transactions = append(f.Transactions, w.Transactions[i].String())
	}
	for _, e := range w.Events {
		f.Events, f.Marks = append(f.Events, e.String()), append(f.Marks, e.Declared())
		if condition := w.Where[e]; condition != nil {
			f.Where = append(f.Where, e.String()+": "+condition.String())
		}
	}
	for _, field := range w.Fields {
		f.Fields = append(f.Fields, field.Name+"="+field.Event+"."+field.Arg)
	}
	for event, status := range w.Status.On {
		f.Status = append(f.Status, event+"="+status)
	}
	for _, s := range w.Sinks {
		f.Sinks = append(f.Sinks, SinkName(s))
	}
	for _, a := range w.Actions {
		f.Actions = append(f.Actions, encode([]any{a.On, a.To, a.Call, a.Args, a.Pool}))
	}
	for _, list := range []*[]string{&f.Addresses, &f.Events, &f.Marks, &f.Fields, &f.Status, &f.Sinks, &f.Actions, &f.Accounts, &f.Transactions, &f.Where} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return f
}

// Digest tells plans apart. URLs and what is in them do not count: each process may have its own.
func (p *Plan) Digest() string {
	all := map[string]followed{}
	for i := range p.Watches {
		f := p.Watches[i].followed()
		if f.Since != "" {
			f.Start = 0 // it is settled once, by whoever starts first
		}
		all[p.Watches[i].Name] = f
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(encode(all))))[:32]
}

// Change is a difference between what the ledger remembers of a watch and what the plan says, and what it means.
type Change struct {
	Watch string
	What  string // the difference
	Does  string // what is done about it when a process starts with the plan, or why nothing can be
	// Refused says that a process does not start with the plan.
	Refused bool

	do func(ctx context.Context, tx *ledger.Tx, now int64) error
}

// String is a line for people.
func (c Change) String() string {
	if c.Refused {
		return fmt.Sprintf("%s: %s: REFUSED: %s", c.Watch, c.What, c.Does)
	}
	return fmt.Sprintf("%s: %s: %s", c.Watch, c.What, c.Does)
}

// Changes compares a plan with what the ledger remembers. It writes nothing.
func (p *Plan) Changes(ctx context.Context, db *ledger.DB) (list []Change, err error) {
	err = db.Read(ctx, func(tx *ledger.Tx) error {
		query := ledger.SQL("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'watch_plans'")
		if tx.Dialect() == ledger.Postgres {
			query = "SELECT 1 FROM information_schema.tables WHERE table_name = 'watch_plans' AND table_schema = ANY (current_schemas(false))"
		}
		var one int
		list = nil
		there, err := tx.One(ctx, query, nil, &one)
		if err == nil && there {
			list, err = p.changes(ctx, tx)
			return err
		}
		for i := range p.Watches { // nothing was ever followed here
			list = append(list, p.Watches[i].begins())
		}
		list = append(list, p.tableChanges(catalog{known: map[tableKey]*eventTable{}, there: map[string]bool{}})...)
		return err
	})
	return list, err
}

func (w *Watch) begins() Change {
	return Change{
		Watch: w.Name, What: "new watch", Does: "it is read from " + w.begin() + w.until(),
		do: func(ctx context.Context, tx *ledger.Tx, now int64) error {
			return insertContracts(ctx, tx, w.named(), now)
		},
	}
}

// begin says where a watch begins.
func (w *Watch) begin() string {
	block := fmt.Sprintf("block %d", w.Start)
	switch {
	case w.Since == "":
		return block
	case w.begun:
		return fmt.Sprintf("%s (start: %s)", block, w.Since)
	case w.Since == latest:
		return "the block that is the newest then"
	default:
		return "the block that is " + w.Since[1:] + " before the newest then"
	}
}

func (w *Watch) until() string {
	if w.End == nil {
		return ""
	}
	return fmt.Sprintf(" to %d", *w.End)
}

// named are the contracts that a watch names itself.
func (w *Watch) named() (list []newContract) {
	if w.Factory != nil {
		list = append(list, newContract{watch: w, address: w.Factory.Address, kind: kindFactory, block: w.Start})
	}
	for _, a := range slices.Concat(w.Addresses, w.accounts()) {
		list = append(list, newContract{watch: w, address: a, kind: kindGiven, block: w.Start})
	}
	return list
}

func (p *Plan) changes(ctx context.Context, tx *ledger.Tx) (list []Change, err error) {
	type row struct {
		body string
		out  int
	}
	rows := map[string]row{}
	err = tx.Query(ctx, "SELECT name, body, out FROM watches", nil, func(r ledger.Row) error {
		var name string
		var known row
		err := r.Scan(&name, &known.body, &known.out)
		rows[name] = known
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range p.Watches {
		w := &p.Watches[i]
		known, there := rows[w.Name]
		delete(rows, w.Name)
		if !there {
			list = append(list, w.begins())
			continue
		}
		var old followed
		if err := json.Unmarshal([]byte(known.body), &old); err != nil {
			return nil, fmt.Errorf("watch %s in the ledger: %w", w.Name, err)
		}
		if w.Since != "" && !w.begun && old.Since == w.Since {
			w.Start, w.begun = old.Start, true
		}
		d := &difference{w: w, old: old, now: w.followed()}
		if _, err := tx.One(ctx, "SELECT head FROM watch_chains WHERE chain = $1", []any{int64(w.Chain)}, &d.head); err != nil {
			return nil, err
		}
		if known.out == 1 {
			d.add("it is followed again", "it goes on from the blocks where it was taken out", func(ctx context.Context, tx *ledger.Tx, now int64) error { return w.putBack(ctx, tx, now) })
		}
		d.compare()
		list = append(list, d.list...)
	}
	for _, name := range sortedKeys(rows) {
		if rows[name].out == 0 {
			list = append(list, Change{
				Watch: name, What: "it is not in the plan any more", Does: "its contracts and what was found stay; nothing is read for it. When it is put back, it goes on from here",
				do: func(ctx context.Context, tx *ledger.Tx, now int64) error { return takeOut(ctx, tx, name, now) },
			})
		}
	}
	c, err := readCatalog(ctx, tx)
	return append(list, p.tableChanges(c)...), err
}

// difference finds out what differs in one watch.
type difference struct {
	w        *Watch
	old, now followed
	head     uint64
	list     []Change
}

func (d *difference) add(what, does string, do func(ctx context.Context, tx *ledger.Tx, now int64) error) {
	d.list = append(d.list, Change{Watch: d.w.Name, What: what, Does: does, do: do})
}

func (d *difference) refuse(what, why string) {
	d.list = append(d.list, Change{Watch: d.w.Name, What: what, Does: why, Refused: true})
}

// read are all events that are read, the factory's included.
func (f *followed) read() []string {
	list := slices.Clone(f.Events)
	if f.Announces != "" {
		list = append(list, f.Announces)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func missing(from, in []string) (list []string) {
	for _, s := range from {
		if _, there := slices.BinarySearch(in, s); !there {
			list = append(list, s)
		}
	}
	return list
}

// some lists texts, the first few of many.
func some(list []string) string {
	if n := len(list); n > 4 {
		return strings.Join(list[:4], ", ") + fmt.Sprintf(" and %d more", n-4)
	}
	return strings.Join(list, ", ")
}

func (d *difference) compare() {
	if d.old.Chain != d.now.Chain {
		d.refuse(fmt.Sprintf("chain %d instead of %d", d.now.Chain, d.old.Chain), "what was read belongs to the other chain: give the watch another name")
		return
	}
	read := "" // why past blocks are read again, from one to another
	from, to := d.now.Start, d.head
	if d.now.Since != d.old.Since && d.now.Since != "" && !d.w.begun {
		d.add("start: "+d.now.Since, "the block is settled when a process starts: what is before the old one is read by a backfill; what was read stays", nil)
		d.now.Start = d.old.Start
	}
	switch {
	case d.now.Start < d.old.Start:
		read, to = fmt.Sprintf("start %d instead of %d", d.now.Start, d.old.Start), min(max(d.old.Start, 1)-1, d.head)
	case d.now.Start > d.old.Start:
		d.add(fmt.Sprintf("start %d instead of %d", d.now.Start, d.old.Start), "what was read before that block stays; contracts that are new in the plan begin there", nil)
	}
	d.compareFactory()
	before, after := d.old.read(), d.now.read()
	added := missing(after, before)
	if d.old.Factory != d.now.Factory { // it has a position of its own
		added = slices.DeleteFunc(added, func(s string) bool { return s == d.now.Announces && !slices.Contains(d.now.Events, s) })
	}
	if read == "" && d.old.End != nil && (d.now.End == nil || *d.now.End > *d.old.End) {
		from = *d.old.End + 1
	}
	for _, news := range []struct {
		what string
		list []string
	}{{"new events ", added}, {"new ", missing(d.now.Transactions, d.old.Transactions)}, {"the events, too, of ", d.withEvents()}, {"other conditions ", d.wider()}, {"", d.later()}} {
		if len(news.list) == 0 {
			continue
		}
		if read != "" {
			read += ", "
		}
		read, to = read+news.what+some(news.list), d.head
		if news.what != "" {
			from = d.now.Start
		}
	}
	if d.now.End != nil {
		to = min(to, *d.now.End)
	}
	if gone := missing(d.old.Transactions, d.now.Transactions); len(gone) > 0 {
		d.add("without "+some(gone), "they are not read any more; those that were found stay", nil)
	}
	if gone := missing(before, after); len(gone) > 0 {
		d.add("without the events "+some(gone), "they are not read any more; those that were found stay", nil)
	}
	if added := missing(d.now.Addresses, d.old.Addresses); len(added) > 0 {
		d.add("new addresses "+some(added), fmt.Sprintf("they are read from block %d, or from where they were taken out", d.now.Start), d.putAddresses)
	}
	if gone := missing(d.old.Addresses, d.now.Addresses); len(gone) > 0 {
		d.add("without the addresses "+some(gone), "they are not followed any more; what was found stays. When one is put back, it goes on from here", func(ctx context.Context, tx *ledger.Tx, now int64) error {
			return park(ctx, tx, d.w.Name, kindGiven, gone, now)
		})
	}
	if read != "" {
		d.add(read, fmt.Sprintf("blocks %d to %d are read for its contracts by a backfill; sinks get what is new, actions do nothing about it", from, to), func(ctx context.Context, tx *ledger.Tx, now int64) error {
			return d.readAgain(ctx, tx, from, to, now)
		})
	}
	if !slices.Equal(d.old.Fields, d.now.Fields) || !slices.Equal(d.old.Status, d.now.Status) {
		d.add("other fields or statuses", "those of all its contracts are worked out again from the events that are stored", func(ctx context.Context, tx *ledger.Tx, now int64) error {
			_, err := tx.Exec(ctx, "UPDATE contracts SET stale = 1, updated_at = $1 WHERE watch = $2 AND kind <> 'factory'", now, d.w.Name)
			return err
		})
	}
	d.compareRest()
}

// wider are the events whose condition is another, or none any more: what did not meet the old one may be wanted now.
func (d *difference) wider() (list []string) {
	for _, was := range missing(d.old.Where, d.now.Where) {
		if event, _, _ := strings.Cut(was, ": "); slices.Contains(d.now.Events, event) {
			list = append(list, event)
		}
	}
	return list
}

// later says that the watch goes on behind its old end.
func (d *difference) later() []string {
	switch {
	case d.old.End == nil:
		return nil
	case d.now.End == nil:
		return []string{fmt.Sprintf("no end instead of %d", *d.old.End)}
	case *d.now.End > *d.old.End:
		return []string{fmt.Sprintf("end %d instead of %d", *d.now.End, *d.old.End)}
	default:
		return nil
	}
}

// withEvents are the addresses of which only transactions were followed, and events are, too, from now on.
func (d *difference) withEvents() []string {
	return slices.DeleteFunc(missing(d.old.Accounts, d.now.Accounts), func(a string) bool {
		_, followed := slices.BinarySearch(d.now.Addresses, a)
		return !followed
	})
}

func (d *difference) compareRest() {
	if d.old.Depth != d.now.Depth {
		d.add(fmt.Sprintf("depth %s instead of %s", d.now.Depth, d.old.Depth), "it counts for all events that were not handed on yet", nil)
	}
	if added := missing(d.now.Sinks, d.old.Sinks); len(added) > 0 {
		d.add("new sinks "+some(added), "they get the messages that the ledger keeps, or go on where they were if they are known; a sink that has only another name is a new one", nil)
	}
	if gone := missing(d.old.Sinks, d.now.Sinks); len(gone) > 0 {
		d.add("without the sinks "+some(gone), "they get nothing any more; how far they are stays", nil)
	}
	from := "it counts for what is read from now on"
	if d.now.End != nil && (d.old.End == nil || *d.now.End < *d.old.End) {
		d.add(fmt.Sprintf("end: %d", *d.now.End), "no events behind that block are taken any more; what was found stays", nil)
	}
	for _, is := range missing(d.now.Where, d.old.Where) {
		event, condition, _ := strings.Cut(is, ": ")
		if !slices.ContainsFunc(d.old.Where, func(was string) bool { return strings.HasPrefix(was, event+": ") }) && slices.Contains(d.old.Events, event) {
			d.add("a condition of "+event+", "+condition, "it counts for what is read from now on; what was found stays", nil)
		}
	}
	if marks := missing(d.now.Marks, d.old.Marks); len(marks) > 0 && slices.Equal(d.old.Events, d.now.Events) && d.old.Announces == d.now.Announces {
		d.add("other indexed arguments "+some(marks), from, nil)
	}
	if d.old.Raw != d.now.Raw {
		d.add(fmt.Sprintf("raw: %v", d.now.Raw), from, nil)
	}
	if !slices.Equal(d.old.Actions, d.now.Actions) {
		d.add("other actions", "they count for what is handed to the manager from now on", nil)
	}
}

func (d *difference) compareFactory() {
	old, now := d.old, d.now
	switch {
	case old.Factory == now.Factory && old.Announces == now.Announces && old.Child == now.Child:
	case now.Factory == "":
		d.add("without the factory "+old.Factory, "no contracts are added any more; those that it has announced are followed as before", func(ctx context.Context, tx *ledger.Tx, at int64) error {
			return d.parkFactory(ctx, tx, old.Factory, at)
		})
	case old.Factory == "":
		d.add("factory "+now.Factory, fmt.Sprintf("it is read from block %d", now.Start), d.putFactory)
	case old.Announces == now.Announces && old.Child != now.Child:
		d.refuse(fmt.Sprintf("the contract is %s of %s instead of %s", now.Child, now.Announces, old.Child), "the contracts that are followed would be others: give the watch another name")
	case old.Factory != now.Factory:
		d.add(fmt.Sprintf("factory %s instead of %s", now.Factory, old.Factory), fmt.Sprintf("the new one is read from block %d; the contracts of the other are followed as before", now.Start), func(ctx context.Context, tx *ledger.Tx, at int64) error {
			if err := d.parkFactory(ctx, tx, old.Factory, at); err != nil {
				return err
			}
			return d.putFactory(ctx, tx, at)
		})
	}
}

// Contracts that are taken out are marked so, and keep the block where they were: their unit goes on without them.
const takenOut = 2

// park takes contracts of a kind out; no addresses means all of them.
func park(ctx context.Context, tx *ledger.Tx, watch, kind string, addresses []string, now int64) error {
	_, err := ledger.In(ctx, tx, `UPDATE contracts SET next_block = CASE WHEN contracts.merged = 1 THEN u.next_block ELSE contracts.next_block END, merged = 0, removed = $1, updated_at = $2
		FROM cursors u WHERE u.unit = contracts.unit AND contracts.watch = $3 AND contracts.kind = $4 AND contracts.removed = 0 AND contracts.address IN %s`, []any{int64(takenOut), now, watch, kind}, addresses, nil)
	return err
}

// takeOut parks all contracts of a watch and its factory.
func takeOut(ctx context.Context, tx *ledger.Tx, watch string, now int64) error {
	_, err := tx.Exec(ctx, `UPDATE contracts SET next_block = CASE WHEN contracts.merged = 1 THEN u.next_block ELSE contracts.next_block END, merged = 0, removed = $1, updated_at = $2
		FROM cursors u WHERE u.unit = contracts.unit AND contracts.watch = $3 AND contracts.removed = 0`, int64(takenOut), now, watch)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE cursors SET parked = 1 WHERE unit = $1", factoryUnit(watch)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE watches SET out = 1, updated_at = $1 WHERE name = $2", now, watch)
	return err
}

// putBack goes on with a watch: with the contracts that a factory has announced, and those that the plan names.
func (w *Watch) putBack(ctx context.Context, tx *ledger.Tx, now int64) error {
	if _, err := tx.Exec(ctx, "UPDATE contracts SET removed = 0, updated_at = $1 WHERE watch = $2 AND kind = $3 AND removed = $4", now, w.Name, kindChild, int64(takenOut)); err != nil {
		return err
	}
	return w.put(ctx, tx, w.named(), now)
}

// put follows contracts that a watch names: from where they were taken out, or from its first block.
func (w *Watch) put(ctx context.Context, tx *ledger.Tx, list []newContract, now int64) error {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = addressText(n.address)
	}
	if _, err := ledger.In(ctx, tx, "UPDATE contracts SET removed = 0, updated_at = $1 WHERE watch = $2 AND removed = $3 AND address IN %s", []any{now, w.Name, int64(takenOut)}, texts, nil); err != nil {
		return err
	}
	if w.Factory != nil {
		if _, err := tx.Exec(ctx, "UPDATE cursors SET parked = 0 WHERE unit = $1", factoryUnit(w.Name)); err != nil {
			return err
		}
	}
	return insertContracts(ctx, tx, list, now)
}

func (d *difference) putAddresses(ctx context.Context, tx *ledger.Tx, now int64) error {
	return d.w.put(ctx, tx, slices.DeleteFunc(d.w.named(), func(n newContract) bool { return n.kind != kindGiven }), now)
}

func (d *difference) putFactory(ctx context.Context, tx *ledger.Tx, now int64) error {
	return d.w.put(ctx, tx, slices.DeleteFunc(d.w.named(), func(n newContract) bool { return n.kind != kindFactory }), now)
}

func (d *difference) parkFactory(ctx context.Context, tx *ledger.Tx, address string, now int64) error {
	if err := park(ctx, tx, d.w.Name, kindFactory, []string{address}, now); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE cursors SET parked = 1 WHERE unit = $1", factoryUnit(d.w.Name))
	return err
}

// readAgain leaves past blocks to a backfill, those included that were before the watch's first one.
func (d *difference) readAgain(ctx context.Context, tx *ledger.Tx, from, to uint64, now int64) error {
	_, err := tx.Exec(ctx, "UPDATE contracts SET discovered_block = $1, updated_at = $2 WHERE watch = $3 AND kind <> $4 AND discovered_block > $1", int64(d.now.Start), now, d.w.Name, kindChild)
	if err != nil || to < from || d.head == 0 {
		return err
	}
	_, err = insertBackfill(ctx, tx, Backfill{ID: uuid.NewString(), Watch: d.w.Name, From: from, To: to}, now)
	return err
}

// adopt makes this process's plan the fleet's, unless it is or the fleet follows a newer one. A plan that the fleet has followed
// before is older, as long as a process lives that has the newest; when none does any more, a process that was started since then asks again. One
// that is older than the newest plan itself never does.
func (s *Service) adopt(ctx context.Context) error {
	s.adopting.Lock()
	defer s.adopting.Unlock()
	if err := s.settleStarts(ctx); err != nil {
		return err
	}
	var changes []Change
	older := false
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		changes, older = nil, false
		version, newest, err := newestPlan(ctx, tx)
		if err != nil {
			return err
		}
		if version > 0 && newest != s.digest {
			var one int
			if older, err = tx.One(ctx, `SELECT 1 FROM nodes n WHERE n.plan = $1 AND n.status = 'active' AND n.last_heartbeat > $2 AND n.instance_id <> $3
				AND EXISTS (SELECT 1 FROM watch_plans p WHERE p.digest = $4) LIMIT 1`, []any{newest, now - deadAfter.Microseconds(), s.cfg.Instance, s.digest}, &one); err != nil || older {
				return err
			}
		}
		if newest != s.digest {
			if changes, err = s.cfg.Plan.changes(ctx, tx); err != nil {
				return err
			}
			version++
			if err := s.follow(ctx, tx, version, changes, now); err != nil {
				return err
			}
		}
		if err := s.cfg.Plan.makeTables(ctx, tx, version); err != nil {
			return err
		}
		return s.fleet.writeNode(ctx, tx, "active", now)
	})
	if err != nil {
		return err
	}
	if !older { // another process may have settled a start meanwhile
		if err := s.settleStarts(ctx); err != nil {
			return err
		}
	}
	s.pending.Store(older)
	s.behind(ctx, older)
	for _, c := range changes {
		s.log.InfoContext(ctx, "the plan differs from what was followed", "watch", c.Watch, "difference", c.What, "so", c.Does)
	}
	return nil
}

// follow writes the plan's version and what its differences mean. Cursors are nobody's from then on: a process with an older plan writes nothing more.
func (s *Service) follow(ctx context.Context, tx *ledger.Tx, version int64, changes []Change, now int64) error {
	var refused []error
	for _, c := range changes {
		if c.Refused {
			refused = append(refused, errors.New(c.String()))
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w:\n%w", ErrPlan, errors.Join(refused...))
	}
	n, err := tx.Exec(ctx, "INSERT INTO watch_plans (version, digest, at, instance_id) VALUES ($1, $2, $3, $4) ON CONFLICT (version) DO NOTHING", version, s.digest, now, s.cfg.Instance)
	if err != nil {
		return err
	}
	if n != 1 {
		return errStale // another process was faster
	}
	for i := range s.cfg.Plan.Watches {
		w := &s.cfg.Plan.Watches[i]
		if _, err := tx.Exec(ctx, `INSERT INTO watches (name, chain, body, out, created_at, updated_at) VALUES ($1, $2, $3, 0, $4, $4)
			ON CONFLICT (name) DO UPDATE SET body = excluded.body, out = 0, updated_at = excluded.updated_at`, w.Name, int64(w.Chain), encode(w.followed()), now); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.do != nil {
			if err := c.do(ctx, tx, now); err != nil {
				return fmt.Errorf("%s: %w", c.What, err)
			}
		}
	}
	_, err = tx.Exec(ctx, "UPDATE cursors SET owner = ''")
	return err
}

// newestPlan is the plan that the fleet follows; version 0: none yet.
func newestPlan(ctx context.Context, tx *ledger.Tx) (version int64, digest string, err error) {
	_, err = tx.One(ctx, "SELECT version, digest FROM watch_plans ORDER BY version DESC LIMIT 1", nil, &version, &digest)
	return version, digest, err
}

// current fails unless the fleet follows this process's plan.
func (s *Service) current(ctx context.Context, tx *ledger.Tx) error {
	version, newest, err := newestPlan(ctx, tx)
	if err == nil && newest != s.digest {
		err = fmt.Errorf("%w: version %d", ErrOlderPlan, version)
	}
	return err
}

// SinkName is what a sink is called in the ledger: the name before "=", or its kind and where it is without what may be a secret.
func SinkName(spec string) string {
	parsed, err := ParseSink(spec)
	if err != nil { // of a kind that only the caller knows: what follows it may be a secret
		return fmt.Sprintf("%s:%x", sinkKind(spec), sha256.Sum256([]byte(spec)))[:len(sinkKind(spec))+17]
	}
	return parsed.Called
}

// behind notes whether the fleet follows another plan than this process's.
func (s *Service) behind(ctx context.Context, is bool) {
	s.metrics.current.Set(float64(1 - bit(is)))
	switch was := s.older.Swap(is); {
	case is && !was:
		s.log.WarnContext(ctx, "the fleet follows another plan: this process owns nothing until it is started with that one, or the fleet follows its own")
	case was && !is:
		s.log.InfoContext(ctx, "the fleet follows the plan of this process again")
	}
}

// sinkKind is what kind of sink a text describes.
func sinkKind(spec string) string {
	if parsed, err := ParseSink(spec); err == nil {
		return parsed.Kind
	}
	kind, _, _ := strings.Cut(spec, ":")
	return kind
}

// ErrAlive means that processes still follow what should be forgotten.
var ErrAlive = errors.New("processes are alive")

// Reset forgets all that was read of a chain, which was reset itself: the next process that starts reads it from the first block on. No
// process may live.
func Reset(ctx context.Context, db *ledger.DB, chain uint64) error {
	if err := db.Migrate(ctx, Schema); err != nil {
		return err
	}
	return db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		alive, err := ledger.All(ctx, tx, "SELECT instance_id FROM nodes WHERE status = 'active' AND last_heartbeat > $1 ORDER BY instance_id", []any{now - deadAfter.Microseconds()}, ledger.Text)
		if err != nil {
			return err
		}
		if len(alive) > 0 {
			return fmt.Errorf("%w: %s: stop them first", ErrAlive, strings.Join(alive, ", "))
		}
		return forget(ctx, tx, chain)
	})
}

func forget(ctx context.Context, tx *ledger.Tx, chain uint64) error {
	if err := emptyTables(ctx, tx, chain); err != nil {
		return err
	}
	for _, query := range []ledger.SQL{
		"DELETE FROM sink_cursors WHERE unit IN (SELECT unit FROM cursors WHERE chain = $1)",
		"DELETE FROM outbox WHERE topic = '" + topic + "' AND subject IN (SELECT unit FROM cursors WHERE chain = $1)",
		"DELETE FROM backfills WHERE chain = $1",
		"DELETE FROM chain_events WHERE chain = $1",
		"DELETE FROM contracts WHERE chain = $1",
		"DELETE FROM cursors WHERE chain = $1",
		"DELETE FROM watch_blocks WHERE chain = $1",
		"DELETE FROM watch_forks WHERE chain = $1",
		"DELETE FROM watch_chains WHERE chain = $1",
		"DELETE FROM watches WHERE chain = $1",
	} {
		if _, err := tx.Exec(ctx, query, int64(chain)); err != nil {
			return err
		}
	}
	// What the next plan means is worked out again. Its numbers go on, so that no older one comes before.
	_, err := tx.Exec(ctx, "UPDATE watch_plans SET digest = ''")
	return err
}

//go:embed migrations/*.sql
var migrations embed.FS

// Schema is the watchers' tables in the ledger's database.
var Schema = ledger.Schema{Name: "watch", Files: migrations}

// FileSchema is the JSON Schema of watch.yaml, for editors. Read is stricter: it knows signatures and what must be named elsewhere.
//
//go:embed schema.json
var FileSchema []byte

// topic is the watchers' part of the ledger's outbox. The subject of a row is a unit, its kind a watch.
const topic = "watch"
