package sqlstore_test

import (
	"math/big"
	"strings"
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// testAccounts: accounts that sign for themselves are counted by tenant, their nonce is read again after a rest, and they end after a day.
func testAccounts(t *testing.T, r *room) {
	ctx := t.Context()
	const account = "0x00000000000000000000000000000000000000c1"
	must.Get(r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: account, Tenant: tenant}))(r.t)
	l := must.Get(r.keep.Acquire(ctx, "txm:"+chain+":"+account))(r.t)
	nonce := uint64(5)
	must.Do(r.t, r.Observe(ctx, l.Fence(), chain, account, txmgr.Observation{ChainNonce: &nonce, NextNonce: &nonce}))
	held, err := r.Reserve(ctx, chain, account, tenant, hour, 9, false)
	must.Do(r.t, err)
	r.exec("UPDATE signer_chains SET last_seen = last_seen - $2 WHERE signer = $1", account, hour)
	must.Get(r.Reserve(ctx, chain, account, tenant, -1, 9, false))(r.t) // it has something on its way
	must.Get(r.Expire(ctx))(r.t)
	if done, err := r.Recycle(ctx, tenant, held.ID, "", "", 0); err != nil || !done {
		t.Fatalf("recycled: %v, %v", done, err)
	}
	_, err = r.Reserve(ctx, chain, account, tenant, hour, 9, false)
	r.is(err, txmgr.ErrNonceUnknown)
	lane, err := r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: account, Tenant: "t2"})
	if must.Do(r.t, err); lane.Known || lane.Tenant != tenant {
		t.Errorf("after a rest: %+v", lane)
	}
	nonce = 8
	must.Do(r.t, r.Observe(ctx, l.Fence(), chain, account, txmgr.Observation{ChainNonce: &nonce, NextNonce: &nonce}))
	held, err = r.Reserve(ctx, chain, account, tenant, hour, 9, false)
	if must.Do(r.t, err); held.Nonce != 8 {
		t.Errorf("the next nonce is %d, want 8", held.Nonce)
	}
	day := txmgr.AccountLife.Microseconds() + hour
	r.exec("UPDATE signer_chains SET created_at = created_at - $2, last_seen = last_seen - $2 WHERE signer = $1", account, day)
	r.tidies(r.now()-hour, 0) // it holds a nonce
	if done, err := r.Recycle(ctx, tenant, held.ID, "", "", 0); err != nil || !done {
		t.Fatalf("recycled: %v, %v", done, err)
	}
	r.exec("DELETE FROM slots WHERE signer = $1", account)
	r.tidies(r.now()-hour, 1)
	_, err = r.Lane(ctx, chain, account)
	r.is(err, txmgr.ErrUnknownSigner)

	must.Get(r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: account, Tenant: tenant}))(r.t)
	for n := 1; n < txmgr.MaxAccounts; n *= 2 {
		r.exec("INSERT INTO signer_chains (chain, signer, ours, created_at, tenant) SELECT chain, signer || 'x"+ledger.Number(n)+"', ours, created_at, tenant FROM signer_chains WHERE tenant = $1", tenant)
	}
	_, err = r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: "0x00000000000000000000000000000000000000c2", Tenant: tenant})
	r.is(err, txmgr.ErrTooMany)
	must.Get(r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: "0x00000000000000000000000000000000000000c2", Tenant: "t2"}))(r.t)
}

// testReservedFill: whose reservation left a nonce pays for what fills it.
func testReservedFill(t *testing.T, r *room) {
	ctx := t.Context()
	budget := txmgr.Hold{Scope: "tenant/" + tenant, Day: "2026-01-31", Amount: big.NewInt(1)}
	lost := must.Get(r.Reserve(ctx, chain, signer, tenant, -1, 9, false, budget))(r.t)
	next := must.Get(r.Reserve(ctx, chain, signer, tenant, hour, 9, false))(r.t)
	must.Get(r.Expire(ctx))(r.t)
	slot := txmgr.Slot{Chain: chain, Signer: signer, Nonce: lost.Nonce}
	must.Do(r.t, r.FillSlot(ctx, r.fence, slot, ""))
	fill := attempt(&txmgr.Intent{ID: "fill"}, lost.Nonce, 1, txmgr.PurposeFill)
	fill.Intent = ""
	r.commit(fill)
	r.mine(fill, 4, true, true)
	if _, settled, _ := strings.Cut(r.spent(budget.Scope), " "); settled == "0" {
		t.Errorf("the fill of nonce %d cost its holder nothing; nonce %d waits behind it", lost.Nonce, next.Nonce)
	}
}
