package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
)

// topUpPoll is how often balances are looked at. The manager reads them every half minute. Until it has read each of them once,
// they are looked at every topUpSoon.
const topUpPoll, topUpSoon = 15 * time.Second, time.Second

// amounts reads the sums; nil for a treasury that is not set.
func (t Treasury) amounts() (below, to *big.Int, err error) {
	if t.Signer == "" {
		return nil, nil, nil
	}
	below, okBelow := new(big.Int).SetString(t.Below, 10)
	to, okTo := new(big.Int).SetString(t.To, 10)
	if !okBelow || !okTo || below.Sign() <= 0 || to.Cmp(below) < 0 || t.Every <= 0 {
		return nil, nil, errors.New("TXM_TREASURY: want TXM_TOP_UP_BELOW above 0, TXM_TOP_UP_TO no less than it, and TXM_TOP_UP_EVERY above 0")
	}
	return below, to, nil
}

// treasury tops signers up. Several processes may do so at once: the idempotency key of a
// top-up names the signer and the time, so they make one intent together.
type treasury struct {
	cfg       Treasury
	below, to *big.Int
	manager   *txmgr.Manager
	log       *slog.Logger
}

func newTreasury(cfg Treasury, manager *txmgr.Manager, log *slog.Logger) (*treasury, error) {
	below, to, err := cfg.amounts()
	if err != nil || below == nil {
		return nil, err
	}
	if !manager.OwnsKey(cfg.Signer) {
		return nil, fmt.Errorf("TXM_TREASURY: there is no key of %s", cfg.Signer)
	}
	return &treasury{cfg: cfg, below: below, to: to, manager: manager, log: log}, nil
}

// run looks at all signers again and again.
func (t *treasury) run(ctx context.Context) error {
	for {
		pause := topUpPoll
		if !t.round(ctx) {
			pause = topUpSoon
		}
		if !sleep.For(ctx, pause) {
			return nil
		}
	}
}

// round reports whether the manager has read every balance.
func (t *treasury) round(ctx context.Context) (all bool) {
	lanes, err := t.manager.Signers(ctx, "")
	if err != nil {
		t.failed(ctx, "", err)
		return true
	}
	all = true
	for _, lane := range lanes {
		switch {
		case !lane.Ours:
		case lane.Balance == nil:
			all = false
		case lane.Balance.Cmp(t.below) < 0:
			if _, err := t.fill(ctx, lane); err != nil {
				t.failed(ctx, lane.Signer, err)
			}
		}
	}
	return all
}

func (t *treasury) failed(ctx context.Context, signer string, err error) {
	if ctx.Err() == nil && !ledger.IsDown(err) {
		t.log.WarnContext(ctx, "could not top up a signer", "signer", signer, "err", err)
	}
}

// topUp fills one signer up by hand. It returns nil if there is enough.
func (t *treasury) topUp(ctx context.Context, chain, signer string) (*txmgr.Intent, error) {
	c, err := t.manager.Chain(chain)
	if err != nil {
		return nil, err
	}
	if signer, err = c.Account(signer); err != nil {
		return nil, &txmgr.InvalidError{Field: "address", Problem: err.Error()}
	}
	lanes, err := t.manager.Signers(ctx, chain)
	if err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		if lane.Signer == signer && lane.Ours {
			return t.fill(ctx, lane)
		}
	}
	return nil, txmgr.ErrUnknownSigner
}

func (t *treasury) fill(ctx context.Context, lane *txmgr.Lane) (*txmgr.Intent, error) {
	c, err := t.manager.Chain(lane.Chain)
	if err != nil {
		return nil, err
	}
	from, err := c.Account(t.cfg.Signer)
	if err != nil || from == lane.Signer {
		return nil, err // the treasury itself
	}
	balance, err := c.Balance(ctx, lane.Signer)
	if err != nil {
		return nil, fmt.Errorf("%w: balance: %w", txmgr.ErrUnavailable, err)
	}
	if balance.Cmp(t.to) >= 0 {
		return nil, nil
	}
	turn := time.Now().UnixNano() / t.cfg.Every.Duration().Nanoseconds()
	key := fmt.Sprintf("top-up/%s/%s/%d", lane.Chain, lane.Signer, turn)
	intent, err := t.manager.Submit(ctx, txmgr.Request{
		Chain: lane.Chain, IdempotencyKey: key, Body: []byte(key), Origin: policy.OriginTopUp, To: lane.Signer, Value: new(big.Int).Sub(t.to, balance),
		Pin: from, Subject: "top-up/" + strings.ToLower(lane.Signer), Method: "top-up",
	})
	if err == nil {
		t.log.InfoContext(ctx, "a signer is topped up", "chain", lane.Chain, "signer", lane.Signer, "balance", balance, "intent", intent.ID)
	}
	return intent, err
}
