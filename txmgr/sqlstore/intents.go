package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// intentChanges are the columns that change in an intent's life.
const intentChanges = "status final waiting signer nonce era hash cancel receipt error_class error extra_cost updated_at first_sent"

// intentsWhere reads intents; the condition and what follows it is part of the program.
func intentsWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*txmgr.Intent, error) {
	return ledger.Select[txmgr.Intent](ctx, tx, "", "intents WHERE "+condition, args...)
}

// intentsByID locks intents in the order of their numbers, whatever the order of the ids.
func intentsByID(ctx context.Context, tx *ledger.Tx, ids []string) (map[string]*txmgr.Intent, error) {
	found := map[string]*txmgr.Intent{}
	_, err := ledger.In(ctx, tx, "SELECT "+ledger.Names[txmgr.Intent]("")+" FROM intents WHERE id IN %s ORDER BY seq"+tx.ForUpdate(), nil, ids, func(r ledger.Row) error {
		i := &txmgr.Intent{}
		err := ledger.Scan(r, i)
		found[i.ID] = i
		return err
	})
	return found, err
}

// insertIntents stores new intents and sets their numbers.
func insertIntents(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent) error {
	byID := map[string]*txmgr.Intent{}
	for _, i := range list {
		i.Accepted, i.Updated = now, now
		byID[i.ID] = i
	}
	err := ledger.Insert(ctx, tx, "intents", list, "RETURNING id, seq", func(r ledger.Row) error {
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

// saveIntents writes back what can change, and leaves an event for each.
func saveIntents(ctx context.Context, tx *ledger.Tx, now int64, list ...*txmgr.Intent) error {
	if err := updateIntents(ctx, tx, now, list); err != nil {
		return err
	}
	return emit(ctx, tx, now, list...)
}

func updateIntents(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent) error {
	for _, i := range list {
		i.Updated = now
	}
	n, err := ledger.Update(ctx, tx, "intents", "id", intentChanges, list)
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
		Actor: i.Actor, Method: i.Method, Key: i.IdempotencyKey, RequestID: i.RequestID, Metadata: i.Metadata, Waiting: i.Waiting, Error: i.Told(),
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
