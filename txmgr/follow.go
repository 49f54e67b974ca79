package txmgr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/clip"
)

// lookBatch bounds how many hashes are asked for in one call.
const lookBatch = 200

// follow asks the chain for the fate of everything that is signed, and for slots that were
// consumed without us. It reports whether the ledger changed.
func (w *worker) follow(ctx context.Context, line *Line) (bool, error) {
	var open, mined []*LineSlot
	for _, slot := range line.Slots {
		switch {
		case slot.Consumed != "":
			mined = append(mined, slot)
		case slot.Signed || slot.Nonce < line.Lane.ChainNonce || slot.Holder == HolderReservation || slot.Holder == HolderForeign:
			open = append(open, slot)
		}
	}
	if len(open)+len(mined) == 0 {
		return false, nil
	}
	if time.Since(w.followed) < w.m.c.Poll.Duration()/4 && !w.suspicious {
		return false, nil
	}
	w.followed = time.Now()
	nonces, err := w.c.Nonces(ctx, w.signer)
	if err != nil {
		return false, fmt.Errorf("the account's nonce: %w", err)
	}
	used := open[:0:0]
	for _, slot := range open {
		if slot.Nonce < nonces.Latest {
			used = append(used, slot)
		}
	}
	// Where attempts expire, the record alone tells, before the nonce does.
	if w.c.Traits().Validity != ValidAlways {
		used = open
	}
	changed, err := w.settleOpen(ctx, line, used, nonces)
	if err != nil {
		return changed, err
	}
	again, err := w.settleMined(ctx, mined, nonces.Head)
	if changed = changed || again; err != nil || changed || nonces.Latest <= line.Lane.ChainNonce {
		return changed, err
	}
	// Nothing was proven, and yet the chain has gone on: somebody else's transaction is in a block that is not final.
	line.Lane.ChainNonce = nonces.Latest
	return false, w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, Observation{ChainNonce: &nonces.Latest})
}

// settleOpen proves who used the slots that the chain is past.
func (w *worker) settleOpen(ctx context.Context, line *Line, used []*LineSlot, nonces Nonces) (bool, error) {
	changed, behind := false, false
	for len(used) > 0 {
		part := used[:min(len(used), lookBatch)]
		used = used[len(part):]
		head, found, err := w.lookUp(ctx, part)
		if err != nil {
			return changed, err
		}
		var proofs []Proof
		for _, slot := range part {
			receipt, attempt, complete := found.of(w.askable(slot))
			if receipt != nil {
				proofs = append(proofs, w.proof(slot, attempt, receipt, head))
				continue
			}
			if !complete {
				continue // a question failed: nothing is known
			}
			if w.c.Traits().Validity != ValidAlways && slot.Nonce >= nonces.Latest {
				again, err := w.renew(ctx, line, slot, found)
				if err != nil {
					return changed, err
				}
				changed = changed || again
			}
			if slot.Nonce >= nonces.Latest {
				continue
			}
			if behind {
				continue
			}
			var proof *Proof
			if proof, behind, err = w.foreign(ctx, slot, head); err != nil {
				return changed, err
			}
			if proof != nil {
				proofs = append(proofs, *proof)
			}
		}
		if len(proofs) == 0 {
			continue
		}
		w.m.at(ctx, PointMined, w.c.ID(), w.signer)
		w.explain(ctx, part, proofs)
		if err := w.m.store.Prove(ctx, w.lease.Fence(), proofs); err != nil {
			return changed, err
		}
		changed = true
		for _, p := range proofs {
			if p.Slot.Cost != nil {
				w.spent.Add(w.spent, p.Slot.Cost)
			}
		}
		w.m.at(ctx, PointRecorded, w.c.ID(), w.signer)
		w.observe(proofs)
		w.m.news.wake()
		w.m.wakeHere(w.c.ID())
	}
	return changed, nil
}

// lookups are answers by hash and tag; a hash whose question failed is missing.
type lookups map[[2]string]Lookup

func (l lookups) at(a *Attempt) (Lookup, bool) {
	one, asked := l[[2]string{a.Hash, a.Tag}]
	return one, asked
}

// askable returns the attempts of a slot that a receipt is asked for: all, but where a tag
// expires only the newest of each hash. It was issued when those before it were proven void, with
// the same bytes, which the driver also finds by hash.
func (w *worker) askable(slot *LineSlot) []*Attempt {
	if w.c.Traits().Validity != ValidTag {
		return slot.Attempts
	}
	var list []*Attempt
	for n, a := range slot.Attempts {
		later := slot.Attempts[n+1:]
		if len(later) > 0 && a.State == AttemptReplaced || slices.ContainsFunc(later, func(b *Attempt) bool { return b.Hash == a.Hash }) {
			continue
		}
		list = append(list, a)
	}
	return list
}

// of returns the receipt of any of some attempts, or reports whether every one of them was
// answered with "none".
func (l lookups) of(attempts []*Attempt) (*Receipt, *Attempt, bool) {
	complete := true
	for _, a := range attempts {
		one, asked := l.at(a)
		switch {
		case !asked || one.Err != nil:
			complete = false
		case one.Receipt != nil:
			return one.Receipt, a, true
		}
	}
	return nil, nil, complete
}

func (w *worker) lookUp(ctx context.Context, slots []*LineSlot) (Head, lookups, error) {
	var ask []Signed
	for _, slot := range slots {
		for _, a := range w.askable(slot) {
			ask = append(ask, Signed{Hash: a.Hash, Raw: a.Raw, Tag: a.Tag})
		}
	}
	head, list, err := w.c.Receipts(ctx, ask)
	if err != nil {
		return Head{}, nil, fmt.Errorf("receipts: %w", err)
	}
	found := lookups{}
	for _, one := range list {
		key := [2]string{one.Hash, one.Tag}
		if old, twice := found[key]; !twice || old.Receipt == nil {
			found[key] = one
		}
	}
	return head, found, nil
}

func (w *worker) proof(slot *LineSlot, a *Attempt, r *Receipt, head Head) Proof {
	return Proof{
		Slot: slot.Slot, Attempt: a, Receipt: r, Block: r.Block, BlockHash: r.BlockHash, Final: head.Number >= r.Block+w.c.Traits().Depth,
	}
}

// explainWithin bounds how long proofs wait for the reasons of failures: a reason is for people, and nothing else waits for it.
const explainWithin = 2 * time.Second

// explain finds out why executed transactions failed, as far as the chain tells or they fail again on the same state.
func (w *worker) explain(ctx context.Context, slots []*LineSlot, proofs []Proof) {
	encoder, _ := w.c.(Encoder)
	replayer, replays := w.c.(Replayer)
	ctx, cancel := context.WithTimeout(ctx, explainWithin)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(parallelSigns)
	for _, p := range proofs {
		r := p.Receipt
		if r == nil || r.Success || p.Attempt.Purpose == PurposeCancel || p.Attempt.Purpose == PurposeFill {
			continue
		}
		at := slices.IndexFunc(slots, func(s *LineSlot) bool { return s.Nonce == p.Slot.Nonce })
		if at < 0 {
			continue
		}
		intent := intentOf(slots[at], p.Attempt.Intent)
		switch {
		case intent == nil:
			continue
		case intent.Receipt != nil && intent.Receipt.BlockHash == r.BlockHash && intent.Receipt.Reason != "":
			r.Reason, r.Output = intent.Receipt.Reason, intent.Receipt.Output
			continue
		}
		group.Go(func() error {
			if r.Reason == "" && replays {
				call := intent.call()
				call.From, call.Gas = w.signer, p.Attempt.Gas
				again, err := replayer.Replay(ctx, call, r)
				if err != nil {
					w.log.Debug("why a transaction failed is not known", "hash", r.Hash, "error", err)
					return nil
				}
				r.Reason, r.Output = again.Reason, again.Output
			}
			if encoder != nil {
				if why := encoder.Reason(r.Output, intent.Extra.Errors); why != "" {
					r.Reason = why
				}
			}
			r.Reason = ClipReason(r.Reason)
			return nil
		})
	}
	_ = group.Wait() // they return nil
}

// longestReason bounds what is kept of a contract's or a node's words, in bytes.
const longestReason = 1 << 10

// ClipReason cuts why a transaction failed to what is kept of it, between two characters.
func ClipReason(text string) string { return clip.Text(text, longestReason) }

// foreign proves that somebody else's transaction used a slot, which none of our attempts
// has a receipt for at the given head. It returns nil while that is not proven, and behind if the
// transaction is our own: then the endpoint was asked for receipts that it does not show yet,
// and the other slots need no look of their own now.
func (w *worker) foreign(ctx context.Context, slot *LineSlot, head Head) (proof *Proof, behind bool, err error) {
	user, err := w.c.Consumer(ctx, w.signer, slot.Nonce)
	if err != nil && ctx.Err() == nil {
		return nil, false, w.unnamed(ctx, slot, err)
	}
	if err != nil || user == nil {
		return nil, false, err
	}
	for _, a := range slot.Attempts {
		if a.Hash == user.Hash {
			proof, err = w.own(ctx, slot, a)
			return proof, true, err
		}
	}
	if head.Number < user.Block || user.Head.Number < user.Block+w.c.Traits().Depth {
		for _, intent := range slot.Intents {
			why := ForeignPrefix + user.Hash + " used its nonce in a block that is not final"
			if intent.Waiting != why {
				if err := w.note(ctx, map[string]string{intent.ID: why}); err != nil {
					return nil, false, err
				}
			}
		}
		return nil, false, nil
	}
	w.log.Warn("another transaction used a nonce, or one above it that ends it", "nonce", slot.Nonce, "hash", user.Hash)
	return &Proof{Slot: slot.Slot, Foreign: user.Hash, Block: user.Block, BlockHash: user.BlockHash, Final: true}, false, nil
}

// unnamed notes that the chain is past a slot, and that nobody says whose transaction used it: nodes keep the state of a few blocks only. The slot waits
// for a node that does, and nothing else waits for the slot.
func (w *worker) unnamed(ctx context.Context, slot *LineSlot, why error) error {
	const words = ForeignPrefix + "its nonce is used, and no endpoint says by what: "
	waiting := map[string]string{}
	for _, intent := range slot.Intents {
		if !strings.HasPrefix(intent.Waiting, words) {
			waiting[intent.ID] = ClipReason(words + why.Error())
		}
	}
	if len(waiting) > 0 {
		w.log.WarnContext(ctx, "a nonce is used, and no endpoint says by what; one that keeps older state would", "nonce", slot.Nonce, "error", why)
	}
	return w.note(ctx, waiting)
}

// own returns the proof that an attempt of ours used the slot, or nil while its receipt is on
// its way.
func (w *worker) own(ctx context.Context, slot *LineSlot, a *Attempt) (*Proof, error) {
	head, list, err := w.c.Receipts(ctx, []Signed{{Hash: a.Hash, Raw: a.Raw, Tag: a.Tag}})
	if err != nil || len(list) == 0 || list[0].Receipt == nil {
		return nil, err
	}
	proof := w.proof(slot, a, list[0].Receipt, head)
	return &proof, nil
}

// settleMined makes proofs final that are deep enough, and takes back those that a
// reorganisation has undone. One question a block tells which.
func (w *worker) settleMined(ctx context.Context, mined []*LineSlot, head Head) (bool, error) {
	depth := w.c.Traits().Depth
	same := map[uint64]string{}
	var doubtful []*LineSlot
	for _, slot := range mined {
		hash, asked := same[slot.Block]
		if !asked {
			var err error
			if hash, err = w.c.BlockHash(ctx, slot.Block, 0); err != nil {
				return false, fmt.Errorf("a block's hash: %w", err)
			}
			same[slot.Block] = hash
		}
		if hash != slot.BlockHash || head.Number >= slot.Block+depth {
			doubtful = append(doubtful, slot)
		}
	}
	changed := false
	for len(doubtful) > 0 {
		part := doubtful[:min(len(doubtful), lookBatch)]
		doubtful = doubtful[len(part):]
		at, found, err := w.lookUp(ctx, part)
		if err != nil {
			return changed, err
		}
		var proofs []Proof
		var undone []Slot
		for _, slot := range part {
			receipt, attempt, complete := found.of(w.askable(slot))
			switch {
			case receipt != nil:
				if p := w.proof(slot, attempt, receipt, at); p.Final || p.BlockHash != slot.BlockHash {
					proofs = append(proofs, p)
				}
			case complete && same[slot.Block] != "" && same[slot.Block] != slot.BlockHash && at.Number >= slot.Block:
				undone = append(undone, slot.Slot)
			}
		}
		w.explain(ctx, part, proofs)
		if err := w.m.store.Unmine(ctx, w.lease.Fence(), undone); err != nil {
			return changed, err
		}
		if err := w.m.store.Prove(ctx, w.lease.Fence(), proofs); err != nil {
			return changed, err
		}
		if len(undone) > 0 {
			w.log.Warn("a reorganisation undid transactions", "count", len(undone))
		}
		if len(undone)+len(proofs) > 0 {
			changed = true
			w.observe(proofs)
			w.m.news.wake()
			w.m.wakeHere(w.c.ID())
		}
	}
	return changed, nil
}

// observe measures how long the attempts that proofs are about took to be mined.
func (w *worker) observe(proofs []Proof) {
	for _, p := range proofs {
		if p.Attempt != nil {
			w.m.stage("mined", p.Attempt)
		}
	}
}

// ended counts an intent that has got its fate.
func (m *Manager) ended(intent *Intent) {
	m.metrics.intents.WithLabelValues(intent.Chain, string(intent.Origin), string(intent.Status)).Inc()
}

// stage observes how long after its signature an attempt reached a stage.
func (m *Manager) stage(name string, a *Attempt) {
	if a.SignedAt > 0 {
		m.metrics.stage.WithLabelValues(name).Observe(time.Since(time.UnixMicro(a.SignedAt)).Seconds())
	}
}
