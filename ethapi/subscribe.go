package ethapi

import (
	"context"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/rpc"
)

// Notification is the method of the notifications that subscribers get.
const Notification = "eth_subscription"

// Subscriptions are eth_subscribe and eth_unsubscribe, with one follower of the chain for the whole process, and
// the hub that knows who wants what. Run follows the chain.
type Subscriptions struct {
	api     *API
	cfg     SubscriptionConfig
	log     *slog.Logger
	hub     *hub
	metrics *subscriptionMetrics
	pending *pendingFeed
}

// NewSubscriptions makes the subscriptions to what an API reads. It starts nothing.
func NewSubscriptions(api *API) *Subscriptions {
	cfg := api.cfg.Subscriptions
	s := &Subscriptions{api: api, cfg: cfg, log: api.deps.Log, metrics: newSubscriptionMetrics()}
	s.hub = newHub(cfg.Limit, cfg.SameForSameEvent && s.hiero(), s.metrics)
	s.pending = newPendingFeed(s.hub, s.metrics)
	return s
}

// Methods returns the rows of the method table.
func (s *Subscriptions) Methods() []rpc.Method {
	return []rpc.Method{
		{Name: "eth_subscribe", AnyParams: true, WebSocketOnly: true, Handler: translated(s.subscribe)},
		{Name: "eth_unsubscribe", AnyParams: true, WebSocketOnly: true, Handler: s.unsubscribe},
	}
}

// Collectors returns the metrics, for registration.
func (s *Subscriptions) Collectors() []prometheus.Collector { return s.metrics.collectors() }

// Run follows the chain while anybody is subscribed to it, and sends events, until ctx ends. Its error is nil.
func (s *Subscriptions) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { s.follower().run(ctx); return nil })
	group.Go(func() error { s.pending.run(ctx); return nil })
	return group.Wait()
}

// Accepted tells subscribers of a raw transaction that the network has accepted and
// that is in no block yet. It never waits.
func (s *Subscriptions) Accepted(raw []byte) { s.pending.add(raw) }

func (s *Subscriptions) hiero() bool { return s.api.deps.Profile == rpc.ProfileHiero }

// subscribe is eth_subscribe.
func (s *Subscriptions) subscribe(ctx context.Context, p *rpc.Params) (any, error) {
	if !s.cfg.Enabled {
		return nil, eth.ErrSubscriptionsOff
	}
	request, _ := rpc.FromContext(ctx)
	if request.Conn == nil {
		return nil, eth.ErrUnsupportedMethod
	}
	event, err := s.event(p)
	if err != nil {
		return nil, err
	}
	if s.hub.crowded(request.Conn) {
		return nil, eth.ErrTooManySubscriptions
	}
	w := interest{event: event}
	switch event {
	case eventLogs:
		w.logs, err = s.readLogFilter(ctx, p.At(1))
	case eventHeads:
		w.full, err = includeTransactions(p.At(1))
	case eventPending:
		w.full, err = wholeTransactions(p.At(1))
	}
	if err != nil {
		return nil, err
	}
	sub, err := s.enroll(ctx, request.Conn, w)
	if err != nil {
		return nil, err
	}
	return &rpc.Answer{Result: sub.id, Sent: func(sent bool) { s.hub.answer(sub, sent) }}, nil
}

// event reads the first parameter.
func (s *Subscriptions) event(p *rpc.Params) (string, error) {
	name := p.At(0)
	known := []string{eventHeads, eventLogs, eventPending, eventSyncing}
	if text := name.Text(); slices.Contains(known, text) && (text != eventHeads || s.cfg.NewHeads) {
		return text, nil
	}
	switch {
	case s.hiero():
		return "", eth.ErrUnsupportedMethod
	case !name.IsString():
		return "", eth.ErrNoSubscriptionName
	}
	const longest = 128
	text := name.Text()
	return "", eth.ErrNoSuchSubscription(text[:min(len(text), longest)])
}

// includeTransactions reads the optional second parameter of newHeads.
func includeTransactions(v jsonx.Value) (bool, error) {
	const field = "includeTransactions"
	switch flag := v.Field(field); {
	case v.Given() && !v.IsObject():
		return false, eth.ErrInvalidParam(1, "Expected an object, value: %s", clipped(v))
	case !flag.Given():
		return false, nil
	case !flag.IsBool():
		return false, eth.ErrInvalidParam("'"+field+"'", "%s, value: %s", rpc.Boolean().Phrase, clipped(flag))
	default:
		return flag.Bool(), nil
	}
}

// wholeTransactions reads the optional second parameter of newPendingTransactions.
func wholeTransactions(v jsonx.Value) (bool, error) {
	if !v.Given() {
		return false, nil
	}
	if err := rpc.Boolean().Verify(1, v); err != nil {
		return false, err
	}
	return v.Bool(), nil
}

func clipped(v jsonx.Value) string {
	const longest = 100
	return string(v[:min(len(v), longest)])
}

// enroll makes the subscription. If it is the first one that needs blocks, the newest
// block is looked up before the answer: every block after the answer is told.
func (s *Subscriptions) enroll(ctx context.Context, conn rpc.Notifier, w interest) (*subscription, error) {
	sub, ready, err := s.hub.add(conn, w, nil)
	if ready || err != nil {
		return sub, err
	}
	next := uint64(0)
	head, err := s.api.mirror.Head(ctx)
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if !missing {
		next = head.Number + 1
	}
	sub, _, err = s.hub.add(conn, w, &next)
	return sub, err
}

// unsubscribe is eth_unsubscribe. A call without an id is an error, and ends no subscription.
func (s *Subscriptions) unsubscribe(ctx context.Context, p *rpc.Params) (any, error) {
	request, _ := rpc.FromContext(ctx)
	id := p.At(0)
	switch {
	case !s.cfg.Enabled:
		return nil, eth.ErrSubscriptionsOff
	case request.Conn == nil:
		return nil, eth.ErrUnsupportedMethod
	case !id.Given():
		return nil, eth.ErrMissingParam(0)
	case !id.IsString():
		return nil, eth.ErrInvalidParam(0, "%s, value: %s", rpc.Text().Phrase, clipped(id))
	}
	ended := s.hub.cancel(request.Conn, id.Text())
	if !ended && !s.hiero() {
		return nil, eth.ErrSubscriptionNotFound
	}
	return ended, nil
}
