package sqlstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// row is an intent with the columns that only the store knows.
type row struct {
	*txmgr.Intent
	era   int64
	extra string // what fills and cancels that it caused have cost, in decimal
}

const intentColumns = `seq, id, tenant, chain, kind, origin, idem_key, body_hash, to_account, value, data, gas, speed,
	max_fee, max_tip, simulate, valid_until, pool, pin, order_key, shard_key, on_failure, keep_trying, subject, actor, method,
	request_id, metadata, status, final, waiting, signer, nonce, era, hash, replaces, cancel, receipt, error_class, error,
	holds, extra_cost, accepted_at, updated_at, first_sent, extra`

func scanIntent(r ledger.Row, more ...any) (*row, error) {
	i := &txmgr.Intent{}
	out := &row{Intent: i}
	var data, metadata string
	var gas, nonce int64
	var failure txmgr.Failure
	receipt := new(txmgr.Receipt)
	targets := append([]any{
		&i.Seq, &i.ID, &i.Tenant, &i.Chain, &i.Kind, &i.Origin, &i.IdempotencyKey, &i.BodyHash, &i.To,
		number{&i.Value},
		&data, &gas, &i.Speed,
		number{&i.MaxFee},
		number{&i.MaxTip},
		&i.Simulate, &i.ValidUntil, &i.Pool, &i.Pin, &i.OrderKey, &i.ShardKey, &i.OnFailure, &i.KeepTrying,
		&i.Subject, &i.Actor, &i.Method, &i.RequestID, &metadata, &i.Status, &i.Final, &i.Waiting, &i.Signer, &nonce, &out.era, &i.Hash, &i.Replaces,
		&i.Cancel,
		jsonText{receipt},
		&failure.Class, &failure.Message,
		jsonText{&i.Holds},
		&out.extra, &i.Accepted, &i.Updated, &i.FirstSent,
		jsonText{&i.Extra},
	}, more...)
	if err := r.Scan(targets...); err != nil {
		return nil, fmt.Errorf("read an intent: %w", err)
	}
	var err error
	if i.Data, err = hex.DecodeString(data); err != nil {
		return nil, fmt.Errorf("read an intent's data: %w", err)
	}
	i.Gas, i.Nonce = uint64(gas), uint64(nonce)
	if metadata != "" {
		i.Metadata = json.RawMessage(metadata)
	}
	if receipt.Hash != "" {
		i.Receipt = receipt
	}
	if failure.Class != "" {
		i.Error = &failure
	}
	return out, nil
}

// intentsWhere reads intents; the condition and what follows it is part of the program.
func intentsWhere(ctx context.Context, tx *ledger.Tx, condition string, args ...any) ([]*row, error) {
	var list []*row
	err := tx.Query(ctx, "SELECT "+intentColumns+" FROM intents WHERE "+condition, args, func(r ledger.Row) error {
		i, err := scanIntent(r)
		list = append(list, i)
		return err
	})
	return list, err
}

// intentsByID locks intents in the order of their numbers, whatever the order of the ids.
func intentsByID(ctx context.Context, tx *ledger.Tx, ids []string) (map[string]*row, error) {
	found := map[string]*row{}
	for len(ids) > 0 {
		part := ids[:min(len(ids), 500)]
		ids = ids[len(part):]
		list, err := intentsWhere(ctx, tx, "id IN "+ledger.List(1, len(part))+" ORDER BY seq"+tx.ForUpdate(), anys(part)...)
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			found[i.ID] = i
		}
	}
	return found, nil
}

func anys[T any](list []T) []any {
	args := make([]any, len(list))
	for n, v := range list {
		args[n] = v
	}
	return args
}

// insertIntents stores new intents and sets their numbers.
func insertIntents(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent, era int64) error {
	const columns = 37
	for len(list) > 0 {
		part := list[:min(len(list), 200)]
		list = list[len(part):]
		args := make([]any, 0, columns*len(part))
		byID := map[string]*txmgr.Intent{}
		for _, i := range part {
			i.Accepted, i.Updated = now, now
			byID[i.ID] = i
			args = append(args, i.ID, i.Tenant, i.Chain, string(i.Kind), string(i.Origin), i.IdempotencyKey, i.BodyHash, i.To, zero(i.Value),
				hex.EncodeToString(i.Data), int64(i.Gas), i.Speed, decimal(i.MaxFee), decimal(i.MaxTip), i.Simulate, i.ValidUntil, i.Pool, i.Pin,
				i.OrderKey, i.ShardKey, i.OnFailure, i.KeepTrying, i.Subject, i.Actor, i.Method, i.RequestID, string(i.Metadata), string(i.Status),
				i.Signer, int64(i.Nonce), era, i.Hash, i.Replaces, holdsText(i.Holds), now, now, extraText(i.Extra))
		}
		err := tx.Query(ctx, `INSERT INTO intents (id, tenant, chain, kind, origin, idem_key, body_hash, to_account, value, data, gas, speed,
			max_fee, max_tip, simulate, valid_until, pool, pin, order_key, shard_key, on_failure, keep_trying, subject, actor, method,
			request_id, metadata, status, signer, nonce, era, hash, replaces, holds, accepted_at, updated_at, extra) VALUES `+
			ledger.Rows(len(part), columns)+" RETURNING id, seq", args, func(r ledger.Row) error {
			var id string
			var seq int64
			err := r.Scan(&id, &seq)
			if i := byID[id]; err == nil && i != nil {
				i.Seq = seq
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("store intents: %w", err)
		}
	}
	return nil
}

func extraText(e txmgr.Extra) string {
	if e.IsZero() {
		return ""
	}
	return asJSON(&e)
}

func holdsText(holds []txmgr.Hold) string {
	if len(holds) == 0 {
		return ""
	}
	return asJSON(&holds)
}

// saveIntents writes back what can change, and leaves an event for each.
func saveIntents(ctx context.Context, tx *ledger.Tx, now int64, list ...*row) error {
	if err := updateIntents(ctx, tx, now, list); err != nil {
		return err
	}
	intents := make([]*txmgr.Intent, len(list))
	for n, i := range list {
		intents[n] = i.Intent
	}
	return emit(ctx, tx, now, intents...)
}

func updateIntents(ctx context.Context, tx *ledger.Tx, now int64, list []*row) error {
	const columns = 15
	for len(list) > 0 {
		part := list[:min(len(list), 500)]
		list = list[len(part):]
		args := make([]any, 0, columns*len(part))
		for _, i := range part {
			i.Updated = now
			var failure txmgr.Failure
			if i.Error != nil {
				failure = *i.Error
			}
			args = append(args, i.ID, string(i.Status), i.Final, i.Waiting, i.Signer, int64(i.Nonce), i.era, i.Hash, i.Cancel,
				asJSON(i.Receipt), failure.Class, failure.Message, i.extra, now, i.FirstSent)
		}
		n, err := tx.Exec(ctx, `UPDATE intents SET status = v.column2, final = CAST(v.column3 AS BOOLEAN), waiting = v.column4, signer = v.column5, nonce = CAST(v.column6 AS BIGINT),
			era = CAST(v.column7 AS BIGINT), hash = v.column8, cancel = CAST(v.column9 AS BOOLEAN), receipt = v.column10, error_class = v.column11, error = v.column12,
			extra_cost = v.column13, updated_at = CAST(v.column14 AS BIGINT), first_sent = CAST(v.column15 AS BIGINT)
			FROM (VALUES `+ledger.Rows(len(part), columns)+`) AS v WHERE intents.id = v.column1`, args...)
		if err != nil {
			return fmt.Errorf("update intents: %w", err)
		}
		if n != int64(len(part)) {
			return fmt.Errorf("update intents: %d of %d are there", n, len(part))
		}
	}
	return nil
}

// notice is the body of an event.
type notice struct {
	ID        string          `json:"id"`
	Tenant    string          `json:"tenant,omitempty"`
	Chain     string          `json:"chain"`
	Status    txmgr.Status    `json:"status"`
	Final     bool            `json:"final"`
	Signer    string          `json:"signer,omitempty"`
	Nonce     *uint64         `json:"nonce,omitempty"`
	Hash      string          `json:"hash,omitempty"`
	Subject   string          `json:"subject,omitempty"`
	Actor     string          `json:"actor,omitempty"`
	Method    string          `json:"method,omitempty"`
	Key       string          `json:"idempotencyKey,omitempty"`
	RequestID string          `json:"requestId,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	Waiting   string          `json:"waiting,omitempty"`
	Block     uint64          `json:"blockNumber,omitempty"`
	Success   *bool           `json:"success,omitempty"`
	Receipt   *receipt        `json:"receipt,omitempty"`
	Error     *txmgr.Failure  `json:"error,omitempty"`
	Needs     *needs          `json:"needs,omitempty"` // of tx.stuck
}

// receipt is a receipt as callers get it, without what the chain said word for word: events are kept and sent many times.
type receipt struct {
	Hash      string `json:"transactionHash"`
	Block     uint64 `json:"blockNumber"`
	BlockHash string `json:"blockHash"`
	Success   bool   `json:"success"`
	GasUsed   uint64 `json:"gasUsed"`
	GasPrice  string `json:"effectiveGasPrice,omitempty"`
	Contract  string `json:"contractAddress,omitempty"`
	Final     bool   `json:"final"`
	Reason    string `json:"reason,omitempty"`
}

// needs is what a replacement must pay at least.
type needs struct {
	MaxFee string `json:"maxFeePerGas"`
	MaxTip string `json:"maxPriorityFeePerGas,omitempty"`
}

func emit(ctx context.Context, tx *ledger.Tx, now int64, list ...*txmgr.Intent) error {
	events := make([]ledger.Event, len(list))
	for n, i := range list {
		body := noticeOf(i)
		events[n] = ledger.Event{Topic: topic, Subject: i.ID, Kind: "tx." + string(i.Status), Body: asJSON(&body), At: now, Of: i}
	}
	return tx.Emit(ctx, events...)
}

func noticeOf(i *txmgr.Intent) notice {
	body := notice{
		ID: i.ID, Tenant: i.Tenant, Chain: i.Chain, Status: i.Status, Final: i.Final, Signer: i.Signer, Hash: i.Hash, Subject: i.Subject,
		Actor: i.Actor, Method: i.Method, Key: i.IdempotencyKey, RequestID: i.RequestID, Metadata: i.Metadata, Waiting: i.Waiting, Error: i.Error,
	}
	if i.Signer != "" {
		body.Nonce = &i.Nonce
	}
	if r := i.Receipt; r != nil {
		body.Block, body.Success = r.Block, &r.Success
		body.Receipt = &receipt{Hash: r.Hash, Block: r.Block, BlockHash: r.BlockHash, Success: r.Success, GasUsed: r.GasUsed, Contract: r.Contract, Final: r.Final, Reason: r.Reason}
		if r.GasPrice != nil {
			body.Receipt.GasPrice = r.GasPrice.String()
		}
	}
	return body
}
