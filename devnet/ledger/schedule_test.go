package ledger

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
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
