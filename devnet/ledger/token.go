package ledger

import (
	"cmp"
	"math"

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
func (h *handling) token(id *hapi.TokenID) (*Token, hedera.Status) { return h.tokenOf(tokenNum(id)) }

func (h *handling) tokenOf(num int64) (*Token, hedera.Status) {
	t := h.o.tokens.get(num)
	switch {
	case t == nil:
		return nil, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	case t.Deleted:
		return nil, hapi.ResponseCodeEnum_TOKEN_WAS_DELETED
	}
	return t, okay
}

// usable returns a token that exists and is not paused.
func (h *handling) usable(id *hapi.TokenID) (*Token, hedera.Status) {
	t, status := h.token(id)
	if status == okay && t.Paused {
		return nil, hapi.ResponseCodeEnum_TOKEN_IS_PAUSED
	}
	return t, status
}

// putToken writes a token as the transaction leaves it.
func (h *handling) putToken(t *Token) {
	t.Modified = h.r.Consensus
	h.o.tokens.set(t.ID.Num, t)
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
func (h *handling) party(id *hapi.AccountID) (*ovAccount, hedera.Status) {
	a := h.resolve(id)
	switch {
	case a != nil && a.deleted():
		return nil, hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case a == nil || !a.exists:
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

func (k *TokenKeys) roles(admin, kyc, freeze, wipe, supply, fees, pause, metadata *hapi.Key) []role {
	return []role{
		{admin, &k.Admin, hapi.ResponseCodeEnum_INVALID_ADMIN_KEY, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE},
		{kyc, &k.KYC, hapi.ResponseCodeEnum_INVALID_KYC_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY},
		{freeze, &k.Freeze, hapi.ResponseCodeEnum_INVALID_FREEZE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY},
		{wipe, &k.Wipe, hapi.ResponseCodeEnum_INVALID_WIPE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_WIPE_KEY},
		{supply, &k.Supply, hapi.ResponseCodeEnum_INVALID_SUPPLY_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY},
		{fees, &k.FeeSchedule, hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_SCHEDULE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FEE_SCHEDULE_KEY},
		{pause, &k.Pause, hapi.ResponseCodeEnum_INVALID_PAUSE_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_PAUSE_KEY},
		{metadata, &k.Metadata, hapi.ResponseCodeEnum_INVALID_METADATA_KEY, hapi.ResponseCodeEnum_TOKEN_HAS_NO_METADATA_KEY},
	}
}

// newToken is a token as far as its creation alone says.
func newToken(body *hapi.TokenCreateTransactionBody) *Token {
	return &Token{
		Name: body.GetName(), Symbol: body.GetSymbol(), Memo: body.GetMemo(),
		Metadata: body.GetMetadata(), NonFungible: body.GetTokenType() == hapi.TokenType_NON_FUNGIBLE_UNIQUE,
		Decimals: body.GetDecimals(), Supply: int64(body.GetInitialSupply()), Initial: int64(body.GetInitialSupply()),
		MaxSupply: body.GetMaxSupply(), FreezeDefault: body.GetFreezeDefault(),
	}
}

// given are the roles of a token's keys in its creation.
func (k *TokenKeys) given(body *hapi.TokenCreateTransactionBody) []role {
	return k.roles(body.GetAdminKey(), body.GetKycKey(), body.GetFreezeKey(), body.GetWipeKey(),
		body.GetSupplyKey(), body.GetFeeScheduleKey(), body.GetPauseKey(), body.GetMetadataKey())
}

// tokenCreate makes a token and gives its initial supply to the treasury.
func (h *handling) tokenCreate(body *hapi.TokenCreateTransactionBody) hedera.Status {
	if status := tokenText(body.GetName(), body.GetSymbol(), body.GetMemo(), body.GetMetadata()); status != okay {
		return status
	}
	treasury, status := h.party(body.GetTreasury())
	switch {
	case status != okay:
		return hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN
	case !h.signedBy(treasury):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	t := newToken(body)
	t.ID, t.Treasury, t.Created, t.FeesSince = hedera.Entity(h.newNum()), hedera.Entity(treasury.num), h.r.Consensus, h.r.Consensus
	for _, r := range t.Keys.given(body) {
		switch {
		case r.given == nil || isEmptyKey(r.given):
			continue
		case !validKey(r.given):
			return r.invalid
		}
		*r.kept = r.given
	}
	if t.Keys.Admin != nil && !h.signed(t.Keys.Admin) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := h.tokenExpiry(t, body.GetAutoRenewAccount(), body.GetAutoRenewPeriod(), body.GetExpiry()); status != okay {
		return status
	}
	h.putToken(t)
	h.associate(t, t.Treasury.Num, false)
	did := h.did()
	did.Token, did.TokenSupply = t.ID, t.Supply
	did.Associations = append(did.Associations, Association{t.ID, t.Treasury})
	if status := h.setFees(t, body.GetCustomFees(), true); status != okay {
		return status
	}
	if t.Supply > 0 {
		return h.adjust(t, t.Treasury.Num, t.Supply, false)
	}
	return okay
}

// tokenExpiry sets how long a token lives.
func (h *handling) tokenExpiry(t *Token, renew *hapi.AccountID, period *hapi.Duration, expiry *hapi.Timestamp) hedera.Status {
	if renew != nil && renew.GetAccount() != nil {
		a, status := h.party(renew)
		switch {
		case status != okay:
			return hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT
		case !h.signedBy(a):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		t.AutoRenewAccount = hedera.Entity(a.num)
	}
	if period != nil && period.GetSeconds() != 0 {
		if validPeriod(period) != okay {
			return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
		}
		t.AutoRenewPeriod = period.GetSeconds()
	}
	switch {
	case expiry != nil && expiry.GetSeconds() != 0:
		at := timestamp(expiry)
		if at.Compare(h.r.Consensus) <= 0 || at.Compare(t.Expires) < 0 {
			return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
		}
		t.Expires = at
	case t.Expires.IsZero():
		t.Expires = hedera.Timestamp{Seconds: h.r.Consensus.Seconds + cmp.Or(t.AutoRenewPeriod, genesisRenewal)}
	}
	return okay
}

func isEmptyKey(key *hapi.Key) bool {
	list := key.GetKeyList()
	return list != nil && len(list.GetKeys()) == 0
}

// tokenUpdate changes what the token's keys allow to change.
func (h *handling) tokenUpdate(body *hapi.TokenUpdateTransactionBody) hedera.Status {
	old, status := h.usable(body.GetToken())
	if status != okay {
		return status
	}
	t := *old
	if status := h.updateKeys(&t, body); status != okay {
		return status
	}
	if status := h.updateText(&t, body); status != okay {
		return status
	}
	if body.GetAutoRenewAccount() != nil || body.GetAutoRenewPeriod() != nil || body.GetExpiry() != nil {
		// Only the expiry of a token that nobody administrates may be moved by anybody.
		extends := body.GetAutoRenewAccount() == nil && body.GetAutoRenewPeriod() == nil
		if status := h.keyed(old.Keys.Admin, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE); status != okay && !extends {
			return status
		}
		if status := h.tokenExpiry(&t, body.GetAutoRenewAccount(), body.GetAutoRenewPeriod(), body.GetExpiry()); status != okay {
			return status
		}
	}
	if treasury := body.GetTreasury(); treasury != nil {
		if status := h.keyed(old.Keys.Admin, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE); status != okay {
			return status
		}
		return h.moveTreasury(&t, treasury)
	}
	h.putToken(&t)
	return okay
}

// updateKeys replaces keys. The admin key may replace all, any other only itself.
func (h *handling) updateKeys(t *Token, body *hapi.TokenUpdateTransactionBody) hedera.Status {
	admin := t.Keys.Admin
	byAdmin := admin != nil && h.signed(admin)
	validates := body.GetKeyVerificationMode() == hapi.TokenKeyValidation_FULL_VALIDATION
	for i, r := range t.Keys.roles(body.GetAdminKey(), body.GetKycKey(), body.GetFreezeKey(), body.GetWipeKey(),
		body.GetSupplyKey(), body.GetFeeScheduleKey(), body.GetPauseKey(), body.GetMetadataKey()) {
		if r.given == nil {
			continue
		}
		removal, current := isEmptyKey(r.given), *r.kept
		switch {
		case current == nil:
			return r.none
		case removal && admin == nil:
			return hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE
		case removal && !byAdmin:
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case removal:
			*r.kept = nil
			continue
		case !validKey(r.given):
			return r.invalid
		case !byAdmin && !h.signed(current):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case (i == 0 || !byAdmin && validates) && !h.signed(r.given):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		*r.kept = r.given
	}
	return okay
}

func (h *handling) updateText(t *Token, body *hapi.TokenUpdateTransactionBody) hedera.Status {
	admin := h.o.tokens.get(t.ID.Num).Keys.Admin
	if body.GetName() != "" || body.GetSymbol() != "" || body.GetMemo() != nil {
		if status := h.keyed(admin, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE); status != okay {
			return status
		}
	}
	if metadata := body.GetMetadata(); metadata != nil {
		meta := h.o.tokens.get(t.ID.Num).Keys.Metadata
		byMeta, byAdmin := meta != nil && h.signed(meta), admin != nil && h.signed(admin)
		switch {
		case meta == nil && admin == nil:
			return hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE
		case !byMeta && !byAdmin:
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		t.Metadata = metadata.GetValue()
	}
	if name := body.GetName(); name != "" {
		t.Name = name
	}
	if symbol := body.GetSymbol(); symbol != "" {
		t.Symbol = symbol
	}
	if memo := body.GetMemo(); memo != nil {
		t.Memo = memo.GetValue()
	}
	return tokenText(t.Name, t.Symbol, t.Memo, t.Metadata)
}

// moveTreasury hands a token's treasury to another account, with all that is in it.
func (h *handling) moveTreasury(t *Token, id *hapi.AccountID) hedera.Status {
	a, status := h.party(id)
	switch {
	case status != okay:
		return hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN
	case !h.signedBy(a):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	from, to := t.Treasury.Num, a.num
	if from == to {
		h.putToken(t)
		return okay
	}
	if h.relation(to, t.ID.Num) == nil {
		if status := h.associateByTransfer(t, a); status != okay {
			return status
		}
	}
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
	for _, nft := range h.o.nfts.between(nftKey{t.ID.Num, 0}, nftKey{t.ID.Num, every}) {
		if nft.Owner.Num == from && !nft.Deleted {
			if status := h.moveNFT(t, nft, to, false); status != okay {
				return status
			}
		}
	}
	return okay
}

func (h *handling) tokenDelete(body *hapi.TokenDeleteTransactionBody) hedera.Status {
	old, status := h.usable(body.GetToken())
	if status != okay {
		return status
	}
	if status := h.keyed(old.Keys.Admin, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE); status != okay {
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
