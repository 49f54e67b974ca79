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
	return ledger.All(ctx, tx, "SELECT "+intentColumns+" FROM intents WHERE "+condition, args, func(r ledger.Row) (*row, error) { return scanIntent(r) })
}

// intentsByID locks intents in the order of their numbers, whatever the order of the ids.
func intentsByID(ctx context.Context, tx *ledger.Tx, ids []string) (map[string]*row, error) {
	found := map[string]*row{}
	_, err := ledger.In(ctx, tx, "SELECT "+intentColumns+" FROM intents WHERE id IN %s ORDER BY seq"+tx.ForUpdate(), nil, ids, func(r ledger.Row) error {
		i, err := scanIntent(r)
		if err == nil {
			found[i.ID] = i
		}
		return err
	})
	return found, err
}

// insertIntents stores new intents and sets their numbers.
func insertIntents(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent, era int64) error {
	byID := map[string]*txmgr.Intent{}
	_, err := ledger.Values(ctx, tx, `INSERT INTO intents (id, tenant, chain, kind, origin, idem_key, body_hash, to_account, value, data, gas, speed,
		max_fee, max_tip, simulate, valid_until, pool, pin, order_key, shard_key, on_failure, keep_trying, subject, actor, method,
		request_id, metadata, status, signer, nonce, era, hash, replaces, holds, accepted_at, updated_at, extra) VALUES %s RETURNING id, seq`, list,
		func(i *txmgr.Intent) []any {
			i.Accepted, i.Updated = now, now
			byID[i.ID] = i
			return []any{
				i.ID, i.Tenant, i.Chain, string(i.Kind), string(i.Origin), i.IdempotencyKey, i.BodyHash, i.To, zero(i.Value),
				hex.EncodeToString(i.Data), int64(i.Gas), i.Speed, decimal(i.MaxFee), decimal(i.MaxTip), i.Simulate, i.ValidUntil, i.Pool, i.Pin,
				i.OrderKey, i.ShardKey, i.OnFailure, i.KeepTrying, i.Subject, i.Actor, i.Method, i.RequestID, string(i.Metadata), string(i.Status),
				i.Signer, int64(i.Nonce), era, i.Hash, i.Replaces, holdsText(i.Holds), now, now, extraText(i.Extra),
			}
		},
		func(r ledger.Row) error {
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
	n, err := ledger.Values(ctx, tx, `UPDATE intents SET status = v.column2, final = CAST(v.column3 AS BOOLEAN), waiting = v.column4, signer = v.column5, nonce = CAST(v.column6 AS BIGINT),
		era = CAST(v.column7 AS BIGINT), hash = v.column8, cancel = CAST(v.column9 AS BOOLEAN), receipt = v.column10, error_class = v.column11, error = v.column12,
		extra_cost = v.column13, updated_at = CAST(v.column14 AS BIGINT), first_sent = CAST(v.column15 AS BIGINT)
		FROM (VALUES %s) AS v WHERE intents.id = v.column1`, list, func(i *row) []any {
		i.Updated = now
		var failure txmgr.Failure
		if i.Error != nil {
			failure = *i.Error
		}
		return []any{
			i.ID, string(i.Status), i.Final, i.Waiting, i.Signer, int64(i.Nonce), i.era, i.Hash, i.Cancel,
			asJSON(i.Receipt), failure.Class, failure.Message, i.extra, now, i.FirstSent,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("update intents: %w", err)
	}
	if n != int64(len(list)) {
		return fmt.Errorf("update intents: %d of %d are there", n, len(list))
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
