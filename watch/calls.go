package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
	"lockstep/watch/source"
)

// Transactions says which transactions are events of a watch, too. All that it names must hold.
type Transactions struct {
	// To and From are addresses, of which one must be the transaction's. With neither it must be to a contract that the watch follows.
	To, From []common.Address
	// Functions are those of which one must be called; none: whatever the transaction does.
	Functions []*decode.Signature
	// Failed says that transactions count that were executed and changed nothing.
	Failed bool
}

// String is a text that is the same for the same rule, in whatever order the file has its parts.
func (t *Transactions) String() string {
	var parts []string
	add := func(what string, list []string) {
		if slices.Sort(list); len(list) > 0 {
			parts = append(parts, what+" "+strings.Join(slices.Compact(list), ", "))
		}
	}
	add("to", addressTexts(t.To))
	add("from", addressTexts(t.From))
	add("calling", t.functions())
	if t.Failed {
		parts = append(parts, "failed ones, too")
	}
	return "transactions " + strings.Join(parts, "; ")
}

func (t *Transactions) functions() (list []string) {
	for _, f := range t.Functions {
		list = append(list, f.String())
	}
	return list
}

func addressTexts(list []common.Address) (texts []string) {
	for _, a := range list {
		texts = append(texts, addressText(a))
	}
	return texts
}

// Bounds of the rules of a watch.
const maxRules = 64

func (w *Watch) validateTransactions() (errs []error) {
	if len(w.Transactions) > maxRules {
		errs = append(errs, fmt.Errorf("%d rules for transactions, the maximum is %d", len(w.Transactions), maxRules))
	}
	for i := range w.Transactions {
		t := &w.Transactions[i]
		switch {
		case len(t.To) == 0 && len(t.From) == 0 && len(w.Addresses) == 0 && w.Factory == nil:
			errs = append(errs, fmt.Errorf("transactions name no address: want to or from, or addresses of the watch"))
		case len(t.To)+len(t.From) > maxAddresses:
			errs = append(errs, fmt.Errorf("transactions name %d addresses, the maximum is %d", len(t.To)+len(t.From), maxAddresses))
		case len(t.Functions) > maxEvents:
			errs = append(errs, fmt.Errorf("transactions name %d functions, the maximum is %d", len(t.Functions), maxEvents))
		}
	}
	return errs
}

// accounts are the addresses of which only transactions are followed: not their events.
func (w *Watch) accounts() (list []common.Address) {
	given := map[common.Address]struct{}{}
	for _, a := range w.Addresses {
		given[a] = struct{}{}
	}
	for i := range w.Transactions {
		for _, a := range w.Transactions[i].subjects() {
			if _, known := given[a]; !known {
				given[a] = struct{}{}
				list = append(list, a)
			}
		}
	}
	return list
}

// subjects are the addresses whose events the transactions of a rule are: those that are called, or else those that call.
func (t *Transactions) subjects() []common.Address {
	if len(t.To) > 0 {
		return t.To
	}
	return t.From
}

// rules are those of a watch, ready to be asked.
type rules struct {
	list     []rule
	accounts map[common.Address]struct{}
}

type rule struct {
	*Transactions
	to, from map[common.Address]struct{}
}

// rules returns the rules of a watch, nil for none.
func (w *Watch) rules() *rules {
	if len(w.Transactions) == 0 {
		return nil
	}
	r := &rules{accounts: setOf(w.accounts())}
	for i := range w.Transactions {
		t := &w.Transactions[i]
		r.list = append(r.list, rule{t, setOf(t.To), setOf(t.From)})
	}
	// Which address a transaction belongs to must not depend on what this process follows: rules that name addresses go first.
	slices.SortStableFunc(r.list, func(a, b rule) int {
		return cmp.Compare(bit(len(a.subjects()) == 0), bit(len(b.subjects()) == 0))
	})
	return r
}

func setOf(list []common.Address) map[common.Address]struct{} {
	set := make(map[common.Address]struct{}, len(list))
	for _, a := range list {
		set[a] = struct{}{}
	}
	return set
}

// blocksPerRead is how many blocks one step reads as a whole.
const blocksPerRead = 128

// longest is the maximum of blocks that one step reads.
func (w *worker) longest() uint64 {
	for _, c := range w.contracts {
		if len(c.watch.Transactions) > 0 {
			return min(w.chain.MaxSpan, blocksPerRead)
		}
	}
	return w.chain.MaxSpan
}

// meets tells whether a transaction is one of a rule's, as far as can be told without its outcome, and whose event it is then.
func (r *rule) meets(t *source.Transaction) (subject common.Address, function *decode.Signature, ok bool) {
	if len(r.Functions) > 0 {
		i := slices.IndexFunc(r.Functions, func(f *decode.Signature) bool {
			return len(t.Input) >= 4 && [4]byte(t.Input) == [4]byte(f.Selector[:4])
		})
		if i < 0 || t.To == nil {
			return subject, nil, false
		}
		function = r.Functions[i]
	}
	if _, in := r.from[t.From]; len(r.from) > 0 && !in {
		return subject, nil, false
	}
	if len(r.to) == 0 && len(r.from) > 0 {
		return t.From, function, true
	}
	for _, a := range []*common.Address{t.To, t.Contract} {
		if a == nil {
			continue
		}
		if _, in := r.to[*a]; in || len(r.to) == 0 {
			return *a, function, true // of a rule without addresses: if it is followed
		}
	}
	return subject, nil, false
}

// caller finds the contract of a watch whose event a transaction is, among those that take part in a step. A transaction is one event of a watch.
type caller struct {
	rules     *rules
	contracts map[common.Address]*contract
}

// callers are those of the watches that follow transactions.
func (w *worker) callers(contracts []*contract, from uint64) (list []*caller) {
	of := map[*Watch]*caller{}
	for _, c := range contracts {
		r := w.rules[c.watch]
		if r == nil || c.factory || c.watch.over(from) {
			continue
		}
		if of[c.watch] == nil {
			of[c.watch] = &caller{r, map[common.Address]*contract{}}
			list = append(list, of[c.watch])
		}
		of[c.watch].contracts[c.address] = c
	}
	return list
}

// find returns the contract, nil for none. Whether it failed counts only when that is known.
func (x *caller) find(t *source.Transaction, known bool) (*contract, *decode.Signature) {
	for i := range x.rules.list {
		r := &x.rules.list[i]
		subject, function, ok := r.meets(t)
		if !ok || known && t.Failed && !r.Failed {
			continue
		}
		if len(r.subjects()) > 0 {
			if c := x.contracts[subject]; c != nil || known {
				return c, function // else it is another process's, or has been read
			}
			continue
		}
		for _, a := range []*common.Address{t.To, t.Contract} {
			if a == nil || x.contracts[*a] == nil {
				continue
			}
			if _, account := x.rules.accounts[*a]; !account {
				return x.contracts[*a], function
			}
		}
	}
	return nil, nil
}

// readCalls reads the transactions of a span, up to its last block, that are events of contracts which take part in it.
func (w *worker) readCalls(ctx context.Context, s span, last uint64) ([]*occurrence, error) {
	callers := w.callers(s.contracts, s.from)
	if len(callers) == 0 || s.logs {
		return nil, nil
	}
	want := func(t *source.Transaction) bool {
		return slices.ContainsFunc(callers, func(x *caller) bool { c, _ := x.find(t, false); return c != nil })
	}
	var all []source.Transaction
	var err error
	if s.blocks == nil {
		all, err = w.source.TransactionsOfRange(ctx, s.from, last, want)
	} else {
		all, err = ofBlocks(ctx, s.blocks, func(ctx context.Context, b source.Block) ([]source.Transaction, error) {
			return w.source.TransactionsOfBlock(ctx, b, want)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("transactions: %w", err)
	}
	var list []*occurrence
	for i := range all {
		for _, x := range callers {
			if c, function := x.find(&all[i], true); c != nil && !c.watch.over(all[i].BlockNumber) {
				list = append(list, w.call(ctx, c, function, &all[i]))
			}
		}
	}
	return list, nil
}

const (
	// callIndex is added to the index of a transaction: it has a place behind all logs of its block.
	callIndex = 1 << 32
	// nativeEvent is what a transaction is called of which no function is asked for; functionMark begins the signature of one of which one is.
	nativeEvent, functionMark = "transaction", "function "
)

// Called is what the message of a transaction says of it.
type Called struct {
	From     string `json:"from"`
	To       string `json:"to,omitempty"` // "" for a creation
	Value    string `json:"value"`        // wei, on Hedera weibar
	Index    uint64 `json:"index"`        // in the block
	Nonce    uint64 `json:"nonce"`
	GasUsed  uint64 `json:"gasUsed"`
	Selector string `json:"selector,omitempty"` // the first four bytes of its data
	Created  string `json:"created,omitempty"`  // the contract that it made
	Failed   bool   `json:"failed,omitempty"`   // it was executed and changed nothing
}

// call is the occurrence of a transaction. Data that are not the function's are handed on as they are.
func (w *worker) call(ctx context.Context, c *contract, function *decode.Signature, t *source.Transaction) *occurrence {
	o := &occurrence{
		contract: c, event: nativeEvent, signature: nativeEvent, args: "{}", blockNumber: t.BlockNumber, blockHash: t.BlockHash.Hex(),
		txHash: t.Hash.Hex(), logIndex: callIndex + t.Index, time: t.Time,
	}
	extra := Extra{Call: &Called{From: addressText(t.From), Value: t.Value.String(), Index: t.Index, Nonce: t.Nonce, GasUsed: t.GasUsed, Failed: t.Failed}}
	if t.To != nil {
		extra.Call.To = addressText(*t.To)
	}
	if t.Created != nil && t.To == nil {
		extra.Call.Created = addressText(*t.Created)
	}
	if len(t.Input) >= 4 && t.To != nil {
		extra.Call.Selector = hexutil.Encode(t.Input[:4])
	}
	if function != nil {
		o.event, o.signature = function.Name, functionMark+function.String()
		values, err := function.DecodeCall(t.Input)
		if err != nil {
			w.log.WarnContext(ctx, "a transaction has the selector of a function and data that are not its arguments; it is handed on as it is", "function", function.String(), "to", extra.Call.To, "transaction", o.txHash, "error", err)
			extra.Undecoded, o.undecoded = true, true
		} else {
			o.args, o.values, extra.Hex = encode(values.Args), values.Args, values.Hex
		}
	}
	if (function == nil || o.undecoded || c.watch.Raw) && len(t.Input) > 0 {
		extra.Data = hexutil.Encode(t.Input)
	}
	o.extra = encode(extra)
	return o
}

// inOrder puts logs and transactions into the order of the chain.
func inOrder(logs, calls []*occurrence) []*occurrence {
	if len(calls) == 0 {
		return logs
	}
	all := append(logs, calls...)
	slices.SortStableFunc(all, func(a, b *occurrence) int {
		return cmp.Or(cmp.Compare(a.blockNumber, b.blockNumber), cmp.Compare(a.logIndex, b.logIndex))
	})
	return all
}

// Action is the transaction that an event triggers, through a sink that is a transaction manager.
type Action struct {
	On   string // the event, or the signature of one overload
	To   string // an address, or the event's argument that is one; "" for the contract of the event
	Call string // the function, like release(uint256)
	Args []string
	Pool string // of the manager's signers; "" for its default

	signature string // of the event
	function  string // in its canonical form
}

// Intent is what an action wants to happen.
type Intent struct {
	To, Function, Pool string
	Args               []any
}

// check makes an action ready, and tells what is wrong with it.
func (a *Action) check(w *Watch) error {
	events := w.eventsOf(a.On)
	switch len(events) {
	case 0:
		return fmt.Errorf("an action is on %s: there is no such event", a.On)
	case 1:
	default:
		return fmt.Errorf("an action is on %s, and there are several: want the signature of one, like %s", a.On, events[0])
	}
	event := events[0]
	a.signature = event.String()
	if a.To != "" && event.TypeOf(a.To) != "address" {
		if _, err := parseAddress(a.To); strings.HasPrefix(a.To, "0x") && err != nil {
			return fmt.Errorf("the action on %s: %w", a.On, err)
		} else if err != nil {
			return fmt.Errorf("the action on %s goes to %q, which is neither an address nor an argument of that type", a.On, a.To)
		}
	}
	if err := a.checkCall(event); err != nil {
		return fmt.Errorf("the action on %s: %w", a.On, err)
	}
	return nil
}

// checkCall checks that an event has what the function needs. Its arguments have one word each, since of others a log may have only the hash.
func (a *Action) checkCall(event *decode.Signature) error {
	f, err := decode.Parse(a.Call)
	if err != nil {
		return err
	}
	a.function = f.String()
	names := f.Args()
	if len(names) != len(a.Args) {
		return fmt.Errorf("%s has %d arguments, not %d", f, len(names), len(a.Args))
	}
	for i, name := range names {
		typ, given := f.TypeOf(name), event.TypeOf(a.Args[i])
		if typ == "string" || typ == "bytes" || strings.ContainsAny(typ, "[(") {
			return fmt.Errorf("%s: type %s cannot be passed on", f, typ)
		}
		if given != typ {
			return fmt.Errorf("%s wants %s as argument %d, and %s of %s is %q", f, typ, i+1, a.Args[i], event.Name, given)
		}
	}
	return nil
}

// validateActions checks that events are acted on once, and only when that cannot be regretted.
func (w *Watch) validateActions() []error {
	var errs []error
	seen := map[string]bool{}
	for i := range w.Actions {
		a := &w.Actions[i]
		if err := a.check(w); err != nil {
			errs = append(errs, err)
		}
		if a.signature != "" && seen[a.signature] {
			errs = append(errs, fmt.Errorf("there are two actions on %s: one event triggers one", a.On))
		}
		seen[a.signature] = true
	}
	manager := false
	for _, sink := range w.Sinks {
		manager = manager || sinkKind(sink) == SinkManager
	}
	switch {
	case manager && len(w.Actions) == 0:
		errs = append(errs, errors.New("its sink is a transaction manager, and no action says what to do"))
	case !manager && len(w.Actions) > 0:
		errs = append(errs, errors.New("it has actions, and no sink manager:URL that would carry them out"))
	case manager && w.Depth == (Depth{}):
		errs = append(errs, errors.New("a transaction cannot be taken back when its event is: with actions it needs a depth"))
	}
	return errs
}

// ActionOn returns what an event triggers, nil for nothing. Removals trigger nothing, nor do backfills that were not asked to.
func (p *Plan) ActionOn(e *Event) (*Intent, error) {
	if e.Removed || e.Undecoded || e.Backfill != nil && !e.Backfill.Act {
		return nil, nil //nolint:nilnil // nothing is to be done
	}
	w := p.watch(e.Watch)
	if w == nil {
		return nil, nil //nolint:nilnil // nothing is to be done
	}
	for i := range w.Actions {
		if a := &w.Actions[i]; a.signature == e.Signature {
			return a.intent(e)
		}
	}
	return nil, nil //nolint:nilnil // nothing is to be done
}

func (a *Action) intent(e *Event) (*Intent, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(e.Args, &args); err != nil {
		return nil, fmt.Errorf("the action on %s: %w", a.On, err)
	}
	intent := &Intent{To: a.To, Function: a.function, Pool: a.Pool}
	switch {
	case a.To == "":
		intent.To = e.Address
	case !common.IsHexAddress(a.To):
		if err := json.Unmarshal(args[a.To], &intent.To); err != nil {
			return nil, fmt.Errorf("the action on %s: its argument %s: %w", a.On, a.To, err)
		}
	}
	for _, name := range a.Args {
		if args[name] == nil {
			return nil, fmt.Errorf("the action on %s: the event has no argument %s", a.On, name)
		}
		intent.Args = append(intent.Args, args[name])
	}
	return intent, nil
}

// Event is what sinks and readers of the stream get, as one line of JSON.
type Event struct {
	ID          string          `json:"id"` // {watch}:{chain}:{block hash}:{log index}
	Chain       uint64          `json:"chain"`
	Watch       string          `json:"watch"`
	Event       string          `json:"event"`
	Signature   string          `json:"signature"` // of the event, like Released(address,uint256)
	Topic0      string          `json:"topic0"`    // its hash; of a function its selector; empty for an anonymous event
	Address     string          `json:"address"`
	BlockNumber uint64          `json:"blockNumber"`
	BlockHash   string          `json:"blockHash"`
	Transaction string          `json:"transactionHash"`
	LogIndex    uint64          `json:"logIndex"`  // of a transaction 2^32 and its index: behind all logs of its block
	Timestamp   uint64          `json:"timestamp"` // of the block, in seconds since 1970
	Args        json.RawMessage `json:"args"`
	// Removed says that the block was replaced: the event has not happened.
	Removed bool `json:"removed"`
	// EventID is the name that older consumers know: {transaction hash}:{log index}.
	EventID string `json:"event_id"`
	// Delivery is the id of this message. An event that was removed and has come back is another message.
	Delivery string `json:"deliveryId"`
	// Seq counts the messages of one watch about one contract: 1, 2, 3 …
	Seq int64 `json:"seq"`
	// Backfill names the backfill that has handed this on, if it was one.
	Backfill *Mark `json:"backfill,omitempty"`
	Extra
}

// Extra is what the messages of few events have.
type Extra struct {
	// Undecoded says that the log has the event's first topic and cannot be read by its signature: there are no arguments.
	Undecoded bool `json:"undecoded,omitempty"`
	// Topics and Data are those of the log, where it is undecoded or the watch asks for them.
	Topics []string `json:"topics,omitempty"`
	Data   string   `json:"data,omitempty"`
	// Hex has the bytes of texts that are not UTF-8, by their paths in the arguments, like "orders[2].note".
	Hex map[string]string `json:"hex,omitempty"`
	// Call says what the event's transaction is, where it is the event itself and not a log.
	Call *Called `json:"transaction,omitempty"`
}

// occurrence is an event as the ledger has it.
type occurrence struct {
	contract    *contract
	event       string
	signature   string
	args        string // JSON
	extra       string // JSON, or empty
	undecoded   bool
	blockNumber uint64
	blockHash   string
	txHash      string
	logIndex    uint64
	time        uint64
	incarnation int64
	child       *newContract   // that it announces, nil for none
	mark        *Mark          // of the backfill that hands it on, nil for none
	seq         int64          // of the last message about it that this process has made; 0: none
	values      map[string]any // the arguments, if it was read from a log or a transaction just now
}

func (o *occurrence) id(chain uint64) string {
	return fmt.Sprintf("%s:%d:%s:%d", o.contract.watch.Name, chain, o.blockHash, o.logIndex)
}

// rawOf is what a message has of a log itself.
func rawOf(topics []common.Hash, data []byte) Extra {
	e := Extra{Data: hexutil.Encode(data)}
	for _, t := range topics {
		e.Topics = append(e.Topics, t.Hex())
	}
	return e
}

// message makes the row of the outbox that tells of an event, or of its removal.
func (o *occurrence) message(chain uint64, seq int64, removed bool, now int64) ledger.Event {
	e := Event{
		ID: o.id(chain), Chain: chain, Watch: o.contract.watch.Name, Event: o.event, Signature: o.signature, Topic0: topicOf(o.signature), Address: o.contract.text,
		BlockNumber: o.blockNumber, BlockHash: o.blockHash, Transaction: o.txHash, LogIndex: o.logIndex, Timestamp: o.time,
		Args: json.RawMessage(o.args), Removed: removed, EventID: fmt.Sprintf("%s:%d", o.txHash, o.logIndex), Seq: seq, Backfill: o.mark,
	}
	if o.extra != "" {
		if err := json.Unmarshal([]byte(o.extra), &e.Extra); err != nil {
			panic(fmt.Sprintf("what this package has written is no JSON: %v", err))
		}
	}
	o.seq = seq
	e.Delivery = fmt.Sprintf("%s:%d", e.ID, o.incarnation)
	if removed {
		e.Delivery += ":removed"
	}
	return ledger.Event{Topic: topic, Subject: o.contract.unit, Kind: o.contract.watch.Name, Body: encode(e), At: now}
}

func topicOf(signature string) string {
	if signature == nativeEvent || strings.HasSuffix(signature, decode.AnonymousMark) {
		return ""
	}
	function, called := strings.CutPrefix(signature, functionMark)
	topic := crypto.Keccak256Hash([]byte(function)).Hex()
	if called {
		topic = topic[:len("0x")+8]
	}
	return topic
}

// encode writes JSON of values that always have some.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a value without JSON: %v", err))
	}
	return string(text)
}
