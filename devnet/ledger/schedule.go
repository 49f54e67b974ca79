package ledger

import (
	"crypto/sha512"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Limits of a schedule, in seconds.
const (
	defaultScheduleLife = 1_800
	maxScheduleLife     = 5_356_800 // 62 days
)

// scheduledBody is the transaction that a schedule stands for, nil for one of a kind that
// cannot be scheduled.
func scheduledBody(inner *hapi.SchedulableTransactionBody) *hapi.TransactionBody {
	data, name := dataOf(inner)
	if !slices.Contains(scheduledKinds, name) {
		return nil
	}
	body := bodyOf(data) // the two bodies name their kinds alike
	body.TransactionFee, body.Memo, body.MaxCustomFees = inner.GetTransactionFee(), &inner.Memo, inner.GetMaxCustomFees()
	return body
}

// scheduledKinds are the kinds of transactions that can be scheduled.
var scheduledKinds = []protoreflect.Name{
	"consensusSubmitMessage", "cryptoTransfer", "cryptoApproveAllowance", "cryptoCreateAccount", "cryptoUpdateAccount", "fileUpdate",
	"tokenCreation", "tokenUpdate", "tokenMint", "tokenBurn",
	"contractCall", "contractCreateInstance", "contractUpdateInstance", "contractDeleteInstance",
}

// pureSchedule checks the scheduled transaction as a node checks one that is sent.
func (l *Ledger) pureSchedule(body *hapi.ScheduleCreateTransactionBody) hedera.Status {
	if body.GetScheduledTransactionBody().GetData() == nil {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION
	}
	if inner := scheduledBody(body.GetScheduledTransactionBody()); inner != nil {
		return l.PureCheck(inner)
	}
	return okay // consensus says what cannot be scheduled
}

func (h *handling) scheduleCreate(body *hapi.ScheduleCreateTransactionBody) hedera.Status {
	switch {
	case scheduledBody(body.GetScheduledTransactionBody()) == nil:
		return hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST
	case body.GetAdminKey() != nil && !hapikey.Valid(body.GetAdminKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case body.GetAdminKey() != nil && !h.signed(body.GetAdminKey()):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, memo := range []string{body.GetMemo(), body.GetScheduledTransactionBody().GetMemo()} {
		if status := validMemo(memo); status != okay {
			return status
		}
	}
	s := &state.Schedule{
		Creator: h.sub.Payer, Payer: h.sub.Payer, Memo: body.GetMemo(), AdminKey: body.GetAdminKey(),
		Body: body.GetScheduledTransactionBody(), Transaction: h.o.id, WaitForExpiry: body.GetWaitForExpiry(), Created: h.r.Consensus,
	}
	s.Transaction.Scheduled = true
	if h.child { // a contract may make several in one transaction
		s.Transaction.Nonce = int32(len(h.o.children))
	}
	if id := body.GetPayerAccountID(); id != nil {
		payer := h.resolve(id)
		if payer == nil || !payer.Exists && !payer.Deleted() { // a deleted one fails when its turn comes
			return hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST
		}
		s.Payer = hedera.Entity(payer.Num)
	}
	if status := h.scheduleExpiry(s, body.GetExpirationTime()); status != okay {
		return status
	}
	digest := scheduleDigest(body)
	if same := h.o.Identical.Get(digest); same != nil {
		if other := h.o.Schedules.Get(*same); other.DeletedAt.IsZero() && !other.ExpiredBy(h.at) {
			h.failure = &history.Effects{Schedule: other.ID, Scheduled: other.Transaction}
			return hapi.ResponseCodeEnum_IDENTICAL_SCHEDULE_ALREADY_CREATED
		}
	}
	if _, status := h.agree(s); status != okay {
		return status
	}
	s.ID = hedera.Entity(h.newNum())
	h.o.Identical.Set(digest, &s.ID.Num)
	h.o.Expiries.Set(state.ExpiryKey{At: s.Expires.UnixNano(), Schedule: s.ID.Num}, &struct{}{})
	h.did().Schedule = s.ID
	return h.putSchedule(s)
}

// scheduleDigest is the same for schedules that differ in nothing but who made them.
func scheduleDigest(body *hapi.ScheduleCreateTransactionBody) state.Hash48 {
	return sha512.Sum384(marshal(body))
}

func (h *handling) scheduleExpiry(s *state.Schedule, given *hapi.Timestamp) hedera.Status {
	if given == nil {
		if s.WaitForExpiry {
			return hapi.ResponseCodeEnum_MISSING_EXPIRY_TIME
		}
		s.Expires = h.expiry(defaultScheduleLife)
		return okay
	}
	s.Expires, s.ExpiryGiven = hedera.Timestamp{Seconds: given.GetSeconds(), Nanos: given.GetNanos()}, true
	switch {
	case given.GetSeconds() <= h.r.Consensus.Seconds:
		return hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_MUST_BE_HIGHER_THAN_CONSENSUS_TIME
	case given.GetSeconds() > h.r.Consensus.Seconds+maxScheduleLife:
		return hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_TOO_FAR_IN_FUTURE
	}
	return okay
}

// putSchedule keeps a schedule, and has it tried where it may execute at once.
func (h *handling) putSchedule(s *state.Schedule) hedera.Status {
	h.o.Schedules.Set(s.ID.Num, s)
	h.r.Entity = s.ID
	h.did().Scheduled = s.Transaction
	if s.WaitForExpiry {
		h.l.wake() // Run waits for the time of this one, too
	} else {
		h.o.ready = append(h.o.ready, s.ID.Num)
	}
	return okay
}

// agree adds to a schedule those of its keys that agree to the transaction being handled. It
// returns how many are new.
func (h *handling) agree(s *state.Schedule) (added int, status hedera.Status) {
	wanted, status := h.scheduleKeys(s)
	if status != okay {
		return 0, status
	}
	s.Signatories, s.Signatures = slices.Clip(s.Signatories), slices.Clip(s.Signatures)
	for _, key := range wanted {
		if hapikey.Contains(s.Signatories, key) || !h.signed(key) {
			continue
		}
		s.Signatories = append(s.Signatories, key)
		s.Signatures = append(s.Signatures, state.ScheduleSignature{At: h.r.Consensus, Key: key, Signature: h.sub.Signatures.Of(key)})
		added++
	}
	return added, okay
}

// scheduleKeys finds the primitive keys that have a say in a scheduled transaction: it is
// handled on a state that is thrown away, as if everybody had signed.
func (h *handling) scheduleKeys(s *state.Schedule) ([]*hapi.Key, hedera.Status) {
	var keys []*hapi.Key
	note := func(key *hapi.Key) bool {
		return hapikey.Satisfied(key, func(one *hapi.Key) bool {
			if !hapikey.Contains(keys, one) {
				keys = append(keys, one)
			}
			return true
		})
	}
	note(h.o.EntityAccount(s.Payer.Num).Key())
	body := scheduledBody(s.Body)
	if body.GetContractCall() != nil { // it needs its payer's agreement alone
		return keys, okay
	}
	trial := &handling{
		l: h.l, at: h.at, o: newWork(h.l.store, h.at, h.o.Shared), r: &history.Record{Consensus: h.r.Consensus}, authorizes: note,
		sub: &Submission{Body: body, ID: s.Transaction, Payer: s.Payer, Signatures: hapikey.NewSignatures(nil, nil)},
	}
	if absent := []hedera.Status{
		hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, hapi.ResponseCodeEnum_INVALID_TOKEN_ID, hapi.ResponseCodeEnum_INVALID_TOPIC_ID,
		hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, hapi.ResponseCodeEnum_INVALID_FILE_ID,
	}; slices.Contains(absent, trial.serve()) {
		return nil, hapi.ResponseCodeEnum_UNRESOLVABLE_REQUIRED_SIGNERS
	}
	return keys, okay
}

// pendingSchedule finds a schedule that has neither executed nor ended.
func (h *handling) pendingSchedule(id *hapi.ScheduleID) (*state.Schedule, hedera.Status) {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil, hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
	}
	s := h.o.Schedules.Get(id.GetScheduleNum())
	switch {
	case s == nil, s.ExpiredBy(h.at):
		return nil, hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
	case !s.DeletedAt.IsZero():
		return nil, hapi.ResponseCodeEnum_SCHEDULE_ALREADY_DELETED
	case !s.Executed.IsZero():
		return nil, hapi.ResponseCodeEnum_SCHEDULE_ALREADY_EXECUTED
	}
	return s, okay
}

func (h *handling) scheduleSign(body *hapi.ScheduleSignTransactionBody) hedera.Status {
	old, status := h.pendingSchedule(body.GetScheduleID())
	if status != okay {
		return status
	}
	s := *old
	switch added, status := h.agree(&s); {
	case status != okay:
		return status
	case added == 0:
		return hapi.ResponseCodeEnum_NO_NEW_VALID_SIGNATURES
	}
	return h.putSchedule(&s)
}

func (h *handling) scheduleDelete(body *hapi.ScheduleDeleteTransactionBody) hedera.Status {
	old, status := h.pendingSchedule(body.GetScheduleID())
	switch {
	case status != okay:
		return status
	case old.AdminKey == nil:
		return hapi.ResponseCodeEnum_SCHEDULE_IS_IMMUTABLE
	case !h.signed(old.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	s := *old
	s.DeletedAt = h.r.Consensus
	h.o.Schedules.Set(s.ID.Num, &s)
	h.r.Entity = s.ID
	return okay
}

// execute brings a scheduled transaction to consensus where all who must agree do. The caller
// holds handling, and has the block closed afterwards.
func (l *Ledger) execute(num int64) {
	s := l.store.World.Schedules.Now(num)
	if s == nil || !s.Executed.IsZero() || !s.DeletedAt.IsZero() {
		return
	}
	body := scheduledBody(s.Body)
	h := l.begin(&Submission{
		Body: body, ID: s.Transaction, Payer: s.Payer, Hash: sha512.Sum384([]byte(s.Transaction.String())), Signatures: hapikey.NewSignatures(nil, nil),
	})
	h.authorizes = s.Agrees
	if payer := h.o.EntityAccount(s.Payer.Num); !s.Agrees(payer.Key()) {
		return
	}
	if h.run(); h.r.Status == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		return // it waits on; the state that it was handled on is dropped
	}
	done := *s
	done.Executed = h.r.Consensus
	h.o.Schedules.Set(num, &done)
	h.did().ScheduleRef = s.ID
	l.enter(h)
}

// executeReady tries the schedules that a transaction created or signed. Those that one of them
// creates in turn wait for a signing or for their time, so that no chain of them is endless.
func (l *Ledger) executeReady(h *handling) {
	for _, num := range h.o.ready {
		l.execute(num)
	}
}

// executeDue executes the schedules whose time has come by a consensus time, and returns how
// long it is until the next one's; any is false where there is none. The caller holds handling.
func (l *Ledger) executeDue(now int64) (left time.Duration, any bool) {
	last := state.ExpiryKey{At: now, Schedule: state.Last}
	if now > l.settled {
		due := slices.Collect(l.store.World.Expiries.Between(state.ExpiryKey{At: l.settled, Schedule: state.Last}, last))
		l.settled = now
		for _, key := range due {
			if s := l.store.World.Schedules.Now(key.Schedule); s != nil && s.WaitForExpiry {
				l.execute(key.Schedule)
				l.entered()
			}
		}
	}
	for later := range l.store.World.Expiries.Between(last, state.ExpiryKey{At: state.Last, Schedule: state.Last}) {
		return time.Duration(later.At - now), true
	}
	return 0, false
}

// executeWaiting executes what is due by the clock, as Run does.
func (l *Ledger) executeWaiting() (left time.Duration, any bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	return l.executeDue(l.Now().UnixNano())
}
