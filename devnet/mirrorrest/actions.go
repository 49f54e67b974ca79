package mirrorrest

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type actionJSON struct {
	CallDepth         int               `json:"call_depth"`
	CallOperationType ledger.Operation  `json:"call_operation_type"`
	CallType          ledger.CallType   `json:"call_type"`
	Caller            *string           `json:"caller"`
	CallerType        string            `json:"caller_type"`
	From              string            `json:"from"`
	Gas               uint64            `json:"gas"`
	GasUsed           uint64            `json:"gas_used"`
	Index             int               `json:"index"`
	Input             *string           `json:"input"`
	Recipient         *string           `json:"recipient"`
	RecipientType     *string           `json:"recipient_type"`
	ResultData        *string           `json:"result_data"`
	ResultDataType    ledger.ResultType `json:"result_data_type"`
	Timestamp         string            `json:"timestamp"`
	To                *string           `json:"to"`
	Value             hedera.Tinybar    `json:"value"`
}

type actionsJSON struct {
	Actions []actionJSON `json:"actions"`
	paged
}

// listActions answers contracts/results/{transactionIdOrHash}/actions: the tree of
// calls, in the order they were entered.
func listActions(r *request) (any, error) {
	q, err := r.query(params{"index": func(op operator, v string) bool { return op != ne && isCount(op, v) }}, ascending)
	if err != nil {
		return nil, err
	}
	rec, err := r.evmRecord(r.args[0], 0)
	if err != nil {
		return nil, err
	}
	out := actionsJSON{Actions: []actionJSON{}}
	if rec.Result == nil {
		return out, nil
	}
	indexes := q.bounds("index", parseCount)
	next := slices.All(rec.Result.Actions)
	if q.desc {
		next = slices.Backward(rec.Result.Actions)
	}
	for i, action := range next {
		if !indexes.allows(int64(i)) {
			continue
		}
		if out.Actions = append(out.Actions, actionOf(i, &action, rec.Consensus)); len(out.Actions) == q.limit {
			full := !indexes.ends(int64(i), q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "index", value: decimal(int64(i))})
			break
		}
	}
	return out, nil
}

func actionOf(index int, a *ledger.Action, at hedera.Timestamp) actionJSON {
	out := actionJSON{
		CallDepth:         a.Depth,
		CallOperationType: a.Operation,
		CallType:          a.CallType,
		Caller:            idText(a.Caller),
		CallerType:        entityType(a.CallerIsCode),
		From:              addressText(a.Caller.LongZero()),
		Gas:               a.Gas,
		GasUsed:           a.GasUsed,
		Index:             index,
		Input:             ptr(hexText(a.Input)),
		ResultData:        ptr(hexText(a.Result)),
		ResultDataType:    a.ResultType,
		Timestamp:         at.String(),
		Value:             a.Value,
	}
	switch {
	case !a.Recipient.IsZero():
		out.Recipient = idText(a.Recipient)
		out.RecipientType = ptr(entityType(a.RecipientCode))
		out.To = ptr(addressText(a.Recipient.LongZero()))
	case a.To != (common.Address{}):
		out.To = ptr(addressText(a.To)) // aimed at what is no entity
	}
	return out
}

func entityType(contract bool) string {
	if contract {
		return "CONTRACT"
	}
	return "ACCOUNT"
}
