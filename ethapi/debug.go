package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror"
	"lockstep/rpc"
)

// debugMethods are the rows of the debug namespace.
func (a *API) debugMethods() []rpc.Method {
	anyBlock := rpc.Required(anyBlockRule(a.blockRule()))
	txHash := rpc.Required(txHashRule())
	options := rpc.Optional(tracerOptionsRule())
	row := func(name string, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		return row(name, gate(a.cfg.Debug.Enabled, handler), params...)
	}
	return []rpc.Method{
		heavy(weightTrace, row("debug_traceTransaction", a.traceTransaction, txHash, options)),
		heavy(weightTrace, row("debug_traceBlockByNumber", a.traceBlock, rpc.Required(a.blockRule()), options)),
		heavy(weightTrace, row("debug_traceBlockByHash", a.traceBlock, rpc.Required(blockHashRule()), options)),
		row("debug_traceCall", a.traceCall, rpc.Required(transactionRule()), rpc.Nullable(anyBlock.Rule), rpc.Nullable(options.Rule)),
		row("debug_getRawHeader", a.getRawHeader, anyBlock),
		heavy(weightLists, row("debug_getRawBlock", a.getRawBlock, anyBlock)),
		heavy(weightLists, row("debug_getRawReceipts", a.getRawReceipts, anyBlock)),
		row("debug_getRawTransaction", a.getRawTransaction, txHash),
		row("debug_getBadBlocks", func(context.Context, *rpc.Params) (any, error) { return json.RawMessage("[]"), nil }),
	}
}

// gate is a handler, if it is on. The parameters are checked before it.
func gate(on bool, h rpc.Handler) rpc.Handler {
	if on {
		return h
	}
	return func(context.Context, *rpc.Params) (any, error) { return nil, eth.ErrUnsupportedMethod }
}

// Names of the tracers.
const (
	tracerCalls    = "callTracer"
	tracerOpcodes  = "opcodeLogger"
	tracerPrestate = "prestateTracer"
)

// traceOptions say how to trace.
type traceOptions struct {
	tracer string
	// Of the call tracer; onlyTop is of the prestate tracer, too.
	onlyTop, withLog bool
	// Of the prestate tracer.
	diff, noCode, withEmpty bool
	// Of the opcode logger. limit ends the list of instructions after that many bytes; with 0 only the relay's
	// own limit holds.
	memory, noStack, noStorage bool
	limit                      int64
}

// readTraceOptions reads options that their rule has accepted. Those of the opcode logger may stand at the top
// level. Unknown options are ignored.
func readTraceOptions(v jsonx.Value, tracer string) traceOptions {
	o := traceOptions{tracer: tracer}
	if name := v.Field("tracer").Text(); name != "" {
		o.tracer = name
	}
	for _, object := range []jsonx.Value{v, v.Field("tracerConfig")} {
		for name, value := range object.Fields() {
			o.set(name, value)
		}
	}
	return o
}

func (o *traceOptions) set(name string, value jsonx.Value) {
	switch name {
	case "onlyTopCall":
		o.onlyTop = value.Bool()
	case "withLog":
		o.withLog = value.Bool()
	case "diffMode":
		o.diff = value.Bool()
	case "disableCode":
		o.noCode = value.Bool()
	case "includeEmpty":
		o.withEmpty = value.Bool()
	case "enableMemory":
		o.memory = value.Bool()
	case "disableStack":
		o.noStack = value.Bool()
	case "disableStorage":
		o.noStorage = value.Bool()
	case "limit":
		if n, ok := value.Uint64(); ok && value.IsNumber() {
			o.limit = int64(min(n, 1<<62))
		}
	}
}

// subject is a transaction to trace.
type subject struct {
	hash common.Hash
	// result is the record of it; nil for a synthetic transaction, of which only logs are known.
	result *mirror.ContractResult
	logs   []*eth.Log
	first  *mirror.Log // of a synthetic transaction
}

// traceTransaction is debug_traceTransaction.
func (a *API) traceTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	options := readTraceOptions(p.At(1), tracerOpcodes)
	s := subject{hash: hashOf(p.At(0))}
	var err error
	s.result, err = a.mirror.ContractResult(ctx, s.hash)
	missing, err := notFound(err)
	switch {
	case err != nil:
		return nil, err
	case missing:
		logs, err := a.mirror.Logs(ctx, mirror.LogsQuery{Transaction: &s.hash})
		if err != nil {
			return nil, err
		}
		if len(logs) == 0 {
			return nil, eth.ErrNotFound("Failed to retrieve transaction information for %s", s.hash)
		}
		s.result, s.logs, s.first = nil, buildLogs(logs), logs[0]
	case s.result.Complete():
		s.logs = resultLogs(s.result)
	}
	return a.trace(ctx, s, options)
}

// traceBlock is debug_traceBlockByNumber and debug_traceBlockByHash.
func (a *API) traceBlock(ctx context.Context, p *rpc.Params) (any, error) {
	options := readTraceOptions(p.At(1), tracerCalls)
	block, err := a.blockParam(ctx, p)
	if err != nil {
		return nil, err
	}
	if block == nil {
		return nil, eth.ErrNotFound("Block %s not found", p.Text(0))
	}
	subjects, err := a.subjects(ctx, block)
	if err != nil {
		return nil, err
	}
	if len(subjects) >= a.cfg.MaxFullTransactions {
		return nil, eth.ErrBlockTooLarge(len(subjects))
	}
	traces := make([]blockTrace, len(subjects))
	room := &traceRoom{most: a.cfg.Debug.MaxBytes, holding: capacity.FromContext(ctx)}
	err = each(ctx, a.cfg.Concurrency, subjects, func(ctx context.Context, i int, s subject) error {
		result, err := a.trace(ctx, s, options)
		if err != nil {
			return err
		}
		traces[i].Hash = s.hash
		traces[i].Result, err = room.encode(result)
		return err
	})
	if err != nil {
		return nil, err
	}
	return traces, nil
}

// blockTrace is the trace of one transaction of a block.
type blockTrace struct {
	Hash   common.Hash     `json:"txHash"`
	Result json.RawMessage `json:"result"`
}

// subjects returns the transactions of a block in their order.
func (a *API) subjects(ctx context.Context, block *mirror.Block) ([]subject, error) {
	if block.Count == 0 {
		return nil, nil
	}
	results, logs, err := a.listed(ctx, block)
	if err != nil {
		return nil, err
	}
	var c contents
	c.fill(results, logs)
	byHash := make(map[common.Hash]*mirror.ContractResult, len(results))
	for _, r := range results {
		byHash[r.Hash] = r
	}
	subjects := make([]subject, len(c.entries))
	for i, e := range c.entries {
		subjects[i] = subject{hash: e.receipt.TxHash, result: byHash[e.receipt.TxHash], logs: e.receipt.Logs, first: e.synthetic}
	}
	return subjects, nil
}

// trace traces one transaction.
func (a *API) trace(ctx context.Context, s subject, o traceOptions) (any, error) {
	switch o.tracer {
	case tracerCalls:
		return a.traceCalls(ctx, s, o)
	case tracerPrestate:
		return a.tracePrestate(ctx, s, o)
	}
	return a.traceOpcodes(ctx, s, o)
}

func (a *API) hiero() bool { return a.deps.Profile == rpc.ProfileHiero }

// refusedReplay tells that a transaction cannot be shown step by step. Other parts of it can still be shown.
func refusedReplay(err error) bool {
	var upstream *mirror.Error
	var client *eth.Error
	return errors.Is(err, mirror.ErrNotFound) || errors.As(err, &upstream) || errors.As(err, &client)
}

// The raw encodings are Ethereum's own and decode with its tools. They hold what the
// objects of the other methods hold, so that
//
//   - a header does not hash to the block's hash, which is made of Hedera's block;
//   - a transaction that was signed hashes to its own hash, unless the network kept
//     less of it than was sent;
//   - a transaction that nobody signed for Ethereum, a native call or a synthetic one,
//     has the signature 0, 0, 0;
//   - in profile hiero a block is one flat list.

// getRawHeader is debug_getRawHeader: 0x if there is no such block.
func (a *API) getRawHeader(ctx context.Context, p *rpc.Params) (any, error) {
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return hexutil.Bytes{}, err
	}
	return encodedBytes(a.header(c.block(false)))
}

// getRawBlock is debug_getRawBlock: 0x if there is no such block.
func (a *API) getRawBlock(ctx context.Context, p *rpc.Params) (any, error) {
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return hexutil.Bytes{}, err
	}
	if a.hiero() {
		return a.flatBlock(c)
	}
	body := types.Body{Withdrawals: types.Withdrawals{}}
	for _, e := range c.entries {
		tx, err := e.transaction.Signed()
		if err != nil {
			return nil, err
		}
		body.Transactions = append(body.Transactions, tx)
	}
	return encodedBytes(types.NewBlockWithHeader(a.header(c.block(false))).WithBody(body))
}

// flatBlock is a raw block as the TypeScript relay writes it: the header's fields, the
// encoded transactions, no uncles and no withdrawals, all in one list.
func (a *API) flatBlock(c *contents) (any, error) {
	head, err := rlp.EncodeToBytes(a.header(c.block(false)))
	if err != nil {
		return nil, err
	}
	fields, err := rlp.SplitListValues(head)
	if err != nil {
		return nil, err
	}
	transactions := make([][]byte, len(c.entries))
	for i, e := range c.entries {
		if transactions[i], err = e.transaction.Encoding(); err != nil {
			return nil, err
		}
	}
	list := make([]any, 0, len(fields)+3)
	for _, field := range fields {
		list = append(list, rlp.RawValue(field))
	}
	return encodedBytes(append(list, transactions, []any{}, []any{}))
}

// getRawReceipts is debug_getRawReceipts: an empty list if there is no such block.
func (a *API) getRawReceipts(ctx context.Context, p *rpc.Params) (any, error) {
	raw := []hexutil.Bytes{}
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return raw, err
	}
	for _, e := range c.entries {
		receipt := e.receipt.Consensus()
		if e.receipt.Root != nil {
			receipt.PostState = e.receipt.Root[:]
		}
		text, err := receipt.MarshalBinary()
		if err != nil {
			return nil, err
		}
		raw = append(raw, text)
	}
	return raw, nil
}

// getRawTransaction is debug_getRawTransaction: 0x if there is no such transaction, or
// if it never ran.
func (a *API) getRawTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	hash := hashOf(p.At(0))
	result, err := a.mirror.ContractResult(ctx, hash)
	missing, err := notFound(err)
	if err != nil {
		return nil, err
	}
	b := a.builder()
	var tx *eth.Transaction
	switch {
	case missing:
		logs, err := a.mirror.Logs(ctx, mirror.LogsQuery{Transaction: &hash})
		if err != nil {
			return nil, err
		}
		if len(logs) > 0 {
			tx = b.syntheticTransaction(buildLogs(logs[:1])[0])
		}
	case result.Complete():
		tx = b.transaction(result)
	}
	if tx == nil {
		return hexutil.Bytes{}, nil
	}
	raw, err := tx.Encoding()
	if err != nil {
		return nil, err
	}
	return hexutil.Bytes(raw), nil
}

// rawContents reads the block of parameter 0; nil without an error if there is none.
func (a *API) rawContents(ctx context.Context, p *rpc.Params) (*contents, error) {
	block, err := a.blockParam(ctx, p)
	if block == nil || err != nil {
		return nil, err
	}
	return a.contents(ctx, block)
}

// rewardAccount is where the network collects what it pays to its nodes. Profile hiero
// names it as the beneficiary of a raw header.
const rewardAccount = 801

// header is a block's header in go-ethereum's form.
func (a *API) header(b *eth.Block) *types.Header {
	h := &types.Header{
		ParentHash: b.ParentHash, UncleHash: b.UnclesHash, Root: b.StateRoot, TxHash: b.TxRoot,
		ReceiptHash: b.ReceiptsRoot, Bloom: b.Bloom, Difficulty: new(big.Int), Number: new(big.Int).SetUint64(uint64(b.Number)),
		GasLimit: uint64(b.GasLimit), GasUsed: uint64(b.GasUsed), Time: uint64(b.Time), BaseFee: b.BaseFee.ToInt(), WithdrawalsHash: &b.WithdrawalsRoot,
	}
	if a.hiero() {
		h.Coinbase = hedera.Entity(rewardAccount).LongZero()
	}
	return h
}

func encodedBytes(v any) (any, error) {
	raw, err := rlp.EncodeToBytes(v)
	return hexutil.Bytes(raw), err
}
