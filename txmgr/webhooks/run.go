package webhooks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/webhook"
)

const (
	pollEvery  = time.Second
	pruneEvery = time.Hour
)

// backoff is the pause after each failed attempt; the last one repeats.
var backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour}

// Run turns events into deliveries and sends them, until ctx ends. It returns when every
// attempt that it began has ended.
func (s *Service) Run(ctx context.Context) error {
	defer s.sender.Close()
	workers := new(errgroup.Group)
	workers.SetLimit(s.cfg.Workers)
	defer func() { _ = workers.Wait() }() // they return nil
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	pruned := time.Now()
	for {
		more := s.round(ctx, workers)
		if time.Since(pruned) > pruneEvery {
			pruned = time.Now()
			s.report(ctx, "delete old deliveries", s.prune(ctx))
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		case <-s.wake:
		}
	}
}

// round expands and claims once, and reports whether there is likely more to do now.
func (s *Service) round(ctx context.Context, workers *errgroup.Group) (more bool) {
	if ctx.Err() != nil {
		return false
	}
	hooks, err := s.List(ctx, "")
	if err != nil {
		s.report(ctx, "read the webhooks", err)
		return false
	}
	for _, h := range hooks {
		if !h.Enabled {
			continue
		}
		again, err := s.expand(ctx, h.ID)
		if !errors.Is(err, ErrNotFound) { // deleted meanwhile
			s.report(ctx, "turn events into deliveries", err)
		}
		more = more || again
	}
	if len(hooks) == 0 {
		return false
	}
	list, now, err := s.claim(ctx)
	if err != nil {
		s.report(ctx, "claim deliveries", err)
		return false
	}
	for _, d := range list {
		workers.Go(func() error {
			defer s.Wake() // others may have waited for its place
			defer d.giveBack()
			s.attempt(ctx, d, now)
			return nil
		})
	}
	return more
}

// attempt sends a delivery once and stores what came of it.
func (s *Service) attempt(ctx context.Context, d claimed, now int64) {
	answer, err := s.sender.Send(ctx, webhook.Message{ID: d.ID, URL: d.hook.URL, Secrets: d.hook.secrets(now), Body: d.Body})
	if err != nil && ctx.Err() != nil {
		return // the claim ends by itself, or the next start takes it over
	}
	// What came of it is stored even if the process is asked to stop meanwhile.
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout.Duration())
	defer cancel()
	if err == nil {
		s.metrics.deliveries.WithLabelValues("delivered").Inc()
		s.report(store, "store a delivery", s.settle(store, d.Delivery, StatusDelivered, answer, "", 0))
		s.Wake() // its successor may go
		return
	}
	pause := nextPause(d.Attempts, err)
	if now+pause.Microseconds() > d.GiveUp {
		s.metrics.deliveries.WithLabelValues("dead").Inc()
		s.log.Warn("a webhook's delivery was given up", "webhook", d.Webhook, "delivery", d.ID, "attempts", d.Attempts, "err", err)
		s.report(store, "store a delivery", s.settle(store, d.Delivery, StatusDead, answer, err.Error(), 0))
		s.Wake()
		return
	}
	result := "failed"
	if errors.Is(err, webhook.ErrPrivate) {
		result = "refused"
	}
	s.metrics.deliveries.WithLabelValues(result).Inc()
	s.report(store, "store a delivery", s.settle(store, d.Delivery, StatusPending, answer, err.Error(), pause))
}

// nextPause is how long to wait after an attempt that failed: longer each time, with a
// fifth of chance, and never shorter than the receiver asked for.
func nextPause(attempts int, err error) time.Duration {
	pause := backoff[min(max(attempts, 1), len(backoff))-1]
	pause += time.Duration(rand.Int64N(int64(pause / 5)))
	if status, ok := errors.AsType[*webhook.StatusError](err); ok {
		pause = max(pause, status.RetryAfter)
	}
	return pause
}

func (s *Service) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
		s.log.Error("webhooks: an operation on the ledger failed; it is tried again", "operation", what, "err", err)
	}
}

type metrics struct {
	deliveries *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "txm_webhook_deliveries_total",
		Help: "Attempts to deliver a webhook: delivered, failed (tried again), refused (a private address; tried again), dead (given up).",
	}, []string{"result"})}
	// Each has a series from the start: Prometheus does not see that a counter grew if its series begins with 1.
	for _, result := range []string{"delivered", "failed", "refused", "dead"} {
		m.deliveries.WithLabelValues(result)
	}
	return m
}

// Collectors are the metrics of this package, for a registry.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.deliveries}
}

// Config holds the settings of webhooks.
type Config struct {
	// Private networks and addresses that webhooks may reach, such as 10.0.0.0/8; * for all. Public ones are always allowed.
	Networks envx.Strings `env:"TXM_WEBHOOK_NETWORKS"`
	// How long one attempt to deliver a webhook may take.
	Timeout envx.Millis `env:"TXM_WEBHOOK_TIMEOUT_MS" envDefault:"15000" min:"1ms"`
	// How long a delivery is tried again before it becomes a dead letter.
	RetryFor envx.Millis `env:"TXM_WEBHOOK_RETRY_FOR" envDefault:"24h" min:"1ms"`
	// Deliveries that are sent at once.
	Workers int `env:"TXM_WEBHOOK_WORKERS" envDefault:"16" min:"1" max:"1000"`
	// Webhooks that one tenant may have.
	Limit int `env:"TXM_WEBHOOK_LIMIT" envDefault:"50" min:"1"`
	// How long deliveries are kept after they were delivered or given up.
	Retention envx.Millis `env:"TXM_WEBHOOK_RETENTION" envDefault:"168h" min:"1ms"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if _, err := webhook.NewGuard(c.Networks); err != nil {
		errs = append(errs, fmt.Errorf("TXM_WEBHOOK_NETWORKS: %w", err))
	}
	return errors.Join(errs...)
}
