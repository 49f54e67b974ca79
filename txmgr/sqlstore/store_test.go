package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
)

const (
	chain  = "31337"
	signer = "0x00000000000000000000000000000000000000aa"
	tenant = "t1"
)

// room is one store with a lane and its owner.
type room struct {
	t *testing.T
	*sqlstore.Store
	db    *ledger.DB
	fence lease.Fence
	keep  *lease.Holder
}

func newRoom(t *testing.T, url string) *room {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), url))(t)
	t.Cleanup(func() { _ = db.Close() })
	store := must.Get(sqlstore.New(t.Context(), db))(t)
	r := &room{t: t, Store: store, db: db}
	must.Get(r.AddLane(t.Context(), txmgr.Lane{Chain: chain, Signer: signer, Ours: true, Pools: []string{"default"}}))(r.t)
	r.keep = lease.NewHolder(db, "txm", "one", 0, slog.New(slog.DiscardHandler))
	l := must.Get(r.keep.Acquire(t.Context(), "txm:"+chain+":"+signer))(r.t)
	r.fence = l.Fence()
	zero := uint64(0)
	must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, txmgr.Observation{NextNonce: &zero}))
	return r
}

func (r *room) is(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Fatalf("got error %v, want %v", err, want)
	}
}

func intent(key, body string) *txmgr.Intent {
	return &txmgr.Intent{
		Request: txmgr.Request{
			Tenant: tenant, Chain: chain, IdempotencyKey: key, To: signer, Value: big.NewInt(7), Gas: 21000,
			Speed: txmgr.SpeedStandard, Pool: "default", OnFailure: txmgr.OnFailureStop,
		},
		ID: uuid.NewString(), Kind: txmgr.KindSend, BodyHash: body, Status: txmgr.StatusAccepted,
	}
}

func (r *room) accept(list ...*txmgr.Intent) {
	r.t.Helper()
	must.Get(r.Accept(r.t.Context(), list))(r.t)
}

func (r *room) get(id string) *txmgr.Transaction {
	r.t.Helper()
	return must.Get(r.Get(r.t.Context(), "", id))(r.t)
}

func (r *room) status(id string, want txmgr.Status) *txmgr.Transaction {
	r.t.Helper()
	t := r.get(id)
	if t.Status != want {
		r.t.Fatalf("intent %s is %s, want %s", id, t.Status, want)
	}
	return t
}

func (r *room) lane() *txmgr.Lane {
	r.t.Helper()
	return must.Get(r.Lane(r.t.Context(), chain, signer))(r.t)
}

func (r *room) assign(list ...*txmgr.Intent) []txmgr.Assignment {
	r.t.Helper()
	var wanted []txmgr.Placing
	for _, i := range list {
		wanted = append(wanted, txmgr.Placing{Intent: i.ID, Cost: txmgr.MostOf(i.Value, i.Gas, big.NewInt(100))})
	}
	return must.Get(r.Assign(r.t.Context(), r.fence, chain, signer, wanted))(r.t)
}

func attempt(i *txmgr.Intent, nonce uint64, version int, purpose txmgr.Purpose) *txmgr.Attempt {
	return &txmgr.Attempt{
		Chain: chain, Signer: signer, Nonce: nonce, Hash: fmt.Sprintf("0x%s%d", i.ID, version), Version: version, Intent: i.ID, Purpose: purpose,
		Raw: []byte{1, 2, byte(version)}, Fees: txmgr.Fees{Max: big.NewInt(100), Tip: big.NewInt(1)}, Gas: 21000, State: txmgr.AttemptSigned,
	}
}

func (r *room) commit(list ...*txmgr.Attempt) []*txmgr.Attempt {
	r.t.Helper()
	return must.Get(r.Commit(r.t.Context(), r.fence, list))(r.t)
}

func (r *room) answer(a *txmgr.Attempt, class txmgr.Class) {
	r.t.Helper()
	must.Do(r.t, r.Answered(r.t.Context(), r.fence, []txmgr.Answer{{Attempt: a, Class: class, Text: string(class)}}))
}

func (r *room) mine(a *txmgr.Attempt, block uint64, success, final bool) {
	r.t.Helper()
	must.Do(r.t, r.Prove(r.t.Context(), r.fence, []txmgr.Proof{{
		Slot: txmgr.Slot{Chain: chain, Signer: signer, Nonce: a.Nonce}, Attempt: a, Block: block, BlockHash: fmt.Sprint("b", block), Final: final,
		Receipt: &txmgr.Receipt{Hash: a.Hash, Block: block, BlockHash: fmt.Sprint("b", block), Success: success, GasUsed: 21000, GasPrice: big.NewInt(10)},
	}}))
}

// contract holds stores on empty ledgers against what txmgr.Store promises.
func contract(t *testing.T, url func(t *testing.T) string) {
	for name, test := range map[string]func(*testing.T, *room){
		"idempotency":             testIdempotency,
		"idempotency at once":     testIdempotencyAtOnce,
		"batches are whole":       testBatch,
		"claims":                  testClaims,
		"callers at once":         testCallersAtOnce,
		"a slot's life":           testLife,
		"old terms write nothing": testFence,
		"slots are unique":        testUnique,
		"cancel":                  testCancel,
		"replace":                 testReplace,
		"foreign":                 testForeign,
		"taken out of its slot":   testRequeue,
		"released":                testRelease,
		"killed meanwhile":        testKilled,
		"adopted":                 testAdopted,
		"halt of a first use":     testHaltOfFirstUse,
		"halt of a lane behind":   testHaltOfALaneBehind,
		"seen":                    testSeen,
		"fills are charged":       testFillCharged,
		"one hash, two tags":      testTags,
		"reorganisation":          testReorg,
		"refused and free":        testRefused,
		"ambiguous stays":         testAmbiguous,
		"budgets":                 testBudget,
		"reservations":            testReservations,
		"accounts":                testAccounts,
		"fills of reservations":   testReservedFill,
		"reservations at once":    testReservationsAtOnce,
		"locks":                   testLock,
		"locked out":              testLockedOut,
		"locks are capped":        testLockCap,
		"one at a time":           testOneAtATime,
		"views":                   testViews,
		"forget":                  testForget,
		"forget what is filled":   testForgetFilled,
		"forget after a reset":    testForgetReset,
		"tidy slots":              testTidySlots,
		"tidy reservations":       testTidyReservations,
		"tidy the rest":           testTidyRest,
		"raw under keys":          testRawKey,
		"late raw":                testLateRaw,
		"nonce conflicts":         testNonceConflict,
		"an heir of a slot":       testHeir,
		"a chain's final block":   testChain,
	} {
		t.Run(name, func(t *testing.T) { test(t, newRoom(t, url(t))) })
	}
}

func TestMemory(t *testing.T) {
	contract(t, func(*testing.T) string { return "memory:" })
}

func TestSQLite(t *testing.T) {
	contract(t, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") })
}

// TestPostgres holds the store against its contract behind a pooler that gives each transaction another session, which asks for more than
// a server by itself. Two processes begin at once on an empty database.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Pooled(server.Database())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			db, err := ledger.Open(t.Context(), database)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = sqlstore.New(t.Context(), db)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	contract(t, func(*testing.T) string { return server.Pooled(server.Database()) })
}

func testIdempotency(t *testing.T, r *room) {
	first, again, other := intent("k", "body"), intent("k", "body"), intent("k", "other")
	r.accept(first)
	stored, err := r.Accept(t.Context(), []*txmgr.Intent{again})
	must.Do(r.t, err)
	if stored[0].ID != first.ID || stored[0].Seq != first.Seq {
		t.Fatalf("the second request got intent %s, want %s", stored[0].ID, first.ID)
	}
	_, err = r.Accept(t.Context(), []*txmgr.Intent{other})
	r.is(err, txmgr.ErrIdempotency)
	found := must.Get(r.ByKey(t.Context(), tenant, "k", ""))(r.t)
	if found.ID != first.ID {
		t.Fatalf("the key belongs to %s, want %s", found.ID, first.ID)
	}
	_, err = r.ByKey(t.Context(), "t2", "k", "")
	r.is(err, txmgr.ErrNotFound)
	stranger := intent("k", "body")
	stranger.Tenant = "t2"
	r.accept(stranger) // another tenant's key is another key
}

// testClaims has intents that carry what may be executed once: the second is refused, whoever asks, until the first has
// ended without being executed; and an idempotency key still answers with the first.
func testClaims(t *testing.T, r *room) {
	carrying := func(key, body string, claims ...string) *txmgr.Intent {
		i := intent(key, body)
		i.Claims = claims
		return i
	}
	first := carrying("one", "a", "delegate:x", "delegate:y")
	r.accept(first)
	stored, err := r.Accept(t.Context(), []*txmgr.Intent{carrying("one", "a", "delegate:x", "delegate:y")})
	must.Do(r.t, err)
	if stored[0].ID != first.ID {
		t.Errorf("the key's intent is %s, want %s", stored[0].ID, first.ID)
	}
	stranger := carrying("other", "a", "delegate:y")
	stranger.Tenant = "t2"
	for _, second := range []*txmgr.Intent{carrying("two", "b", "delegate:x"), carrying("", "c", "delegate:y"), stranger} {
		_, err = r.Accept(t.Context(), []*txmgr.Intent{intent("with-"+second.ID, "d"), second})
		r.is(err, txmgr.ErrReplayed)
		_, err = r.ByKey(t.Context(), tenant, "with-"+second.ID, "")
		r.is(err, txmgr.ErrNotFound) // all or none
	}
	_, err = r.Accept(t.Context(), []*txmgr.Intent{carrying("three", "e", "delegate:z"), carrying("four", "f", "delegate:z")})
	r.is(err, txmgr.ErrReplayed)
	elsewhere := carrying("five", "g", "delegate:x")
	elsewhere.Chain = "another"
	r.accept(elsewhere)
	// One of many at once.
	var accepted atomic.Int32
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			switch _, err := r.Accept(t.Context(), []*txmgr.Intent{carrying(fmt.Sprint("at once ", n), "h", "delegate:at once")}); {
			case err == nil:
				accepted.Add(1)
			case !errors.Is(err, txmgr.ErrReplayed):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 1 {
		t.Errorf("%d of ten intents have the same claim", accepted.Load())
	}
	must.Get(r.RequestCancel(t.Context(), tenant, first.ID))(r.t)
	r.status(first.ID, txmgr.StatusCancelled)
	r.accept(carrying("six", "i", "delegate:x"))
	_, err = r.Accept(t.Context(), []*txmgr.Intent{carrying("seven", "j", "delegate:x")})
	r.is(err, txmgr.ErrReplayed)
}

func testIdempotencyAtOnce(t *testing.T, r *room) {
	const callers = 20
	ids := make([]string, callers)
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			stored, err := r.Accept(context.WithoutCancel(t.Context()), []*txmgr.Intent{intent("k", "body")})
			if err != nil {
				t.Error(err)
				return
			}
			ids[n] = stored[0].ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("callers of one key got %s and %s", id, ids[0])
		}
	}
	list, _ := must.Get2(r.Find(t.Context(), txmgr.Query{}))(r.t)
	if len(list) != 1 {
		t.Fatalf("%d intents are stored, want 1", len(list))
	}
}

// testCallersAtOnce lets calls come at once of which some cannot be accepted: each gets its own
// answer, and no other's.
func testCallersAtOnce(t *testing.T, r *room) {
	const callers = 60
	r.accept(intent("used", "body"))
	good := make([]*txmgr.Intent, callers)
	var group sync.WaitGroup
	for n := range callers {
		i, want := intent(fmt.Sprint("key-", n), "body"), error(nil)
		i.Holds = []txmgr.Hold{{Scope: "tenant/t1", Day: "2026-01-31", Amount: big.NewInt(1), Limit: big.NewInt(1000)}}
		switch n % 6 {
		case 1:
			i.IdempotencyKey, i.BodyHash, want = "used", "another body", txmgr.ErrIdempotency
		case 2:
			i.Holds[0].Amount, want = big.NewInt(2000), txmgr.ErrBudget
		default:
			good[n] = i
		}
		group.Go(func() {
			stored, err := r.Accept(context.WithoutCancel(t.Context()), []*txmgr.Intent{i})
			switch {
			case !errors.Is(err, want):
				t.Errorf("call %d: got error %v, want %v", n, err, want)
			case err == nil && (stored[0].ID != i.ID || stored[0].Seq == 0):
				t.Errorf("call %d got intent %s with number %d, want %s", n, stored[0].ID, stored[0].Seq, i.ID)
			}
		})
	}
	group.Wait()
	list, _ := must.Get2(r.Find(t.Context(), txmgr.Query{Limit: 500}))(r.t)
	if want := callers*4/6 + 1; len(list) != want {
		t.Errorf("%d intents are stored, want %d", len(list), want)
	}
	for _, i := range good {
		if i != nil {
			r.status(i.ID, txmgr.StatusAccepted)
		}
	}
	last := intent("last", "body") // takes all that is left of the budget
	last.Holds = []txmgr.Hold{{Scope: "tenant/t1", Day: "2026-01-31", Amount: big.NewInt(1000 - callers*4/6), Limit: big.NewInt(1000)}}
	r.accept(last)
}

func testBatch(t *testing.T, r *room) {
	r.accept(intent("taken", "body"))
	_, err := r.Accept(t.Context(), []*txmgr.Intent{intent("a", "x"), intent("b", "x"), intent("taken", "another body")})
	r.is(err, txmgr.ErrIdempotency)
	list, _ := must.Get2(r.Find(t.Context(), txmgr.Query{}))(r.t)
	if len(list) != 1 {
		t.Fatalf("a batch that failed left intents: %d are stored, want 1", len(list))
	}
	_, err = r.ByKey(t.Context(), tenant, "a", "")
	r.is(err, txmgr.ErrNotFound)
}

func testLife(t *testing.T, r *room) {
	i := intent("", "x")
	r.accept(i)
	done := r.assign(i)
	if len(done) != 1 || done[0].Slot.Nonce != 0 {
		t.Fatalf("assigned %+v, want nonce 0", done)
	}
	r.status(i.ID, txmgr.StatusAssigned)
	a := attempt(i, 0, 1, txmgr.PurposeIntent)
	if len(r.commit(a)) != 1 {
		t.Fatal("the attempt was not stored")
	}
	stored := r.status(i.ID, txmgr.StatusSigned)
	if string(stored.Attempts[0].Raw) != string(a.Raw) || stored.Attempts[0].Fees.Max.Cmp(a.Fees.Max) != 0 || stored.Hash != a.Hash {
		t.Fatalf("stored %+v, want %+v", stored.Attempts[0], a)
	}
	r.answer(a, "")
	r.status(i.ID, txmgr.StatusBroadcast)
	r.mine(a, 5, true, false)
	if got := r.status(i.ID, txmgr.StatusMined); got.Final || got.Receipt == nil || got.Receipt.Block != 5 {
		t.Fatalf("mined but not final: %+v", got.Receipt)
	}
	if lane := r.lane(); lane.ChainNonce != 1 {
		t.Fatalf("nonce 0 is in a block, and the chain's nonce is %d", lane.ChainNonce)
	}
	r.mine(a, 5, true, true)
	if got := r.status(i.ID, txmgr.StatusConfirmed); !got.Final || got.Attempts[0].State != txmgr.AttemptMined {
		t.Fatal("a final transaction is not final")
	}
	line := must.Get(r.Line(t.Context(), chain, signer))(r.t)
	if len(line.Slots) != 0 {
		t.Fatalf("final slots are still worked on: %d", len(line.Slots))
	}
	if lane := r.lane(); lane.NextNonce != 1 || lane.Pending != 0 {
		t.Fatalf("next nonce %d, pending %d; want 1, 0", lane.NextNonce, lane.Pending)
	}
}

func testFence(t *testing.T, r *room) {
	i := intent("", "x")
	r.accept(i)
	old := r.fence
	old.Term--
	ctx := t.Context()
	a := attempt(i, 0, 1, txmgr.PurposeIntent)
	zero := uint64(9)
	_, assignErr := r.Assign(ctx, old, chain, signer, []txmgr.Placing{{Intent: i.ID}})
	_, commitErr := r.Commit(ctx, old, []*txmgr.Attempt{a})
	for what, err := range map[string]error{
		"assign": assignErr, "commit": commitErr,
		"answered": r.Answered(ctx, old, []txmgr.Answer{{Attempt: a}}),
		"prove":    r.Prove(ctx, old, []txmgr.Proof{{Slot: txmgr.Slot{Chain: chain, Signer: signer}, Attempt: a}}),
		"unmine":   r.Unmine(ctx, old, []txmgr.Slot{{Chain: chain, Signer: signer}}),
		"end":      r.End(ctx, old, i.ID, txmgr.StatusFailed, txmgr.Failure{}),
		"requeue":  r.Requeue(ctx, old, i.ID, nil),
		"release":  r.Release(ctx, old, i.ID, "x"),
		"abandon":  r.Abandon(ctx, old, txmgr.Slot{Chain: chain, Signer: signer}),
		"wait":     r.Wait(ctx, old, map[string]string{i.ID: "x"}),
		"fill":     r.FillSlot(ctx, old, txmgr.Slot{Chain: chain, Signer: signer}, ""),
		"foreign":  r.Foreign(ctx, old, chain, signer, []txmgr.Consumer{{Hash: "0x1"}}, 0),
		"observe":  r.Observe(ctx, old, chain, signer, txmgr.Observation{NextNonce: &zero}),
	} {
		if !errors.Is(err, txmgr.ErrDeposed) {
			t.Errorf("%s with an old term: got %v, want %v", what, err, txmgr.ErrDeposed)
		}
	}
	if got := r.status(i.ID, txmgr.StatusAccepted); len(got.Timeline) != 1 || got.Waiting != "" {
		t.Fatalf("a deposed owner left %d events", len(got.Timeline))
	}
	if lane := r.lane(); lane.NextNonce != 0 {
		t.Fatalf("a deposed owner moved the nonce to %d", lane.NextNonce)
	}
}

// testUnique lets two assignments race on one lane: nonces stay unique and contiguous.
func testUnique(t *testing.T, r *room) {
	const n = 30
	var list []*txmgr.Intent
	for range n {
		list = append(list, intent("", "x"))
	}
	r.accept(list...)
	var mu sync.Mutex
	seen := map[uint64]string{}
	var group sync.WaitGroup
	for g := range 3 {
		group.Go(func() {
			for k := range n {
				i := list[(k+g*7)%n]
				done, err := r.Assign(context.WithoutCancel(t.Context()), r.fence, chain, signer, []txmgr.Placing{{Intent: i.ID}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, one := range done {
					if other := seen[one.Slot.Nonce]; other != "" {
						t.Errorf("nonce %d went to %s and %s", one.Slot.Nonce, other, one.Intent.ID)
					}
					seen[one.Slot.Nonce] = one.Intent.ID
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for nonce := range uint64(n) {
		if seen[nonce] == "" {
			t.Fatalf("nonce %d was never given", nonce)
		}
	}
	if lane := r.lane(); lane.NextNonce != n || lane.Pending != n {
		t.Fatalf("next nonce %d, pending %d; want %d of both", lane.NextNonce, lane.Pending, n)
	}
}

// testAccounts: accounts that sign for themselves are counted by tenant, their nonce is read again after a rest, and they end after a day.
func testAccounts(t *testing.T, r *room) {
	ctx := t.Context()
	const account = "0x00000000000000000000000000000000000000c1"
	must.Get(r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: account, Tenant: tenant}))(r.t)
	l := must.Get(r.keep.Acquire(ctx, "txm:"+chain+":"+account))(r.t)
	nonce := uint64(5)
	must.Do(r.t, r.Observe(ctx, l.Fence(), chain, account, txmgr.Observation{ChainNonce: &nonce, NextNonce: &nonce}))
	held := must.Get(r.Reserve(ctx, chain, account, tenant, hour, 9, false))(r.t)
	r.exec("UPDATE signer_chains SET last_seen = last_seen - $2 WHERE signer = $1", account, hour)
	must.Get(r.Reserve(ctx, chain, account, tenant, -1, 9, false))(r.t) // it has something on its way
	must.Get(r.Expire(ctx))(r.t)
	r.recycle(held.ID)
	_, err := r.Reserve(ctx, chain, account, tenant, hour, 9, false)
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
	r.recycle(held.ID)
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
	next := r.reserve(hour)
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

// testChain notes a chain's final block as the owners of several lanes do, each from what it has read: the
// block only rises, a halt stays, and a reset takes both away.
func testChain(t *testing.T, r *room) {
	is := func(want txmgr.ChainState) {
		t.Helper()
		got := must.Get(r.Chain(t.Context(), chain))(r.t)
		if got != want {
			t.Fatalf("the chain is %+v, want %+v", got, want)
		}
	}
	note := func(s txmgr.ChainState) { t.Helper(); must.Do(r.t, r.NoteChain(t.Context(), chain, s)) }
	is(txmgr.ChainState{})
	note(txmgr.ChainState{Identity: chain})
	note(txmgr.ChainState{Identity: "first"})
	note(txmgr.ChainState{}) // of owners who do not know yet
	note(txmgr.ChainState{Identity: chain})
	note(txmgr.ChainState{Identity: "second"})
	is(txmgr.ChainState{Identity: "first"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 4, FinalHash: "four"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "another five"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five", Halted: "it was reset"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 6, FinalHash: "six"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 6, FinalHash: "six", Halted: "it was reset"})
	r.is(r.ResetChain(t.Context(), chain, "test", "second", 1), txmgr.ErrStale)
	must.Do(r.t, r.ResetChain(t.Context(), chain, "test", "second", 0))
	is(txmgr.ChainState{Identity: "second", Era: 1})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 7, FinalHash: "seven"}) // of an owner who does not know yet
	is(txmgr.ChainState{Identity: "second", Era: 1})
}

// testHaltOfFirstUse: what an owner found of a lane that nobody knew yet does not undo an operator's
// word that came meanwhile; any other halt does.
func testHaltOfFirstUse(t *testing.T, r *room) {
	why := "somebody else sends"
	found := func(first bool) string {
		t.Helper()
		must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, txmgr.Observation{Halted: &why, FirstUse: first}))
		return r.lane().Halted
	}
	r.exec("UPDATE signer_chains SET known = FALSE")
	if got := found(true); got != why {
		t.Fatalf("a lane that is not known is halted because %q", got)
	}
	must.Get(r.Reconcile(t.Context(), chain, signer, "test", 3, 3))(r.t)
	if got := found(true); got != "" {
		t.Errorf("after an operator's word the lane is halted because %q", got)
	}
	if got := found(false); got != why {
		t.Errorf("a halt of a known lane is %q", got)
	}
}

// testHaltOfALaneBehind: what an owner found of a lane whose nonce is behind the chain's does not undo an operator's
// word that came meanwhile.
func testHaltOfALaneBehind(t *testing.T, r *room) {
	why, ahead := "unknown transactions", uint64(5)
	found := func() string {
		t.Helper()
		must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, txmgr.Observation{Halted: &why, Ahead: &ahead}))
		return r.lane().Halted
	}
	if got := found(); got != why {
		t.Fatalf("a lane that is behind is halted because %q", got)
	}
	must.Get(r.Reconcile(t.Context(), chain, signer, "test", ahead, ahead))(r.t)
	if got := found(); got != "" {
		t.Errorf("after an operator's word the lane is halted because %q", got)
	}
	ahead++ // another transaction that nobody knows
	if got := found(); got != why {
		t.Errorf("a lane that is behind again is halted because %q", got)
	}
}

func testLock(t *testing.T, r *room) {
	ctx := t.Context()
	v, err := r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false)
	must.Do(r.t, err)
	_, err = r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false)
	r.is(err, txmgr.ErrLocked)
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, "wrong"); err != nil || done {
		t.Fatalf("a stranger unlocked: %v, %v", done, err)
	}
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, v.LockID); err != nil || !done {
		t.Fatalf("the holder could not unlock: %v, %v", done, err)
	}
	if lane := r.lane(); lane.NextNonce != 0 {
		t.Fatalf("an unused lock kept its nonce: next is %d", lane.NextNonce)
	}
	must.Get(r.LockLane(ctx, chain, signer, tenant, -1, 9, false))(r.t)
	must.Get(r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false))(r.t) // the old lock has expired
}

// testLockedOut: while one caller has the lane, nobody else gets a nonce of it, for a reservation, an intent or bytes
// that a caller signed. What has its nonce already goes on.
func testLockedOut(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	ctx := t.Context()
	earlier := r.reserve(ttl)
	lock := must.Get(r.LockLane(ctx, chain, signer, tenant, ttl, 9, false))(r.t)
	waiting := intent("", "x")
	r.accept(waiting)
	handOver := func(nonce uint64, reservation string) error {
		t.Helper()
		_, err := r.raw(tenant, nonce, txmgr.RawSlot{Reservation: reservation})
		return err
	}
	if !r.lane().Locked {
		t.Error("the lane does not say that it is locked")
	}
	for _, who := range []string{tenant, "t2"} {
		_, err := r.Reserve(ctx, chain, signer, who, ttl, 9, false)
		r.is(err, txmgr.ErrLocked)
	}
	if done := r.assign(waiting); len(done) != 0 {
		t.Fatalf("an intent got the nonce %d of a lane that a caller has alone", done[0].Slot.Nonce)
	}
	r.is(handOver(lock.Nonce+1, ""), txmgr.ErrLocked)
	must.Do(r.t, handOver(earlier.Nonce, earlier.ID))
	must.Do(r.t, handOver(lock.Nonce, lock.LockID))
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, lock.LockID); err != nil || !done {
		t.Fatalf("the holder could not unlock: %v, %v", done, err)
	}
	if r.lane().Locked {
		t.Error("the lane says that it is locked")
	}
	if done := r.assign(waiting); len(done) != 1 || done[0].Slot.Nonce != lock.Nonce+1 {
		t.Fatalf("after the lock the intent got %+v", done)
	}
	must.Get(r.Reserve(ctx, chain, signer, "t2", ttl, 9, false))(r.t)
	must.Get(r.LockLane(ctx, chain, signer, tenant, -1, 9, false))(r.t) // has expired
	must.Get(r.Reserve(ctx, chain, signer, "t2", ttl, 9, false))(r.t)
	must.Do(r.t, handOver(r.lane().NextNonce, ""))
}

// testLockCap: a lock is a reservation, and counts among those that its tenant may hold.
func testLockCap(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	v, err := r.Reserve(t.Context(), chain, signer, tenant, ttl, 1, false)
	must.Do(r.t, err)
	_, err = r.LockLane(t.Context(), chain, signer, tenant, ttl, 1, false)
	r.is(err, txmgr.ErrTooMany)
	if r.lane().Locked {
		t.Error("a lock that was refused is there")
	}
	must.Get(r.Recycle(t.Context(), tenant, v.ID, "", "", 0))(r.t)
	must.Get(r.LockLane(t.Context(), chain, signer, tenant, ttl, 1, false))(r.t)
}

// testOneAtATime: where the chain takes the next nonce alone, none is reserved while anything is in flight.
func testOneAtATime(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	v, err := r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true)
	must.Do(r.t, err)
	_, err = r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true)
	r.is(err, txmgr.ErrLocked)
	_, err = r.LockLane(t.Context(), chain, signer, tenant, ttl, 9, true)
	r.is(err, txmgr.ErrLocked)
	must.Get(r.Recycle(t.Context(), tenant, v.ID, "", "", 0))(r.t)
	must.Get(r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true))(r.t)
}

// testViews reads the views that other programs may look at.
func testViews(t *testing.T, r *room) {
	r.sent()
	read := func(query ledger.SQL) string {
		t.Helper()
		var text string
		must.Do(r.t, r.db.Read(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.One(t.Context(), query, nil, &text)
			return err
		}))
		return text
	}
	for query, want := range map[ledger.SQL]string{
		"SELECT status FROM relayer_txs":                                                "broadcasted",
		"SELECT address || ' ' || next_nonce || ' ' || pending_count FROM relayer_keys": signer + " 1 1",
		"SELECT count(*) || '' FROM txidem":                                             "0",
	} {
		if got := read(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	const keys = "SELECT status || ' ' || outcome FROM txidem"
	keyed := func(want string) {
		t.Helper()
		if got := read(keys); got != want {
			t.Errorf("txidem: got %q, want %q", got, want)
		}
	}
	i := intent("a key", "x")
	r.accept(i)
	keyed("inflight accepted")
	r.assign(i)
	a := attempt(i, 1, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, "")
	r.mine(a, 9, false, false)
	keyed("failed mined")
	r.mine(a, 9, false, true)
	keyed("failed reverted")
	must.Get(r.Forget(t.Context(), 1<<62, 10))(r.t)
	keyed("failed reverted") // what is forgotten, too
}
