package ethapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
	"lockstep/rpc"
)

// traceOpcodes lists the instructions of a transaction. The list is empty if it ran none, or if the mirror node
// does not know them.
func (a *API) traceOpcodes(ctx context.Context, s subject, o traceOptions) (any, error) {
	if !a.cfg.Debug.OpcodeLogger {
		return nil, eth.ErrUnsupportedMethod
	}
	trace := &opcodeTrace{options: o, hiero: a.hiero(), most: a.cfg.Debug.MaxBytes, Opcodes: new(mirror.Opcodes)}
	if s.result == nil {
		return trace.encoded()
	}
	if !s.result.Complete() {
		trace.Failed = true
		return trace.encoded()
	}
	var text json.RawMessage
	err := a.replay(ctx, s.hash, mirror.OpcodesQuery{Stack: !o.noStack, Memory: o.memory, Storage: !o.noStorage}, func(steps *mirror.Opcodes) (err error) {
		trace.Opcodes = steps
		text, err = trace.encoded()
		return err
	})
	if errors.Is(err, mirror.ErrNotFound) {
		trace.Failed = s.result.Status == 0
		return trace.encoded()
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// replay makes the mirror node run a transaction again. The answer can be large, so few are held at the same
// time, and only until use returns.
func (a *API) replay(ctx context.Context, hash common.Hash, q mirror.OpcodesQuery, use func(*mirror.Opcodes) error) error {
	select {
	case a.replays <- struct{}{}:
		defer func() { <-a.replays }()
	case <-ctx.Done():
		return ctx.Err()
	}
	q.MaxBytes = a.cfg.Debug.MaxBytes
	trace, err := a.mirror.Opcodes(ctx, hash, q)
	if errors.Is(err, mirror.ErrTooLong) {
		return eth.ErrTraceTooLarge(a.cfg.Debug.MaxBytes)
	}
	if err != nil {
		return err
	}
	return use(trace)
}

// opcodeTrace is a trace as clients see it. Profile hiero writes words without 0x, and null for missing parts;
// profile ethereum writes what go-ethereum does.
type opcodeTrace struct {
	*mirror.Opcodes
	options traceOptions
	hiero   bool
	most    int64
}

// encoded encodes the trace, so that the memory of its source is free.
func (t *opcodeTrace) encoded() (json.RawMessage, error) {
	dst := append([]byte(nil), `{"gas":`...)
	dst = strconv.AppendUint(dst, t.Gas, 10)
	dst = append(dst, `,"failed":`...)
	dst = strconv.AppendBool(dst, t.Failed)
	dst = append(dst, `,"returnValue":"`...)
	if !t.hiero {
		dst = append(dst, "0x"...)
	}
	dst = append(hex.AppendEncode(dst, t.Return), `","structLogs":[`...)
	first := int64(len(dst))
	for i := range t.Steps {
		if limit := t.options.limit; limit > 0 && int64(len(dst))-first > limit {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.appendStep(dst, &t.Steps[i])
		if int64(len(dst)) > t.most {
			return nil, eth.ErrTraceTooLarge(t.most)
		}
	}
	return append(dst, "]}"...), nil
}

func (t *opcodeTrace) appendStep(dst []byte, s *mirror.Step) []byte {
	dst = append(dst, `{"pc":`...)
	dst = strconv.AppendUint(dst, s.PC, 10)
	dst = append(dst, `,"op":`...)
	dst = append(dst, quoted(s.Op)...)
	dst = append(dst, `,"gas":`...)
	dst = strconv.AppendUint(dst, s.Gas, 10)
	dst = append(dst, `,"gasCost":`...)
	dst = strconv.AppendUint(dst, s.Cost, 10)
	dst = append(dst, `,"depth":`...)
	dst = strconv.AppendInt(dst, int64(s.Depth), 10)
	if t.hiero {
		dst = t.appendWords(dst, "stack", s.Stack, !t.options.noStack, appendPlain)
		dst = t.appendWords(dst, "memory", s.Memory, t.options.memory, appendPlain)
		dst = t.appendStorage(dst, s.Storage)
		dst = append(dst, `,"reason":`...)
		if s.Reason == "" {
			return append(dst, "null}"...)
		}
		return append(append(dst, quoted(strings.TrimPrefix(s.Reason, "0x"))...), '}')
	}
	if s.Reason != "" {
		dst = append(append(dst, `,"error":`...), quoted(haltText(string(errorBytes(s.Reason))))...)
	}
	dst = t.appendWords(dst, "stack", s.Stack, !t.options.noStack, appendQuantity)
	dst = t.appendWords(dst, "memory", s.Memory, t.options.memory && len(s.Memory) > 0, appendWord)
	dst = t.appendStorage(dst, s.Storage)
	return append(dst, '}')
}

// appendWords appends a list of words. A list that was not asked for is null, or left out as in go-ethereum.
func (t *opcodeTrace) appendWords(dst []byte, name string, words []common.Hash, asked bool, word func([]byte, common.Hash) []byte) []byte {
	if !asked && !t.hiero {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	if !asked {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, w := range words {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(word(append(dst, '"'), w), '"')
	}
	return append(dst, ']')
}

func (t *opcodeTrace) appendStorage(dst []byte, words []mirror.Word) []byte {
	if !t.hiero && (len(words) == 0 || t.options.noStorage) {
		return dst
	}
	dst = append(dst, `,"storage":`...)
	if t.options.noStorage {
		return append(dst, "null"...)
	}
	words = slices.Clone(words)
	slices.SortFunc(words, func(a, b mirror.Word) int { return a.Slot.Cmp(b.Slot) })
	word := appendWord
	if t.hiero {
		word = appendPlain
	}
	dst = append(dst, '{')
	for i, w := range words {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(word(append(dst, '"'), w.Slot), `":"`...)
		dst = append(word(dst, w.Value), '"')
	}
	return append(dst, '}')
}

func appendPlain(dst []byte, w common.Hash) []byte { return hex.AppendEncode(dst, w[:]) }

func appendWord(dst []byte, w common.Hash) []byte { return appendPlain(append(dst, "0x"...), w) }

// appendQuantity leaves out leading zeros.
func appendQuantity(dst []byte, w common.Hash) []byte {
	start := len(dst)
	dst = appendPlain(append(dst, "0x"...), w)
	digits := dst[start+2:]
	zeros := 0
	for zeros < len(digits)-1 && digits[zeros] == '0' {
		zeros++
	}
	return append(dst[:start+2], digits[zeros:]...)
}

// traceRoom is how many bytes of traces an answer may still hold.
type traceRoom struct {
	most    int64
	holding *capacity.Holding
	mu      sync.Mutex
	used    int64 // guarded by mu
}

// encode encodes a trace if there is room for it.
func (b *traceRoom) encode(result any) (json.RawMessage, error) {
	text, ok := result.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(result); err != nil {
			return nil, err
		}
	}
	if err := b.holding.Take(len(text)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used += int64(len(text)); b.used > b.most {
		return nil, eth.ErrTraceTooLarge(b.most)
	}
	return text, nil
}

// traceCall is debug_traceCall: a trace of a call that is not put into a block, in
// go-ethereum's form in both profiles.
func (a *API) traceCall(ctx context.Context, p *rpc.Params) (any, error) {
	options := p.At(2)
	o := readTraceOptions(options, tracerOpcodes)
	if o.tracer == tracerOpcodes && !a.cfg.Debug.OpcodeLogger {
		return nil, eth.ErrUnsupportedMethod
	}
	if options.Field("txIndex").Given() {
		return nil, eth.ErrInvalidArguments("txIndex is not supported: the state is that of the end of the block")
	}
	return a.simulateCall(ctx, p, argument{2, options.Field("stateOverrides")}, argument{2, options.Field("blockOverrides")}, func(s *simulation, block evm.Block, message evm.Message) (any, error) {
		switch o.tracer {
		case tracerCalls:
			return s.traceCalls(block, message, o)
		case tracerPrestate:
			return s.traceStates(block, message, o)
		}
		return s.traceSteps(block, message, o)
	})
}

func (s *simulation) traceCalls(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	t := &callTracer{simulation: s, options: o}
	result, err := s.state.Run(s.api.deps.ChainID, block, m, &tracing.Hooks{OnEnter: t.enter, OnExit: t.exit, OnLog: t.log})
	if err != nil {
		return nil, err
	}
	root := t.root
	root.dropUndone(false)
	root.Gas, root.GasUsed = hexutil.Uint64(m.Gas), hexutil.Uint64(result.GasUsed)
	var rule *evm.HaltError // the network's own
	if errors.As(result.Err, &rule) || result.Err != nil && root.Error == "" {
		root.Error, root.Output = result.Err.Error(), nil
	}
	return root, nil
}

// callTracer collects the calls of one message, as go-ethereum shows them.
type callTracer struct {
	*simulation
	options traceOptions
	root    *callFrame
	open    []*callFrame // outermost first
	depth   int
	used    int64 // bytes
}

// take counts memory; where there is none left, the run ends.
func (t *callTracer) take(bytes int) bool {
	const perItem = 256
	most := t.api.cfg.Debug.MaxBytes
	var err error = eth.ErrTraceTooLarge(most)
	if t.used += int64(bytes) + perItem; t.used <= most {
		err = t.pace.hold(bytes + perItem)
	}
	if err != nil {
		t.state.Fail(err)
	}
	return err == nil
}

// innermost is the open call that is shown; nil for none.
func (t *callTracer) innermost() *callFrame {
	if len(t.open) == 0 || t.options.onlyTop && t.depth > 0 {
		return nil
	}
	return t.open[len(t.open)-1]
}

func (t *callTracer) enter(depth int, op byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
	t.depth = depth
	if t.options.onlyTop && depth > 0 || !t.take(len(input)) {
		return
	}
	f := &callFrame{
		Type: evm.OpName(op), From: from, To: frameReceiver{Address: &to}, Gas: hexutil.Uint64(gas), Input: present(common.CopyBytes(input)),
	}
	if value != nil { // else the call cannot have one
		f.Value = (*hexutil.Big)(hedera.Tinybar(value.Int64()).Weibar())
	}
	if parent := t.innermost(); parent != nil {
		parent.Calls = append(parent.Calls, f)
	} else if depth == 0 {
		t.root = f
	}
	t.open = append(t.open, f)
}

func (t *callTracer) exit(depth int, output []byte, gasUsed uint64, err error, _ bool) {
	t.depth = depth
	f := t.innermost()
	t.depth--
	if f == nil || !t.take(len(output)) {
		return
	}
	t.open = t.open[:len(t.open)-1]
	f.GasUsed = hexutil.Uint64(gasUsed)
	if len(output) > 0 {
		f.Output = common.CopyBytes(output)
	}
	if err == nil {
		return
	}
	f.Error, f.undone = err.Error(), true
	f.RevertReason, _ = revertReason(output)
	if f.creates() {
		f.To.Address = nil
	}
}

func (t *callTracer) log(l *types.Log) {
	if f := t.innermost(); t.options.withLog && f != nil && t.take(len(l.Data)) {
		f.Logs = append(f.Logs, &frameLog{
			Address: l.Address, Topics: slices.Concat([]common.Hash{}, l.Topics), Data: present(l.Data),
			Index: hexutil.Uint64(l.Index), Position: hexutil.Uint64(len(f.Calls)),
		})
	}
}

// dropUndone takes the logs from calls that were undone.
func (c *callFrame) dropUndone(undone bool) {
	if undone = undone || c.undone; undone {
		c.Logs = nil
	}
	for _, inner := range c.Calls {
		inner.dropUndone(undone)
	}
}

func (s *simulation) traceStates(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	tracer := evm.NewTouchTracer(s.state, m.From, s.receiver(&m))
	if _, err := s.state.Run(s.api.deps.ChainID, block, m, tracer.Hooks()); err != nil {
		return nil, err
	}
	w := stateWriter{noCode: o.noCode}
	if !o.diff {
		return w.all(tracer.Accounts, o.withEmpty), nil
	}
	after := tracer.After()
	if err := s.state.Err(); err != nil {
		return nil, err
	}
	return w.diff(tracer.Accounts, after, o.withEmpty), nil
}

func (s *simulation) traceSteps(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	t := &stepTracer{simulation: s, opcodeTrace: opcodeTrace{options: o, most: s.api.cfg.Debug.MaxBytes, Opcodes: new(mirror.Opcodes)}}
	result, err := s.state.Run(s.api.deps.ChainID, block, m, &tracing.Hooks{OnOpcode: t.step})
	if err != nil {
		return nil, err
	}
	t.Gas, t.Failed = result.GasUsed, result.Err != nil
	if result.Err == nil || result.Reverted() {
		t.Return = result.Output
	}
	text, err := t.encoded() // without the steps, which follow between its brackets
	if err != nil {
		return nil, err
	}
	const end = "]}"
	return slices.Concat(text[:len(text)-len(end)], t.text, []byte(end)), nil
}

// stepTracer writes the instructions of one message.
type stepTracer struct {
	*simulation
	opcodeTrace
	text    []byte
	full    bool                                           // the client wanted no more
	storage map[common.Address]map[common.Hash]common.Hash // what contracts have used
}

func (t *stepTracer) step(pc uint64, op byte, gas, cost uint64, scope tracing.OpContext, _ []byte, depth int, err error) {
	before, o := len(t.text), t.options
	if t.full = t.full || o.limit > 0 && int64(before) > o.limit; t.full || t.state.Err() != nil {
		return // the run ends at its next jump
	}
	step := mirror.Step{PC: pc, Op: evm.OpName(op), Gas: gas, Cost: cost, Depth: depth}
	if err != nil {
		step.Reason = err.Error()
	} else if !o.noStorage {
		step.Storage = t.words(step.Op, scope)
	}
	if !o.noStack {
		for _, word := range scope.StackData() {
			step.Stack = append(step.Stack, word.Bytes32())
		}
	}
	if o.memory {
		for word := range slices.Chunk(scope.MemoryData(), common.HashLength) {
			step.Memory = append(step.Memory, common.Hash(common.RightPadBytes(word, common.HashLength)))
		}
	}
	if before > 0 {
		t.text = append(t.text, ',')
	}
	t.text = t.appendStep(t.text, &step)
	if err = eth.ErrTraceTooLarge(t.most); int64(len(t.text)) <= t.most {
		err = t.pace.hold(len(t.text) - before)
	}
	if err != nil {
		t.state.Fail(err)
	}
}

// words keeps what a contract reads and writes; it returns it at those instructions.
func (t *stepTracer) words(op string, scope tracing.OpContext) (words []mirror.Word) {
	stack := scope.StackData()
	if op != "SLOAD" && op != "SSTORE" || len(stack) == 0 || op == "SSTORE" && len(stack) < 2 {
		return nil
	}
	if t.storage == nil {
		t.storage = make(map[common.Address]map[common.Hash]common.Hash)
	}
	own := t.storage[scope.Address()]
	if own == nil {
		own = make(map[common.Hash]common.Hash)
		t.storage[scope.Address()] = own
	}
	key := common.Hash(stack[len(stack)-1].Bytes32())
	if op == "SLOAD" {
		own[key] = t.state.Slot(scope.Address(), key)
	} else {
		own[key] = stack[len(stack)-2].Bytes32()
	}
	for slot, value := range own {
		words = append(words, mirror.Word{Slot: slot, Value: value})
	}
	return words
}
