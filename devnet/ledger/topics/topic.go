package topics

import (
	"crypto/sha512"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/devnet/ledger/transfers"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

const (
	maxMessage       = 1024 // bytes
	maxExemptKeys    = 10
	topicHashVersion = 3
)

func topicNum(id *hapi.TopicID) int64 {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return 0
	}
	return id.GetTopicNum()
}

func topic(h *core.Handling, id *hapi.TopicID) (*state.Topic, hedera.Status) {
	t := h.State.Topics.Get(topicNum(id))
	if t == nil || t.Deleted {
		return nil, hapi.ResponseCodeEnum_INVALID_TOPIC_ID
	}
	return t, okay
}

func putTopic(h *core.Handling, t *state.Topic) hedera.Status {
	h.State.Topics.Set(t.ID.Num, t)
	h.Record.Entity = t.ID
	return okay
}

func topicCreate(h *core.Handling, body *hapi.ConsensusCreateTopicTransactionBody) hedera.Status {
	t := &state.Topic{
		ID: hedera.Entity(h.NewNum()), Memo: body.GetMemo(), Created: h.Record.Consensus, Modified: h.Record.Consensus,
		FeesSince: h.Record.Consensus, AutoRenewPeriod: body.GetAutoRenewPeriod().GetSeconds(),
	}
	for _, r := range topicRoles(t, body) {
		if r.Given.GetKey() != nil && !hapikey.Empty(r.Given) {
			if !hapikey.Valid(r.Given) {
				return r.Invalid
			}
			*r.Kept = r.Given
		}
	}
	switch {
	case t.AdminKey != nil && !h.Signed(t.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case body.GetAutoRenewPeriod() == nil:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	if status := core.FirstFault(topicPeriod(body.GetAutoRenewPeriod()), core.ValidMemo(t.Memo)); status != okay {
		return status
	}
	if status := topicRenewal(h, t, body.GetAutoRenewAccount()); status != okay {
		return status
	}
	t.Expires = h.Expiry(t.AutoRenewPeriod)
	if status := topicFees(h, t, body.GetCustomFees(), body.GetFeeExemptKeyList()); status != okay {
		return status
	}
	h.Did().Topic = t.ID
	return putTopic(h, t)
}

// topicRoles are the keys that a body gives a topic.
func topicRoles(t *state.Topic, body interface {
	GetAdminKey() *hapi.Key
	GetSubmitKey() *hapi.Key
	GetFeeScheduleKey() *hapi.Key
},
) []tokens.Role {
	return []tokens.Role{
		{Given: body.GetAdminKey(), Kept: &t.AdminKey, Invalid: hapi.ResponseCodeEnum_BAD_ENCODING},
		{Given: body.GetSubmitKey(), Kept: &t.SubmitKey, Invalid: hapi.ResponseCodeEnum_BAD_ENCODING},
		{Given: body.GetFeeScheduleKey(), Kept: &t.FeeScheduleKey, Invalid: hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_SCHEDULE_KEY},
	}
}

// topicPeriod checks for how long a topic is renewed; no time is as wrong as too little of it.
func topicPeriod(d *hapi.Duration) hedera.Status {
	if status := core.ValidPeriod(d); status != okay {
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	return okay
}

// topicRenewal sets the account that renews a topic; only topics with an admin key have one.
func topicRenewal(h *core.Handling, t *state.Topic, id *hapi.AccountID) hedera.Status {
	if id == nil || id.GetAccount() == nil {
		return okay
	}
	renew, status := h.Renewer(id)
	if status == okay {
		t.AutoRenewAccount = renew
	}
	return status
}

// topicFees sets what a message costs whoever submits it.
func topicFees(h *core.Handling, t *state.Topic, fees []*hapi.FixedCustomFee, exempt []*hapi.Key) hedera.Status {
	if len(fees) > tokens.MaxCustomFees {
		return hapi.ResponseCodeEnum_CUSTOM_FEES_LIST_TOO_LONG
	}
	if len(exempt) > maxExemptKeys {
		return hapi.ResponseCodeEnum_MAX_ENTRIES_FOR_FEE_EXEMPT_KEY_LIST_EXCEEDED
	}
	if slices.ContainsFunc(exempt, func(key *hapi.Key) bool { return !hapikey.Valid(key) }) {
		return hapi.ResponseCodeEnum_INVALID_KEY_IN_FEE_EXEMPT_KEY_LIST
	}
	t.Fees, t.ExemptKeys, t.FeesSince = nil, exempt, h.Record.Consensus
	for _, given := range fees {
		fee := proto.CloneOf(given)
		collector, status := h.Party(fee.GetFeeCollectorAccountId())
		if status != okay {
			return hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR
		}
		if fee.GetFixedFee() == nil {
			return hapi.ResponseCodeEnum_CUSTOM_FEE_NOT_FULLY_SPECIFIED
		}
		fee.FeeCollectorAccountId = hedera.Entity(collector.Num).AccountID()
		if _, status := tokens.CheckFixed(h, &state.Token{}, fee.GetFixedFee(), collector.Num, false); status != okay {
			return status
		}
		t.Fees = append(t.Fees, fee)
	}
	return okay
}

func topicUpdate(h *core.Handling, body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	old, status := topic(h, body.GetTopicID())
	if status != okay {
		return status
	}
	t := *old
	fees := body.GetCustomFees() != nil
	others := body.GetMemo() != nil || body.GetAdminKey() != nil || body.GetSubmitKey() != nil || body.GetAutoRenewPeriod() != nil ||
		body.GetAutoRenewAccount() != nil || body.GetFeeScheduleKey() != nil || body.GetFeeExemptKeyList() != nil
	removesAdmin := body.GetAdminKey() != nil && (body.GetAdminKey().GetKey() == nil || hapikey.Empty(body.GetAdminKey()))
	switch {
	case others && t.AdminKey == nil:
		return hapi.ResponseCodeEnum_UNAUTHORIZED
	case others && !h.Signed(t.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case fees && t.FeeScheduleKey == nil:
		return hapi.ResponseCodeEnum_FEE_SCHEDULE_KEY_NOT_SET
	case fees && !h.Signed(t.FeeScheduleKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case body.GetFeeScheduleKey() != nil && t.FeeScheduleKey == nil:
		return hapi.ResponseCodeEnum_FEE_SCHEDULE_KEY_CANNOT_BE_UPDATED
	}
	if renew := body.GetAutoRenewAccount(); removesAdmin && !t.AutoRenewAccount.IsZero() && (renew == nil || !core.IsNobody(renew)) {
		return hapi.ResponseCodeEnum_AUTORENEW_ACCOUNT_NOT_ALLOWED
	}
	if status := topicKeys(h, &t, body); status != okay {
		return status
	}
	if memo := body.GetMemo(); memo != nil {
		t.Memo = memo.GetValue()
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		if status := topicPeriod(period); status != okay {
			return status
		}
		t.AutoRenewPeriod = period.GetSeconds()
	}
	if status := h.Extend(&t.Expires, body.GetExpirationTime()); status != okay {
		return status
	}
	if status := topicRenewal(h, &t, body.GetAutoRenewAccount()); status != okay {
		return status
	}
	exempt := t.ExemptKeys
	if list := body.GetFeeExemptKeyList(); list != nil {
		exempt = list.GetKeys()
	}
	if fees || body.GetFeeExemptKeyList() != nil {
		given := t.Fees
		if fees {
			given = body.GetCustomFees().GetFees()
		}
		if status := topicFees(h, &t, given, exempt); status != okay {
			return status
		}
	}
	t.Modified = h.Record.Consensus
	if status := core.ValidMemo(t.Memo); status != okay {
		return status
	}
	return putTopic(h, &t)
}

// topicKeys replaces keys; an empty list removes one.
func topicKeys(h *core.Handling, t *state.Topic, body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	for i, r := range topicRoles(t, body) {
		switch {
		case r.Given == nil:
		case r.Given.GetKey() == nil, hapikey.Empty(r.Given):
			*r.Kept = nil
		case !hapikey.Valid(r.Given):
			return r.Invalid
		case i == 0 && !h.Signed(r.Given):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		default:
			*r.Kept = r.Given
		}
	}
	return okay
}

func topicDelete(h *core.Handling, body *hapi.ConsensusDeleteTopicTransactionBody) hedera.Status {
	old, status := topic(h, body.GetTopicID())
	switch {
	case status != okay:
		return status
	case old.AdminKey == nil:
		return hapi.ResponseCodeEnum_UNAUTHORIZED
	case !h.Signed(old.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	t := *old
	t.Deleted, t.Modified = true, h.Record.Consensus
	return putTopic(h, &t)
}

// topicSubmit adds a message, or a chunk of one.
func topicSubmit(h *core.Handling, body *hapi.ConsensusSubmitMessageTransactionBody) hedera.Status {
	if len(body.GetMessage()) > maxMessage {
		return hapi.ResponseCodeEnum_MESSAGE_SIZE_TOO_LARGE
	}
	old, status := topic(h, body.GetTopicID())
	switch {
	case status != okay:
		return status
	case old.SubmitKey != nil && !h.Signed(old.SubmitKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := checkChunk(h, body.GetChunkInfo()); status != okay {
		return status
	}
	if status := chargeTopic(h, old); status != okay {
		return status
	}
	t := *old
	t.Sequence++
	t.RunningHash = runningHash(h, &t, body.GetMessage())
	h.Did().Message = &state.TopicMessage{
		Topic: t.ID, Contents: body.GetMessage(), Sequence: t.Sequence, RunningHash: t.RunningHash, Chunk: body.GetChunkInfo(),
	}
	return putTopic(h, &t)
}

// checkChunk holds a chunk against the transaction that began its message.
func checkChunk(h *core.Handling, chunk *hapi.ConsensusMessageChunkInfo) hedera.Status {
	if chunk == nil {
		return okay
	}
	first := chunk.GetInitialTransactionID()
	start := hedera.TimestampIn(first.GetTransactionValidStart())
	switch {
	case chunk.GetNumber() < 1 || chunk.GetNumber() > chunk.GetTotal():
		return hapi.ResponseCodeEnum_INVALID_CHUNK_NUMBER
	case first.GetAccountID().GetAccountNum() != h.Sub.ID.Payer.Num,
		chunk.GetNumber() == 1 && start != h.Sub.ID.ValidStart:
		return hapi.ResponseCodeEnum_INVALID_CHUNK_TRANSACTION_ID
	}
	return okay
}

// chargeTopic takes the custom fees of a message from its payer, up to what the payer allows.
func chargeTopic(h *core.Handling, t *state.Topic) hedera.Status {
	payer := h.Account(h.Sub.Payer)
	for _, key := range t.ExemptKeys {
		if h.Signed(key) {
			return okay
		}
	}
	var due []*hapi.FixedCustomFee
	for _, fee := range t.Fees {
		in := h.State.Tokens.Get(tokens.TokenNum(fee.GetFixedFee().GetDenominatingTokenId()))
		if fee.GetFeeCollectorAccountId().GetAccountNum() != payer.Num && (in == nil || in.Treasury.Num != payer.Num) {
			due = append(due, fee)
		}
	}
	if status := allowsFees(h, due); status != okay {
		return status
	}
	p := transfers.NewPlan(h)
	for _, fee := range due {
		collector := h.State.EntityAccount(fee.GetFeeCollectorAccountId().GetAccountNum())
		if status := p.Charge(&state.Token{}, payer, fee.GetFixedFee(), collector, 1); status != okay {
			return status
		}
	}
	return core.FirstFault(p.MoveHbar(), p.MoveTokens())
}

// allowsFees checks fees against the limits of the payer, where there are any: each is for the sum in one token, or
// in hbar.
func allowsFees(h *core.Handling, due []*hapi.FixedCustomFee) hedera.Status {
	limits := h.Sub.Body.GetMaxCustomFees()
	if len(limits) == 0 {
		return okay
	}
	var own []*hapi.FixedFee
	for _, limit := range limits {
		if limit.GetAccountId().GetAccountNum() == h.Sub.Payer.Num {
			own = append(own, limit.GetFees()...)
		}
	}
	for _, one := range due {
		fee := one.GetFixedFee()
		i := slices.IndexFunc(own, func(most *hapi.FixedFee) bool { return core.SameDenomination(most, fee) })
		if i < 0 {
			return hapi.ResponseCodeEnum_NO_VALID_MAX_CUSTOM_FEE
		}
		left := own[i].GetAmount()
		for _, other := range due {
			if core.SameDenomination(other.GetFixedFee(), fee) {
				if left -= other.GetFixedFee().GetAmount(); left < 0 {
					return hapi.ResponseCodeEnum_MAX_CUSTOM_FEE_LIMIT_EXCEEDED
				}
			}
		}
	}
	return okay
}

// runningHash chains a message to those before it. The network hashes what Java's object
// streams make of the parts, which begins each array with its class.
func runningHash(h *core.Handling, t *state.Topic, message []byte) state.Hash48 {
	stream := []byte{0xac, 0xed, 0, 5}
	stream = append(stream, 0x75, 0x72, 0, 2, '[', 'B', 0xac, 0xf3, 0x17, 0xf8, 0x06, 0x08, 0x54, 0xe0, 2, 0, 0, 0x78, 0x70)
	stream = binary.BigEndian.AppendUint32(stream, uint32(len(t.RunningHash)))
	stream = append(stream, t.RunningHash[:]...)
	payer := h.Sub.Payer
	longs := []int64{topicHashVersion, payer.Shard, payer.Realm, payer.Num, t.ID.Shard, t.ID.Realm, t.ID.Num, h.Record.Consensus.Seconds}
	stream = append(stream, 0x77, byte(8*len(longs)+4+8))
	for _, n := range longs {
		stream = binary.BigEndian.AppendUint64(stream, uint64(n))
	}
	stream = binary.BigEndian.AppendUint32(stream, uint32(h.Record.Consensus.Nanos))
	stream = binary.BigEndian.AppendUint64(stream, uint64(t.Sequence))
	digest := sha512.Sum384(message)
	stream = append(stream, 0x75, 0x71, 0, 0x7e, 0, 0)
	stream = binary.BigEndian.AppendUint32(stream, uint32(len(digest)))
	return sha512.Sum384(append(stream, digest[:]...))
}

// Services are the transactions that are handled here.
func Services() core.Services {
	return core.Services{
		"consensusCreateTopic":   core.ServiceOf(topicCreate, pureTopicCreate),
		"consensusUpdateTopic":   core.ServiceOf(topicUpdate, pureTopicUpdate),
		"consensusDeleteTopic":   core.ServiceOf(topicDelete, nil),
		"consensusSubmitMessage": core.ServiceOf(topicSubmit, pureMessage),
	}
}

func pureMessage(body *hapi.ConsensusSubmitMessageTransactionBody) hedera.Status {
	if len(body.GetMessage()) == 0 {
		return hapi.ResponseCodeEnum_INVALID_TOPIC_MESSAGE
	}
	return okay
}

func pureTopicCreate(body *hapi.ConsensusCreateTopicTransactionBody) hedera.Status {
	return distinctKeys(body.GetFeeExemptKeyList())
}

func pureTopicUpdate(body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	return distinctKeys(body.GetFeeExemptKeyList().GetKeys())
}

func distinctKeys(keys []*hapi.Key) hedera.Status {
	for i, key := range keys {
		if hapikey.Contains(keys[:i], key) {
			return hapi.ResponseCodeEnum_FEE_EXEMPT_KEY_LIST_CONTAINS_DUPLICATED_KEYS
		}
	}
	return okay
}
