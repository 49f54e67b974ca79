package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/metric"
	"lockstep/mirror"
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
func (s *Subscriptions) Collectors() []prometheus.Collector { return s.metrics.Collectors() }

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

// logFilter selects logs of new blocks.
type logFilter struct {
	key       string           // equal for filters that select the same
	addresses []common.Address // sorted, with all names that logs may show; empty: any
	topics    topicQuery
}

// newLogFilter makes a filter. aliases are other names of the addresses.
func newLogFilter(addresses, aliases []common.Address, topics topicQuery) *logFilter {
	f := &logFilter{topics: topics, addresses: slices.Concat(addresses, aliases)}
	slices.SortFunc(f.addresses, common.Address.Cmp)
	f.addresses = slices.Compact(f.addresses)
	var key strings.Builder
	for _, address := range f.addresses {
		key.Write(address[:])
	}
	fmt.Fprintf(&key, "|%d", topics.named)
	for i, alternatives := range topics.at {
		sorted := slices.Clone(alternatives)
		slices.SortFunc(sorted, func(a, b common.Hash) int { return bytes.Compare(a[:], b[:]) })
		f.topics.at[i] = slices.Compact(sorted)
		fmt.Fprintf(&key, "|%d:", len(f.topics.at[i]))
		for _, topic := range f.topics.at[i] {
			key.Write(topic[:])
		}
	}
	f.key = key.String()
	return f
}

func (f *logFilter) matches(l *eth.Log) bool {
	if len(f.addresses) > 0 {
		if _, found := slices.BinarySearchFunc(f.addresses, l.Address, common.Address.Cmp); !found {
			return false
		}
	}
	for i, alternatives := range f.topics.at {
		if len(alternatives) > 0 && (i >= len(l.Topics) || !slices.Contains(alternatives, l.Topics[i])) {
			return false
		}
	}
	return f.topics.fits(l)
}

// readLogFilter reads the second parameter of a subscription to logs.
func (s *Subscriptions) readLogFilter(ctx context.Context, v jsonx.Value) (*logFilter, error) {
	switch {
	case !v.Given() && s.hiero():
		return nil, eth.ErrInternal(`"Cannot convert undefined or null to object"`)
	case !v.Given():
		return newLogFilter(nil, nil, topicQuery{}), nil
	}
	if err := logsSubscriptionRule(!s.hiero()).Verify(1, v); err != nil {
		return nil, err
	}
	addresses := distinctAddresses(v.Field("address"))
	switch {
	case s.hiero() && !s.cfg.MultipleAddresses && len(addresses) > 1:
		return nil, eth.ErrInvalidParam("filters.address", "Only one contract address is allowed")
	case len(addresses) > s.cfg.AddressLimit:
		return nil, eth.ErrInvalidParam("filters.address", "A maximum of %d contract addresses are allowed", s.cfg.AddressLimit)
	}
	topics, err := s.api.readTopics(v.Field("topics"))
	if err != nil {
		return nil, err
	}
	aliases, err := s.aliases(ctx, addresses)
	if err != nil {
		return nil, err
	}
	return newLogFilter(addresses, aliases, topics), nil
}

// aliases returns the names that logs show for the addresses. In profile hiero a contract or token must exist at
// each.
func (s *Subscriptions) aliases(ctx context.Context, addresses []common.Address) ([]common.Address, error) {
	aliases := make([]common.Address, len(addresses))
	err := each(ctx, s.api.cfg.Concurrency, addresses, func(ctx context.Context, i int, address common.Address) (err error) {
		if s.hiero() {
			aliases[i], err = s.existing(ctx, address)
		} else {
			aliases[i], err = s.api.mirror.Alias(ctx, address)
		}
		return err
	})
	return aliases, err
}

// existing is the name of the contract or token at an address.
func (s *Subscriptions) existing(ctx context.Context, address common.Address) (common.Address, error) {
	contract, err := s.api.mirror.Contract(ctx, address)
	if missing, err := notFound(err); err != nil {
		return address, err
	} else if !missing {
		return named(contract, address), nil
	}
	if id, ok := hedera.FromLongZero(address); ok {
		_, err := s.api.mirror.Token(ctx, id)
		if missing, err := notFound(err); err != nil || !missing {
			return address, err
		}
	}
	return address, eth.ErrInvalidParam("filters.address", "%s is not a valid contract or token type or does not exists", strings.ToLower(address.Hex()))
}

func named(contract *mirror.Contract, address common.Address) common.Address {
	if contract.Address == (common.Address{}) {
		return address
	}
	return contract.Address
}

// pendingFeed passes accepted transactions to the subscribers, in the order in which they were accepted. It never
// makes the submitting code wait.
type pendingFeed struct {
	hub     *hub
	metrics *subscriptionMetrics
	wake    chan struct{}

	mu    sync.Mutex
	queue [][]byte // raw transactions; guarded by mu
}

// maxPending bounds the transactions on their way to subscribers.
const maxPending = 16384

func newPendingFeed(h *hub, m *subscriptionMetrics) *pendingFeed {
	return &pendingFeed{hub: h, metrics: m, wake: make(chan struct{}, 1)}
}

func (f *pendingFeed) add(raw []byte) {
	if f.hub.pendingStreams.Load() == 0 {
		return
	}
	f.mu.Lock()
	room := len(f.queue) < maxPending
	if room {
		f.queue = append(f.queue, raw)
	}
	f.mu.Unlock()
	if !room {
		f.metrics.dropped.Inc()
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *pendingFeed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		f.mu.Lock()
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, raw := range queue {
			f.hub.pending(raw)
		}
	}
}

// pending tells of one transaction.
func (h *hub) pending(raw []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[interest{event: eventPending}.key()]; s != nil {
		h.publish([]byte(`"`+crypto.Keccak256Hash(raw).Hex()+`"`), s)
	}
	if s := h.streams[interest{event: eventPending, full: true}.key()]; s != nil {
		if whole := pendingJSON(raw); whole != nil {
			h.publish(whole, s)
		}
	}
}

// pendingJSON is the JSON of a raw transaction that is in no block yet.
func pendingJSON(raw []byte) []byte {
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return nil // it would not have been accepted
	}
	text, err := json.Marshal(pendingTransaction(tx.From(), tx.Fields()))
	if err != nil {
		return nil
	}
	return text
}

// pendingTransaction is a transaction that is in no block yet.
func pendingTransaction(from common.Address, tx *types.Transaction) *eth.Transaction {
	v, r, s := tx.RawSignatureValues()
	t := &eth.Transaction{
		Hash: tx.Hash(), Type: hexutil.Uint64(tx.Type()), From: from, To: tx.To(), Nonce: hexutil.Uint64(tx.Nonce()), Value: eth.Number(tx.Value()),
		Input: tx.Data(), Gas: hexutil.Uint64(tx.Gas()), GasPrice: eth.Number(tx.GasFeeCap()), V: eth.Number(v), R: eth.Number(r), S: eth.Number(s),
	}
	if tx.Type() != types.LegacyTxType || tx.Protected() {
		t.ChainID = eth.Number(tx.ChainId())
	}
	if tx.Type() != types.LegacyTxType {
		t.AccessList, t.YParity = eth.Accesses(tx.AccessList()), t.V
	}
	if tx.Type() == types.SetCodeTxType {
		t.Authorizations = append([]types.SetCodeAuthorization{}, tx.SetCodeAuthorizations()...)
	}
	if tx.Type() == types.DynamicFeeTxType || tx.Type() == types.SetCodeTxType {
		t.MaxFee, t.MaxTip = eth.Number(tx.GasFeeCap()), eth.Number(tx.GasTipCap())
	}
	return t
}

// subscriptionMetrics are the numbers of live subscriptions, not registered anywhere.
type subscriptionMetrics struct {
	metric.Set
	streams       prometheus.Gauge
	headStreams   prometheus.Gauge
	subscriptions *prometheus.GaugeVec
	lifetime      prometheus.Histogram
	events        *prometheus.CounterVec
	notifications *prometheus.CounterVec
	failures      prometheus.Counter
	skipped       prometheus.Counter
	dropped       prometheus.Counter
	newest        prometheus.Gauge
}

func newSubscriptionMetrics() *subscriptionMetrics {
	m := &subscriptionMetrics{}
	m.streams = m.Gauge("rpc_websocket_active_polls", "Different sets of events with a subscription.")
	m.headStreams = m.Gauge("rpc_websocket_active_newheads_polls", "Those of the active polls that are for new blocks.")
	m.subscriptions = m.Gauges("rpc_websocket_active_subscriptions", "Subscriptions of all connections.", "tag")
	m.lifetime = m.Histogram("rpc_websocket_subscription_times", "Seconds a subscription lasted.", []float64{.05, 1, 10, 60, 120, 300, 1200, 3600, 86400})
	m.events = m.Counters("rpc_websocket_poll_received_results", "Events found for subscriptions; an event counts once, also if several subscriptions got it.", "tag")
	m.notifications = m.Counters("rpc_websocket_notifications_total", "Notifications queued for clients.", "tag")
	m.failures = m.Counter("rpc_websocket_watch_failures_total", "Failed attempts to read new blocks or their contents.")
	m.skipped = m.Counter("rpc_websocket_watch_skipped_blocks_total", "Blocks that subscribers were not told of, because they cannot be read.")
	m.dropped = m.Counter("rpc_websocket_pending_dropped_total", "Pending transactions that subscribers were not told of, because there were too many at once.")
	m.newest = m.Gauge("rpc_websocket_watch_block", "Newest block that subscribers were told of.")
	return m
}
