package near

import (
	"encoding/base64"
	"encoding/hex"
	"slices"

	"github.com/holiman/uint256"

	"lockstep/internal/near"
)

// object is a JSON object.
type object map[string]any

// protocolVersion is what the node says that it speaks.
const protocolVersion = 80

func (c *Chain) viewBlock(b *block) object {
	previous := near.Hash{}
	if b := c.at(b.height - 1); b != nil {
		previous = b.hash
	}
	return object{"author": "node", "header": object{
		"height": b.height, "hash": b.hash.String(), "prev_hash": previous.String(), "prev_height": b.height - 1,
		"timestamp": b.time.UnixNano(), "timestamp_nanosec": decimal(uint64(b.time.UnixNano())), "gas_price": decimal(gasPrice),
		"epoch_id": c.blocks[0].hash.String(), "next_epoch_id": c.blocks[0].hash.String(), "chunks_included": 1,
		"last_final_block": c.finalAt(b).String(), "latest_protocol_version": protocolVersion,
	}, "chunks": []object{c.viewChunkHeader(b)}}
}

func (c *Chain) viewChunkHeader(b *block) object {
	var used uint64
	for _, r := range b.txs {
		used += r.outcome.gas
	}
	return object{
		"chunk_hash": b.hash.String(), "shard_id": 0, "height_created": b.height, "height_included": b.height, "gas_used": used,
		"gas_limit": uint64(1_000_000_000_000_000),
	}
}

// viewChunk is a block's only chunk, which has the block's hash.
func (c *Chain) viewChunk(b *block) object {
	txs := make([]object, len(b.txs))
	for i, r := range b.txs {
		txs[i] = r.viewTransaction()
	}
	return object{"author": "node", "header": c.viewChunkHeader(b), "transactions": txs, "receipts": []object{}}
}

// finalAt is the block that was final when b was the head.
func (c *Chain) finalAt(b *block) near.Hash {
	if b.height < c.first+finality {
		return near.Hash{}
	}
	return c.at(b.height - finality).hash
}

func viewAccount(a *account) object {
	usage := 100 + 82*len(a.keys) + len(a.code)
	return object{
		"amount": a.amount.Dec(), "locked": "0", "code_hash": a.codeHash().String(), "storage_usage": usage, "storage_paid_at": 0,
	}
}

func viewPermission(p near.Permission) any {
	call, limited := p.(near.CallPermission)
	if !limited {
		return "FullAccess"
	}
	var allowance any
	if call.Allowance != nil {
		allowance = call.Allowance.Dec()
	}
	return object{"FunctionCall": object{"allowance": allowance, "receiver_id": call.Receiver, "method_names": append([]string{}, call.Methods...)}}
}

func viewAction(action near.Action) any {
	switch a := action.(type) {
	case near.CreateAccount:
		return "CreateAccount"
	case near.DeployContract:
		return object{"DeployContract": object{"code": base64.StdEncoding.EncodeToString(a.Code)}}
	case near.FunctionCall:
		return object{"FunctionCall": object{
			"method_name": a.Method, "args": base64.StdEncoding.EncodeToString(a.Args), "gas": a.Gas, "deposit": a.Deposit.Dec(),
		}}
	case near.Transfer:
		return object{"Transfer": object{"deposit": a.Deposit.Dec()}}
	case near.AddKey:
		return object{"AddKey": object{
			"public_key": a.PublicKey.String(), "access_key": object{"nonce": a.AccessKey.Nonce, "permission": viewPermission(a.AccessKey.Permission)},
		}}
	case near.DeleteKey:
		return object{"DeleteKey": object{"public_key": a.PublicKey.String()}}
	case near.DeleteAccount:
		return object{"DeleteAccount": object{"beneficiary_id": a.Beneficiary}}
	case near.Delegate:
		return object{"Delegate": object{"signature": a.Signature.String(), "delegate_action": object{
			"sender_id": a.Sender, "receiver_id": a.Receiver, "actions": viewActions(a.Actions), "nonce": a.Nonce,
			"max_block_height": a.MaxBlockHeight, "public_key": a.PublicKey.String(),
		}}}
	default:
		return object{}
	}
}

func viewActions(list []near.Action) []any {
	views := make([]any, len(list))
	for i, action := range list {
		views[i] = viewAction(action)
	}
	return views
}

func (r *record) viewTransaction() object {
	return object{
		"signer_id": r.tx.Signer, "public_key": r.tx.PublicKey.String(), "nonce": r.tx.Nonce, "receiver_id": r.tx.Receiver,
		"actions": viewActions(r.tx.Actions), "priority_fee": 0, "signature": r.tx.Signature.String(), "hash": r.hash.String(),
	}
}

func (o outcome) viewStatus() any {
	switch {
	case o.block == nil:
		return "Unknown"
	case o.failure != nil:
		return object{"Failure": o.failure}
	case o.next != nil:
		return object{"SuccessReceiptId": o.next.String()}
	default:
		return object{"SuccessValue": base64.StdEncoding.EncodeToString(o.value)}
	}
}

func (o outcome) view(id near.Hash) object {
	ids := make([]string, len(o.receipts))
	for i, receipt := range o.receipts {
		ids[i] = receipt.String()
	}
	burnt := new(uint256.Int).Mul(uint256.NewInt(o.gas), uint256.NewInt(gasPrice))
	return object{"id": id.String(), "block_hash": o.block.hash.String(), "proof": []any{}, "outcome": object{
		"logs": append([]string{}, o.logs...), "receipt_ids": ids, "gas_burnt": o.gas, "tokens_burnt": burnt.Dec(), "executor_id": o.executor,
		"status": o.viewStatus(), "metadata": object{"version": 1, "gas_profile": nil},
	}}
}

// result is the outcome that tells what became of the whole transaction.
func (r *record) result() outcome {
	o := r.outcome
	for o.block != nil && o.failure == nil && o.next != nil {
		at := slices.IndexFunc(r.receipts, func(one *receipt) bool { return one.id == *o.next })
		o = r.receipts[at].outcome
	}
	return o
}

// reached reports how far a transaction is: the names of nearcore's levels.
func (c *Chain) reached(r *record, level string) bool {
	final := c.final().height
	executed := r.waiting == 0
	switch level {
	case "NONE", "INCLUDED":
		return true
	case "EXECUTED_OPTIMISTIC":
		return executed
	case "INCLUDED_FINAL":
		return r.block.height <= final
	case "EXECUTED":
		return executed && r.block.height <= final
	default:
		return executed && r.refunds == 0 && !slices.ContainsFunc(r.receipts, func(one *receipt) bool { return one.outcome.block.height > final })
	}
}

func (c *Chain) level(r *record) string {
	for _, level := range []string{"FINAL", "EXECUTED", "INCLUDED_FINAL", "EXECUTED_OPTIMISTIC"} {
		if c.reached(r, level) {
			return level
		}
	}
	return "INCLUDED"
}

// viewRecord is a transaction's status, and its receipts if they are wanted.
func (c *Chain) viewRecord(r *record, receipts bool) object {
	status := r.result().viewStatus()
	if status == "Unknown" {
		status = "Started"
	}
	outcomes, list := []object{}, []object{}
	for _, one := range r.receipts {
		if one.outcome.block != nil {
			outcomes = append(outcomes, one.outcome.view(one.id))
		}
		list = append(list, object{
			"receipt_id": one.id.String(), "predecessor_id": one.predecessor, "receiver_id": one.receiver, "priority": 0,
			"receipt": object{"Action": object{
				"signer_id": one.signer, "signer_public_key": one.key.String(), "gas_price": decimal(gasPrice), "actions": viewActions(one.actions),
				"input_data_ids": []string{}, "output_data_receivers": []any{}, "is_promise_yield": false,
			}},
		})
	}
	view := object{
		"final_execution_status": c.level(r), "status": status, "transaction": r.viewTransaction(),
		"transaction_outcome": r.outcome.view(r.hash), "receipts_outcome": outcomes,
	}
	if receipts {
		view["receipts"] = list
	}
	return view
}

func viewState(a *account) []object {
	values := []object{}
	for key, value := range a.state {
		values = append(values, object{
			"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString([]byte(value)),
		})
	}
	return values
}

func decimal(n uint64) string { return uint256.NewInt(n).Dec() }

func codeView(a *account) object {
	hash := a.codeHash()
	return object{"code_base64": base64.StdEncoding.EncodeToString(a.code), "hash": hash.String(), "sha256": hex.EncodeToString(hash[:])}
}
