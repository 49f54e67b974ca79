package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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

func (h *handling) topic(id *hapi.TopicID) (*state.Topic, hedera.Status) {
	t := h.o.Topics.Get(topicNum(id))
	if t == nil || t.Deleted {
		return nil, hapi.ResponseCodeEnum_INVALID_TOPIC_ID
	}
	return t, okay
}

func (h *handling) putTopic(t *state.Topic) hedera.Status {
	h.o.Topics.Set(t.ID.Num, t)
	h.r.Entity = t.ID
	return okay
}

func (h *handling) topicCreate(body *hapi.ConsensusCreateTopicTransactionBody) hedera.Status {
	t := &state.Topic{
		ID: hedera.Entity(h.newNum()), Memo: body.GetMemo(), Created: h.r.Consensus, Modified: h.r.Consensus,
		FeesSince: h.r.Consensus, AutoRenewPeriod: body.GetAutoRenewPeriod().GetSeconds(),
	}
	for _, r := range topicRoles(t, body) {
		if r.given.GetKey() != nil && !hapikey.Empty(r.given) {
			if !hapikey.Valid(r.given) {
				return r.invalid
			}
			*r.kept = r.given
		}
	}
	switch {
	case t.AdminKey != nil && !h.signed(t.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case body.GetAutoRenewPeriod() == nil:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	if status := firstFault(topicPeriod(body.GetAutoRenewPeriod()), validMemo(t.Memo)); status != okay {
		return status
	}
	if status := h.topicRenewal(t, body.GetAutoRenewAccount()); status != okay {
		return status
	}
	t.Expires = h.expiry(t.AutoRenewPeriod)
	if status := h.topicFees(t, body.GetCustomFees(), body.GetFeeExemptKeyList()); status != okay {
		return status
	}
	h.did().Topic = t.ID
	return h.putTopic(t)
}

// topicRoles are the keys that a body gives a topic.
func topicRoles(t *state.Topic, body interface {
	GetAdminKey() *hapi.Key
	GetSubmitKey() *hapi.Key
	GetFeeScheduleKey() *hapi.Key
},
) []role {
	return []role{
		{given: body.GetAdminKey(), kept: &t.AdminKey, invalid: hapi.ResponseCodeEnum_BAD_ENCODING},
		{given: body.GetSubmitKey(), kept: &t.SubmitKey, invalid: hapi.ResponseCodeEnum_BAD_ENCODING},
		{given: body.GetFeeScheduleKey(), kept: &t.FeeScheduleKey, invalid: hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_SCHEDULE_KEY},
	}
}

// topicPeriod checks for how long a topic is renewed; no time is as wrong as too little of it.
func topicPeriod(d *hapi.Duration) hedera.Status {
	if status := validPeriod(d); status != okay {
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	return okay
}

// topicRenewal sets the account that renews a topic; only topics with an admin key have one.
func (h *handling) topicRenewal(t *state.Topic, id *hapi.AccountID) hedera.Status {
	if id == nil || id.GetAccount() == nil {
		return okay
	}
	renew, status := h.renewer(id)
	if status == okay {
		t.AutoRenewAccount = renew
	}
	return status
}

// topicFees sets what a message costs whoever submits it.
func (h *handling) topicFees(t *state.Topic, fees []*hapi.FixedCustomFee, exempt []*hapi.Key) hedera.Status {
	if len(fees) > maxCustomFees {
		return hapi.ResponseCodeEnum_CUSTOM_FEES_LIST_TOO_LONG
	}
	if len(exempt) > maxExemptKeys {
		return hapi.ResponseCodeEnum_MAX_ENTRIES_FOR_FEE_EXEMPT_KEY_LIST_EXCEEDED
	}
	if slices.ContainsFunc(exempt, func(key *hapi.Key) bool { return !hapikey.Valid(key) }) {
		return hapi.ResponseCodeEnum_INVALID_KEY_IN_FEE_EXEMPT_KEY_LIST
	}
	t.Fees, t.ExemptKeys, t.FeesSince = nil, exempt, h.r.Consensus
	for _, given := range fees {
		fee := proto.CloneOf(given)
		collector, status := h.party(fee.GetFeeCollectorAccountId())
		if status != okay {
			return hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR
		}
		if fee.GetFixedFee() == nil {
			return hapi.ResponseCodeEnum_CUSTOM_FEE_NOT_FULLY_SPECIFIED
		}
		fee.FeeCollectorAccountId = hedera.Entity(collector.Num).AccountID()
		if _, status := h.checkFixed(&state.Token{}, fee.GetFixedFee(), collector.Num, false); status != okay {
			return status
		}
		t.Fees = append(t.Fees, fee)
	}
	return okay
}

func (h *handling) topicUpdate(body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	old, status := h.topic(body.GetTopicID())
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
	case others && !h.signed(t.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case fees && t.FeeScheduleKey == nil:
		return hapi.ResponseCodeEnum_FEE_SCHEDULE_KEY_NOT_SET
	case fees && !h.signed(t.FeeScheduleKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case body.GetFeeScheduleKey() != nil && t.FeeScheduleKey == nil:
		return hapi.ResponseCodeEnum_FEE_SCHEDULE_KEY_CANNOT_BE_UPDATED
	}
	if renew := body.GetAutoRenewAccount(); removesAdmin && !t.AutoRenewAccount.IsZero() && (renew == nil || !isNobody(renew)) {
		return hapi.ResponseCodeEnum_AUTORENEW_ACCOUNT_NOT_ALLOWED
	}
	if status := h.topicKeys(&t, body); status != okay {
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
	if status := h.extend(&t.Expires, body.GetExpirationTime()); status != okay {
		return status
	}
	if status := h.topicRenewal(&t, body.GetAutoRenewAccount()); status != okay {
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
		if status := h.topicFees(&t, given, exempt); status != okay {
			return status
		}
	}
	t.Modified = h.r.Consensus
	if status := validMemo(t.Memo); status != okay {
		return status
	}
	return h.putTopic(&t)
}

// topicKeys replaces keys; an empty list removes one.
func (h *handling) topicKeys(t *state.Topic, body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	for i, r := range topicRoles(t, body) {
		switch {
		case r.given == nil:
		case r.given.GetKey() == nil, hapikey.Empty(r.given):
			*r.kept = nil
		case !hapikey.Valid(r.given):
			return r.invalid
		case i == 0 && !h.signed(r.given):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		default:
			*r.kept = r.given
		}
	}
	return okay
}

func (h *handling) topicDelete(body *hapi.ConsensusDeleteTopicTransactionBody) hedera.Status {
	old, status := h.topic(body.GetTopicID())
	switch {
	case status != okay:
		return status
	case old.AdminKey == nil:
		return hapi.ResponseCodeEnum_UNAUTHORIZED
	case !h.signed(old.AdminKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	t := *old
	t.Deleted, t.Modified = true, h.r.Consensus
	return h.putTopic(&t)
}

// topicSubmit adds a message, or a chunk of one.
func (h *handling) topicSubmit(body *hapi.ConsensusSubmitMessageTransactionBody) hedera.Status {
	if len(body.GetMessage()) > maxMessage {
		return hapi.ResponseCodeEnum_MESSAGE_SIZE_TOO_LARGE
	}
	old, status := h.topic(body.GetTopicID())
	switch {
	case status != okay:
		return status
	case old.SubmitKey != nil && !h.signed(old.SubmitKey):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := h.checkChunk(body.GetChunkInfo()); status != okay {
		return status
	}
	if status := h.chargeTopic(old); status != okay {
		return status
	}
	t := *old
	t.Sequence++
	t.RunningHash = h.runningHash(&t, body.GetMessage())
	h.did().Message = &state.TopicMessage{
		Topic: t.ID, Contents: body.GetMessage(), Sequence: t.Sequence, RunningHash: t.RunningHash, Chunk: body.GetChunkInfo(),
	}
	return h.putTopic(&t)
}

// checkChunk holds a chunk against the transaction that began its message.
func (h *handling) checkChunk(chunk *hapi.ConsensusMessageChunkInfo) hedera.Status {
	if chunk == nil {
		return okay
	}
	first := chunk.GetInitialTransactionID()
	start := hedera.TimestampIn(first.GetTransactionValidStart())
	switch {
	case chunk.GetNumber() < 1 || chunk.GetNumber() > chunk.GetTotal():
		return hapi.ResponseCodeEnum_INVALID_CHUNK_NUMBER
	case first.GetAccountID().GetAccountNum() != h.sub.ID.Payer.Num,
		chunk.GetNumber() == 1 && start != h.sub.ID.ValidStart:
		return hapi.ResponseCodeEnum_INVALID_CHUNK_TRANSACTION_ID
	}
	return okay
}

// chargeTopic takes the custom fees of a message from its payer, up to what the payer allows.
func (h *handling) chargeTopic(t *state.Topic) hedera.Status {
	payer := h.account(h.sub.Payer)
	for _, key := range t.ExemptKeys {
		if h.signed(key) {
			return okay
		}
	}
	var due []*hapi.FixedCustomFee
	for _, fee := range t.Fees {
		in := h.o.Tokens.Get(tokenNum(fee.GetFixedFee().GetDenominatingTokenId()))
		if fee.GetFeeCollectorAccountId().GetAccountNum() != payer.Num && (in == nil || in.Treasury.Num != payer.Num) {
			due = append(due, fee)
		}
	}
	if status := h.allowsFees(due); status != okay {
		return status
	}
	p := newPlan(h)
	for _, fee := range due {
		collector := h.o.EntityAccount(fee.GetFeeCollectorAccountId().GetAccountNum())
		if status := p.charge(&state.Token{}, payer, fee.GetFixedFee(), collector, 1); status != okay {
			return status
		}
	}
	if status := p.moveHbar(); status != okay {
		return status
	}
	return p.moveTokens()
}

// allowsFees checks fees against the limits of the payer, where there are any: each is for the sum in one token, or
// in hbar.
func (h *handling) allowsFees(due []*hapi.FixedCustomFee) hedera.Status {
	limits := h.sub.Body.GetMaxCustomFees()
	if len(limits) == 0 {
		return okay
	}
	var own []*hapi.FixedFee
	for _, limit := range limits {
		if limit.GetAccountId().GetAccountNum() == h.sub.Payer.Num {
			own = append(own, limit.GetFees()...)
		}
	}
	for _, one := range due {
		fee := one.GetFixedFee()
		i := slices.IndexFunc(own, func(most *hapi.FixedFee) bool { return sameDenomination(most, fee) })
		if i < 0 {
			return hapi.ResponseCodeEnum_NO_VALID_MAX_CUSTOM_FEE
		}
		left := own[i].GetAmount()
		for _, other := range due {
			if sameDenomination(other.GetFixedFee(), fee) {
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
func (h *handling) runningHash(t *state.Topic, message []byte) state.Hash48 {
	stream := []byte{0xac, 0xed, 0, 5}
	stream = append(stream, 0x75, 0x72, 0, 2, '[', 'B', 0xac, 0xf3, 0x17, 0xf8, 0x06, 0x08, 0x54, 0xe0, 2, 0, 0, 0x78, 0x70)
	stream = binary.BigEndian.AppendUint32(stream, uint32(len(t.RunningHash)))
	stream = append(stream, t.RunningHash[:]...)
	payer := h.sub.Payer
	longs := []int64{topicHashVersion, payer.Shard, payer.Realm, payer.Num, t.ID.Shard, t.ID.Realm, t.ID.Num, h.r.Consensus.Seconds}
	stream = append(stream, 0x77, byte(8*len(longs)+4+8))
	for _, n := range longs {
		stream = binary.BigEndian.AppendUint64(stream, uint64(n))
	}
	stream = binary.BigEndian.AppendUint32(stream, uint32(h.r.Consensus.Nanos))
	stream = binary.BigEndian.AppendUint64(stream, uint64(t.Sequence))
	digest := sha512.Sum384(message)
	stream = append(stream, 0x75, 0x71, 0, 0x7e, 0, 0)
	stream = binary.BigEndian.AppendUint32(stream, uint32(len(digest)))
	return sha512.Sum384(append(stream, digest[:]...))
}

// utilPrng draws a number, or 48 bytes where there is no range for it.
func (h *handling) utilPrng(body *hapi.UtilPrngTransactionBody) hedera.Status {
	if body.GetRange() < 0 {
		return hapi.ResponseCodeEnum_INVALID_PRNG_RANGE
	}
	seed := h.r.Seed
	if body.GetRange() == 0 {
		h.r.PRNG = seed[:]
		return okay
	}
	n := int32(uint64(binary.BigEndian.Uint32(seed[:4])) * uint64(body.GetRange()) >> 32)
	h.did().Number = &n
	return okay
}
