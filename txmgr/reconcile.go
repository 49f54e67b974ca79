package txmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxForeign bounds how many unknown transactions are named one by one.
const maxForeign = 64

// reconcile compares a lane with its chain: at the beginning of a term, at an interval, and
// after an error that speaks of nonces.
func (w *worker) reconcile(ctx context.Context, line *Line) error {
	if !w.suspicious && !w.reconciled.IsZero() && time.Since(w.reconciled) < w.m.c.Reconcile.Duration() && line.Lane.Known {
		return nil
	}
	if line.Lane.Halted != "" && !w.reconciled.IsZero() && time.Since(w.reconciled) < w.m.c.Poll.Duration() {
		return nil
	}
	beginning := w.reconciled.IsZero()
	if err := w.m.store.CheckIdentity(ctx); isRestored(err) {
		return w.halt(ctx, line, err.Error())
	} else if err != nil {
		return err
	}
	if chain, is := w.c.(Anchored); is && !w.c.Traits().Dev {
		chain.Anchor(line.Identity.FinalNumber, line.Identity.FinalHash)
	}
	if halted, err := w.checkChain(ctx, line); halted || err != nil {
		return err
	}
	nonces, err := w.c.Nonces(ctx, w.signer)
	if err != nil {
		return fmt.Errorf("the account's nonce: %w", err)
	}
	if halted, err := w.checkFinal(ctx, line, nonces.Head); halted || err != nil {
		return err
	}
	if halted, err := w.checkNonce(ctx, line, nonces); halted || err != nil {
		return err
	}
	seen := Observation{ChainNonce: &nonces.Latest}
	if line.Lane.Ours {
		if seen.Balance, err = w.c.Balance(ctx, w.signer); err != nil {
			return fmt.Errorf("the account's balance: %w", err)
		}
		w.spent.SetInt64(0)
		delegated, err := w.c.Delegated(ctx, w.signer)
		if err != nil {
			return fmt.Errorf("the account's code: %w", err)
		}
		seen.Delegated = &delegated
	}
	if err := w.drift(ctx, line, nonces, &seen, beginning); err != nil {
		return err
	}
	if err := w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, seen); err != nil {
		return err
	}
	w.reconciled, w.suspicious = time.Now(), false
	if err := w.abandon(ctx, line, nonces.Latest); err != nil {
		return err
	}
	lane := line.Lane
	lane.ChainNonce, lane.Balance = nonces.Latest, seen.Balance
	if seen.NextNonce != nil {
		lane.NextNonce, lane.Known = *seen.NextNonce, true
	}
	if seen.Halted != nil {
		lane.Halted = *seen.Halted
	}
	return nil
}

// checkChain halts the lane when the chain is not the one that it was.
func (w *worker) checkChain(ctx context.Context, line *Line) (halted bool, err error) {
	identity, err := w.c.Identity(ctx)
	if err != nil {
		return false, fmt.Errorf("the chain's identity: %w", err)
	}
	state := line.Identity
	switch {
	case state.Identity == "":
		line.Identity.Identity = identity
		return false, w.m.store.NoteChain(ctx, w.c.ID(), line.Identity)
	case state.Halted != "" && !w.c.Traits().Dev:
		return true, w.halt(ctx, line, state.Halted)
	case state.Identity == w.c.ID() && identity != state.Identity: // known at last
		line.Identity.Identity = identity
		return false, w.m.store.NoteChain(ctx, w.c.ID(), line.Identity)
	case differs(w.c, state, identity):
		why := fmt.Sprintf("the chain was reset: its first block was %s and is %s; reconcile with reset", state.Identity, identity)
		if !w.c.Traits().Dev {
			state.Halted = why
			if err := w.m.store.NoteChain(ctx, w.c.ID(), state); err != nil {
				return true, err
			}
		}
		return true, w.another(ctx, line, why)
	default:
		return false, nil
	}
}

// differs reports whether an identity is of another chain than the one that the ledger remembers.
func differs(c Chain, state ChainState, identity string) bool {
	return state.Identity != "" && state.Identity != identity && state.Identity != c.ID() && identity != c.ID()
}

// checkFinal halts the lane when a block that was final is another one now, and else notes the
// newest final block.
func (w *worker) checkFinal(ctx context.Context, line *Line, head Head) (halted bool, err error) {
	newest := line.Identity
	if depth := w.c.Traits().Depth; head.Number > newest.FinalNumber+depth {
		// It is asked for before the noted one: whatever replaces the chain between both questions shows in the second.
		newest.FinalNumber = head.Number - depth
		if newest.FinalHash, err = w.c.BlockHash(ctx, newest.FinalNumber, depth); err != nil {
			return false, fmt.Errorf("a final block's hash: %w", err)
		}
	}
	why, err := replaced(ctx, w.c, line.Identity)
	if err != nil {
		return false, err
	}
	if why != "" {
		return true, w.another(ctx, line, why)
	}
	if newest.FinalHash == "" || newest == line.Identity {
		return false, nil
	}
	return false, w.m.store.NoteChain(ctx, w.c.ID(), newest)
}

// another halts the lane of a chain that is not what it was. On a development chain, which is reset as a part of the work,
// all its lanes begin anew.
func (w *worker) another(ctx context.Context, line *Line, why string) error {
	if !w.c.Traits().Dev {
		return w.halt(ctx, line, why)
	}
	identity, err := w.c.Identity(ctx)
	if err != nil {
		return fmt.Errorf("the chain's identity: %w", err)
	}
	line.Lane.Halted = why // for this round
	w.log.Warn("a development chain begins anew; what was on its way has failed", "reason", why)
	if err := w.m.store.ResetChain(ctx, w.c.ID(), w.lease.Fence().Owner, identity, line.Identity.Era); err != nil && !errors.Is(err, ErrStale) {
		return err
	}
	w.m.wakeHere(w.c.ID())
	return nil
}

// checkNonce notices a chain that went back without another first block, such as one that was set back to a snapshot: an
// account's nonce never falls below one whose transaction was final. An endpoint may be behind for a while, so every one is asked,
// and but for a development chain twice, an interval apart.
func (w *worker) checkNonce(ctx context.Context, line *Line, nonces Nonces) (halted bool, err error) {
	if !line.Lane.Ours || !line.Lane.Known || nonces.Latest >= finalNonce(line) {
		w.back = time.Time{}
		return false, nil
	}
	why, err := below(ctx, w.c, line)
	if err != nil || why == "" {
		w.back = time.Time{}
		return false, nil //nolint:nilerr // who does not answer may know more
	}
	if w.back.IsZero() {
		w.back = time.Now()
	}
	if !w.c.Traits().Dev && time.Since(w.back) < w.m.c.Reconcile.Duration() {
		return false, nil
	}
	return true, w.another(ctx, line, why)
}

// finalNonce is the lowest nonce of a lane that is not used by a final transaction.
func finalNonce(line *Line) uint64 {
	if len(line.Slots) > 0 {
		return min(line.Slots[0].Nonce, line.Lane.NextNonce)
	}
	return line.Lane.NextNonce
}

// below says that no endpoint of a chain has got as far as the ledger, "" if one has.
func below(ctx context.Context, c Chain, line *Line) (string, error) {
	final := finalNonce(line)
	_, highest, err := c.HighestPending(ctx, line.Lane.Signer)
	if err != nil || highest >= final {
		return "", err
	}
	return fmt.Sprintf("the chain went back: the nonce of %s is %d, and %d of its transactions were final; reconcile with reset", line.Lane.Signer, highest, final), nil
}

// wentBack is below for an operator.
func (m *Manager) wentBack(ctx context.Context, c Chain, signer string) (string, error) {
	line, err := m.store.Line(ctx, c.ID(), signer)
	if err != nil || !line.Lane.Known {
		return "", err
	}
	return below(ctx, c, line)
}

// replaced tells that the chain has another block in the place of one that was final, "" if not. An
// endpoint that does not have the block, or few above it, is behind, or keeps no old ones: that proves nothing.
func replaced(ctx context.Context, c Chain, state ChainState) (string, error) {
	if state.FinalHash == "" {
		return "", nil
	}
	hash, err := c.BlockHash(ctx, state.FinalNumber, c.Traits().Depth)
	if err != nil {
		return "", fmt.Errorf("a final block's hash: %w", err)
	}
	if hash == "" || hash == state.FinalHash {
		return "", nil
	}
	return fmt.Sprintf("the chain was reset: its block %d was final as %s and is %s; reconcile with reset", state.FinalNumber, state.FinalHash, hash), nil
}

func (w *worker) halt(ctx context.Context, line *Line, why string) error {
	w.reconciled = time.Now()
	if line.Lane.Halted == why {
		return nil
	}
	w.log.Error("signing is halted", "reason", why)
	line.Lane.Halted = why
	return w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, Observation{Halted: &why})
}

// drift decides what the chain's nonce means for the next one.
func (w *worker) drift(ctx context.Context, line *Line, nonces Nonces, seen *Observation, beginning bool) error {
	lane := line.Lane
	ahead := int64(nonces.Latest) - int64(lane.NextNonce)
	w.m.metrics.drift.WithLabelValues(w.c.ID(), w.signer).Set(float64(max(ahead, 0)))
	switch {
	case !lane.Ours: // its callers may send by other ways too
		if !lane.Known || ahead > 0 {
			seen.NextNonce = &nonces.Latest
		}
		return nil
	case !lane.Known:
		return w.firstUse(ctx, nonces, seen)
	case ahead <= 0:
		return nil
	}
	w.log.Warn("the chain's nonce is ahead of the ledger's", "chainNonce", nonces.Latest, "ledgerNonce", lane.NextNonce)
	if beginning || ahead > maxForeign {
		why := fmt.Sprintf("unknown transactions of ours on chain: its nonce is %d and the ledger's %d; reconcile", nonces.Latest, lane.NextNonce)
		seen.Halted, seen.Ahead = &why, &nonces.Latest // an operator may reconcile meanwhile
		return nil
	}
	// The ledger is the one that it was a moment ago, so somebody else has the key.
	var users []Consumer
	for nonce := lane.NextNonce; nonce < nonces.Latest; nonce++ {
		user, err := w.c.Consumer(ctx, w.signer, nonce)
		if err != nil {
			return err
		}
		if user == nil || user.Head.Number < user.Block+w.c.Traits().Depth {
			break // not final: later
		}
		users = append(users, *user)
	}
	if len(users) == 0 {
		return nil
	}
	if err := w.m.store.Foreign(ctx, w.lease.Fence(), w.c.ID(), w.signer, users, lane.NextNonce); err != nil {
		return err
	}
	lane.NextNonce += uint64(len(users))
	return nil
}

// firstUse takes the chain's nonce if nothing of somebody else waits anywhere.
func (w *worker) firstUse(ctx context.Context, nonces Nonces, seen *Observation) error {
	latest, pending, err := w.c.HighestPending(ctx, w.signer)
	if err != nil {
		return fmt.Errorf("pending transactions of a new signer: %w", err)
	}
	latest = max(latest, nonces.Latest) // whoever was asked before may be behind
	if pending > latest {
		why := fmt.Sprintf("somebody else sends from this account: nonces %d to %d wait already; reconcile with adopt", latest, pending-1)
		seen.Halted, seen.FirstUse = &why, true // an operator may adopt them meanwhile
		return nil
	}
	seen.NextNonce = &latest
	return nil
}

// missing is an adopted transaction that no endpoint had when it was last looked for.
type missing struct {
	nonce uint64
	since time.Time // zero: none is missing
}

// abandon frees the nonce of an adopted transaction that is gone, so that an intent or a fill takes
// it: what is behind it would wait for ever. It must be the account's next nonce, since no endpoint
// counts what waits behind a gap, and every endpoint must miss it in two looks that are an interval
// apart, since a block or a node's pool may be on its way.
func (w *worker) abandon(ctx context.Context, line *Line, next uint64) error {
	at := slices.IndexFunc(line.Slots, func(s *LineSlot) bool {
		return s.Nonce == next && s.Holder == HolderForeign && s.Consumed == "" && !s.Final
	})
	if at < 0 {
		w.missing = missing{}
		return nil
	}
	slot := line.Slots[at]
	_, pending, err := w.c.HighestPending(ctx, w.signer)
	switch {
	case err != nil:
		w.log.Warn("whether an adopted transaction still waits is not known", "nonce", slot.Nonce, "error", err)
		return nil
	case pending > next:
		w.missing = missing{}
		return nil
	case w.missing.since.IsZero() || w.missing.nonce != next:
		w.missing = missing{next, time.Now()}
		return nil
	case time.Since(w.missing.since) < w.m.c.Reconcile.Duration():
		return nil
	}
	w.log.Warn("an adopted transaction of somebody else is gone; its nonce is free", "nonce", slot.Nonce)
	if err := w.m.store.Abandon(ctx, w.lease.Fence(), slot.Slot); err != nil {
		return err
	}
	slot.Holder, w.missing = HolderFree, missing{}
	return nil
}
