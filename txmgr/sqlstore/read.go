package sqlstore

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// Get returns an intent with attempts and timeline.
func (s *Store) Get(ctx context.Context, tenant, id string) (*txmgr.Transaction, error) {
	t := &txmgr.Transaction{}
	err := s.db.Read(ctx, func(tx *ledger.Tx) error {
		list, err := intentsWhere(ctx, tx, "id = $1 AND ($2 = '' OR tenant = $2)", id, tenant)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return txmgr.ErrNotFound
		}
		t = &txmgr.Transaction{Intent: *list[0]}
		attempts, err := attemptsWhere(ctx, tx, "intent = $1", id)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			t.Attempts = append(t.Attempts, *a)
		}
		return tx.Query(ctx, "SELECT seq, at, kind, body FROM outbox WHERE subject = $1 AND topic = $2 ORDER BY id", []any{id, topic}, func(r ledger.Row) error {
			var e txmgr.Step
			var body string
			err := r.Scan(&e.Cursor, &e.At, &e.Kind, &body)
			e.Body = json.RawMessage(body)
			t.Timeline = append(t.Timeline, e)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return t, nil
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
		lanes, err := lanesWhere(ctx, tx, "l.chain = $1 AND l.signer = $2", chain, signer)
		if err != nil {
			return err
		}
		if len(lanes) == 0 {
			return txmgr.ErrUnknownSigner
		}
		line = &txmgr.Line{Lane: lanes[0]}
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
