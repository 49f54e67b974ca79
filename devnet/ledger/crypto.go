package ledger

import (
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	maxTransfers   = 10  // entries of one kind
	maxMemo        = 100 // bytes
	minRenewPeriod = 2_592_000
	maxRenewPeriod = 8_000_001
	maxLifetime    = 3_153_600_000 // seconds
	maxSlots       = 5_000         // for automatic associations
)

// isHollow tells whether an account waits for its key.
func isHollow(a *state.Party) bool {
	m := a.CurrentMeta()
	return m != nil && !a.Contract && hapikey.Empty(m.Key)
}

// resolve finds an account by number or alias. It may not exist; nil means that
// the id is malformed.
func (h *handling) resolve(id *hapi.AccountID) *state.Party {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return nil
	}
	switch by := id.GetAccount().(type) {
	case *hapi.AccountID_AccountNum:
		if by.AccountNum <= 0 {
			return nil
		}
		return h.o.EntityAccount(by.AccountNum)
	case *hapi.AccountID_Alias:
		if len(by.Alias) == common.AddressLength {
			return h.o.Get(common.Address(by.Alias))
		}
		if num, ok := h.o.ByAlias(by.Alias); ok {
			return h.o.EntityAccount(num)
		}
		if address, ok := aliasAddress(by.Alias); ok {
			return h.o.Get(address)
		}
	}
	return nil
}

// aliasAddress is the EVM address of a serialised secp256k1 key.
func aliasAddress(alias []byte) (common.Address, bool) {
	key := aliasKey(alias)
	if key.GetECDSASecp256K1() == nil {
		return common.Address{}, false
	}
	address, err := hedera.AddressOf(key.GetECDSASecp256K1())
	return address, err == nil
}

// aliasKey reads an alias that is a serialised primitive key, nil for anything else.
func aliasKey(alias []byte) *hapi.Key {
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

// enter makes an account with a number of its own. Without an address of its own,
// it is known by its long-zero address.
func (h *handling) enter(m *state.Description, at *state.Party) *state.Party {
	num := h.newNum()
	if at == nil {
		at = h.o.Get(hedera.Entity(num).LongZero())
	}
	h.o.Create(at, false)
	at.Num, m.Address = num, at.Address
	h.o.PutMeta(at, m)
	return at
}

// createdByTransfer makes the preceding child of an account creation.
func (h *handling) createdByTransfer(a *state.Party) {
	h.o.Number(a)
	if a.Meta == nil {
		h.hollowChild(a)
		return
	}
	id := hedera.Entity(a.Num)
	child := &history.Record{Kind: history.KindCryptoCreate, Status: okay, Entity: id, Account: id, Alias: a.Meta.Alias}
	if _, longZero := hedera.FromLongZero(a.Address); !longZero {
		child.EVMAddress = a.Address.Bytes()
	}
	h.preceding = append(h.preceding, child)
}

// cryptoCreate makes an account that the payer funds.
func (h *handling) cryptoCreate(body *hapi.CryptoCreateTransactionBody) hedera.Status {
	address, status := h.newAlias(body)
	if status != okay {
		return status
	}
	payer := h.account(h.sub.Payer)
	initial := hedera.Tinybar(body.GetInitialBalance())
	if body.GetReceiverSigRequired() && !h.signed(body.GetKey()) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := firstFault(validMemo(body.GetMemo()), validPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	switch {
	case body.GetMaxAutomaticTokenAssociations() > maxSlots:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	case !hapikey.Valid(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case payer.Tinybar() < initial:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	m := h.hollowMeta(common.Address{})
	m.Alias, m.Key, m.Memo = body.GetAlias(), body.GetKey(), body.GetMemo()
	m.AutoRenewPeriod = body.GetAutoRenewPeriod().GetSeconds()
	m.Expires = h.expiry(m.AutoRenewPeriod)
	m.ReceiverSigRequired = body.GetReceiverSigRequired()
	m.MaxAutoAssociations = body.GetMaxAutomaticTokenAssociations()
	m.DeclineReward = body.GetDeclineReward()
	if status := h.firstStake(m, body.GetStakedAccountId(), body.GetStakedId() != nil, body.GetStakedNodeId()); status != okay {
		return status
	}
	var at *state.Party
	if address != nil {
		at = h.o.Get(*address)
		h.r.EVMAddress = address.Bytes()
	}
	a := h.enter(m, at)
	h.o.Move(payer, a, initial)
	h.r.Account, h.r.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	if len(m.Alias) != common.AddressLength {
		h.r.Alias = m.Alias
	}
	return okay
}

// newAlias checks the alias of an account that is to be created and returns the
// EVM address it gives, nil for none.
func (h *handling) newAlias(body *hapi.CryptoCreateTransactionBody) (*common.Address, hedera.Status) {
	alias := body.GetAlias()
	if len(alias) == 0 {
		return nil, okay
	}
	if len(alias) != common.AddressLength {
		key := aliasKey(alias)
		switch {
		case key == nil || !proto.Equal(key, body.GetKey()):
			return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
		case h.aliasTaken(alias):
			return nil, hapi.ResponseCodeEnum_ALIAS_ALREADY_ASSIGNED
		case key.GetEd25519() != nil:
			return nil, okay
		}
		address, _ := aliasAddress(alias)
		return h.freeAlias(address)
	}
	address := common.Address(alias)
	if _, longZero := hedera.FromLongZero(address); longZero {
		return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
	}
	if !h.ownsAddress(address, body.GetKey()) {
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return h.freeAlias(address)
}

func (h *handling) aliasTaken(alias []byte) bool {
	_, taken := h.o.ByAlias(alias)
	return taken
}

func (h *handling) freeAlias(address common.Address) (*common.Address, hedera.Status) {
	if a := h.o.Get(address); a.Exists || a.Deleted() {
		return nil, hapi.ResponseCodeEnum_ALIAS_ALREADY_ASSIGNED
	}
	return &address, okay
}

// ownsAddress tells whether an EVM address may be the alias of an account with a key: that of the key itself, or
// of one that has signed.
func (h *handling) ownsAddress(address common.Address, key *hapi.Key) bool {
	if public := key.GetECDSASecp256K1(); public != nil {
		if owner, err := hedera.AddressOf(public); err == nil && owner == address {
			return true
		}
	}
	_, signed := h.sub.Signatures.Completes(address)
	return signed
}

// firstFault is the first of several verdicts that is not okay.
func firstFault(verdicts ...hedera.Status) hedera.Status {
	for _, status := range verdicts {
		if status != okay {
			return status
		}
	}
	return okay
}

// validExpiry checks until when an entity is to live.
func (h *handling) validExpiry(t *hapi.Timestamp) hedera.Status {
	if left := t.GetSeconds() - h.r.Consensus.Seconds; left <= 0 || left > maxLifetime {
		return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
	}
	return okay
}

// extend lets an entity live longer, where that is asked.
func (h *handling) extend(expires *hedera.Timestamp, until *hapi.Timestamp) hedera.Status {
	if until == nil {
		return okay
	}
	if status := h.validExpiry(until); status != okay {
		return status
	}
	if until.GetSeconds() < expires.Seconds {
		return hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED
	}
	*expires = hedera.TimestampIn(until)
	return okay
}

// slots checks how many automatic associations an update allows; used is how many an account has, or had before.
func slots(n, used int32) hedera.Status {
	switch {
	case n < -1:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	case n > maxSlots:
		return hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT
	case n >= 0 && n < used:
		return hapi.ResponseCodeEnum_EXISTING_AUTOMATIC_ASSOCIATIONS_EXCEED_GIVEN_LIMIT
	}
	return okay
}

// isNobody tells whether an id is 0.0.0, which takes something away where it is given.
func isNobody(id *hapi.AccountID) bool {
	return id.GetAlias() == nil && id.GetAccountNum() == 0 && id.GetShardNum() == 0 && id.GetRealmNum() == 0
}

// firstStake sets whom a new account stakes to, for which there is nothing to take away yet.
func (h *handling) firstStake(m *state.Description, account *hapi.AccountID, chosen bool, node int64) hedera.Status {
	if chosen && (account != nil && isNobody(account) || account == nil && node < 0) {
		return hapi.ResponseCodeEnum_INVALID_STAKING_ID
	}
	return h.stake(m, account, chosen, node)
}

// stake sets whom an account stakes to.
func (h *handling) stake(m *state.Description, account *hapi.AccountID, chosen bool, node int64) hedera.Status {
	m.StakedAccount, m.StakedNode = hedera.ID{}, -1
	defer h.beginPeriod(m)
	if account != nil && isNobody(account) {
		return okay
	}
	if account != nil {
		a := h.resolve(account)
		if a == nil || !a.Exists {
			return hapi.ResponseCodeEnum_INVALID_STAKING_ID
		}
		m.StakedAccount = hedera.Entity(a.Num)
		return okay
	}
	if chosen {
		if node < -1 || node >= int64(len(h.l.cfg.Nodes)) {
			return hapi.ResponseCodeEnum_INVALID_STAKING_ID
		}
		m.StakedNode = node
	}
	return okay
}

// beginPeriod notes that an account's stake changes. Rewards count by the day, in UTC.
func (h *handling) beginPeriod(m *state.Description) {
	const day = 24 * 60 * 60
	m.StakePeriodStart = hedera.Timestamp{}
	if m.StakedNode >= 0 {
		m.StakePeriodStart.Seconds = h.r.Consensus.Seconds / day * day
	}
}

// cryptoUpdate changes what an account's owner may change.
func (h *handling) cryptoUpdate(body *hapi.CryptoUpdateTransactionBody) hedera.Status {
	a := h.resolve(body.GetAccountIDToUpdate())
	switch {
	case a == nil || !a.Exists && !a.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case a.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case body.GetKey() != nil && !hapikey.Valid(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case !h.signedBy(a), body.GetKey() != nil && !h.signed(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case a.Contract:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	m := *a.CurrentMeta()
	if key := body.GetKey(); key != nil {
		m.Key = key
	}
	if memo := body.GetMemo(); memo != nil {
		m.Memo = memo.GetValue()
	}
	if status := firstFault(validMemo(m.Memo), validPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		m.AutoRenewPeriod = period.GetSeconds()
	}
	if status := h.extend(&m.Expires, body.GetExpirationTime()); status != okay {
		return status
	}
	if required := body.GetReceiverSigRequiredWrapper(); required != nil {
		m.ReceiverSigRequired = required.GetValue()
	}
	if n := body.GetMaxAutomaticTokenAssociations(); n != nil {
		if status := slots(n.GetValue(), h.automatic(a)); status != okay {
			return status
		}
		m.MaxAutoAssociations = n.GetValue()
	}
	if decline := body.GetDeclineReward(); decline != nil {
		m.DeclineReward = decline.GetValue()
		h.beginPeriod(&m)
	}
	if body.GetStakedId() != nil {
		if status := h.stake(&m, body.GetStakedAccountId(), true, body.GetStakedNodeId()); status != okay {
			return status
		}
	}
	h.o.PutMeta(a, &m)
	h.r.Account, h.r.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

// completed lets the key behind a hollow account's address act for it, which completes
// the account.
func (h *handling) completed(a *state.Party) bool {
	if h.sub.Signatures == nil || !isHollow(a) {
		return false
	}
	public, ok := h.sub.Signatures.Completes(a.Address)
	if ok {
		h.complete(a, public)
	}
	return ok
}

// cryptoDelete deletes an account and hands its balance on.
func (h *handling) cryptoDelete(body *hapi.CryptoDeleteTransactionBody) hedera.Status {
	a, to := h.resolve(body.GetDeleteAccountID()), h.resolve(body.GetTransferAccountID())
	switch {
	case a == nil || a.Contract || !a.Exists && !a.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case a.Deleted() || to != nil && to.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case to == nil || !to.Exists:
		return hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
	case a == to:
		return hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT
	case h.isTreasury(a.Num):
		return hapi.ResponseCodeEnum_ACCOUNT_IS_TREASURY
	case h.holdsTokens(a.Num):
		return hapi.ResponseCodeEnum_TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES
	case h.sendsAirdrops(a.Num):
		return hapi.ResponseCodeEnum_ACCOUNT_HAS_PENDING_AIRDROPS
	case a.Num <= state.LastSystemCode:
		return hapi.ResponseCodeEnum_ENTITY_NOT_ALLOWED_TO_DELETE
	case !h.signedBy(a), to.WantsSignature() && !h.signedBy(to):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	h.handOn(a, to)
	h.r.Account, h.r.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

// handOn deletes an account, which may be a contract's, and gives what it had to another one.
func (h *handling) handOn(a, to *state.Party) {
	h.o.Move(a, to, a.Tinybar())
	m := *a.CurrentMeta()
	m.Deleted, m.Obtainer = true, hedera.Entity(to.Num)
	h.o.PutMeta(a, &m)
}

// isTreasury tells whether an account is the treasury of a token.
func (h *handling) isTreasury(num int64) bool {
	for key := range h.o.Relations.Rows(state.RelationKey{Account: num, Token: 0}, state.RelationKey{Account: num, Token: state.Last}) {
		if t := h.o.Tokens.Get(key.Token); t != nil && !t.Deleted && t.Treasury.Num == num {
			return true
		}
	}
	return false
}

// holdsTokens tells whether an account owns anything of a token.
func (h *handling) holdsTokens(num int64) bool {
	for _, r := range h.o.Relations.Rows(state.RelationKey{Account: num, Token: 0}, state.RelationKey{Account: num, Token: state.Last}) {
		if r.Balance != 0 {
			return true
		}
	}
	return false
}

func validMemo(memo string) hedera.Status {
	switch {
	case len(memo) > maxMemo:
		return hapi.ResponseCodeEnum_MEMO_TOO_LONG
	case hasZero(memo):
		return hapi.ResponseCodeEnum_INVALID_ZERO_BYTE_IN_STRING
	}
	return okay
}

func hasZero(text string) bool { return strings.IndexByte(text, 0) >= 0 }
