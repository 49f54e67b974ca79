package mirrorrest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"net/http"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

var resultParams = params{
	"block.hash":        isHash,
	"block.number":      isExactBlockNumber,
	"from":              isParty,
	"hbar":              isFlag,
	"internal":          isFlag,
	"timestamp":         isTime,
	"transaction.index": isExactCount,
}

// listResults answers contracts/results.
func listResults(r *request, q *query) (any, error) {
	if err := oneBlock(q); err != nil {
		return nil, err
	}
	return r.results(q, func(*history.EVMResult) bool { return true })
}

// listContractResults answers contracts/{id}/results.
func listContractResults(r *request, q *query) (any, error) {
	if err := oneBlock(q); err != nil {
		return nil, err
	}
	id, err := r.contractArg()
	if err != nil {
		return nil, err
	}
	return r.results(q, func(result *history.EVMResult) bool { return result.Target.Num == id })
}

// oneBlock checks that a query names a block in one way at most, and does where it wants a place in it.
func oneBlock(q *query) error {
	_, number := q.last("block.number")
	_, hash := q.last("block.hash")
	_, index := q.last("transaction.index")
	switch {
	case index && !number && !hash:
		return badRequest("Invalid parameter usage: transaction.index - transaction.index requires block.number or block.hash filter to be specified")
	case number && hash:
		return badRequest("Invalid parameter usage: block.hash - cannot combine block.number and block.hash")
	}
	return nil
}

// results lists the executed results that are wanted, within the bounds on time that the query and its block filters set.
func (r *request) results(q *query, wanted func(*history.EVMResult) bool) (any, error) {
	times := q.timestamps()
	if block, given, found := r.filterBlock(q); given {
		if !found {
			return object{"results": []any{}, "links": links{}}, nil
		}
		times.add(gte, block.From.UnixNano())
		times.add(lte, block.To.UnixNano())
	}
	senders := q.bounds("from", r.party)
	indexes := q.bounds("transaction.index", parseCount)
	internal := q.flag("internal", false)
	unit := money(q.flag("hbar", true))

	blocks := blockFinder{view: r.view}
	rows := where(r.records(&times, q.desc), func(rec *history.Record) bool {
		if !rec.Executed() || !wanted(rec.Result) || !internal && rec.ID.Nonce != 0 || !senders.allows(rec.Result.From.Num) || !indexes.allows(int64(rec.Result.Index)) {
			return false
		}
		_, kept := blocks.of(rec)
		return kept
	})
	return list(r, q, "results", rows, func(rec *history.Record) any { return resultOf(rec, blocks.last, r.chainID(), unit) }, consensusTimes()), nil
}

// filterBlock is the block that block.number or block.hash asks for.
func (r *request) filterBlock(q *query) (block *history.Block, given, found bool) {
	if text, ok := q.last("block.number"); ok {
		number, _ := parseBlockNumber(text)
		block, found = r.view.BlockByNumber(number)
		return block, true, found
	}
	if text, ok := q.last("block.hash"); ok {
		hash, _ := parseHash(text)
		block, found = r.view.BlockByHash(hash)
		return block, true, found
	}
	return nil, false, false
}

// A blockFinder finds the blocks of records that come in consensus order.
type blockFinder struct {
	view *ledger.View
	last *history.Block
}

func (f *blockFinder) of(rec *history.Record) (*history.Block, bool) {
	if f.last == nil || f.last.Number != rec.Block {
		block, ok := f.view.BlockByNumber(rec.Block)
		if !ok {
			return nil, false
		}
		f.last = block
	}
	return f.last, true
}

// getResult answers contracts/results/{transactionIdOrHash}.
func getResult(r *request, q *query) (any, error) {
	rec, err := r.evmRecord(r.args[0], q.count("nonce", 0))
	if err != nil {
		return nil, err
	}
	if rec.Result == nil {
		return nil, notFound()
	}
	return r.detailedResult(rec, q)
}

// getResultAt answers contracts/{id}/results/{timestamp}.
func getResultAt(r *request, q *query) (any, error) {
	if !isTime(eq, r.args[1]) {
		return nil, invalidParameter("timestamp")
	}
	id, err := r.contractArg()
	if err != nil {
		return nil, err
	}
	ns, _ := parseNanos(r.args[1])
	rec, ok := r.view.RecordAt(hedera.FromNanos(ns))
	if !ok || rec.Result == nil || !involves(rec.Result, id) {
		return nil, notFound()
	}
	return r.detailedResult(rec, q)
}

// involves tells whether a contract was called, created or heard in a result.
func involves(res *history.EVMResult, id int64) bool {
	return res.Target.Num == id ||
		slices.ContainsFunc(res.Created, func(c hedera.ID) bool { return c.Num == id }) ||
		slices.ContainsFunc(res.Logs, func(l *history.Log) bool { return l.Contract.Num == id }) ||
		slices.ContainsFunc(res.Actions, func(a history.Action) bool { return a.Recipient.Num == id })
}

// detailedResult writes one result; the status tells when what the function
// returned is unknown.
func (r *request) detailedResult(rec *history.Record, q *query) (any, error) {
	block, ok := r.view.BlockByNumber(rec.Block)
	if !ok {
		return nil, notFound()
	}
	out := detailedResultOf(rec, block, r.chainID(), money(q.flag("hbar", true)))
	if out["call_result"] == nil {
		r.status = http.StatusPartialContent
	}
	return out, nil
}

// evmRecord finds the record that a hash or a transaction id with a nonce names.
// For a hash it has an EVM result.
func (r *request) evmRecord(text string, nonce int64) (*history.Record, error) {
	if hash, ok := parseHash(text); ok {
		if rec := r.byHash(hash); rec != nil {
			return rec, nil
		}
		return nil, notFound()
	}
	records, err := r.recordsByID(text)
	if err != nil {
		return nil, err
	}
	var found *history.Record
	for _, rec := range records {
		if int64(rec.ID.Nonce) == nonce && (found == nil || found.Result == nil) {
			found = rec
		}
	}
	if found == nil {
		return nil, notFound()
	}
	return found, nil
}

// byHash chooses among the attempts to handle an Ethereum transaction: the one
// that succeeded, else the newest that the EVM executed, else the newest. A hash
// that is no Ethereum transaction's may be the start of a native one's.
func (r *request) byHash(hash []byte) *history.Record {
	var best *history.Record
	if len(hash) == common.HashLength {
		for _, rec := range r.view.RecordsByEthereumHash(common.BytesToHash(hash)) {
			if rec.Result != nil && (best == nil || rank(rec) >= rank(best)) {
				best = rec
			}
		}
	}
	if best != nil {
		return best
	}
	for _, rec := range r.view.RecordsByHash(hash) {
		if rec.Result != nil && !rec.IsChild() && bytes.HasPrefix(rec.Hash[:], hash) {
			return rec
		}
	}
	return nil
}

func rank(rec *history.Record) int {
	switch {
	case hedera.Succeeded(rec.Status):
		return 2
	case rec.Executed():
		return 1
	default:
		return 0
	}
}

// recordsByID finds the records of a transaction id in a path.
func (r *request) recordsByID(text string) ([]*history.Record, error) {
	id, err := hedera.ParseTransactionID(text)
	if err != nil {
		return nil, badRequest(`Invalid Transaction id. Please use "shard.realm.num-sss-nnn" format where sss are seconds and nnn are nanoseconds`)
	}
	scheduled := id
	scheduled.Scheduled = true
	return append(slices.Clone(r.view.RecordsByID(id)), r.view.RecordsByID(scheduled)...), nil
}

func (r *request) chainID() *big.Int { return new(big.Int).SetUint64(r.view.ChainID()) }

// money is the unit of amounts and prices in an answer.
type money bool

const (
	tinybars money = true
	weibars  money = false
)

// ofWeibar writes a signed amount or price, given in weibar as it was signed.
func (m money) ofWeibar(v *big.Int) *big.Int {
	if m == weibars || v == nil {
		return v
	}
	return new(big.Int).Quo(v, big.NewInt(hedera.WeibarPerTinybar))
}

func (m money) ofTinybar(v hedera.Tinybar) *big.Int {
	if m == tinybars {
		return big.NewInt(int64(v))
	}
	return v.Weibar()
}

var emptyBloom = hexutil.Encode(make([]byte, types.BloomByteLength))

// resultOf writes a record that has an EVM result, of whatever kind of transaction it came.
func resultOf(rec *history.Record, block *history.Block, chainID *big.Int, unit money) object {
	res := rec.Result
	out := object{
		"access_list":              []any{},
		"address":                  nil,
		"amount":                   json.Number(unit.ofTinybar(res.Amount).String()),
		"block_gas_used":           block.GasUsed,
		"block_hash":               hexutil.Encode(block.Hash[:]),
		"block_number":             block.Number,
		"bloom":                    bloomText(res),
		"call_result":              nil,
		"chain_id":                 quantityText(chainID),
		"contract_id":              idText(res.Target),
		"created_contract_ids":     each(res.Created, hedera.ID.String),
		"error_message":            errorMessage(rec),
		"failed_initcode":          nil,
		"from":                     nil,
		"function_parameters":      hexutil.Encode(res.Input),
		"gas_consumed":             res.GasUsed,
		"gas_limit":                res.GasLimit,
		"gas_price":                quantityText(big.NewInt(int64(res.GasPrice))),
		"gas_used":                 res.GasUsed,
		"hash":                     hexutil.Encode(transactionHash(rec)),
		"max_fee_per_gas":          nil,
		"max_priority_fee_per_gas": nil,
		"nonce":                    nil,
		"r":                        nil,
		"result":                   rec.Status.String(),
		"s":                        nil,
		"status":                   "0x0",
		"timestamp":                rec.Consensus.String(),
		"to":                       nil,
		"transaction_index":        nil,
		"type":                     0,
		"v":                        nil,
	}
	if res.Address != (history.EVMResult{}).Address {
		out["address"] = addressText(res.Address)
	}
	if !res.From.IsZero() {
		// The long-zero form even where the sender has an alias.
		out["from"] = addressText(res.From.LongZero())
	}
	switch {
	case len(res.To) > 0:
		out["to"] = hexutil.Encode(res.To)
	case res.Create && !res.Target.IsZero():
		out["to"] = addressText(res.Target.LongZero()) // which tells clients what was created
	}
	if res.HasResult {
		out["call_result"] = hexutil.Encode(res.Output)
	}
	if rec.Executed() {
		out["transaction_index"] = res.Index
	}
	if hedera.Succeeded(rec.Status) {
		out["status"] = "0x1"
	} else if len(res.Input) > 0 {
		out["failed_initcode"] = hexutil.Encode(res.Input)
	}
	if res.Raw != nil {
		addEthereum(out, res.Raw, unit)
	}
	return out
}

// addEthereum fills in the fields of a signed transaction.
func addEthereum(out object, raw []byte, unit money) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		panic(err) // the ledger has executed it
	}
	v, r, s := tx.RawSignatureValues()
	out["amount"] = json.Number(unit.ofWeibar(tx.Value()).String())
	out["chain_id"] = "0x"
	out["gas_price"], out["max_fee_per_gas"], out["max_priority_fee_per_gas"] = "0x", "0x", "0x"
	out["nonce"], out["type"] = tx.Nonce(), tx.Type()
	out["r"], out["s"], out["v"] = hexutil.Encode(r.Bytes()), hexutil.Encode(s.Bytes()), v.Uint64()
	if tx.ChainId().Sign() > 0 { // else it is signed for any chain
		out["chain_id"] = quantityText(tx.ChainId())
	}
	if tx.Type() == types.LegacyTxType || tx.Type() == types.AccessListTxType {
		out["gas_price"] = quantityText(unit.ofWeibar(tx.GasPrice()))
	} else {
		out["max_fee_per_gas"] = quantityText(unit.ofWeibar(tx.GasFeeCap()))
		out["max_priority_fee_per_gas"] = quantityText(unit.ofWeibar(tx.GasTipCap()))
	}
	if list := tx.SetCodeAuthorizations(); len(list) > 0 { // only where there are any
		out["authorization_list"] = each(list, func(a types.SetCodeAuthorization) object {
			return object{
				"address": addressText(a.Address), "chain_id": quantityText(a.ChainID.ToBig()), "nonce": a.Nonce,
				"r": hexutil.Encode(a.R.PaddedBytes(32)), "s": hexutil.Encode(a.S.PaddedBytes(32)), "y_parity": quantityText(big.NewInt(int64(a.V))),
			}
		})
	}
	out["access_list"] = each(tx.AccessList(), func(entry types.AccessTuple) object {
		return object{"address": addressText(entry.Address), "storage_keys": words(entry.StorageKeys)}
	})
}

// detailedResultOf adds logs and state changes.
func detailedResultOf(rec *history.Record, block *history.Block, chainID *big.Int, unit money) object {
	out := resultOf(rec, block, chainID, unit)
	out["logs"] = each(rec.Result.Logs, resultLogOf)
	out["state_changes"] = each(rec.Result.StateChanges, func(c history.StateChange) object {
		change := object{
			"address":       addressText(c.Address),
			"contract_id":   idText(c.Contract),
			"slot":          hexutil.Encode(c.Slot[:]),
			"value_read":    hexutil.Encode(c.Read[:]),
			"value_written": nil,
		}
		if c.Written != nil {
			change["value_written"] = hexutil.Encode(c.Written[:])
		}
		return change
	})
	return out
}

func bloomText(res *history.EVMResult) string {
	switch {
	case res.Bloom != nil:
		return hexutil.Encode(res.Bloom[:])
	case res.HasResult:
		return emptyBloom
	default:
		return "0x"
	}
}

// errorMessage is null on success and never on failure: what failed without a
// message goes by the name of its status.
func errorMessage(rec *history.Record) *string {
	switch {
	case hedera.Succeeded(rec.Status):
		return nil
	case rec.Result.ErrorMessage != "":
		return &rec.Result.ErrorMessage
	default:
		return new(rec.Status.String())
	}
}

// records yields those of a view that lie within the bounds on consensus time. The ledger keeps so few that who wants
// those of one entity looks through them all.
func (r *request) records(times *bounds, desc bool) iter.Seq[*history.Record] {
	low, high := times.span()
	records := r.view.Records(fromNanos(low), fromNanos(min(high, r.view.Time().UnixNano())), desc)
	return where(records, func(rec *history.Record) bool { return times.allows(rec.Consensus.UnixNano()) })
}

// fromNanos is hedera.FromNanos for bounds, which may be open: time starts at 0.
func fromNanos(ns int64) hedera.Timestamp { return hedera.FromNanos(max(ns, 0)) }

// concerns tells whether an account paid for a transaction, or the transaction moved what it has.
func concerns(rec *history.Record, account hedera.ID) bool {
	return rec.ID.Payer == account ||
		slices.ContainsFunc(rec.Transfers, func(t history.Transfer) bool { return t.Account == account }) ||
		slices.ContainsFunc(rec.Did().Tokens, func(t history.TokenTransfer) bool { return t.Account == account }) ||
		slices.ContainsFunc(rec.Did().NFTs, func(t history.NFTTransfer) bool { return t.Sender == account || t.Receiver == account })
}

// listActions answers contracts/results/{transactionIdOrHash}/actions: the tree of
// calls, in the order they were entered.
func listActions(r *request, q *query) (any, error) {
	rec, err := r.evmRecord(r.args[0], 0)
	if err != nil {
		return nil, err
	}
	var actions []history.Action
	if rec.Result != nil {
		actions = rec.Result.Actions
	}
	return list(r, q, "actions", indexes(len(actions), q.desc), func(i int) any {
		return actionOf(i, &actions[i], rec.Consensus)
	}, byNumber("index", func(i int) int64 { return int64(i) })), nil
}

// indexes yields the numbers below n.
func indexes(n int, desc bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if desc {
				i = n - 1 - i
			}
			if !yield(i) {
				return
			}
		}
	}
}

func actionOf(index int, a *history.Action, at hedera.Timestamp) object {
	out := object{
		"call_depth":          a.Depth,
		"call_operation_type": a.Operation,
		"call_type":           a.CallType,
		"caller":              idText(a.Caller),
		"caller_type":         entityType(a.CallerIsCode),
		"from":                addressText(a.Caller.LongZero()),
		"gas":                 a.Gas,
		"gas_used":            a.GasUsed,
		"index":               index,
		"input":               hexutil.Encode(a.Input),
		"recipient":           idText(a.Recipient),
		"recipient_type":      nil,
		"result_data":         hexutil.Encode(a.Result),
		"result_data_type":    a.ResultType,
		"timestamp":           at.String(),
		"to":                  nil,
		"value":               a.Value,
	}
	switch {
	case !a.Recipient.IsZero():
		out["recipient_type"] = entityType(a.RecipientCode)
		out["to"] = addressText(a.Recipient.LongZero())
	case a.To != (common.Address{}):
		out["to"] = addressText(a.To) // aimed at what is no entity
	}
	return out
}

func entityType(contract bool) string {
	if contract {
		return "CONTRACT"
	}
	return "ACCOUNT"
}

// An opcodeJSON is one step; a trace may have a great many.
type opcodeJSON struct {
	Depth   int               `json:"depth"`
	Gas     uint64            `json:"gas"`
	GasCost uint64            `json:"gas_cost"`
	Memory  []string          `json:"memory"`
	Op      string            `json:"op"`
	PC      uint64            `json:"pc"`
	Reason  *string           `json:"reason"`
	Stack   []string          `json:"stack"`
	Storage map[string]string `json:"storage"`
}

// listOpcodes answers contracts/results/{transactionIdOrHash}/opcodes: it replays
// the transaction on the state it had and lists the steps. Traces are long, so
// like other mirror nodes it insists on clients that could take them compressed.
func listOpcodes(r *request, q *query) (any, error) {
	if !strings.Contains(strings.ToLower(r.Request.Header.Get("Accept-Encoding")), "gzip") {
		return nil, detailed(http.StatusNotAcceptable, "Accept-Encoding must include gzip")
	}
	rec, err := r.evmRecord(r.args[0], 0)
	if err != nil {
		return nil, err
	}
	if !rec.Executed() || rec.Result.Refused {
		return nil, detailed(http.StatusNotFound, "Contract result not found")
	}
	with := evm.OpcodeOptions{
		Memory:  q.flag("memory", false),
		Stack:   q.flag("stack", true),
		Storage: q.flag("storage", false),
	}
	trace, err := r.view.Opcodes(r.Context(), rec, with)
	if errors.Is(err, evm.ErrTraceTooLarge) {
		return nil, detailed(http.StatusBadRequest, "The trace is too large: leave out memory, stack or storage")
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	steps := make([]opcodeJSON, len(trace.Steps))
	for i := range trace.Steps {
		steps[i] = opcodeOf(&trace.Steps[i], with)
	}
	return object{
		"address":      addressText(rec.Result.Address),
		"contract_id":  idText(rec.Result.Target),
		"failed":       trace.Failed,
		"gas":          trace.GasUsed,
		"opcodes":      steps,
		"return_value": hexutil.Encode(trace.ReturnValue),
	}, nil
}

func opcodeOf(s *evm.Opcode, with evm.OpcodeOptions) opcodeJSON {
	out := opcodeJSON{Depth: s.Depth, Gas: s.Gas, GasCost: s.GasCost, Op: s.Op, PC: s.PC}
	if with.Memory {
		out.Memory = words(s.Memory)
	}
	if with.Stack {
		out.Stack = words(s.Stack)
	}
	if with.Storage {
		out.Storage = make(map[string]string, len(s.Storage))
		for slot, value := range s.Storage {
			out.Storage[hexutil.Encode(slot[:])] = hexutil.Encode(value[:])
		}
	}
	if len(s.Reason) > 0 {
		out.Reason = new(hexutil.Encode(s.Reason))
	}
	return out
}

func words(list []common.Hash) []string {
	return each(list, func(w common.Hash) string { return hexutil.Encode(w[:]) })
}
