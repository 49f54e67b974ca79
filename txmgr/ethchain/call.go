package ethchain

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/txmgr"
)

// Simulate estimates a call's gas, which tries it too.
func (c *Chain) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	message := map[string]any{"from": call.From, "value": (*hexutil.Big)(call.Value), "data": hexutil.Bytes(call.Data)}
	if call.To != "" {
		message["to"] = call.To
	}
	if call.Gas != 0 {
		message["gas"] = hexutil.Uint64(call.Gas)
	}
	state := call.State
	if state == "" {
		state = "latest"
	}
	q := ask("eth_estimateGas", message, state)
	if _, err := c.one(ctx, q); err != nil {
		return txmgr.Simulation{}, err
	}
	var gas hexutil.Uint64
	_, err := q.into(&gas)
	var answer *callError
	if errors.As(err, &answer) {
		return reverted(answer), nil
	}
	if err != nil {
		return txmgr.Simulation{}, err
	}
	limit := uint64(gas)
	if call.To == "" || len(call.Data) > 0 || limit != 21000 {
		limit += limit * c.added / 100
	}
	return txmgr.Simulation{Success: true, Gas: limit}, nil
}

func reverted(answer *callError) txmgr.Simulation {
	out := txmgr.Simulation{Reason: answer.Message}
	var text string
	if q := (&question{result: answer.Data}); len(answer.Data) > 0 {
		if found, err := q.into(&text); err == nil && found {
			out.Output, _ = hexutil.Decode(text)
		}
	}
	if reason, err := abi.UnpackRevert(out.Output); err == nil {
		out.Reason = reason
	}
	return out
}

// Send offers transactions, in their order, to one endpoint. The next endpoint gets those whose
// answer was lost, or that the first did not take for reasons of its own. Without a pool they go
// one by one.
func (c *Chain) Send(ctx context.Context, list []txmgr.Signed) []error {
	if !c.traits.Mempool {
		return c.sendInLine(ctx, list)
	}
	out := make([]error, len(list))
	open := make([]int, len(list))
	for n := range list {
		open[n] = n
		out[n] = &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "no endpoint was asked"}
	}
	for _, e := range c.order() {
		if len(open) == 0 || ctx.Err() != nil {
			break
		}
		questions := make([]*question, len(open))
		for n, at := range open {
			questions[n] = ask("eth_sendRawTransaction", hexutil.Bytes(list[at].Raw))
		}
		_ = e.batch(ctx, questions...) // each question has its part of the error
		var left []int
		for n, at := range open {
			answer := classify(e.name, questions[n].err)
			if answer == nil {
				out[at] = nil
				continue
			}
			out[at] = worse(out[at], answer)
			if answer.Class == txmgr.ClassTransport || answer.Class == txmgr.ClassPoolPolicy {
				left = append(left, at)
			}
		}
		open = left
	}
	return out
}

// worse keeps the less certain of two answers: bytes that one endpoint may have taken are
// not refused by another's word.
func worse(old error, answer *txmgr.SendError) error {
	switch txmgr.ClassOf(old) {
	case txmgr.ClassTransport, txmgr.ClassAmbiguous:
		if answer.Class == txmgr.ClassKnown {
			return answer
		}
		return old
	default:
		return answer
	}
}
