package tokens

import (
	"cmp"
	"math"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

const (
	MaxTokenText     = 100 // bytes of a name or symbol
	MaxTokenMetadata = 100
	MaxCustomFees    = 10
	MaxTokenBatch    = 10 // NFTs that one transaction mints, burns or wipes
)

// TokenNum is the number of a token, 0 for an id that no token has.
func TokenNum(id *hapi.TokenID) int64 {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return 0
	}
	return id.GetTokenNum()
}

// Token returns a token that exists.
func Token(h *core.Handling, id *hapi.TokenID) (*state.Token, hedera.Status) {
	return tokenOf(h, TokenNum(id))
}

func tokenOf(h *core.Handling, num int64) (*state.Token, hedera.Status) {
	t := h.State.Tokens.Get(num)
	switch {
	case t == nil:
		return nil, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	case t.Deleted:
		return nil, hapi.ResponseCodeEnum_TOKEN_WAS_DELETED
	}
	return t, okay
}

// keyedToken returns a token that can be used and has a key, which has signed. The signature is asked for first.
func keyedToken(h *core.Handling, id *hapi.TokenID, role func(*state.TokenKeys) *hapi.Key, none hedera.Status) (*state.Token, hedera.Status) {
	t := h.State.Tokens.Get(TokenNum(id))
	if t == nil {
		return nil, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	key := role(&t.Keys)
	if key != nil && !h.Signed(key) {
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if _, status := Usable(h, id); status != okay {
		return nil, status
	}
	if key == nil {
		return nil, none
	}
	return t, okay
}

// Usable returns a token that exists and is not paused.
func Usable(h *core.Handling, id *hapi.TokenID) (*state.Token, hedera.Status) {
	t, status := Token(h, id)
	if status == okay && t.Paused {
		return nil, hapi.ResponseCodeEnum_TOKEN_IS_PAUSED
	}
	return t, status
}

// putToken writes a token as the transaction leaves it.
func putToken(h *core.Handling, t *state.Token) {
	t.Modified = h.Record.Consensus
	h.State.Tokens.Set(t.ID.Num, t)
	h.Record.Entity = t.ID
}

// keyed checks that a token has a key and that it signed.
func keyed(h *core.Handling, key *hapi.Key, none hedera.Status) hedera.Status {
	switch {
	case key == nil:
		return none
	case !h.Signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return okay
}

// PureTokenCreate is what is wrong with a creation by itself.
func PureTokenCreate(body *hapi.TokenCreateTransactionBody) hedera.Status {
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
	case len(name) > MaxTokenText:
		return hapi.ResponseCodeEnum_TOKEN_NAME_TOO_LONG
	case len(symbol) > MaxTokenText:
		return hapi.ResponseCodeEnum_TOKEN_SYMBOL_TOO_LONG
	case core.HasZero(name), core.HasZero(symbol):
		return hapi.ResponseCodeEnum_INVALID_ZERO_BYTE_IN_STRING
	case len(metadata) > MaxTokenMetadata:
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	}
	return core.ValidMemo(memo)
}

// Role is one of a token's keys as a body gives it.
type Role struct {
	Given   *hapi.Key
	Kept    **hapi.Key
	Invalid hedera.Status
	none    hedera.Status // the token has no such key
}

// TokenRoles are the keys that a creation or an update gives.
func TokenRoles(k *state.TokenKeys, body interface {
	GetAdminKey() *hapi.Key
	GetKycKey() *hapi.Key
	GetFreezeKey() *hapi.Key
	GetWipeKey() *hapi.Key
	GetSupplyKey() *hapi.Key
	GetFeeScheduleKey() *hapi.Key
	GetPauseKey() *hapi.Key
	GetMetadataKey() *hapi.Key
},
) []Role {
	return []Role{
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

// NewToken is a token as far as its creation alone says.
func NewToken(body *hapi.TokenCreateTransactionBody) *state.Token {
	return &state.Token{
		Name: body.GetName(), Symbol: body.GetSymbol(), Memo: body.GetMemo(),
		Metadata: body.GetMetadata(), NonFungible: body.GetTokenType() == hapi.TokenType_NON_FUNGIBLE_UNIQUE,
		Decimals: body.GetDecimals(), Supply: int64(body.GetInitialSupply()), Initial: int64(body.GetInitialSupply()),
		MaxSupply: body.GetMaxSupply(), FreezeDefault: body.GetFreezeDefault(),
	}
}

// tokenCreate makes a token and gives its initial supply to the treasury.
func tokenCreate(h *core.Handling, body *hapi.TokenCreateTransactionBody) hedera.Status {
	if status := tokenText(body.GetName(), body.GetSymbol(), body.GetMemo(), body.GetMetadata()); status != okay {
		return status
	}
	treasury, status := h.Party(body.GetTreasury())
	switch {
	case status == hapi.ResponseCodeEnum_ACCOUNT_DELETED:
		return hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN
	case status != okay:
		return status
	case !h.SignedBy(treasury):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	t := NewToken(body)
	t.ID, t.Treasury, t.Created, t.FeesSince = hedera.Entity(h.NewNum()), hedera.Entity(treasury.Num), h.Record.Consensus, h.Record.Consensus
	for _, r := range TokenRoles(&t.Keys, body) {
		switch {
		case r.Given == nil || hapikey.Empty(r.Given):
			continue
		case !hapikey.Valid(r.Given):
			return r.Invalid
		}
		*r.Kept = r.Given
	}
	if t.Keys.Admin != nil && !h.Signed(t.Keys.Admin) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := tokenLife(h, t, body); status != okay {
		return status
	}
	putToken(h, t)
	Associate(h, t, t.Treasury.Num, false)
	did := h.Did()
	did.Token, did.TokenSupply = t.ID, t.Supply
	did.Associations = append(did.Associations, history.Association{Token: t.ID, Account: t.Treasury})
	if status := setFees(h, t, body.GetCustomFees(), true); status != okay {
		return status
	}
	if t.Supply > 0 {
		return Adjust(h, t, t.Treasury.Num, t.Supply, false)
	}
	return okay
}

// tokenLife sets how long a new token lives. Whoever renews it decides that, whatever else the body says.
func tokenLife(h *core.Handling, t *state.Token, body *hapi.TokenCreateTransactionBody) hedera.Status {
	period, expiry := body.GetAutoRenewPeriod(), body.GetExpiry()
	if status := tokenRenewer(h, t, body.GetAutoRenewAccount()); status != okay {
		return status
	}
	if core.ValidPeriod(period) != okay {
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	t.AutoRenewPeriod = period.GetSeconds()
	if expiry == nil || !t.AutoRenewAccount.IsZero() {
		t.Expires = hedera.Timestamp{Seconds: h.Record.Consensus.Seconds + cmp.Or(t.AutoRenewPeriod, core.GenesisRenewal)}
		return okay
	}
	t.Expires = hedera.TimestampIn(expiry)
	return h.ValidExpiry(expiry)
}

// tokenRenewer sets who renews a token, where a body says so.
func tokenRenewer(h *core.Handling, t *state.Token, id *hapi.AccountID) hedera.Status {
	if id.GetAccount() == nil {
		return okay
	}
	renew, status := h.SomeRenewer(id)
	if status == okay {
		t.AutoRenewAccount = renew
	}
	return status
}

func pureTokenUpdate(body *hapi.TokenUpdateTransactionBody) hedera.Status {
	if body.GetToken() == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	for _, r := range TokenRoles(new(state.TokenKeys), body) {
		if r.Given != nil && !hapikey.Empty(r.Given) && !hapikey.Valid(r.Given) {
			return r.Invalid
		}
	}
	return okay
}

// tokenUpdate changes what the token's keys allow to change. What a token without the keys for it can never become is
// refused first, then what was not signed, and then what makes no sense.
func tokenUpdate(h *core.Handling, body *hapi.TokenUpdateTransactionBody) hedera.Status {
	old := h.State.Tokens.Get(TokenNum(body.GetToken()))
	if old == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	t := *old
	needed, status := updateToken(&t, body)
	if status != okay {
		return status
	}
	for _, key := range needed {
		if !h.Signed(key) {
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
	}
	treasury := h.Resolve(body.GetTreasury())
	switch {
	case body.GetTreasury() == nil:
	case treasury == nil || !treasury.Exists && !treasury.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case !h.SignedBy(treasury):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	renewed := tokenRenewer(h, &t, body.GetAutoRenewAccount())
	if renewed == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		return renewed
	}
	_, usable := Usable(h, body.GetToken())
	if status := core.FirstFault(usable, tokenText(t.Name, t.Symbol, t.Memo, t.Metadata), renewed, prolong(h, &t, old, body)); status != okay {
		return status
	}
	switch {
	case treasury == nil:
		putToken(h, &t)
		return okay
	case treasury.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	}
	return moveTreasury(h, &t, treasury)
}

// prolong sets for how much longer a token lives.
func prolong(h *core.Handling, t, old *state.Token, body *hapi.TokenUpdateTransactionBody) hedera.Status {
	if status := core.FirstFault(h.Extend(&t.Expires, body.GetExpiry()), core.ValidPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		t.AutoRenewPeriod = period.GetSeconds()
	}
	switch {
	case body.GetAutoRenewAccount().GetAccount() == nil:
		return okay
	case old.AutoRenewAccount.IsZero(): // from now on the period matters
		return core.ValidPeriod(&hapi.Duration{Seconds: t.AutoRenewPeriod})
	case h.State.EntityAccount(old.AutoRenewAccount.Num).Deleted():
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
	for i, r := range TokenRoles(&t.Keys, body) {
		if r.Given == nil {
			continue
		}
		removal, current := hapikey.Empty(r.Given), *r.Kept
		switch {
		case removal:
			byAdmin = true
		case i == 0:
			needed = append(needed, r.Given)
		case current == nil && admin == nil:
			return nil, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE
		case current == nil:
			return nil, r.none
		case admin == nil && validates:
			needed = append(needed, current, r.Given)
		case admin == nil:
			needed = append(needed, current)
		case validates:
			needed = append(needed, anyOf(allOf(current, r.Given), admin))
		default:
			needed = append(needed, anyOf(current, admin))
		}
		if removal {
			*r.Kept = nil
		} else {
			*r.Kept = r.Given
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
func moveTreasury(h *core.Handling, t *state.Token, a *state.Party) hedera.Status {
	from, to := t.Treasury.Num, a.Num
	if from == to {
		putToken(h, t)
		return okay
	}
	if Relation(h, to, t.ID.Num) == nil {
		if status := AssociateByTransfer(h, t, a); status != okay {
			return hapi.ResponseCodeEnum_NO_REMAINING_AUTOMATIC_ASSOCIATIONS
		}
	}
	r := *Relation(h, to, t.ID.Num)
	r.Frozen, r.KYC = false, true
	h.State.SetRelation(to, t.ID.Num, &r)
	balance := int64(0)
	if r := Relation(h, from, t.ID.Num); r != nil {
		balance = r.Balance
	}
	t.Treasury = hedera.Entity(to)
	putToken(h, t)
	if !t.NonFungible {
		if balance == 0 {
			return okay
		}
		return Hand(h, t, from, to, balance)
	}
	if balance > 0 && r.Balance > 0 {
		return hapi.ResponseCodeEnum_TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES
	}
	for _, nft := range h.State.NFTs.Rows(state.NFTKey{Token: t.ID.Num, Serial: 0}, state.NFTKey{Token: t.ID.Num, Serial: state.Last}) {
		if nft.Owner.Num == from && !nft.Deleted {
			if status := MoveNFT(h, t, nft, to, false); status != okay {
				return status
			}
		}
	}
	return okay
}

func tokenDelete(h *core.Handling, body *hapi.TokenDeleteTransactionBody) hedera.Status {
	old, status := keyedToken(h, body.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.Admin }, hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE)
	if status != okay {
		return status
	}
	t := *old
	t.Deleted = true
	putToken(h, &t)
	return okay
}

func tokenPause(h *core.Handling, id *hapi.TokenID, paused bool) hedera.Status {
	old, status := Token(h, id)
	if status != okay {
		return status
	}
	if status := keyed(h, old.Keys.Pause, hapi.ResponseCodeEnum_TOKEN_HAS_NO_PAUSE_KEY); status != okay {
		return status
	}
	t := *old
	t.Paused = paused
	putToken(h, &t)
	return okay
}

func tokenFeeSchedule(h *core.Handling, body *hapi.TokenFeeScheduleUpdateTransactionBody) hedera.Status {
	old, status := Usable(h, body.GetTokenId())
	if status != okay {
		return status
	}
	switch status := keyed(h, old.Keys.FeeSchedule, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FEE_SCHEDULE_KEY); {
	case status != okay:
		return status
	case len(old.Fees) == 0 && len(body.GetCustomFees()) == 0:
		return hapi.ResponseCodeEnum_CUSTOM_SCHEDULE_ALREADY_HAS_NO_FEES
	}
	t := *old
	return setFees(h, &t, body.GetCustomFees(), false)
}

// Services are the transactions that are handled here.
func Services() core.Services {
	type h = *core.Handling
	return core.Services{
		"tokenCreation":             core.ServiceOf(tokenCreate, PureTokenCreate),
		"tokenUpdate":               core.ServiceOf(tokenUpdate, pureTokenUpdate),
		"tokenDeletion":             core.ServiceOf(tokenDelete, nil),
		"tokenMint":                 core.ServiceOf(tokenMint, pureMint),
		"tokenBurn":                 core.ServiceOf(tokenBurn, pureBurn),
		"tokenWipe":                 core.ServiceOf(tokenWipe, pureWipe),
		"tokenAssociate":            core.ServiceOf(tokenAssociate, pureAssociate[*hapi.TokenAssociateTransactionBody]),
		"tokenDissociate":           core.ServiceOf(tokenDissociate, pureAssociate[*hapi.TokenDissociateTransactionBody]),
		"token_fee_schedule_update": core.ServiceOf(tokenFeeSchedule, nil),
		"token_update_nfts":         core.ServiceOf(tokenUpdateNFTs, nil),
		"token_pause":               core.ServiceOf(func(c h, b *hapi.TokenPauseTransactionBody) hedera.Status { return tokenPause(c, b.GetToken(), true) }, nil),
		"token_unpause": core.ServiceOf(func(c h, b *hapi.TokenUnpauseTransactionBody) hedera.Status {
			return tokenPause(c, b.GetToken(), false)
		}, nil),
		"tokenFreeze":    core.ServiceOf(func(c h, b *hapi.TokenFreezeAccountTransactionBody) hedera.Status { return tokenFreeze(c, b, true) }, nil),
		"tokenUnfreeze":  core.ServiceOf(func(c h, b *hapi.TokenUnfreezeAccountTransactionBody) hedera.Status { return tokenFreeze(c, b, false) }, nil),
		"tokenGrantKyc":  core.ServiceOf(func(c h, b *hapi.TokenGrantKycTransactionBody) hedera.Status { return tokenKYC(c, b, true) }, nil),
		"tokenRevokeKyc": core.ServiceOf(func(c h, b *hapi.TokenRevokeKycTransactionBody) hedera.Status { return tokenKYC(c, b, false) }, nil),
	}
}

// MaxFeeDepth is how deep custom fees cause custom fees.
const MaxFeeDepth = 2

// setFees replaces the custom fees of a token. Collectors of the token itself must sign
// when it is created, and are associated with it.
func setFees(h *core.Handling, t *state.Token, fees []*hapi.CustomFee, creation bool) hedera.Status {
	if len(fees) > MaxCustomFees {
		return hapi.ResponseCodeEnum_CUSTOM_FEES_LIST_TOO_LONG
	}
	t.Fees, t.FeesSince = nil, h.Record.Consensus
	for _, given := range fees {
		fee := proto.CloneOf(given)
		collector, status := h.Party(fee.GetFeeCollectorAccountId())
		if status != okay {
			return hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR
		}
		fee.FeeCollectorAccountId = hedera.Entity(collector.Num).AccountID()
		own, status := checkFee(h, t, fee, collector.Num, creation)
		switch {
		case status != okay:
			return status
		case !own:
		case creation && !h.SignedBy(collector):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case Relation(h, collector.Num, t.ID.Num) != nil:
		case !creation:
			return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
		default:
			Associate(h, t, collector.Num, false)
			h.Did().Associations = append(h.Did().Associations, history.Association{Token: t.ID, Account: hedera.Entity(collector.Num)})
		}
		t.Fees = append(t.Fees, fee)
	}
	putToken(h, t)
	return okay
}

// checkFee tells whether a fee is collected in units of its own token.
func checkFee(h *core.Handling, t *state.Token, fee *hapi.CustomFee, collector int64, creation bool) (own bool, _ hedera.Status) {
	switch kind := fee.GetFee().(type) {
	case *hapi.CustomFee_FixedFee:
		return CheckFixed(h, t, kind.FixedFee, collector, creation)
	case *hapi.CustomFee_FractionalFee:
		f := kind.FractionalFee
		switch {
		case t.NonFungible:
			return false, hapi.ResponseCodeEnum_CUSTOM_FRACTIONAL_FEE_ONLY_ALLOWED_FOR_FUNGIBLE_COMMON
		case f.GetFractionalAmount().GetDenominator() == 0:
			return false, hapi.ResponseCodeEnum_FRACTION_DIVIDES_BY_ZERO
		case f.GetFractionalAmount().GetNumerator() <= 0 || f.GetFractionalAmount().GetDenominator() < 0,
			f.GetMinimumAmount() < 0 || f.GetMaximumAmount() < 0:
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
		case f.GetMaximumAmount() > 0 && f.GetMaximumAmount() < f.GetMinimumAmount():
			return false, hapi.ResponseCodeEnum_FRACTIONAL_FEE_MAX_AMOUNT_LESS_THAN_MIN_AMOUNT
		}
		return true, okay
	case *hapi.CustomFee_RoyaltyFee:
		f := kind.RoyaltyFee
		switch fraction := f.GetExchangeValueFraction(); {
		case !t.NonFungible:
			return false, hapi.ResponseCodeEnum_CUSTOM_ROYALTY_FEE_ONLY_ALLOWED_FOR_NON_FUNGIBLE_UNIQUE
		case fraction.GetDenominator() == 0:
			return false, hapi.ResponseCodeEnum_FRACTION_DIVIDES_BY_ZERO
		case fraction.GetNumerator() <= 0 || fraction.GetDenominator() < 0:
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
		case fraction.GetNumerator() > fraction.GetDenominator():
			return false, hapi.ResponseCodeEnum_ROYALTY_FRACTION_CANNOT_EXCEED_ONE
		case f.GetFallbackFee() == nil:
			return false, okay
		}
		return CheckFixed(h, t, f.GetFallbackFee(), collector, creation)
	default:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_NOT_FULLY_SPECIFIED
	}
}

// CheckFixed also puts the token itself where a fee names none by number 0.
func CheckFixed(h *core.Handling, t *state.Token, fee *hapi.FixedFee, collector int64, creation bool) (own bool, _ hedera.Status) {
	id := fee.GetDenominatingTokenId()
	switch {
	case fee.GetAmount() <= 0:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
	case id == nil:
		return false, okay
	case creation && id.GetTokenNum() == 0 || id.GetTokenNum() == t.ID.Num:
		if t.NonFungible {
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_DENOMINATION_MUST_BE_FUNGIBLE_COMMON
		}
		fee.DenominatingTokenId = t.ID.TokenID()
		return true, okay
	}
	denomination, status := Token(h, id)
	switch {
	case status != okay:
		return false, hapi.ResponseCodeEnum_INVALID_TOKEN_ID_IN_CUSTOM_FEES
	case denomination.NonFungible:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_DENOMINATION_MUST_BE_FUNGIBLE_COMMON
	case Relation(h, collector, denomination.ID.Num) == nil:
		return false, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
	}
	return false, okay
}
