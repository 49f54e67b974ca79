package ledger

import (
	"cmp"
	"math"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	maxTokenText     = 100 // bytes of a name or symbol
	maxTokenMetadata = 100
	maxCustomFees    = 10
	maxTokenBatch    = 10 // NFTs that one transaction mints, burns or wipes
)

func tokenNum(id *hapi.TokenID) int64 {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return 0
	}
	return id.GetTokenNum()
}

// token returns a token that exists.
func (h *handling) token(id *hapi.TokenID) (*state.Token, hedera.Status) {
	return h.tokenOf(tokenNum(id))
}

func (h *handling) tokenOf(num int64) (*state.Token, hedera.Status) {
	t := h.o.Tokens.Get(num)
	switch {
	case t == nil:
		return nil, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	case t.Deleted:
		return nil, hapi.ResponseCodeEnum_TOKEN_WAS_DELETED
	}
	return t, okay
}

// keyedToken returns a token that can be used and has a key, which has signed. The signature is asked for first.
func (h *handling) keyedToken(id *hapi.TokenID, role func(*state.TokenKeys) *hapi.Key, none hedera.Status) (*state.Token, hedera.Status) {
	t := h.o.Tokens.Get(tokenNum(id))
	if t == nil {
		return nil, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	key := role(&t.Keys)
	if key != nil && !h.signed(key) {
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if _, status := h.usable(id); status != okay {
		return nil, status
	}
	if key == nil {
		return nil, none
	}
	return t, okay
}

// usable returns a token that exists and is not paused.
func (h *handling) usable(id *hapi.TokenID) (*state.Token, hedera.Status) {
	t, status := h.token(id)
	if status == okay && t.Paused {
		return nil, hapi.ResponseCodeEnum_TOKEN_IS_PAUSED
	}
	return t, status
}

// putToken writes a token as the transaction leaves it.
func (h *handling) putToken(t *state.Token) {
	t.Modified = h.r.Consensus
	h.o.Tokens.Set(t.ID.Num, t)
	h.r.Entity = t.ID
}

// keyed checks that a token has a key and that it signed.
func (h *handling) keyed(key *hapi.Key, none hedera.Status) hedera.Status {
	switch {
	case key == nil:
		return none
	case !h.signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return okay
}

// party returns an existing account or contract that a body names.
func (h *handling) party(id *hapi.AccountID) (*state.Party, hedera.Status) {
	a := h.resolve(id)
	switch {
	case a != nil && a.Deleted():
		return nil, hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case a == nil || !a.Exists:
		return nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	return a, okay
}

func pureTokenCreate(body *hapi.TokenCreateTransactionBody) hedera.Status {
	nft := body.GetTokenType() == hapi.TokenType_NON_FUNGIBLE_UNIQUE
	finite := body.GetSupplyType() == hapi.TokenSupplyType_FINITE
	switch {
	case nft && body.GetInitialSupply() != 0:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY
	case nft && body.GetDecimals() != 0:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_DECIMALS
	case body.GetInitialSupply() > math.MaxInt64:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY
	case body.GetDecimals() > math.MaxInt32:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_DECIMALS
	case finite != (body.GetMaxSupply() > 0) || body.GetMaxSupply() < 0:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MAX_SUPPLY
	case finite && int64(body.GetInitialSupply()) > body.GetMaxSupply():
		return hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY
	case body.GetTreasury() == nil:
		return hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN
	case body.GetAutoRenewAccount().GetAccount() != nil && body.GetAutoRenewPeriod() == nil:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	case nft && body.GetSupplyKey() == nil:
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY
	case body.GetFreezeDefault() && body.GetFreezeKey() == nil:
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY
	case body.GetName() == "":
		return hapi.ResponseCodeEnum_MISSING_TOKEN_NAME
	case body.GetSymbol() == "":
		return hapi.ResponseCodeEnum_MISSING_TOKEN_SYMBOL
	}
	return okay
}

// tokenText checks what holders read of a token.
func tokenText(name, symbol, memo string, metadata []byte) hedera.Status {
	switch {
	case len(name) > maxTokenText:
		return hapi.ResponseCodeEnum_TOKEN_NAME_TOO_LONG
	case len(symbol) > maxTokenText:
		return hapi.ResponseCodeEnum_TOKEN_SYMBOL_TOO_LONG
	case hasZero(name), hasZero(symbol):
		return hapi.ResponseCodeEnum_INVALID_ZERO_BYTE_IN_STRING
	case len(metadata) > maxTokenMetadata:
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	}
	return validMemo(memo)
}

// role is one of a token's keys as a body gives it.
type role struct {
	given   *hapi.Key
	kept    **hapi.Key
	invalid hedera.Status
	none    hedera.Status // the token has no such key
}

// tokenRoles are the keys that a creation or an update gives.
func tokenRoles(k *state.TokenKeys, body interface {
	GetAdminKey() *hapi.Key
	GetKycKey() *hapi.Key
	GetFreezeKey() *hapi.Key
	GetWipeKey() *hapi.Key
	GetSupplyKey() *hapi.Key
	GetFeeScheduleKey() *hapi.Key
	GetPauseKey() *hapi.Key
	GetMetadataKey() *hapi.Key
},
) []role {
	return []role{
		{body.GetAdminKey(), &k.Admin, hapi.ResponseCodeEnum_INVALID_ADMIN_KEY, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE},
		{body.GetKycKey(), &k.KYC, hapi.ResponseCodeEnum_INVALID_KYC_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY},
		{body.GetFreezeKey(), &k.Freeze, hapi.ResponseCodeEnum_INVALID_FREEZE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY},
		{body.GetWipeKey(), &k.Wipe, hapi.ResponseCodeEnum_INVALID_WIPE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_WIPE_KEY},
		{body.GetSupplyKey(), &k.Supply, hapi.ResponseCodeEnum_INVALID_SUPPLY_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY},
		{body.GetFeeScheduleKey(), &k.FeeSchedule, hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_SCHEDULE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FEE_SCHEDULE_KEY},
		{body.GetPauseKey(), &k.Pause, hapi.ResponseCodeEnum_INVALID_PAUSE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_PAUSE_KEY},
		{body.GetMetadataKey(), &k.Metadata, hapi.ResponseCodeEnum_INVALID_METADATA_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_METADATA_KEY},
	}
}

// newToken is a token as far as its creation alone says.
func newToken(body *hapi.TokenCreateTransactionBody) *state.Token {
	return &state.Token{
		Name: body.GetName(), Symbol: body.GetSymbol(), Memo: body.GetMemo(),
		Metadata: body.GetMetadata(), NonFungible: body.GetTokenType() == hapi.TokenType_NON_FUNGIBLE_UNIQUE,
		Decimals: body.GetDecimals(), Supply: int64(body.GetInitialSupply()), Initial: int64(body.GetInitialSupply()),
		MaxSupply: body.GetMaxSupply(), FreezeDefault: body.GetFreezeDefault(),
	}
}

// tokenCreate makes a token and gives its initial supply to the treasury.
func (h *handling) tokenCreate(body *hapi.TokenCreateTransactionBody) hedera.Status {
	if status := tokenText(body.GetName(), body.GetSymbol(), body.GetMemo(), body.GetMetadata()); status != okay {
		return status
	}
	treasury, status := h.party(body.GetTreasury())
	switch {
	case status == hapi.ResponseCodeEnum_ACCOUNT_DELETED:
		return hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN
	case status != okay:
		return status
	case !h.signedBy(treasury):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	t := newToken(body)
	t.ID, t.Treasury, t.Created, t.FeesSince = hedera.Entity(h.newNum()), hedera.Entity(treasury.Num), h.r.Consensus, h.r.Consensus
	for _, r := range tokenRoles(&t.Keys, body) {
		switch {
		case r.given == nil || hapikey.Empty(r.given):
			continue
		case !hapikey.Valid(r.given):
			return r.invalid
		}
		*r.kept = r.given
	}
	if t.Keys.Admin != nil && !h.signed(t.Keys.Admin) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := h.tokenLife(t, body); status != okay {
		return status
	}
	h.putToken(t)
	h.associate(t, t.Treasury.Num, false)
	did := h.did()
	did.Token, did.TokenSupply = t.ID, t.Supply
	did.Associations = append(did.Associations, history.Association{Token: t.ID, Account: t.Treasury})
	if status := h.setFees(t, body.GetCustomFees(), true); status != okay {
		return status
	}
	if t.Supply > 0 {
		return h.adjust(t, t.Treasury.Num, t.Supply, false)
	}
	return okay
}

// tokenLife sets how long a new token lives. Whoever renews it decides that, whatever else the body says.
func (h *handling) tokenLife(t *state.Token, body *hapi.TokenCreateTransactionBody) hedera.Status {
	period, expiry := body.GetAutoRenewPeriod(), body.GetExpiry()
	if status := h.tokenRenewer(t, body.GetAutoRenewAccount()); status != okay {
		return status
	}
	if validPeriod(period) != okay {
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	t.AutoRenewPeriod = period.GetSeconds()
	if expiry == nil || !t.AutoRenewAccount.IsZero() {
		t.Expires = hedera.Timestamp{Seconds: h.r.Consensus.Seconds + cmp.Or(t.AutoRenewPeriod, genesisRenewal)}
		return okay
	}
	t.Expires = hedera.TimestampIn(expiry)
	return h.validExpiry(expiry)
}

// tokenRenewer sets who renews a token, where a body says so.
func (h *handling) tokenRenewer(t *state.Token, id *hapi.AccountID) hedera.Status {
	if id.GetAccount() == nil {
		return okay
	}
	renew, status := h.someRenewer(id)
	if status == okay {
		t.AutoRenewAccount = renew
	}
	return status
}

func pureTokenUpdate(body *hapi.TokenUpdateTransactionBody) hedera.Status {
	if body.GetToken() == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	for _, r := range tokenRoles(new(state.TokenKeys), body) {
		if r.given != nil && !hapikey.Empty(r.given) && !hapikey.Valid(r.given) {
			return r.invalid
		}
	}
	return okay
}

// tokenUpdate changes what the token's keys allow to change. What a token without the keys for it can never become is
// refused first, then what was not signed, and then what makes no sense.
func (h *handling) tokenUpdate(body *hapi.TokenUpdateTransactionBody) hedera.Status {
	old := h.o.Tokens.Get(tokenNum(body.GetToken()))
	if old == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	t := *old
	needed, status := updateToken(&t, body)
	if status != okay {
		return status
	}
	for _, key := range needed {
		if !h.signed(key) {
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
	}
	treasury := h.resolve(body.GetTreasury())
	switch {
	case body.GetTreasury() == nil:
	case treasury == nil || !treasury.Exists && !treasury.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case !h.signedBy(treasury):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	renewed := h.tokenRenewer(&t, body.GetAutoRenewAccount())
	if renewed == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		return renewed
	}
	_, usable := h.usable(body.GetToken())
	if status := firstFault(usable, tokenText(t.Name, t.Symbol, t.Memo, t.Metadata), renewed, h.prolong(&t, old, body)); status != okay {
		return status
	}
	switch {
	case treasury == nil:
		h.putToken(&t)
		return okay
	case treasury.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	}
	return h.moveTreasury(&t, treasury)
}

// prolong sets for how much longer a token lives.
func (h *handling) prolong(t, old *state.Token, body *hapi.TokenUpdateTransactionBody) hedera.Status {
	if status := firstFault(h.extend(&t.Expires, body.GetExpiry()), validPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		t.AutoRenewPeriod = period.GetSeconds()
	}
	switch {
	case body.GetAutoRenewAccount().GetAccount() == nil:
		return okay
	case old.AutoRenewAccount.IsZero(): // from now on the period matters
		return validPeriod(&hapi.Duration{Seconds: t.AutoRenewPeriod})
	case h.o.EntityAccount(old.AutoRenewAccount.Num).Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	}
	return okay
}

// anyOf is satisfied by one of several keys.
func anyOf(keys ...*hapi.Key) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{Threshold: 1, Keys: &hapi.KeyList{Keys: keys}}}}
}

func allOf(keys ...*hapi.Key) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: keys}}}
}

// updateToken changes keys and texts of a token, and tells which keys must sign for what the body changes. The admin key
// may replace all keys, any other only itself.
func updateToken(t *state.Token, body *hapi.TokenUpdateTransactionBody) (needed []*hapi.Key, _ hedera.Status) {
	admin := t.Keys.Admin
	byAdmin := body.GetName() != "" || body.GetSymbol() != "" || body.GetMemo() != nil || body.GetTreasury() != nil ||
		body.GetAutoRenewAccount() != nil || body.GetAutoRenewPeriod() != nil || body.GetAdminKey() != nil ||
		body.GetMetadata() != nil && t.Keys.Metadata == nil
	if body.GetMetadata() != nil && t.Keys.Metadata != nil {
		either := t.Keys.Metadata
		if admin != nil {
			either = anyOf(t.Keys.Metadata, admin)
		}
		needed = append(needed, either)
	}
	validates := body.GetKeyVerificationMode() == hapi.TokenKeyValidation_FULL_VALIDATION
	for i, r := range tokenRoles(&t.Keys, body) {
		if r.given == nil {
			continue
		}
		removal, current := hapikey.Empty(r.given), *r.kept
		switch {
		case removal:
			byAdmin = true
		case i == 0:
			needed = append(needed, r.given)
		case current == nil && admin == nil:
			return nil, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE
		case current == nil:
			return nil, r.none
		case admin == nil && validates:
			needed = append(needed, current, r.given)
		case admin == nil:
			needed = append(needed, current)
		case validates:
			needed = append(needed, anyOf(allOf(current, r.given), admin))
		default:
			needed = append(needed, anyOf(current, admin))
		}
		if removal {
			*r.kept = nil
		} else {
			*r.kept = r.given
		}
	}
	if byAdmin {
		if admin == nil {
			return nil, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE
		}
		needed = append(needed, admin)
	}
	t.Name, t.Symbol = cmp.Or(body.GetName(), t.Name), cmp.Or(body.GetSymbol(), t.Symbol)
	if memo := body.GetMemo(); memo != nil {
		t.Memo = memo.GetValue()
	}
	if metadata := body.GetMetadata(); metadata != nil {
		t.Metadata = metadata.GetValue()
	}
	return needed, okay
}

// moveTreasury hands a token's treasury to another account, with all that is in it. The new one may hold the token,
// whatever the token asks of others.
func (h *handling) moveTreasury(t *state.Token, a *state.Party) hedera.Status {
	from, to := t.Treasury.Num, a.Num
	if from == to {
		h.putToken(t)
		return okay
	}
	if h.relation(to, t.ID.Num) == nil {
		if status := h.associateByTransfer(t, a); status != okay {
			return hapi.ResponseCodeEnum_NO_REMAINING_AUTOMATIC_ASSOCIATIONS
		}
	}
	r := *h.relation(to, t.ID.Num)
	r.Frozen, r.KYC = false, true
	h.o.SetRelation(to, t.ID.Num, &r)
	balance := int64(0)
	if r := h.relation(from, t.ID.Num); r != nil {
		balance = r.Balance
	}
	t.Treasury = hedera.Entity(to)
	h.putToken(t)
	if !t.NonFungible {
		if balance == 0 {
			return okay
		}
		if status := h.adjust(t, from, -balance, false); status != okay {
			return status
		}
		return h.adjust(t, to, balance, false)
	}
	if balance > 0 && r.Balance > 0 {
		return hapi.ResponseCodeEnum_TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES
	}
	for _, nft := range h.o.NFTs.Rows(state.NFTKey{Token: t.ID.Num, Serial: 0}, state.NFTKey{Token: t.ID.Num, Serial: state.Last}) {
		if nft.Owner.Num == from && !nft.Deleted {
			if status := h.moveNFT(t, nft, to, false); status != okay {
				return status
			}
		}
	}
	return okay
}

func (h *handling) tokenDelete(body *hapi.TokenDeleteTransactionBody) hedera.Status {
	old, status := h.keyedToken(body.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.Admin }, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE)
	if status != okay {
		return status
	}
	t := *old
	t.Deleted = true
	h.putToken(&t)
	return okay
}

func (h *handling) tokenPause(id *hapi.TokenID, paused bool) hedera.Status {
	old, status := h.token(id)
	if status != okay {
		return status
	}
	if status := h.keyed(old.Keys.Pause, hapi.ResponseCodeEnum_TOKEN_HAS_NO_PAUSE_KEY); status != okay {
		return status
	}
	t := *old
	t.Paused = paused
	h.putToken(&t)
	return okay
}

func (h *handling) tokenFeeSchedule(body *hapi.TokenFeeScheduleUpdateTransactionBody) hedera.Status {
	old, status := h.usable(body.GetTokenId())
	if status != okay {
		return status
	}
	switch status := h.keyed(old.Keys.FeeSchedule, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FEE_SCHEDULE_KEY); {
	case status != okay:
		return status
	case len(old.Fees) == 0 && len(body.GetCustomFees()) == 0:
		return hapi.ResponseCodeEnum_CUSTOM_SCHEDULE_ALREADY_HAS_NO_FEES
	}
	t := *old
	return h.setFees(&t, body.GetCustomFees(), false)
}
