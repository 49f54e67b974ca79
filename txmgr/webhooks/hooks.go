package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/access"
	"lockstep/internal/ledger"
	"lockstep/internal/secret"
	"lockstep/internal/webhook"
)

// Errors of callers.
var (
	ErrNotFound = errors.New("no such webhook or delivery")
	ErrTooMany  = errors.New("the tenant has as many webhooks as it may")
	ErrURL      = errors.New("this URL cannot be a webhook")
	ErrEvents   = errors.New("no such events")
)

// Hook is a webhook.
type Hook struct {
	ID       string
	Tenant   string
	URL      string
	Events   []string // kinds; "transaction.*" is all with that beginning; none is all
	Enabled  bool
	Cursor   int64 // of the last event that was turned into a delivery or passed over
	Created  int64 // microseconds since 1970
	OldUntil int64 // until when the old secret signs, too; 0: there is none

	secret, oldSecret secret.String
}

// Options say where the events come from, and how the requests name themselves.
type Options struct {
	Topic string   // of the events in the outbox
	Kinds []string // of events that there are
	Agent string   // User-Agent of the requests
}

// Service keeps webhooks and sends their deliveries.
type Service struct {
	db      *ledger.DB
	cfg     Config
	options Options
	guard   webhook.Guard
	sender  *webhook.Sender
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{}
	places  *access.Places // of workers
}

// New makes a service on a ledger. It starts nothing.
func New(cfg Config, db *ledger.DB, options Options, log *slog.Logger) (*Service, error) {
	guard, err := webhook.NewGuard(cfg.Networks)
	if err != nil {
		return nil, fmt.Errorf("TXM_WEBHOOK_NETWORKS: %w", err)
	}
	return &Service{
		db: db, cfg: cfg, options: options, guard: guard, log: log, metrics: newMetrics(), wake: make(chan struct{}, 1), places: access.NewPlaces(cfg.Workers),
		sender: webhook.NewSender(guard, cfg.Timeout.Duration(), options.Agent),
	}, nil
}

// Wake tells the service that there may be something to send. It never blocks.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is told already
	}
}

// String names the webhook. Printing a struct would show its unexported secrets.
func (h Hook) String() string { return "webhook " + h.ID }

// GoString names the webhook, for %#v.
func (h Hook) GoString() string { return h.String() }

const columns = "id, tenant, url, events, enabled, cursor_at, created_at, secret, old_secret, old_until"

func scanHook(row ledger.Row) (*Hook, error) {
	var h Hook
	var events, own, old string
	if err := row.Scan(&h.ID, &h.Tenant, &h.URL, &events, &h.Enabled, &h.Cursor, &h.Created, &own, &old, &h.OldUntil); err != nil {
		return nil, err
	}
	h.secret, h.oldSecret = secret.String(own), secret.String(old)
	if events != "" {
		h.Events = strings.Split(events, ",")
	}
	return &h, nil
}

// wants reports whether the webhook is for a kind of events.
func (h *Hook) wants(kind string) bool {
	return len(h.Events) == 0 || slices.ContainsFunc(h.Events, func(pattern string) bool {
		if lead, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(kind, lead)
		}
		return kind == pattern
	})
}

// Create registers a URL and returns the webhook with its secret, which is shown this once.
func (s *Service) Create(ctx context.Context, tenant, url string, events []string) (*Hook, secret.String, error) {
	if err := s.check(url, events); err != nil {
		return nil, "", err
	}
	h := &Hook{ID: "wh_" + compact(), Tenant: tenant, URL: url, Events: events, Enabled: true, secret: webhook.NewSecret()}
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		var count int
		h.Created = now
		// The counter's row makes creations take turns, so that the limit holds.
		if _, err := tx.One(ctx, "SELECT value FROM counters WHERE name = 'outbox'"+tx.ForUpdate(), nil, &h.Cursor); err != nil {
			return err
		}
		if _, err := tx.One(ctx, "SELECT count(*) FROM webhooks WHERE tenant = $1", []any{tenant}, &count); err != nil {
			return err
		}
		if count >= s.cfg.Limit {
			return ErrTooMany
		}
		_, err := tx.Exec(ctx, "INSERT INTO webhooks ("+columns+") VALUES "+ledger.Rows(1, 10),
			h.ID, tenant, url, strings.Join(events, ","), true, h.Cursor, h.Created, h.secret.Reveal(), "", 0)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return h, h.secret, nil
}

func (s *Service) check(url string, events []string) error {
	if err := s.guard.Check(url); err != nil {
		return fmt.Errorf("%w: %w", ErrURL, err)
	}
	if len(url) > 2048 {
		return fmt.Errorf("%w: it is too long", ErrURL)
	}
	if len(events) > 50 {
		return fmt.Errorf("%w: more than 50", ErrEvents)
	}
	for _, kind := range events {
		if one := (&Hook{Events: []string{kind}}); kind == "" || !slices.ContainsFunc(s.options.Kinds, one.wants) {
			return fmt.Errorf("%w: %q; want some of %s, or a beginning and *, such as tx.*", ErrEvents, kind, strings.Join(s.options.Kinds, ", "))
		}
	}
	return nil
}

// List returns a tenant's webhooks, all tenants' for "".
func (s *Service) List(ctx context.Context, tenant string) ([]*Hook, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*Hook, error) {
		return ledger.All(ctx, tx, "SELECT "+columns+" FROM webhooks WHERE $1 = '' OR tenant = $1 ORDER BY created_at, id", []any{tenant}, scanHook)
	})
}

// Get returns one webhook.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Hook, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (*Hook, error) { return s.get(ctx, tx, tenant, id, "") })
}

func (s *Service) get(ctx context.Context, tx *ledger.Tx, tenant, id, clause string) (*Hook, error) {
	found, err := ledger.All(ctx, tx, "SELECT "+columns+" FROM webhooks WHERE id = $1 AND ($2 = '' OR tenant = $2)"+clause, []any{id, tenant}, scanHook)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, ErrNotFound
	}
	return found[0], nil
}

// Change is what may be changed of a webhook; nil fields stay.
type Change struct {
	URL     *string
	Events  *[]string
	Enabled *bool
}

// Update changes a webhook. While it is not enabled nothing is sent and nothing is lost
// that the stream still holds when it is enabled again.
func (s *Service) Update(ctx context.Context, tenant, id string, c Change) (*Hook, error) {
	var h *Hook
	err := s.db.Write(ctx, func(tx *ledger.Tx) (err error) {
		if h, err = s.get(ctx, tx, tenant, id, tx.ForUpdate()); err != nil {
			return err
		}
		if c.URL != nil {
			h.URL = *c.URL
		}
		if c.Events != nil {
			h.Events = *c.Events
		}
		if c.Enabled != nil {
			h.Enabled = *c.Enabled
		}
		if err := s.check(h.URL, h.Events); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE webhooks SET url = $1, events = $2, enabled = $3 WHERE id = $4", h.URL, strings.Join(h.Events, ","), h.Enabled, id)
		return err
	})
	s.Wake()
	return h, err
}

// Rotate draws a new secret and returns it. The old one signs as well for the time given.
func (s *Service) Rotate(ctx context.Context, tenant, id string, overlap time.Duration) (*Hook, secret.String, error) {
	fresh := webhook.NewSecret()
	var h *Hook
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) (err error) {
		if h, err = s.get(ctx, tx, tenant, id, tx.ForUpdate()); err != nil {
			return err
		}
		h.oldSecret, h.secret, h.OldUntil = h.secret, fresh, now+overlap.Microseconds()
		_, err = tx.Exec(ctx, "UPDATE webhooks SET secret = $1, old_secret = $2, old_until = $3 WHERE id = $4", fresh.Reveal(), h.oldSecret.Reveal(), h.OldUntil, id)
		return err
	})
	return h, fresh, err
}

// Delete removes a webhook with its deliveries.
func (s *Service) Delete(ctx context.Context, tenant, id string) error {
	return s.db.Write(ctx, func(tx *ledger.Tx) error {
		if _, err := s.get(ctx, tx, tenant, id, tx.ForUpdate()); err != nil {
			return err
		}
		for _, query := range []string{
			"DELETE FROM deliveries WHERE webhook = $1", "DELETE FROM webhook_sequences WHERE webhook = $1", "DELETE FROM webhooks WHERE id = $1",
		} {
			if _, err := tx.Exec(ctx, query, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// secrets are those that sign now, the newest first.
func (h *Hook) secrets(now int64) []secret.String {
	if h.oldSecret != "" && now < h.OldUntil {
		return []secret.String{h.secret, h.oldSecret}
	}
	return []secret.String{h.secret}
}

func compact() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// envelope is the body of a delivery.
type envelope struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	ID        string          `json:"id"`
	Subject   string          `json:"subject"`
	Sequence  int64           `json:"sequence"`
	Cursor    int64           `json:"cursor"`
	Data      json.RawMessage `json:"data"`
}
