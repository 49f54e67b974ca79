package core

import (
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	MaxTransfers   = 10  // entries of one kind
	MaxMemo        = 100 // bytes
	MinRenewPeriod = 2_592_000
	MaxRenewPeriod = 8_000_001
	MaxLifetime    = 3_153_600_000 // seconds
	MaxSlots       = 5_000         // for automatic associations
)

const (
	GenesisRenewal = 7_776_000 // seconds of auto-renew period: 90 days
	minRenewal     = 2_592_000 // the ledger's minimum: 30 days
)

// ValidPeriod checks for how long an entity is renewed. It is okay to say nothing.
func ValidPeriod(d *hapi.Duration) hedera.Status {
	switch {
	case d == nil:
		return okay
	case d.GetSeconds() <= 0:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	case d.GetSeconds() < MinRenewPeriod || d.GetSeconds() > MaxRenewPeriod:
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	return okay
}

// IsHollow tells whether an account waits for its key.
func IsHollow(a *state.Party) bool {
	m := a.CurrentMeta()
	return m != nil && !a.Contract && hapikey.Empty(m.Key)
}

// Resolve finds an account by number or alias. It may not exist; nil means that
// the id is malformed.
func (h *Handling) Resolve(id *hapi.AccountID) *state.Party {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil
	}
	switch by := id.GetAccount().(type) {
	case *hapi.AccountID_AccountNum:
		if by.AccountNum <= 0 {
			return nil
		}
		return h.State.EntityAccount(by.AccountNum)
	case *hapi.AccountID_Alias:
		if len(by.Alias) == common.AddressLength {
			return h.State.Get(common.Address(by.Alias))
		}
		if num, ok := h.State.ByAlias(by.Alias); ok {
			return h.State.EntityAccount(num)
		}
		if address, ok := AliasAddress(by.Alias); ok {
			return h.State.Get(address)
		}
	}
	return nil
}

// AliasAddress is the EVM address of a serialised secp256k1 key.
func AliasAddress(alias []byte) (common.Address, bool) {
	key := AliasKey(alias)
	if key.GetECDSASecp256K1() == nil {
		return common.Address{}, false
	}
	address, err := hedera.AddressOf(key.GetECDSASecp256K1())
	return address, err == nil
}

// AliasKey reads an alias that is a serialised primitive key, nil for anything else.
func AliasKey(alias []byte) *hapi.Key {
	key := new(hapi.Key)
	if len(alias) > 64 || proto.Unmarshal(alias, key) != nil {
		return nil
	}
	switch key.GetKey().(type) {
	case *hapi.Key_Ed25519, *hapi.Key_ECDSASecp256K1:
		if hapikey.Valid(key) {
			return key
		}
	}
	return nil
}

// Enter makes an account with a number of its own. Without an address of its own,
// it is known by its long-zero address.
func (h *Handling) Enter(m *state.Description, at *state.Party) *state.Party {
	num := h.NewNum()
	if at == nil {
		at = h.State.Get(hedera.Entity(num).LongZero())
	}
	h.State.Create(at, false)
	at.Num, m.Address = num, at.Address
	h.State.PutMeta(at, m)
	return at
}

// FirstFault is the first of several verdicts that is not okay.
func FirstFault(verdicts ...hedera.Status) hedera.Status {
	for _, status := range verdicts {
		if status != okay {
			return status
		}
	}
	return okay
}

// ValidExpiry checks until when an entity is to live.
func (h *Handling) ValidExpiry(t *hapi.Timestamp) hedera.Status {
	if left := t.GetSeconds() - h.Record.Consensus.Seconds; left <= 0 || left > MaxLifetime {
		return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
	}
	return okay
}

// Extend lets an entity live longer, where that is asked.
func (h *Handling) Extend(expires *hedera.Timestamp, until *hapi.Timestamp) hedera.Status {
	if until == nil {
		return okay
	}
	if status := h.ValidExpiry(until); status != okay {
		return status
	}
	if until.GetSeconds() < expires.Seconds {
		return hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED
	}
	*expires = hedera.TimestampIn(until)
	return okay
}

// Slots checks how many automatic associations an update allows; used is how many an account has, or had before.
func Slots(n, used int32) hedera.Status {
	switch {
	case n < -1:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	case n > MaxSlots:
		return hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT
	case n >= 0 && n < used:
		return hapi.ResponseCodeEnum_EXISTING_AUTOMATIC_ASSOCIATIONS_EXCEED_GIVEN_LIMIT
	}
	return okay
}

// IsNobody tells whether an id is 0.0.0, which takes something away where it is given.
func IsNobody(id *hapi.AccountID) bool {
	return id.GetAlias() == nil && id.GetAccountNum() == 0 && id.GetShardNum() == 0 && id.GetRealmNum() == 0
}

// FirstStake sets whom a new account stakes to, for which there is nothing to take away yet.
func (h *Handling) FirstStake(m *state.Description, account *hapi.AccountID, chosen bool, node int64) hedera.Status {
	if chosen && (account != nil && IsNobody(account) || account == nil && node < 0) {
		return hapi.ResponseCodeEnum_INVALID_STAKING_ID
	}
	return h.Stake(m, account, chosen, node)
}

// Stake sets whom an account stakes to.
func (h *Handling) Stake(m *state.Description, account *hapi.AccountID, chosen bool, node int64) hedera.Status {
	m.StakedAccount, m.StakedNode = hedera.ID{}, -1
	defer h.BeginPeriod(m)
	if account != nil && IsNobody(account) {
		return okay
	}
	if account != nil {
		a := h.Resolve(account)
		if a == nil || !a.Exists {
			return hapi.ResponseCodeEnum_INVALID_STAKING_ID
		}
		m.StakedAccount = hedera.Entity(a.Num)
		return okay
	}
	if chosen {
		if node < -1 || node >= int64(len(h.Net.Nodes)) {
			return hapi.ResponseCodeEnum_INVALID_STAKING_ID
		}
		m.StakedNode = node
	}
	return okay
}

// BeginPeriod notes that an account's stake changes. Rewards count by the day, in UTC.
func (h *Handling) BeginPeriod(m *state.Description) {
	const day = 24 * 60 * 60
	m.StakePeriodStart = hedera.Timestamp{}
	if m.StakedNode >= 0 {
		m.StakePeriodStart.Seconds = h.Record.Consensus.Seconds / day * day
	}
}

// completed lets the key behind a hollow account's address act for it, which completes
// the account.
func (h *Handling) completed(a *state.Party) bool {
	if h.Sub.Signatures == nil || !IsHollow(a) {
		return false
	}
	public, ok := h.Sub.Signatures.Completes(a.Address)
	if ok {
		h.Complete(a, public)
	}
	return ok
}

// HandOn deletes an account, which may be a contract's, and gives what it had to another one.
func (h *Handling) HandOn(a, to *state.Party) {
	h.State.Move(a, to, a.Tinybar())
	m := *a.CurrentMeta()
	m.Deleted, m.Obtainer = true, hedera.Entity(to.Num)
	h.State.PutMeta(a, &m)
}

// ValidMemo checks a memo.
func ValidMemo(memo string) hedera.Status {
	switch {
	case len(memo) > MaxMemo:
		return hapi.ResponseCodeEnum_MEMO_TOO_LONG
	case HasZero(memo):
		return hapi.ResponseCodeEnum_INVALID_ZERO_BYTE_IN_STRING
	}
	return okay
}

// HasZero tells whether a text has a zero byte in it.
func HasZero(text string) bool { return strings.IndexByte(text, 0) >= 0 }

// Party returns an existing account or contract that a body names.
func (h *Handling) Party(id *hapi.AccountID) (*state.Party, hedera.Status) {
	a := h.Resolve(id)
	switch {
	case a != nil && a.Deleted():
		return nil, hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case a == nil || !a.Exists:
		return nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	return a, okay
}

// SameAccount tells whether two ids are the same.
func SameAccount(a, b *hapi.AccountID) bool {
	return a.GetAccountNum() == b.GetAccountNum() && string(a.GetAlias()) == string(b.GetAlias())
}

// Renewer finds the account that is to renew an entity, and that it agrees. 0.0.0 stands for none.
func (h *Handling) Renewer(id *hapi.AccountID) (hedera.ID, hedera.Status) {
	if id == nil || IsNobody(id) {
		return hedera.ID{}, okay
	}
	return h.SomeRenewer(id)
}

// SomeRenewer is [handling.renewer] where 0.0.0 is as wrong as any other account that is not there.
func (h *Handling) SomeRenewer(id *hapi.AccountID) (hedera.ID, hedera.Status) {
	a, status := h.Party(id)
	switch {
	case status != okay:
		return hedera.ID{}, hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT
	case !h.SignedBy(a):
		return hedera.ID{}, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return hedera.Entity(a.Num), okay
}

// Marshal encodes a message of ours, which cannot fail: no required fields, valid text.
func Marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return b
}
