package mirrorrest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
)

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

type opcodesJSON struct {
	Address     string       `json:"address"`
	ContractID  *string      `json:"contract_id"`
	Failed      bool         `json:"failed"`
	Gas         uint64       `json:"gas"`
	Opcodes     []opcodeJSON `json:"opcodes"`
	ReturnValue string       `json:"return_value"`
}

// listOpcodes answers contracts/results/{transactionIdOrHash}/opcodes: it replays
// the transaction on the state it had and lists the steps. Traces are long, so
// like other mirror nodes it insists on clients that could take them compressed.
func listOpcodes(r *request) (any, error) {
	q, err := r.query(params{"memory": isFlag, "stack": isFlag, "storage": isFlag}, single)
	if err != nil {
		return nil, err
	}
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
	with := ledger.OpcodeOptions{
		Memory:  q.flag("memory", false),
		Stack:   q.flag("stack", true),
		Storage: q.flag("storage", false),
	}
	trace, err := r.view.Opcodes(r.Context(), rec, with)
	if errors.Is(err, ledger.ErrTraceTooLarge) {
		return nil, detailed(http.StatusBadRequest, "The trace is too large: leave out memory, stack or storage")
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	out := opcodesJSON{
		Address:     addressText(rec.Result.Address),
		ContractID:  idText(rec.Result.Target),
		Failed:      trace.Failed,
		Gas:         trace.GasUsed,
		Opcodes:     make([]opcodeJSON, len(trace.Steps)),
		ReturnValue: hexText(trace.ReturnValue),
	}
	for i := range trace.Steps {
		out.Opcodes[i] = opcodeOf(&trace.Steps[i], with)
	}
	return out, nil
}

func opcodeOf(s *ledger.Opcode, with ledger.OpcodeOptions) opcodeJSON {
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
			out.Storage[hexText(slot[:])] = hexText(value[:])
		}
	}
	if len(s.Reason) > 0 {
		out.Reason = ptr(hexText(s.Reason))
	}
	return out
}

func words(list []common.Hash) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = hexText(list[i][:])
	}
	return out
}
