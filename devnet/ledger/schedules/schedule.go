package schedules

import (
	"crypto/sha512"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

// Limits of a schedule, in seconds.
const (
	defaultScheduleLife = 1_800
	MaxScheduleLife     = 5_356_800 // 62 days
)

// Body is the transaction that a schedule stands for, nil for one of a kind that
// cannot be scheduled.
func Body(inner *hapi.SchedulableTransactionBody) *hapi.TransactionBody {
	data, name := core.DataOf(inner)
	if !slices.Contains(scheduledKinds, name) {
		return nil
	}
	body := core.BodyOf(data) // the two bodies name their kinds alike
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
func pureSchedule(net *core.Network, body *hapi.ScheduleCreateTransactionBody) hedera.Status {
	if body.GetScheduledTransactionBody().GetData() == nil {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION
	}
	if inner := Body(body.GetScheduledTransactionBody()); inner != nil {
		return net.PureCheck(inner)
	}
	return okay // consensus says what cannot be scheduled
}

func scheduleCreate(h *core.Handling, body *hapi.ScheduleCreateTransactionBody) hedera.Status {
	switch {
	case Body(body.GetScheduledTransactionBody()) == nil:
		return hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST
	case body.GetAdminKey() != nil && !hapikey.Valid(body.GetAdminKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case body.GetAdminKey() != nil && !h.Signed(body.GetAdminKey()):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, memo := range []string{body.GetMemo(), body.GetScheduledTransactionBody().GetMemo()} {
		if status := core.ValidMemo(memo); status != okay {
			return status
		}
	}
	s := &state.Schedule{
		Creator: h.Sub.Payer, Payer: h.Sub.Payer, Memo: body.GetMemo(), AdminKey: body.GetAdminKey(),
		Body: body.GetScheduledTransactionBody(), Transaction: h.State.ID, WaitForExpiry: body.GetWaitForExpiry(), Created: h.Record.Consensus,
	}
	s.Transaction.Scheduled = true
	if h.Child { // a contract may make several in one transaction
		s.Transaction.Nonce = int32(len(h.State.Children))
	}
	if id := body.GetPayerAccountID(); id != nil {
		payer := h.Resolve(id)
		if payer == nil || !payer.Exists && !payer.Deleted() { // a deleted one fails when its turn comes
			return hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST
		}
		s.Payer = hedera.Entity(payer.Num)
	}
	if status := scheduleExpiry(h, s, body.GetExpirationTime()); status != okay {
		return status
	}
	digest := scheduleDigest(body)
	if same := h.State.Identical.Get(digest); same != nil {
		if other := h.State.Schedules.Get(*same); other.DeletedAt.IsZero() && !other.ExpiredBy(h.At) {
			h.Failure = &history.Effects{Schedule: other.ID, Scheduled: other.Transaction}
			return hapi.ResponseCodeEnum_IDENTICAL_SCHEDULE_ALREADY_CREATED
		}
	}
	if _, status := agree(h, s); status != okay {
		return status
	}
	s.ID = hedera.Entity(h.NewNum())
	h.State.Identical.Set(digest, &s.ID.Num)
	h.State.Expiries.Set(state.ExpiryKey{At: s.Expires.UnixNano(), Schedule: s.ID.Num}, &struct{}{})
	h.Did().Schedule = s.ID
	return putSchedule(h, s)
}

// scheduleDigest is the same for schedules that differ in nothing but who made them.
func scheduleDigest(body *hapi.ScheduleCreateTransactionBody) state.Hash48 {
	return sha512.Sum384(core.Marshal(body))
}

func scheduleExpiry(h *core.Handling, s *state.Schedule, given *hapi.Timestamp) hedera.Status {
	if given == nil {
		if s.WaitForExpiry {
			return hapi.ResponseCodeEnum_MISSING_EXPIRY_TIME
		}
		s.Expires = h.Expiry(defaultScheduleLife)
		return okay
	}
	s.Expires, s.ExpiryGiven = hedera.Timestamp{Seconds: given.GetSeconds(), Nanos: given.GetNanos()}, true
	switch {
	case given.GetSeconds() <= h.Record.Consensus.Seconds:
		return hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_MUST_BE_HIGHER_THAN_CONSENSUS_TIME
	case given.GetSeconds() > h.Record.Consensus.Seconds+MaxScheduleLife:
		return hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_TOO_FAR_IN_FUTURE
	}
	return okay
}

// putSchedule keeps a schedule, and has it tried where it may execute at once.
func putSchedule(h *core.Handling, s *state.Schedule) hedera.Status {
	h.State.Schedules.Set(s.ID.Num, s)
	h.Record.Entity = s.ID
	h.Did().Scheduled = s.Transaction
	if s.WaitForExpiry {
		h.Net.Wake() // Run waits for the time of this one, too
	} else {
		h.State.Ready = append(h.State.Ready, s.ID.Num)
	}
	return okay
}

// agree adds to a schedule those of its keys that agree to the transaction being handled. It
// returns how many are new.
func agree(h *core.Handling, s *state.Schedule) (added int, status hedera.Status) {
	wanted, status := scheduleKeys(h, s)
	if status != okay {
		return 0, status
	}
	s.Signatories, s.Signatures = slices.Clip(s.Signatories), slices.Clip(s.Signatures)
	for _, key := range wanted {
		if hapikey.Contains(s.Signatories, key) || !h.Signed(key) {
			continue
		}
		s.Signatories = append(s.Signatories, key)
		s.Signatures = append(s.Signatures, state.ScheduleSignature{At: h.Record.Consensus, Key: key, Signature: h.Sub.Signatures.Of(key)})
		added++
	}
	return added, okay
}

// scheduleKeys finds the primitive keys that have a say in a scheduled transaction: it is
// handled on a state that is thrown away, as if everybody had signed.
func scheduleKeys(h *core.Handling, s *state.Schedule) ([]*hapi.Key, hedera.Status) {
	var keys []*hapi.Key
	note := func(key *hapi.Key) bool {
		return hapikey.Satisfied(key, func(one *hapi.Key) bool {
			if !hapikey.Contains(keys, one) {
				keys = append(keys, one)
			}
			return true
		})
	}
	note(h.State.EntityAccount(s.Payer.Num).Key())
	body := Body(s.Body)
	if body.GetContractCall() != nil { // it needs its payer's agreement alone
		return keys, okay
	}
	trial := &core.Handling{
		Net: h.Net, At: h.At, State: core.NewWork(h.Net.Store, h.At, h.State.Shared), Record: &history.Record{Consensus: h.Record.Consensus}, Authorizes: note,
		Sub: &core.Submission{Body: body, ID: s.Transaction, Payer: s.Payer, Signatures: hapikey.NewSignatures(nil, nil)},
	}
	if absent := []hedera.Status{
		hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, hapi.ResponseCodeEnum_INVALID_TOKEN_ID, hapi.ResponseCodeEnum_INVALID_TOPIC_ID,
		hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, hapi.ResponseCodeEnum_INVALID_FILE_ID,
	}; slices.Contains(absent, trial.Serve()) {
		return nil, hapi.ResponseCodeEnum_UNRESOLVABLE_REQUIRED_SIGNERS
	}
	return keys, okay
}

// pendingSchedule finds a schedule that has neither executed nor ended.
func pendingSchedule(h *core.Handling, id *hapi.ScheduleID) (*state.Schedule, hedera.Status) {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil, hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
	}
	s := h.State.Schedules.Get(id.GetScheduleNum())
	switch {
	case s == nil, s.ExpiredBy(h.At):
		return nil, hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
	case !s.DeletedAt.IsZero():
		return nil, hapi.ResponseCodeEnum_SCHEDULE_ALREADY_DELETED
	case !s.Executed.IsZero():
		return nil, hapi.ResponseCodeEnum_SCHEDULE_ALREADY_EXECUTED
	}
	return s, okay
}

func scheduleSign(h *core.Handling, body *hapi.ScheduleSignTransactionBody) hedera.Status {
	old, status := pendingSchedule(h, body.GetScheduleID())
	if status != okay {
		return status
	}
	s := *old
	switch added, status := agree(h, &s); {
	case status != okay:
		return status
	case added == 0:
		return hapi.ResponseCodeEnum_NO_NEW_VALID_SIGNATURES
	}
	return putSchedule(h, &s)
}

func scheduleDelete(h *core.Handling, body *hapi.ScheduleDeleteTransactionBody) hedera.Status {
	old, status := pendingSchedule(h, body.GetScheduleID())
	switch {
	case status != okay:
		return status
	case old.AdminKey == nil:
		return hapi.ResponseCodeEnum_SCHEDULE_IS_IMMUTABLE
	case !h.Signed(old.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	s := *old
	s.DeletedAt = h.Record.Consensus
	h.State.Schedules.Set(s.ID.Num, &s)
	h.Record.Entity = s.ID
	return okay
}

// Services are the transactions that are handled here.
func Services(net *core.Network) core.Services {
	return core.Services{
		"scheduleCreate": core.ServiceOf(scheduleCreate, func(body *hapi.ScheduleCreateTransactionBody) hedera.Status { return pureSchedule(net, body) }),
		"scheduleSign":   core.ServiceOf(scheduleSign, nil),
		"scheduleDelete": core.ServiceOf(scheduleDelete, nil),
	}
}
