package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"golang.org/x/sync/errgroup"

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
		pages := make([][]source.Transaction, len(s.blocks))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(fetchers)
		for i, b := range s.blocks {
			group.Go(func() (err error) {
				pages[i], err = w.source.TransactionsOfBlock(ctx, b, want)
				return err
			})
		}
		err = group.Wait()
		all = slices.Concat(pages...)
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
