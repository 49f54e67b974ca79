package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// Get returns an intent with attempts and timeline.
func (s *Store) Get(ctx context.Context, tenant, id string) (*txmgr.Transaction, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (*txmgr.Transaction, error) {
		i, err := ledger.First(intentsWhere(ctx, tx, "id = $1 AND ($2 = '' OR tenant = $2)", id, tenant))
		if err != nil || i == nil {
			return nil, cmp.Or(err, txmgr.ErrNotFound)
		}
		attempts, err := attemptsWhere(ctx, tx, "intent = $1", id)
		if err != nil {
			return nil, err
		}
		t := &txmgr.Transaction{Intent: *i}
		for _, a := range attempts {
			t.Attempts = append(t.Attempts, *a)
		}
		return t, tx.Query(ctx, "SELECT seq, at, kind, body FROM outbox WHERE subject = $1 AND topic = $2 ORDER BY id", []any{id, topic}, func(r ledger.Row) error {
			var e txmgr.Step
			var body string
			err := r.Scan(&e.Cursor, &e.At, &e.Kind, &body)
			e.Body = json.RawMessage(body)
			t.Timeline = append(t.Timeline, e)
			return err
		})
	})
}

// maxPage bounds one page of Find.
const maxPage = 500

// Find returns a page of intents, newest first.
func (s *Store) Find(ctx context.Context, q txmgr.Query) ([]*txmgr.Intent, string, error) {
	limit := q.Limit
	if limit <= 0 || limit > maxPage {
		limit = 50
	}
	conditions := []ledger.SQL{"TRUE"}
	var args []any
	where := func(condition ledger.SQL, value any) {
		args = append(args, value)
		conditions = append(conditions, ledger.Fill(condition, "$"+ledger.Number(len(args))))
	}
	if q.Tenant != "" {
		where("tenant = %s", q.Tenant)
	}
	if q.Chain != "" {
		where("chain = %s", q.Chain)
	}
	if q.Key != "" {
		where("idem_key = %s", q.Key)
	}
	if q.Hash != "" {
		where("id IN (SELECT intent FROM attempts WHERE hash = %s)", q.Hash)
	}
	if q.Signer != "" {
		where("signer = %s", q.Signer)
	}
	if q.Nonce != nil {
		where("nonce = %s AND signer <> ''", int64(*q.Nonce))
	}
	if q.Status != "" {
		where("status = %s", string(q.Status))
	}
	if q.Cursor != "" {
		before, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return nil, "", &txmgr.InvalidError{Field: "cursor", Problem: "not one of ours"}
		}
		where("seq < %s", before)
	}
	page, err := ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*txmgr.Intent, error) {
		return intentsWhere(ctx, tx, ledger.Join(conditions, " AND ")+" ORDER BY seq DESC LIMIT "+ledger.Number(limit+1), args...)
	})
	if err != nil || len(page) <= limit {
		return page, "", err
	}
	page = page[:limit]
	return page, strconv.FormatInt(page[limit-1].Seq, 10), nil
}

// Queue returns accepted intents in order, with what their predecessors allow.
func (s *Store) Queue(ctx context.Context, chain string, after int64, limit int, confirmed bool) ([]*txmgr.Queued, error) {
	// The live predecessor is the newest earlier intent of the key without a fate. The last
	// one counts as failed for those that were already waiting when it got that fate.
	const predecessors = `,
		(SELECT p.status || ' ' || p.signer || CASE WHEN p.receipt LIKE '%"success":false%' THEN ' failed' ELSE '' END FROM intents p
			WHERE i.order_key <> '' AND p.chain = i.chain AND p.tenant = i.tenant AND p.order_key = i.order_key AND p.seq < i.seq
			AND NOT p.final ORDER BY p.seq DESC LIMIT 1),
		(SELECT CASE WHEN p.final AND p.status IN ('reverted', 'failed', 'cancelled', 'expired') AND p.updated_at >= i.accepted_at THEN p.id ELSE '' END
			FROM intents p WHERE i.order_key <> '' AND i.on_failure = 'stop' AND p.chain = i.chain AND p.tenant = i.tenant
			AND p.order_key = i.order_key AND p.seq < i.seq ORDER BY p.seq DESC LIMIT 1)`
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*txmgr.Queued, error) {
		return ledger.All(ctx, tx, "SELECT "+ledger.Names[txmgr.Intent]("i.")+predecessors+" FROM intents i WHERE i.chain = $1 AND i.signer = '' AND NOT i.final AND i.status = 'accepted' AND i.seq > $3 ORDER BY i.seq LIMIT $2",
			[]any{chain, limit, after}, func(r ledger.Row) (*txmgr.Queued, error) {
				var live, failed *string
				q := &txmgr.Queued{Intent: &txmgr.Intent{}}
				if err := ledger.Scan(r, q.Intent, &live, &failed); err != nil {
					return nil, err
				}
				if failed != nil {
					q.Stop = *failed
				}
				if live != nil {
					q.Behind, q.Blocked = behind(*live, q.OnFailure, confirmed)
				}
				return q, nil
			})
	})
}

func behind(live, onFailure string, confirmed bool) (signer string, blocked bool) {
	status, rest, _ := strings.Cut(live, " ")
	signer, failed := strings.CutSuffix(rest, " failed")
	switch txmgr.Status(status) {
	case txmgr.StatusAccepted:
		return "", true
	case txmgr.StatusMined:
		if failed && onFailure == txmgr.OnFailureStop {
			return "", true // until its block is final
		}
		if !confirmed {
			return "", false
		}
		return signer, false
	case txmgr.StatusConfirmed, txmgr.StatusReverted, txmgr.StatusFailed, txmgr.StatusExpired, txmgr.StatusReplaced, txmgr.StatusCancelled:
		return "", onFailure == txmgr.OnFailureStop && status == string(txmgr.StatusCancelled) // provisional
	default:
		return signer, false
	}
}

// Line returns what is not final in a lane.
func (s *Store) Line(ctx context.Context, chain, signer string) (*txmgr.Line, error) {
	var line *txmgr.Line
	err := s.db.Read(ctx, func(tx *ledger.Tx) error {
		lane, err := ledger.First(lanesWhere(ctx, tx, "l.chain = $1 AND l.signer = $2", chain, signer))
		if err != nil || lane == nil {
			return cmp.Or(err, txmgr.ErrUnknownSigner)
		}
		line = &txmgr.Line{Lane: lane}
		if line.Now, err = tx.Now(ctx); err != nil {
			return err
		}
		if line.Identity, err = chainRow(ctx, tx, chain); err != nil {
			return err
		}
		slots, err := slotsWhere(ctx, tx, line.Lane, "NOT final", "")
		if err != nil || len(slots) == 0 {
			return err
		}
		byNonce := map[uint64]*txmgr.LineSlot{}
		for _, slot := range slots {
			ls := &txmgr.LineSlot{Slot: *slot}
			byNonce[slot.Nonce] = ls
			line.Slots = append(line.Slots, ls)
		}
		attempts, err := attemptsBetween(ctx, tx, line.Lane, slots[0].Nonce, slots[len(slots)-1].Nonce)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			if slot := byNonce[a.Nonce]; slot != nil {
				slot.Attempts = append(slot.Attempts, a)
			}
		}
		intents, err := intentsWhere(ctx, tx, "chain = $1 AND signer = $2 AND era = $3 AND NOT final ORDER BY seq", chain, signer, line.Lane.Era)
		if err != nil {
			return err
		}
		for _, i := range intents {
			slot := byNonce[i.Nonce]
			switch {
			case slot == nil || i.Status == txmgr.StatusAccepted:
			case slot.Slot.Intent == i.ID:
				slot.Intents = append([]*txmgr.Intent{i}, slot.Intents...)
			default:
				slot.Intents = append(slot.Intents, i)
			}
		}
		return nil
	})
	return line, err
}

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
