package mirrorrest

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

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
