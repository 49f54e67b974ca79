package ledger

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

type (
	scheduleBody = hapi.ScheduleCreateTransactionBody
	schedulable  = hapi.SchedulableTransactionBody
)

// scheduledTransfer is a transfer as a schedule has it.
func scheduledTransfer(from, to hedera.ID, amount int) *schedulable {
	return &schedulable{Data: &hapi.SchedulableTransactionBody_CryptoTransfer{
		CryptoTransfer: amounts(from.AccountID(), -amount, to.AccountID(), amount).GetCryptoTransfer(),
	}}
}

func (r *rig) schedule(p party, body *scheduleBody, keys ...*ecdsa.PrivateKey) *history.Record {
	r.t.Helper()
	return r.submit(p.id, core.BodyOf(body), append(keys, p.key)...)
}

func (r *rig) signSchedule(p party, id hedera.ID, keys ...*ecdsa.PrivateKey) *history.Record {
	r.t.Helper()
	return r.submit(p.id, core.BodyOf(&hapi.ScheduleSignTransactionBody{ScheduleID: &hapi.ScheduleID{ScheduleNum: id.Num}}), append(keys, p.key)...)
}

func (r *rig) deleteSchedule(p party, id hedera.ID, keys ...*ecdsa.PrivateKey) *history.Record {
	r.t.Helper()
	return r.submit(p.id, core.BodyOf(&hapi.ScheduleDeleteTransactionBody{ScheduleID: &hapi.ScheduleID{ScheduleNum: id.Num}}), append(keys, p.key)...)
}

// executed returns the record of what a schedule stands for, nil where it has not executed.
func (r *rig) executed(creation *history.Record) *history.Record {
	r.t.Helper()
	id := creation.ID
	id.Scheduled = true
	switch list := r.View().RecordsByID(id); len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	default:
		r.t.Fatalf("%s has %d records", id, len(list))
		return nil
	}
}

func in(r *rig, d time.Duration) *hapi.Timestamp {
	return &hapi.Timestamp{Seconds: r.Now().Add(d).Unix()}
}

// A schedule executes once, when the last of those who must sign has signed.
func TestScheduleExecutesWhenAllHaveSigned(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner, stranger := dev(t, 0), dev(t, 1), dev(t, 2)
	before := r.balance(owner.address)
	creation := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 50), Memo: "later"})
	r.want(creation, okay)
	id := creation.Did().Schedule
	if r.executed(creation) != nil || r.balance(owner.address) != before {
		t.Fatal("it executed without its owner's signature")
	}
	r.want(r.signSchedule(stranger, id), hapi.ResponseCodeEnum_NO_NEW_VALID_SIGNATURES)
	r.want(r.signSchedule(payer, id), hapi.ResponseCodeEnum_NO_NEW_VALID_SIGNATURES)
	signing := r.signSchedule(stranger, id, owner.key)
	r.want(signing, okay)

	done := r.executed(creation)
	if done == nil || done.Status != okay || r.balance(owner.address) != before-50 {
		t.Fatalf("executed %+v, balance %d", done, r.balance(owner.address))
	}
	s, _ := r.View().Schedule(id)
	if done.IsChild() || done.Block != signing.Block || done.Kind != history.KindCryptoTransfer || done.Did().ScheduleRef != id || done.ID.Payer != payer.id {
		t.Errorf("record %+v", done)
	}
	if s.Executed != done.Consensus || len(s.Signatories) != 2 || s.Memo != "later" || signing.Did().Scheduled != done.ID || s.Signatures[1].At != signing.Consensus {
		t.Errorf("schedule %+v", s)
	}
	r.want(r.signSchedule(stranger, id, owner.key), hapi.ResponseCodeEnum_SCHEDULE_ALREADY_EXECUTED)
	r.want(r.deleteSchedule(payer, id), hapi.ResponseCodeEnum_SCHEDULE_ALREADY_EXECUTED)
	if old, _ := r.View().At(creation.Consensus).Schedule(id); !old.Executed.IsZero() || len(old.Signatories) != 1 {
		t.Errorf("before: %+v", old)
	}
}

func TestScheduleExecutesAtOnceWithAllSignatures(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner := dev(t, 0), dev(t, 1)
	creation := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 50)}, owner.key)
	r.want(creation, okay)
	if done := r.executed(creation); done == nil || done.Status != okay || done.Block != creation.Block {
		t.Fatalf("executed %+v", done)
	}
	// What fails for another reason than a signature has executed, too.
	body := &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 1<<60)}
	creation = r.schedule(payer, body, owner.key)
	r.want(creation, okay)
	if done := r.executed(creation); done == nil || done.Status != hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE {
		t.Fatalf("executed %+v", done)
	}
}

// Another payer must agree, and pays.
func TestSchedulePayer(t *testing.T) {
	r := newRig(t, Config{})
	payer, other := dev(t, 0), dev(t, 1)
	contract := r.deploy(dev(t, 3), 0, program.New().Push(1).Push(0).Op(vm.SSTORE).Bytes())
	call := &schedulable{Data: &hapi.SchedulableTransactionBody_ContractCall{ContractCall: &hapi.ContractCallTransactionBody{
		ContractID: r.entity(contract).ContractID(), Gas: 100_000,
	}}}
	creation := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: call, PayerAccountID: other.id.AccountID()})
	r.want(creation, okay)
	if r.executed(creation) != nil {
		t.Fatal("its payer has not agreed")
	}
	before := r.balance(other.address)
	r.want(r.signSchedule(payer, creation.Did().Schedule, other.key), okay)
	done := r.executed(creation)
	if done == nil || done.Status != okay || done.Result == nil || r.balance(other.address) >= before {
		t.Fatalf("executed %+v, balance %d of %d", done, r.balance(other.address), before)
	}
	if slot := r.View().Storage(r.entity(contract), common.Hash{}); slot.Value != number(1) {
		t.Errorf("slot %+v", slot)
	}
}

func (r *rig) entity(a common.Address) hedera.ID {
	r.t.Helper()
	id, ok := r.View().Resolve(a)
	if !ok {
		r.t.Fatalf("nothing is at %s", a)
	}
	return id
}

func TestScheduleRefusals(t *testing.T) {
	payer, owner := dev(t, 0), dev(t, 1)
	transfer := scheduledTransfer(owner.id, payer.id, 1)
	freeze := &schedulable{Data: &hapi.SchedulableTransactionBody_TokenFreeze{TokenFreeze: &hapi.TokenFreezeAccountTransactionBody{}}}
	tests := []struct {
		name string
		body func(r *rig) *scheduleBody
		want hedera.Status
	}{
		{"of a kind that is not scheduled", func(*rig) *scheduleBody { return &scheduleBody{ScheduledTransactionBody: freeze} }, hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST},
		{"a payer that is nobody", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, PayerAccountID: hedera.Entity(9_999).AccountID()}
		}, hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST},
		{"an account that is nobody's", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: scheduledTransfer(hedera.Entity(9_999), payer.id, 1)}
		}, hapi.ResponseCodeEnum_UNRESOLVABLE_REQUIRED_SIGNERS},
		{"an admin key that has not signed", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, AdminKey: publicKey(owner)}
		}, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"an admin key that is none", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, AdminKey: hapikey.Ed25519([]byte{1})}
		}, hapi.ResponseCodeEnum_INVALID_ADMIN_KEY},
		{"a long memo", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, Memo: string(bytes.Repeat([]byte{'a'}, 101))}
		}, hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"an expiry that is over", func(r *rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, ExpirationTime: in(r, -time.Minute)}
		}, hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_MUST_BE_HIGHER_THAN_CONSENSUS_TIME},
		{"an expiry in 63 days", func(r *rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, ExpirationTime: in(r, 63*24*time.Hour)}
		}, hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_TOO_FAR_IN_FUTURE},
		{"waiting for no expiry", func(*rig) *scheduleBody {
			return &scheduleBody{ScheduledTransactionBody: transfer, WaitForExpiry: true}
		}, hapi.ResponseCodeEnum_MISSING_EXPIRY_TIME},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			rec := r.schedule(payer, tt.body(r))
			r.want(rec, tt.want)
			if !rec.Did().Schedule.IsZero() {
				t.Errorf("it made schedule %s", rec.Did().Schedule)
			}
		})
	}
}

// Who schedules what is scheduled already is told where.
func TestIdenticalSchedule(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner, other := dev(t, 0), dev(t, 1), dev(t, 2)
	body := func(memo string) *scheduleBody {
		return &scheduleBody{
			ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 1), PayerAccountID: payer.id.AccountID(), Memo: memo,
			AdminKey: publicKey(payer),
		}
	}
	first := r.schedule(payer, body("a"))
	r.want(first, okay)
	second := r.schedule(other, body("a"), payer.key)
	r.want(second, hapi.ResponseCodeEnum_IDENTICAL_SCHEDULE_ALREADY_CREATED)
	if second.Did().Schedule != first.Did().Schedule || second.Did().Scheduled != first.Did().Scheduled {
		t.Errorf("told %+v, want %+v", second.Did(), first.Did())
	}
	r.want(r.schedule(other, body("b"), payer.key), okay)

	r.want(r.deleteSchedule(other, first.Did().Schedule), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.deleteSchedule(payer, first.Did().Schedule), okay)
	r.want(r.signSchedule(payer, first.Did().Schedule, owner.key), hapi.ResponseCodeEnum_SCHEDULE_ALREADY_DELETED)
	r.want(r.schedule(other, body("a"), payer.key), okay)

	immutable := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 2)})
	r.want(r.deleteSchedule(payer, immutable.Did().Schedule), hapi.ResponseCodeEnum_SCHEDULE_IS_IMMUTABLE)
	r.want(r.deleteSchedule(payer, hedera.Entity(9_999)), hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID)
}

// What lacks a signature when it expires is gone.
func TestScheduleExpires(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner := dev(t, 0), dev(t, 1)
	body := &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 1)}
	short := r.schedule(payer, body)
	long := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: body.GetScheduledTransactionBody(), ExpirationTime: in(r, time.Hour), WaitForExpiry: true})
	r.IncreaseTime(31 * time.Minute)
	r.want(r.signSchedule(payer, short.Did().Schedule, owner.key), hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID)
	r.want(r.schedule(payer, body), okay) // it is identical to nothing now
	r.IncreaseTime(time.Hour)
	r.want(r.signSchedule(payer, long.Did().Schedule, owner.key), hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID)
	if r.executed(short) != nil || r.executed(long) != nil {
		t.Error("an expired schedule executed")
	}
}

// A schedule that waits for its expiry executes then and not before, with the next
// transaction, and by the clock where there is none. Going back takes it back.
func TestScheduleWaitsForItsTime(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner := dev(t, 0), dev(t, 1)
	before := r.balance(owner.address)
	creation := r.schedule(payer, &scheduleBody{
		ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 5), ExpirationTime: in(r, time.Hour), WaitForExpiry: true,
	}, owner.key)
	r.want(creation, okay)
	snapshot := r.Snapshot()
	for range 2 {
		if r.executed(creation) != nil {
			t.Fatal("it executed before its time")
		}
		r.IncreaseTime(time.Hour)
		r.Mine(1, 0)
		done := r.executed(creation)
		if done == nil || done.Status != okay || r.balance(owner.address) != before-5 {
			t.Fatalf("executed %+v", done)
		}
		if !r.Revert(snapshot) || r.balance(owner.address) != before {
			t.Fatal("it was not taken back")
		}
	}
	if err := r.SetNextTime(r.Now().Add(2 * time.Hour).Unix()); err != nil {
		t.Fatal(err)
	}
	next := r.submit(payer.id, amounts(payer.id.AccountID(), -1, owner.id.AccountID(), 1), payer.key)
	if done := r.executed(creation); done == nil || done.Consensus.Compare(next.Consensus) >= 0 {
		t.Errorf("executed %+v, the next one %+v", done, next)
	}
}

func TestRunExecutesSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = r.Run(ctx) }()
		synctest.Wait() // Run waits for something with a time
		payer, owner := dev(t, 0), dev(t, 1)
		creation := r.schedule(payer, &scheduleBody{
			ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 5), ExpirationTime: in(r, time.Hour), WaitForExpiry: true,
		}, owner.key)
		r.want(creation, okay)
		changed, stop := r.Subscribe()
		defer stop()
		start := time.Now()
		<-changed
		if done := r.executed(creation); done == nil || done.Status != okay || time.Since(start) > time.Hour {
			t.Errorf("after %s: %+v", time.Since(start), done)
		}
		cancel()
		<-ended
	})
}

// inner signs a transaction for a batch: it names the key that must agree to it, and no node.
func (r *rig) inner(payer party, batchKey *hapi.Key, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) []byte {
	r.t.Helper()
	r.start++
	body = proto.CloneOf(body)
	start := r.Now().Add(-time.Minute)
	body.TransactionID = &hapi.TransactionID{
		AccountID: payer.id.AccountID(), TransactionValidStart: &hapi.Timestamp{Seconds: start.Unix(), Nanos: r.start},
	}
	body.NodeAccountID, body.BatchKey = hedera.ID{}.AccountID(), batchKey
	body.TransactionValidDuration = &hapi.Duration{Seconds: 120}
	raw, pairs := r.signed(body, append(keys, payer.key)...)
	return core.Marshal(&hapi.SignedTransaction{BodyBytes: raw, SigMap: &hapi.SignatureMap{SigPair: pairs}})
}

func batchOf(list ...[]byte) *hapi.TransactionBody {
	return core.BodyOf(&hapi.AtomicBatchTransactionBody{Transactions: list})
}

// innerID is the transaction id of an inner transaction.
func innerID(t *testing.T, inner []byte) hedera.TransactionID {
	t.Helper()
	sub, status := innerOf(inner)
	if status != okay {
		t.Fatal(status)
	}
	return sub.ID
}

// scenery is what batches of these tests work on.
type scenery struct {
	*rig
	owner, other, relayer party
	token                 hedera.ID
	storing               party // a contract that keeps its call data in slot 0
}

func newScenery(t *testing.T) *scenery {
	t.Helper()
	s := &scenery{rig: newRig(t, Config{}), owner: dev(t, 0), other: dev(t, 1), relayer: dev(t, 9)}
	s.token = s.fungibleToken(s.owner, nil)
	s.associated(s.other, s.token)
	s.storing.address = s.deploy(dev(t, 3), 0, program.New().Push(0).Op(vm.CALLDATALOAD).Push(0).Op(vm.SSTORE).Bytes())
	return s
}

// steps is a transaction of every sort: an account that comes into being, hbar, a token, a
// file, and a call of a contract with value.
func (s *scenery) steps(key *hapi.Key) [][]byte {
	s.t.Helper()
	stranger := fresh(s.t, 5)
	data := number(9)
	call := ethereumBody(s.t, s.other, dynamic(uint64(s.nonce(s.other.address)), &s.storing.address, 0, 100_000, data[:]), 0)
	return [][]byte{
		s.inner(s.owner, key, amounts(s.owner.id.AccountID(), -50, aliasID(stranger.address[:]), 50)),
		s.inner(s.owner, key, units(s.token, s.owner.id.AccountID(), -20, s.other.id.AccountID(), 20)),
		s.inner(s.other, key, units(s.token, s.other.id.AccountID(), -5, s.owner.id.AccountID(), 5)),
		s.inner(s.owner, key, core.BodyOf(&hapi.FileCreateTransactionBody{
			ExpirationTime: &hapi.Timestamp{Seconds: 4_000_000_000},
			Contents:       []byte("kept"), Keys: &hapi.KeyList{Keys: []*hapi.Key{publicKey(s.owner)}},
		})),
		s.inner(s.relayer, key, call),
	}
}

// told is what readers can see of what the steps do.
func (s *scenery) told() map[string]int64 {
	files := int64(0)
	for num, f := range s.store.World.Files {
		if num > state.LastSystemCode && string(f.Contents) == "kept" {
			files++
		}
	}
	_, made := s.Handled().AccountByAddress(fresh(s.t, 5).address)
	contract, _ := s.Handled().Resolve(s.storing.address)
	created := int64(0)
	if made {
		created = 1
	}
	return map[string]int64{
		"owner": s.held(s.owner.id, s.token), "other": s.held(s.other.id, s.token), "files": files, "made": created,
		"stored": s.Handled().Storage(contract, number(0)).Value.Big().Int64(), "nonce": s.nonce(s.other.address),
		"hbar": int64(s.balance(s.owner.address)), "next": s.store.NextNum,
	}
}

func TestBatch(t *testing.T) {
	s := newScenery(t)
	key := publicKey(s.other)
	before := s.told()
	list := s.steps(key)
	rec := s.submit(s.owner.id, batchOf(list...), s.owner.key, s.other.key)
	s.want(rec, okay)
	want := map[string]int64{
		"owner": 985, "other": 15, "files": 1, "made": 1, "stored": 9, "nonce": before["nonce"] + 1,
		"hbar": before["hbar"] - 50, "next": before["next"] + 2,
	}
	if diff := cmp.Diff(want, s.told()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	last := rec.Consensus
	kinds := []history.Kind{history.KindCryptoTransfer, history.KindCryptoTransfer, history.KindCryptoTransfer, history.KindFileCreate, history.KindEthereum}
	for i, inner := range list {
		found := s.Handled().RecordsByID(innerID(t, inner))
		top := slices.DeleteFunc(slices.Clone(found), (*history.Record).IsChild)
		if len(top) != 1 || top[0].Kind != kinds[i] || top[0].Status != okay || top[0].Batch != rec.Consensus || !proto.Equal(top[0].BatchKey, key) {
			t.Fatalf("%d: %+v", i, top)
		}
		if top[0].Consensus.Compare(last) <= 0 || top[0].Block != rec.Block {
			t.Errorf("%d: at %s in block %d, the one before at %s", i, top[0].Consensus, top[0].Block, last)
		}
		last = top[0].Consensus
		if i == 0 && len(found) != 2 { // the creation of the account stands before it
			t.Errorf("records %v", found)
		}
	}
	s.checkSupply(s.token)
	// What was handled is not handled again, in a batch or by itself.
	s.want(s.submit(s.owner.id, batchOf(list[1]), s.owner.key, s.other.key), hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED)
	if found := s.Handled().RecordsByID(innerID(t, list[1])); len(found) != 2 || found[1].Status != hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
		t.Errorf("%+v", found)
	}
}

// One inner transaction that fails takes back all that the others did.
func TestBatchFailsWhole(t *testing.T) {
	s := newScenery(t)
	before := s.told()
	list := s.steps(publicKey(s.owner))
	list = append(list, s.inner(s.owner, publicKey(s.owner), units(s.token, s.owner.id.AccountID(), -9_999, s.other.id.AccountID(), 9_999)),
		s.inner(s.owner, publicKey(s.owner), amounts(s.owner.id.AccountID(), -1, s.other.id.AccountID(), 1)))
	rec := s.submit(s.owner.id, batchOf(list...), s.owner.key)
	s.want(rec, hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED)
	if diff := cmp.Diff(before, s.told()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i, inner := range list {
		want := []hedera.Status{hapi.ResponseCodeEnum_REVERTED_SUCCESS}
		switch i {
		case 5:
			want[0] = hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
		case 6:
			want = nil // it was not handled
		}
		var got []hedera.Status
		for _, r := range s.Handled().RecordsByID(innerID(t, inner)) {
			got = append(got, r.Status)
			if len(r.Transfers) != 0 || len(r.Did().Tokens) != 0 || len(r.Logs()) != 0 {
				t.Errorf("%d tells of what was taken back: %+v", i, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	// The chain goes on as if nothing had been: numbers, nonces and addresses are free.
	s.want(s.submit(s.owner.id, batchOf(s.steps(publicKey(s.owner))...), s.owner.key), okay)
	s.checkSupply(s.token)
	if total, _ := s.View().Supply(); total != state.TotalSupply {
		t.Errorf("%d tinybar", total)
	}
}

// What a batch may get wrong, and who must sign.
func TestBatchRefusals(t *testing.T) {
	s := newScenery(t)
	mine, pay := publicKey(s.owner), amounts(s.owner.id.AccountID(), -1, s.other.id.AccountID(), 1)
	one := s.inner(s.owner, mine, pay)
	addressed := proto.CloneOf(pay)
	addressed.NodeAccountID, addressed.BatchKey = hedera.Entity(3).AccountID(), mine
	addressed.TransactionID = &hapi.TransactionID{AccountID: s.owner.id.AccountID(), TransactionValidStart: &hapi.Timestamp{Seconds: 1}}
	many := make([][]byte, maxBatch+1)
	for i := range many {
		many[i] = s.inner(s.owner, mine, pay)
	}
	foreign := amounts(s.other.id.AccountID(), -1, s.owner.id.AccountID(), 1)
	for name, tt := range map[string]struct {
		list  [][]byte
		pure  hedera.Status
		want  hedera.Status
		inner hedera.Status
	}{
		"nothing":              {pure: hapi.ResponseCodeEnum_BATCH_LIST_EMPTY},
		"twice":                {list: [][]byte{one, one}, pure: hapi.ResponseCodeEnum_BATCH_LIST_CONTAINS_DUPLICATES},
		"without a key":        {list: [][]byte{s.inner(s.owner, nil, pay)}, pure: hapi.ResponseCodeEnum_MISSING_BATCH_KEY},
		"for a node":           {list: [][]byte{core.Marshal(&hapi.SignedTransaction{BodyBytes: core.Marshal(addressed)})}, pure: hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT_ID},
		"nonsense":             {list: [][]byte{{1, 2}}, pure: hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"a bad body":           {list: [][]byte{s.inner(s.owner, mine, amounts(s.owner.id.AccountID(), 1))}, pure: hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		"a batch":              {list: [][]byte{s.inner(s.owner, mine, batchOf(one))}, pure: okay, want: hapi.ResponseCodeEnum_BATCH_TRANSACTION_IN_BLACKLIST},
		"too many":             {list: many, pure: okay, want: hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED},
		"another's key":        {list: [][]byte{s.inner(s.owner, publicKey(s.other), pay)}, pure: okay, want: hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		"a payer who has not":  {list: [][]byte{s.inner(party{id: s.other.id, key: s.owner.key}, mine, pay)}, pure: okay, want: hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED, inner: hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE},
		"a party who has not":  {list: [][]byte{s.inner(s.owner, mine, foreign)}, pure: okay, want: hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED, inner: hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		"a party who has both": {list: [][]byte{s.inner(s.owner, mine, foreign, s.other.key)}, pure: okay, want: okay, inner: okay},
	} {
		body := batchOf(tt.list...)
		if got := s.PureCheck(body); got != tt.pure {
			t.Errorf("%s: %s, want %s", name, got, tt.pure)
		}
		if tt.pure != okay {
			continue
		}
		if rec := s.submit(s.owner.id, body, s.owner.key); rec.Status != tt.want {
			t.Errorf("%s: %s, want %s", name, rec.Status, tt.want)
		}
		if tt.inner != 0 {
			if found := s.Handled().RecordsByID(innerID(t, tt.list[0])); len(found) != 1 || found[0].Status != tt.inner {
				t.Errorf("%s: inner %+v, want %s", name, found, tt.inner)
			}
		}
	}
}
