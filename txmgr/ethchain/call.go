package ethchain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/ethrpc"
	"lockstep/internal/hedera"
	"lockstep/txmgr"
)

// Simulate estimates a call's gas, which tries it too. It would fail only if the EVM says so: at one endpoint, and at a second one if there
// is one, since the first may not have seen what the call stands on. Anything else that is said is an error.
func (c *Chain) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	if call.Funded { // not every node takes the state that it is to be tried on
		if out, err := c.simulate(ctx, call); err == nil {
			return out, nil
		}
		call.Funded = false
	}
	return c.simulate(ctx, call)
}

func messageOf(call txmgr.Call) map[string]any {
	message := map[string]any{"from": call.From, "value": (*hexutil.Big)(call.Value), "data": hexutil.Bytes(call.Data)}
	if call.To != "" {
		message["to"] = call.To
	}
	if call.Gas != 0 {
		message["gas"] = hexutil.Uint64(call.Gas)
	}
	if len(call.Extra.AccessList) > 0 {
		message["accessList"] = call.Extra.AccessList
	}
	if len(call.Extra.Authorizations) > 0 {
		message["authorizationList"] = call.Extra.Authorizations
	}
	return message
}

func (c *Chain) simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	message, state := messageOf(call), call.State
	state = cmp.Or(state, "latest")
	var gas hexutil.Uint64
	params := []any{message, state}
	if call.Funded {
		money := new(big.Int).Add(call.Value, new(big.Int).Lsh(big.NewInt(1), 96))
		params = append(params, map[string]any{call.From: map[string]any{"balance": (*hexutil.Big)(money)}})
	}
	q := ethrpc.Ask(&gas, "eth_estimateGas", params...)
	e, err := c.client.Do(ctx, q)
	if err != nil {
		return txmgr.Simulation{}, err
	}
	if ethrpc.ClassOf(q.Err()) == ethrpc.Reverted {
		out := reverted(q.Err())
		if !c.elsewhere(ctx, e, q) {
			return out, nil
		}
	}
	switch _, err := q.Answer(); {
	case ethrpc.ClassOf(err) == ethrpc.Fatal:
		return txmgr.Simulation{}, &txmgr.InvalidError{Field: "transaction", Problem: q.Err().Text}
	case err != nil:
		return txmgr.Simulation{}, judged(q.Err())
	}
	// A transaction with gas that none can have would be refused after its acceptance, and fail for a lie.
	if said := uint64(gas); !c.plausible(said) && (!c.elsewhere(ctx, e, q) || !c.plausible(uint64(gas))) {
		return txmgr.Simulation{}, &txmgr.SendError{Class: txmgr.ClassAmbiguous, Endpoint: e.Name(), Text: fmt.Sprintf("an estimate of %d gas", said)}
	}
	limit := uint64(gas)
	if c.gasCap != 0 && limit > c.gasCap {
		return txmgr.Simulation{}, &txmgr.InvalidError{Field: "gas", Problem: fmt.Sprintf("it takes %d, and the gasCap of the settings is %d", limit, c.gasCap)}
	}
	if call.To == "" || len(call.Data) > 0 || limit != 21000 {
		limit = c.withMargin(limit)
	}
	return txmgr.Simulation{Success: true, Gas: limit}, nil
}

// leastGas is below what any transaction takes: 21,000 today, and EIP-2780 proposes 4,500.
const leastGas = 4500

// plausible reports whether a transaction can have so much gas.
func (c *Chain) plausible(gas uint64) bool {
	most := c.blockGas.Load()
	return gas >= leastGas && (most == 0 || gas <= most)
}

// txGas is the most that a transaction on Ethereum may have (EIP-7825).
const txGas = 1 << 24

// withMargin adds to an estimate what the state may change until the transaction is executed. The margin alone makes no transaction one that is
// refused: above the cap of a chain, a block's gas or the settings' cap there is none.
func (c *Chain) withMargin(gas uint64) uint64 {
	limit := gas + gas/100*c.added + gas%100*c.added/100
	for _, most := range []uint64{txGas, c.blockGas.Load(), c.gasCap} {
		if most != 0 && limit > most {
			limit = max(most, gas)
		}
	}
	return limit
}

// Replay tries an executed transaction again: on the state before its block, and, since others of its block may have been before it, on the state
// after it.
func (c *Chain) Replay(ctx context.Context, call txmgr.Call, r *txmgr.Receipt) (txmgr.Simulation, error) {
	out := txmgr.Simulation{}
	switch {
	case r.GasUsed == call.Gas: // nodes answer a call that runs out of gas as if they were in trouble
		out.Reason = fmt.Sprintf("it used all of its gas, %d", call.Gas)
		return out, nil
	case r.Block == 0:
		return out, nil
	}
	for _, block := range []uint64{r.Block - 1, r.Block} {
		q := ethrpc.Ask(nil, "eth_call", messageOf(call), hexutil.Uint64(block))
		if _, err := c.client.Do(ctx, q); err != nil {
			return out, err
		}
		if ethrpc.ClassOf(q.Err()) == ethrpc.Reverted {
			return reverted(q.Err()), nil
		}
	}
	return out, nil
}

// elsewhere asks a question of another endpoint, and reports whether that one has an answer to it.
func (c *Chain) elsewhere(ctx context.Context, not *ethrpc.Endpoint, q *ethrpc.Call) bool {
	for _, e := range c.client.Order() {
		if e == not {
			continue
		}
		if e.Do(ctx, q) != nil {
			continue
		}
		found, err := q.Answer()
		return err == nil && found
	}
	return false
}

func reverted(answer *ethrpc.Error) txmgr.Simulation {
	out := txmgr.Simulation{Reason: hedera.Explain(answer.Text)} // of a Hedera relay, it is the network's name for it
	if _, hex, found := strings.Cut(answer.Data, "0x"); found {
		out.Output, _ = hexutil.Decode("0x" + hex) // without, its words must do
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
		out[n] = c.unasked()
	}
	for _, e := range c.client.Order() {
		if len(open) == 0 || ctx.Err() != nil {
			break
		}
		questions := make([]*ethrpc.Call, len(open))
		for n, at := range open {
			questions[n] = ethrpc.Ask(nil, "eth_sendRawTransaction", hexutil.Bytes(list[at].Raw))
		}
		_ = e.Do(ctx, questions...) // each question has its part of the error
		var left []int
		for n, at := range open {
			answer := taken(e, questions[n], list[at])
			if answer == nil {
				out[at] = nil
				continue
			}
			out[at] = worse(out[at], answer)
			switch answer.Class {
			case txmgr.ClassTransport, txmgr.ClassPoolPolicy, txmgr.ClassNotSent:
				left = append(left, at)
			default: // this one has judged the transaction
			}
		}
		open = left
	}
	return out
}

// unasked is the answer for a transaction that no endpoint was asked to take.
func (c *Chain) unasked() *txmgr.SendError {
	text := "no endpoint was asked"
	if why := c.client.Trouble(); why != "" {
		text += ": " + why
	}
	return &txmgr.SendError{Class: txmgr.ClassNotSent, Text: text}
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

// classes are what the manager makes of what an endpoint said of a transaction. Those that are not here have the
// same name.
var classes = map[ethrpc.Class]txmgr.Class{
	ethrpc.Limited: txmgr.ClassPoolPolicy, ethrpc.Denied: txmgr.ClassPoolPolicy, ethrpc.WrongChain: txmgr.ClassPoolPolicy, ethrpc.OtherFork: txmgr.ClassPoolPolicy,
	ethrpc.Unsupported: txmgr.ClassPoolPolicy, ethrpc.TooMuch: txmgr.ClassPoolPolicy,
	ethrpc.Broken: txmgr.ClassTransport, ethrpc.Missing: txmgr.ClassTransport, ethrpc.Lost: txmgr.ClassTransport,
	ethrpc.Unsent:   txmgr.ClassNotSent,
	ethrpc.Reverted: txmgr.ClassAmbiguous, ethrpc.Malformed: txmgr.ClassAmbiguous,
}

// taken says what an endpoint's answer to a transaction means; nil if it has taken it, for which it names it. Null, or another transaction's hash, is no word about this one: a
// proxy may have said it.
func taken(e *ethrpc.Endpoint, q *ethrpc.Call, s txmgr.Signed) *txmgr.SendError {
	if answer := judged(q.Err()); answer != nil {
		return answer
	}
	var hash string
	if json.Unmarshal(q.Raw(), &hash) != nil || common.HexToHash(hash) != common.HexToHash(s.Hash) {
		return &txmgr.SendError{Class: txmgr.ClassTransport, Endpoint: e.Name(), Text: "its answer does not name the transaction"}
	}
	return nil
}

// judged says what an endpoint's answer means for a transaction; nil if it has taken it.
func judged(answer *ethrpc.Error) *txmgr.SendError {
	if answer == nil {
		return nil
	}
	class, other := classes[answer.Class]
	if !other {
		class = txmgr.Class(answer.Class)
	}
	text := answer.Text
	if answer.Class.AboutEndpoint() || text == "" {
		text = answer.Error()
	}
	return &txmgr.SendError{Class: class, Endpoint: answer.Endpoint, Text: text}
}
