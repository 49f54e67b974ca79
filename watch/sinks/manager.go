package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lockstep/txmgr/client"
	"lockstep/watch"
)

// manager hands an intent to a transaction manager for each event that triggers one. The event's id is the idempotency key, so that
// an event that comes again, after whatever crash, finds the transaction that it had before.
type manager struct {
	client   *client.Client
	deps     Deps
	patience time.Duration // with calls that would fail

	mu     sync.Mutex
	failed map[string]time.Time // when a call would have failed first, by its event
}

const (
	// revertPatience is how long a call that would fail is offered again: the manager's endpoints may not have the block of its event yet.
	revertPatience = time.Minute
	// maxFailed bounds the calls that are remembered.
	maxFailed = 10_000
)

func newManager(url string, deps Deps) *manager {
	return &manager{client: client.New(url, deps.ManagerKey), deps: deps, patience: revertPatience, failed: map[string]time.Time{}}
}

// Publish implements watch.Sink.
func (m *manager) Publish(ctx context.Context, batch []watch.Message) []error {
	return perContract(batch, posters, func(i int) error { return m.act(ctx, &batch[i].Event) })
}

func (m *manager) act(ctx context.Context, e *watch.Event) error {
	intent, err := m.deps.Plan.ActionOn(e)
	if err != nil {
		return fmt.Errorf("%w: %w", watch.ErrSettled, err)
	}
	if intent == nil {
		return nil
	}
	tx, err := m.client.Send(ctx, client.Intent{
		Chain: strconv.FormatUint(e.Chain, 10), To: intent.To, Function: intent.Function, Args: intent.Args, Pool: intent.Pool, Method: intent.Function, OrderKey: e.Address, Subject: e.Address,
	}, client.Options{Key: e.ID})
	early := m.early(e.ID, err)
	switch {
	case err == nil:
		m.deps.Log.InfoContext(ctx, "an event has its transaction", "event", e.ID, "transaction", tx.ID, "call", intent.Function)
		return nil
	case settled(err) && !early:
		return fmt.Errorf("%w: the transaction manager refuses %s to %s: %w", watch.ErrSettled, intent.Function, intent.To, err)
	default:
		return fmt.Errorf("sink manager: %w", err)
	}
}

// early reports whether a call may fail only because it is tried too soon.
func (m *manager) early(event string, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, is := errors.AsType[*client.Problem](err); !is || p.Code != "WOULD_REVERT" {
		if err == nil {
			delete(m.failed, event)
		}
		return false
	}
	if len(m.failed) >= maxFailed {
		clear(m.failed)
	}
	first, known := m.failed[event]
	if !known {
		first = time.Now()
		m.failed[event] = first
	}
	if time.Since(first) < m.patience {
		return true
	}
	delete(m.failed, event)
	return false
}

// settled reports whether asking again cannot change the answer: the request is wrong, it would fail on the chain, or its key has had a
// transaction. A key that is not accepted, a policy, a budget and a halt can be mended. An answer without a code is not the manager's, but that of
// something before it, or in its place.
func settled(err error) bool {
	var p *client.Problem
	if !errors.As(err, &p) || p.Code == "" {
		return false
	}
	switch p.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusGone:
		return true
	case http.StatusUnprocessableEntity:
		return p.Code != "UNKNOWN_CHAIN" && p.Code != "UNKNOWN_SIGNER"
	default:
		return false
	}
}

// Close implements watch.Sink.
func (m *manager) Close() {}
