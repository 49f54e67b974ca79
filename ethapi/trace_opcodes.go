package ethapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror"
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
