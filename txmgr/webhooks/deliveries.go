package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/internal/ledger"
)

// The states of a delivery.
const (
	StatusPending   = "pending"
	StatusDelivered = "delivered"
	StatusDead      = "dead"
)

// Delivery is one event for one webhook.
type Delivery struct {
	ID       string          `db:"id" json:"id" doc:"The webhook-id header."`
	Webhook  string          `db:"webhook" json:"-"`
	Cursor   int64           `db:"cursor_at" json:"-"`
	Subject  string          `db:"subject" json:"subject"`
	Sequence int64           `db:"seq" json:"sequence"`
	Kind     string          `db:"kind" json:"type"`
	Status   string          `db:"status" json:"status" enum:"pending,delivered,dead"`
	Attempts int             `db:"attempts" json:"attempts"`
	Answer   int             `db:"answer" json:"answer,omitempty" doc:"HTTP status of the last answer."`
	Error    string          `db:"last_error" json:"error,omitempty"`
	Next     ledger.Moment   `db:"next_at" json:"nextAt,omitzero"` // when it is tried again; 0 when it is over
	GiveUp   int64           `db:"give_up" json:"-"`
	Created  ledger.Moment   `db:"created_at" json:"createdAt,omitzero"`
	Done     ledger.Moment   `db:"done_at" json:"doneAt,omitzero"`
	Body     json.RawMessage `db:"body" json:"body,omitempty"`
}

// deliveriesWhere reads deliveries d; what follows FROM is part of the program.
func deliveriesWhere(ctx context.Context, tx *ledger.Tx, rest ledger.SQL, args ...any) ([]*Delivery, error) {
	return ledger.Select[Delivery](ctx, tx, "d.", "deliveries d "+rest, args...)
}

// expandBatch bounds the events of one transaction.
const expandBatch = 500

// event is one of the stream. Its body names the tenant, and the caller's subject.
type event struct {
	ledger.Event
	tenant, own string // own is the caller's subject, or else the event's
}

// expand writes the deliveries of the next events of one webhook and reports whether there
// may be more.
func (s *Service) expand(ctx context.Context, id string) (more bool, err error) {
	err = s.db.Write(ctx, func(tx *ledger.Tx) error {
		more = false
		h, err := s.get(ctx, tx, "", id, tx.ForUpdate())
		if err != nil || !h.Enabled {
			return err
		}
		list, err := s.events(ctx, tx, h.Cursor)
		if err != nil || len(list) == 0 {
			return err
		}
		more = len(list) == expandBatch
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.tenant != h.Tenant || !h.wants(e.Kind) {
				continue
			}
			if err := s.deliver(ctx, tx, h, e, now); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE webhooks SET cursor_at = $1 WHERE id = $2", list[len(list)-1].Cursor, id)
		return err
	})
	return more, err
}

func (s *Service) events(ctx context.Context, tx *ledger.Tx, after int64) (list []event, err error) {
	page, err := tx.Events(ctx, s.options.Topic, after, expandBatch)
	for _, e := range page {
		var body struct {
			Tenant  string `json:"tenant"`
			Subject string `json:"subject"`
		}
		if err := json.Unmarshal([]byte(e.Body), &body); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Cursor, err)
		}
		list = append(list, event{e, body.Tenant, cmp.Or(body.Subject, e.Subject)})
	}
	return list, err
}

// deliver writes one delivery with the next sequence number of its subject.
func (s *Service) deliver(ctx context.Context, tx *ledger.Tx, h *Webhook, e event, now int64) error {
	var seq int64
	_, err := tx.One(ctx, `INSERT INTO webhook_sequences (webhook, subject, seq, at) VALUES ($1, $2, 1, $3)
		ON CONFLICT (webhook, subject) DO UPDATE SET seq = webhook_sequences.seq + 1, at = excluded.at RETURNING seq`, []any{h.ID, e.own, now}, &seq)
	if err != nil {
		return fmt.Errorf("sequence: %w", err)
	}
	id := fmt.Sprintf("msg_%s_%d", strings.TrimPrefix(h.ID, "wh_"), e.Cursor)
	body, err := json.Marshal(envelope{
		Type: e.Kind, Timestamp: time.UnixMicro(e.At).UTC(), ID: id, Subject: e.own, Sequence: seq, Cursor: e.Cursor, Data: json.RawMessage(e.Body),
	})
	if err != nil {
		return fmt.Errorf("event %d is not JSON: %w", e.Cursor, err)
	}
	at := ledger.Moment(now)
	return ledger.Insert(ctx, tx, "deliveries", []*Delivery{{
		ID: id, Webhook: h.ID, Cursor: e.Cursor, Subject: e.own, Sequence: seq, Kind: e.Kind, Body: body, Status: StatusPending, Next: at, Created: at,
		GiveUp: now + s.cfg.RetryFor.Duration().Microseconds(),
	}}, "", nil)
}

// claimed is a delivery with what is needed to send it.
type claimed struct {
	*Delivery
	hook     *Webhook
	giveBack func() // its worker's place
}

// claim takes due deliveries: those whose time has come and, unless they were released,
// that have no earlier pending one of their subject. A claim ends by itself. Each has a worker's place, of which one tenant cannot have all:
// its receiver may be slow, and it may have thousands of them.
func (s *Service) claim(ctx context.Context) (list []claimed, now int64, err error) {
	hold := (s.cfg.Timeout.Duration()*2 + time.Minute).Microseconds()
	giveBack := func() {
		for _, d := range list {
			d.giveBack()
		}
		list = nil
	}
	err = s.db.Write(ctx, func(tx *ledger.Tx) error {
		giveBack() // the transaction may run again
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		full := []any{now, s.cfg.Workers} // and the tenants that have their share
		for {
			before := len(full)
			if err := s.claimFor(ctx, tx, now, hold, &full, &list); err != nil || len(full) == before {
				return err
			}
		}
	})
	if err != nil {
		giveBack()
	}
	return list, now, err
}

// claimFor claims for all tenants but those that are full, and adds those that become full.
func (s *Service) claimFor(ctx context.Context, tx *ledger.Tx, now, hold int64, full *[]any, list *[]claimed) error {
	others := ledger.SQL("")
	if n := len(*full) - 2; n > 0 {
		others = " AND w.tenant NOT IN " + ledger.List(3, n)
	}
	found, err := deliveriesWhere(ctx, tx, `JOIN webhooks w ON w.id = d.webhook
		WHERE d.status = 'pending' AND d.next_at <= $1 AND w.enabled AND (d.released OR NOT EXISTS
			(SELECT 1 FROM deliveries p WHERE p.webhook = d.webhook AND p.subject = d.subject AND p.status = 'pending' AND NOT p.released AND p.seq < d.seq))`+others+`
		ORDER BY d.next_at, d.cursor_at LIMIT $2`, *full...)
	if err != nil {
		return err
	}
	for _, d := range found {
		h, err := s.get(ctx, tx, "", d.Webhook, "")
		if err != nil {
			return err
		}
		if slices.Contains((*full)[2:], any(h.Tenant)) {
			continue
		}
		giveBack := s.places.Take(h.Tenant)
		if giveBack == nil {
			*full = append(*full, h.Tenant)
			continue
		}
		taken, err := tx.Exec(ctx, "UPDATE deliveries SET next_at = $1, attempts = attempts + 1 WHERE id = $2 AND status = 'pending' AND attempts = $3 AND next_at = $4",
			now+hold, d.ID, d.Attempts, int64(d.Next))
		if err != nil || taken == 0 { // another process was first
			giveBack()
		}
		if err != nil {
			return err
		}
		if taken == 0 {
			continue
		}
		d.Attempts++
		*list = append(*list, claimed{d, h, giveBack})
	}
	return nil
}

// settle stores what became of an attempt. It changes nothing if the delivery was claimed
// again meanwhile.
func (s *Service) settle(ctx context.Context, d *Delivery, status string, answer int, failure string, next time.Duration) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		done, again := now, int64(0)
		if status == StatusPending {
			done, again = 0, now+next.Microseconds()
		}
		_, err := tx.Exec(ctx, "UPDATE deliveries SET status = $1, answer = $2, last_error = $3, next_at = $4, done_at = $5 WHERE id = $6 AND attempts = $7 AND status = 'pending'",
			status, answer, failure, again, done, d.ID, d.Attempts)
		return err
	})
}

// Deliveries returns deliveries of a webhook, newest first, of one status or of all for "".
// Cursor is the id of the last one of the page before.
func (s *Service) Deliveries(ctx context.Context, tenant, id, status, cursor string, limit int) ([]*Delivery, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*Delivery, error) {
		if _, err := s.get(ctx, tx, tenant, id, ""); err != nil {
			return nil, err
		}
		return deliveriesWhere(ctx, tx, `WHERE d.webhook = $1 AND ($2 = '' OR d.status = $2)
			AND ($3 = '' OR d.cursor_at < (SELECT c.cursor_at FROM deliveries c WHERE c.id = $3))
			ORDER BY d.cursor_at DESC LIMIT $4`, id, status, cursor, limit)
	})
}

// Redeliver sends a delivery again that was delivered or given up. It keeps its id and its
// sequence number, and neither waits for others of its subject nor holds them back.
func (s *Service) Redeliver(ctx context.Context, tenant, webhook, id string) (*Delivery, error) {
	d, err := ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*Delivery, error) {
		if _, err := s.get(ctx, tx, tenant, webhook, tx.ForUpdate()); err != nil {
			return nil, err
		}
		_, err := tx.Exec(ctx, "UPDATE deliveries SET status = 'pending', released = TRUE, next_at = $1, give_up = $2, done_at = 0 WHERE id = $3 AND webhook = $4 AND status <> 'pending'",
			now, now+s.cfg.RetryFor.Duration().Microseconds(), id, webhook)
		if err != nil {
			return nil, err
		}
		d, err := ledger.First(deliveriesWhere(ctx, tx, "WHERE d.id = $1 AND d.webhook = $2", id, webhook))
		if err == nil && d == nil {
			err = ErrNotFound
		}
		return d, err
	})
	s.Wake()
	return d, err
}

// prune deletes deliveries that ended before the retention, and counters of subjects that
// were silent for as long.
func (s *Service) prune(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *ledger.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		before := now - s.cfg.Retention.Duration().Microseconds()
		if _, err := tx.Exec(ctx, "DELETE FROM deliveries WHERE status <> 'pending' AND done_at < $1", before); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM webhook_sequences WHERE at < $1 AND NOT EXISTS
			(SELECT 1 FROM deliveries d WHERE d.webhook = webhook_sequences.webhook AND d.subject = webhook_sequences.subject)`, before)
		return err
	})
}
