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

// Webhook is a URL that is told what happens.
type Webhook struct {
	ID       string        `db:"id" json:"id"`
	Tenant   string        `db:"tenant" json:"-"`
	URL      string        `db:"url" json:"url"`
	Events   []string      `db:"events" json:"events" nullable:"false" doc:"Kinds of events, such as tx.confirmed or tx.*; none is all."`
	Enabled  bool          `db:"enabled" json:"enabled"`
	Cursor   int64         `db:"cursor_at" json:"-"` // of the last event that was turned into a delivery or passed over
	Created  ledger.Moment `db:"created_at" json:"createdAt,omitzero"`
	Shown    string        `json:"secret,omitempty" doc:"Of the signatures; shown when it is made, and never again."` // by a surface
	OldUntil ledger.Moment `db:"old_until" json:"oldSecretUntil,omitzero" doc:"Until when the secret before this one signs as well."`

	Secret    secret.String `db:"secret" json:"-"`
	OldSecret secret.String `db:"old_secret" json:"-"`
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

// wants reports whether the webhook is for a kind of events.
func (h *Webhook) wants(kind string) bool {
	return len(h.Events) == 0 || slices.ContainsFunc(h.Events, func(pattern string) bool {
		if lead, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(kind, lead)
		}
		return kind == pattern
	})
}

// Create registers a URL and returns the webhook with its secret, which is to be shown this once.
func (s *Service) Create(ctx context.Context, tenant, url string, events []string) (*Webhook, error) {
	if err := s.check(url, events); err != nil {
		return nil, err
	}
	h := &Webhook{ID: "wh_" + compact(), Tenant: tenant, URL: url, Events: events, Enabled: true, Secret: webhook.NewSecret()}
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		var count int
		h.Created = ledger.Moment(now)
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
		return ledger.Insert(ctx, tx, "webhooks", []*Webhook{h}, "", nil)
	})
	return h, err
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
		if one := (&Webhook{Events: []string{kind}}); kind == "" || !slices.ContainsFunc(s.options.Kinds, one.wants) {
			return fmt.Errorf("%w: %q; want some of %s, or a beginning and *, such as tx.*", ErrEvents, kind, strings.Join(s.options.Kinds, ", "))
		}
	}
	return nil
}

// where reads webhooks; the condition and what follows it is part of the program.
func where(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*Webhook, error) {
	return ledger.All(ctx, tx, "SELECT "+ledger.Names[Webhook]("")+" FROM webhooks WHERE "+condition, args, func(row ledger.Row) (*Webhook, error) {
		h := &Webhook{Events: []string{}}
		return h, ledger.Scan(row, h)
	})
}

// List returns a tenant's webhooks, all tenants' for "".
func (s *Service) List(ctx context.Context, tenant string) ([]*Webhook, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]*Webhook, error) {
		return where(ctx, tx, "$1 = '' OR tenant = $1 ORDER BY created_at, id", tenant)
	})
}

// Get returns one webhook.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Webhook, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (*Webhook, error) { return s.get(ctx, tx, tenant, id, "") })
}

func (s *Service) get(ctx context.Context, tx *ledger.Tx, tenant, id string, clause ledger.SQL) (*Webhook, error) {
	found, err := where(ctx, tx, "id = $1 AND ($2 = '' OR tenant = $2)"+clause, id, tenant)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
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
func (s *Service) Update(ctx context.Context, tenant, id string, c Change) (*Webhook, error) {
	var h *Webhook
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
		_, err = ledger.Update(ctx, tx, "webhooks", "id", "url events enabled", []*Webhook{h})
		return err
	})
	s.Wake()
	return h, err
}

// Rotate draws a new secret, which is to be shown this once. The old one signs as well for the time given.
func (s *Service) Rotate(ctx context.Context, tenant, id string, overlap time.Duration) (*Webhook, error) {
	fresh := webhook.NewSecret()
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*Webhook, error) {
		h, err := s.get(ctx, tx, tenant, id, tx.ForUpdate())
		if err != nil {
			return nil, err
		}
		h.OldSecret, h.Secret, h.OldUntil = h.Secret, fresh, ledger.Moment(now+overlap.Microseconds())
		_, err = ledger.Update(ctx, tx, "webhooks", "id", "secret old_secret old_until", []*Webhook{h})
		return h, err
	})
}

// Delete removes a webhook with its deliveries.
func (s *Service) Delete(ctx context.Context, tenant, id string) error {
	return s.db.Write(ctx, func(tx *ledger.Tx) error {
		if _, err := s.get(ctx, tx, tenant, id, tx.ForUpdate()); err != nil {
			return err
		}
		for _, query := range []ledger.SQL{
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
func (h *Webhook) secrets(now int64) []secret.String {
	if h.OldSecret != "" && now < int64(h.OldUntil) {
		return []secret.String{h.Secret, h.OldSecret}
	}
	return []secret.String{h.Secret}
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
