package txmgr

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"lockstep/internal/sleep"
)

// Acquire reserves the next nonce of an account for a caller who signs for itself. ErrLocked while another has it alone.
func (m *Manager) Acquire(ctx context.Context, tenant, chain, account string) (*Reservation, error) {
	return m.reserve(ctx, tenant, chain, account, m.store.Reserve)
}

// Lock lets one caller alone have an account, with its next nonce reserved: until Unlock, or until its time has passed,
// no reservation, intent or unreserved transaction gets a nonce of the account. ErrLocked, ErrTooMany.
func (m *Manager) Lock(ctx context.Context, tenant, chain, account string) (*Reservation, error) {
	return m.reserve(ctx, tenant, chain, account, m.store.LockLane)
}

func (m *Manager) reserve(ctx context.Context, tenant, chain, account string,
	take func(ctx context.Context, chain, signer, tenant string, ttl int64, limit int, only bool, holds ...Hold) (*Reservation, error),
) (*Reservation, error) {
	c, name, err := m.account(chain, "address", account)
	if err != nil {
		return nil, err
	}
	holds, err := m.mayHold(ctx, tenant, c, name)
	if err != nil {
		return nil, err
	}
	// The lane is there on all calls but the first, and reading it costs as much as reserving.
	for first := true; ; first = false {
		v, err := take(ctx, chain, name, tenant, m.c.Reservation.Duration().Microseconds(), m.c.MaxReservations, c.Traits().InLine(), holds...)
		if !first || !errors.Is(err, ErrUnknownSigner) && !errors.Is(err, ErrNonceUnknown) {
			return v, err
		}
		if err := m.callerLane(ctx, tenant, chain, name); err != nil {
			return nil, err
		}
	}
}

// mayHold decides whether a tenant may have a nonce of a signer whose key is here. It keeps all behind it waiting, and if it is not
// used the manager pays for a transaction that fills it: so whoever wants it must be one who may send that, and no more are given than
// the signer has on its way at once.
func (m *Manager) mayHold(ctx context.Context, tenant string, c Chain, account string) ([]Hold, error) {
	if m.key(account) == nil {
		return nil, nil
	}
	lane, err := m.store.Lane(ctx, c.ID(), account)
	switch {
	case errors.Is(err, ErrUnknownSigner):
		return nil, nil
	case err != nil:
		return nil, err
	case lane.Pending >= window(lane, c.Traits(), m.c.InFlight):
		return nil, fmt.Errorf("%w: the signer has %d transactions and reservations on its way", ErrTooMany, lane.Pending)
	case m.guard == nil:
		return nil, nil
	}
	market, err := m.Fees(ctx, c.ID())
	if err != nil {
		return nil, err
	}
	fill := &Intent{Request: Request{Tenant: tenant, Chain: c.ID(), To: account, Value: new(big.Int), Gas: fillGas, Speed: SpeedFast, Origin: "reservation"}, Kind: KindSend}
	price := m.ceiling(c.ID(), market.Tips[SpeedFast].Max)
	return m.guard.Allow(ctx, fill, Cost{Gas: fillGas, Price: price, Total: MostOf(nil, fillGas, price)})
}

// fillGas is what a transaction to oneself takes at least.
const fillGas = 21_000

// RenewReservation gives a held reservation its full time again; of a signer whose key is here, for four times as long in all.
func (m *Manager) RenewReservation(ctx context.Context, tenant, id string) (*Reservation, error) {
	return m.store.RenewReservation(ctx, tenant, id, m.c.Reservation.Duration().Microseconds())
}

// Recycle gives a reservation back that no bytes were handed over for. False: not possible.
func (m *Manager) Recycle(ctx context.Context, tenant, id string) (bool, error) {
	done, err := m.store.Recycle(ctx, tenant, id, "", "", 0)
	m.wakeAll()
	return done, err
}

// RecycleNonce does so by nonce, for callers without an id: only for the tenant's own
// reservation, and only if the nonce was never issued twice.
func (m *Manager) RecycleNonce(ctx context.Context, tenant, chain, account string, nonce uint64) (bool, error) {
	_, name, err := m.account(chain, "address", account)
	if err != nil {
		return false, err
	}
	done, err := m.store.Recycle(ctx, tenant, "", chain, name, nonce)
	m.rouse(chain)
	return done, err
}

// Unlock ends a lock if lockID is its holder's.
func (m *Manager) Unlock(ctx context.Context, tenant, chain, account, lockID string) (bool, error) {
	_, name, err := m.account(chain, "address", account)
	if err != nil {
		return false, err
	}
	done, err := m.store.UnlockLane(ctx, chain, name, tenant, lockID)
	m.wakeHere(chain)
	return done, err
}

// NonceHealth is what a lane's nonces look like.
type NonceHealth struct {
	*Lane
	LatestNonce uint64 // the chain's, asked now
}

// Health compares a lane with its chain. It makes none: who only looks at accounts would make the owners follow them all.
func (m *Manager) Health(ctx context.Context, chain, account string) (*NonceHealth, error) {
	c, name, err := m.account(chain, "address", account)
	if err != nil {
		return nil, err
	}
	nonces, err := c.Nonces(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	lane, err := m.store.Lane(ctx, chain, name)
	if errors.Is(err, ErrUnknownSigner) {
		lane, err = &Lane{Chain: chain, Signer: name}, nil
	}
	if err != nil {
		return nil, err
	}
	if !lane.Known {
		lane.ChainNonce, lane.NextNonce = nonces.Latest, nonces.Latest
	}
	return &NonceHealth{Lane: lane, LatestNonce: nonces.Latest}, nil
}

// laneWait bounds the search for one lane's nonce, which many callers may share.
const laneWait = 30 * time.Second

// callerLane makes sure that an account has a lane and that its owner has read its nonce.
// Callers who want the same one at once share one look at the ledger.
func (m *Manager) callerLane(ctx context.Context, tenant, chain, name string) error {
	shared := m.looking.DoChan(chain+"\x00"+name, func() (any, error) {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), laneWait)
		defer cancel()
		return nil, m.knownLane(look, tenant, chain, name)
	})
	select {
	case r := <-shared:
		return r.Err
	case <-ctx.Done():
		return ErrNonceUnknown
	}
}

func (m *Manager) knownLane(ctx context.Context, tenant, chain, name string) error {
	lane, err := m.store.Lane(ctx, chain, name)
	if errors.Is(err, ErrUnknownSigner) || err == nil && lane.Asleep() {
		if lane, err = m.store.AddLane(ctx, Lane{Chain: chain, Signer: name, Tenant: tenant}); err == nil {
			m.rouse(chain)
		}
	}
	// The owner reads the nonce; it may be another process.
	for ; err == nil && !lane.Known; lane, err = m.store.Lane(ctx, chain, name) {
		if lane.Halted != "" {
			return fmt.Errorf("%w: %s", ErrHalted, lane.Halted)
		}
		if !sleep.For(ctx, m.c.Poll.Duration()) {
			return ErrNonceUnknown
		}
	}
	return err
}

// RawRequest is a transaction that the caller signed.
type RawRequest struct {
	Tenant, Chain, IdempotencyKey string
	Origin                        Origin
	Raw                           []byte
	RawSlot
	Subject, Actor, RequestID string
}

// Raw accepts a transaction that the caller signed. It is sent and followed like ours; the
// caller alone can raise its fees, with another transaction at its nonce.
// *NonceConflict, ErrDuplicate with the intent that has it already.
func (m *Manager) Raw(ctx context.Context, r RawRequest) (*Intent, error) {
	c, err := m.Chain(r.Chain)
	if err != nil {
		return nil, err
	}
	if len(r.Raw) > m.c.MaxData+(4<<10) {
		return nil, invalid("rawTx", "too long")
	}
	tx, err := c.Decode(r.Raw)
	if err != nil {
		return nil, invalid("rawTx", err.Error())
	}
	intent, err := m.draft(Request{
		Tenant: r.Tenant, Chain: r.Chain, IdempotencyKey: r.IdempotencyKey, Body: append([]byte("raw:"), r.Raw...), Origin: r.Origin,
		To: tx.To, Value: tx.Value, Data: tx.Data, Gas: tx.Gas, MaxFee: tx.Fees.Max, MaxTip: tx.Fees.Tip, Simulate: "off",
		Subject: r.Subject, Actor: r.Actor, RequestID: r.RequestID,
	})
	if err != nil {
		return nil, err
	}
	intent.Kind, intent.Signer, intent.Nonce, intent.Hash = KindRaw, tx.Signer, tx.Nonce, tx.Hash
	if earlier, err := m.earlier(ctx, []*Intent{intent}); err != nil || earlier != nil {
		return first(earlier), err
	}
	if err := m.admit(ctx, intent); err != nil {
		return nil, err
	}
	if err := m.callerLane(ctx, r.Tenant, r.Chain, tx.Signer); err != nil {
		return nil, err
	}
	attempt := Attempt{
		Chain: r.Chain, Signer: tx.Signer, Nonce: tx.Nonce, Hash: tx.Hash, Intent: intent.ID, Purpose: PurposeRaw,
		Raw: tx.Raw, Tag: tx.Tag, Fees: tx.Fees, Gas: tx.Gas, State: AttemptSigned,
	}
	stored, err := m.store.AcceptRaw(ctx, intent, attempt, r.RawSlot)
	if err == nil {
		m.accepted([]*Intent{intent}, []*Intent{stored})
	}
	return stored, err
}
