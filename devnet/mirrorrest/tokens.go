package mirrorrest

import (
	"strconv"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	fungible    = "FUNGIBLE_COMMON"
	nonFungible = "NON_FUNGIBLE_UNIQUE"
)

type tokenJSON struct {
	AdminKey *keyJSON `json:"admin_key"`
	Decimals int64    `json:"decimals"`
	Metadata string   `json:"metadata"`
	Name     string   `json:"name"`
	Symbol   string   `json:"symbol"`
	TokenID  string   `json:"token_id"`
	Type     string   `json:"type"`
}

type tokenInfoJSON struct {
	AdminKey          *keyJSON       `json:"admin_key"`
	AutoRenewAccount  *string        `json:"auto_renew_account"`
	AutoRenewPeriod   *int64         `json:"auto_renew_period"`
	CreatedTimestamp  *string        `json:"created_timestamp"`
	CustomFees        customFeesJSON `json:"custom_fees"`
	Decimals          string         `json:"decimals"`
	Deleted           bool           `json:"deleted"`
	ExpiryTimestamp   *int64         `json:"expiry_timestamp"`
	FeeScheduleKey    *keyJSON       `json:"fee_schedule_key"`
	FreezeDefault     bool           `json:"freeze_default"`
	FreezeKey         *keyJSON       `json:"freeze_key"`
	InitialSupply     string         `json:"initial_supply"`
	KYCKey            *keyJSON       `json:"kyc_key"`
	MaxSupply         string         `json:"max_supply"`
	Memo              string         `json:"memo"`
	Metadata          string         `json:"metadata"`
	MetadataKey       *keyJSON       `json:"metadata_key"`
	ModifiedTimestamp *string        `json:"modified_timestamp"`
	Name              string         `json:"name"`
	PauseKey          *keyJSON       `json:"pause_key"`
	PauseStatus       string         `json:"pause_status"`
	SupplyKey         *keyJSON       `json:"supply_key"`
	SupplyType        string         `json:"supply_type"`
	Symbol            string         `json:"symbol"`
	TokenID           string         `json:"token_id"`
	TotalSupply       string         `json:"total_supply"`
	TreasuryAccountID string         `json:"treasury_account_id"`
	Type              string         `json:"type"`
	WipeKey           *keyJSON       `json:"wipe_key"`
}

type customFeesJSON struct {
	CreatedTimestamp string            `json:"created_timestamp"`
	FixedFees        []fixedFeeJSON    `json:"fixed_fees"`
	FractionalFees   *[]fractionalJSON `json:"fractional_fees,omitempty"` // of fungible tokens
	RoyaltyFees      *[]royaltyFeeJSON `json:"royalty_fees,omitempty"`    // of the others
}

type fixedFeeJSON struct {
	AllCollectorsAreExempt bool    `json:"all_collectors_are_exempt"`
	Amount                 int64   `json:"amount"`
	CollectorAccountID     *string `json:"collector_account_id"`
	DenominatingTokenID    *string `json:"denominating_token_id"`
}

type fractionJSON struct {
	Numerator   int64 `json:"numerator"`
	Denominator int64 `json:"denominator"`
}

type fractionalJSON struct {
	AllCollectorsAreExempt bool         `json:"all_collectors_are_exempt"`
	Amount                 fractionJSON `json:"amount"`
	CollectorAccountID     *string      `json:"collector_account_id"`
	DenominatingTokenID    *string      `json:"denominating_token_id"`
	Maximum                *int64       `json:"maximum"`
	Minimum                int64        `json:"minimum"`
	NetOfTransfers         bool         `json:"net_of_transfers"`
}

type royaltyFeeJSON struct {
	AllCollectorsAreExempt bool             `json:"all_collectors_are_exempt"`
	Amount                 fractionJSON     `json:"amount"`
	CollectorAccountID     *string          `json:"collector_account_id"`
	FallbackFee            *fallbackFeeJSON `json:"fallback_fee"`
}

type fallbackFeeJSON struct {
	Amount              int64   `json:"amount"`
	DenominatingTokenID *string `json:"denominating_token_id"`
}

func typeOf(t *ledger.Token) string {
	if t.NonFungible {
		return nonFungible
	}
	return fungible
}

func tokenOf(t *ledger.Token) tokenInfoJSON {
	out := tokenInfoJSON{
		AdminKey: keyOf(t.Keys.Admin), AutoRenewAccount: idText(t.AutoRenewAccount), AutoRenewPeriod: positive(t.AutoRenewPeriod),
		CreatedTimestamp: timeText(t.Created), CustomFees: customFeesOf(t), Decimals: strconv.FormatUint(uint64(t.Decimals), 10),
		Deleted: t.Deleted, ExpiryTimestamp: ptr(t.Expires.UnixNano()), FeeScheduleKey: keyOf(t.Keys.FeeSchedule),
		FreezeDefault: t.FreezeDefault, FreezeKey: keyOf(t.Keys.Freeze), InitialSupply: decimal(t.Initial),
		KYCKey: keyOf(t.Keys.KYC), MaxSupply: decimal(t.MaxSupply), Memo: t.Memo, Metadata: base64Text(t.Metadata),
		MetadataKey: keyOf(t.Keys.Metadata), ModifiedTimestamp: timeText(t.Modified), Name: t.Name, PauseKey: keyOf(t.Keys.Pause),
		PauseStatus: "NOT_APPLICABLE", SupplyKey: keyOf(t.Keys.Supply), SupplyType: "INFINITE", Symbol: t.Symbol,
		TokenID: t.ID.String(), TotalSupply: decimal(t.Supply), TreasuryAccountID: t.Treasury.String(), Type: typeOf(t),
		WipeKey: keyOf(t.Keys.Wipe),
	}
	if t.MaxSupply > 0 {
		out.SupplyType = "FINITE"
	}
	if t.Keys.Pause != nil {
		out.PauseStatus = "UNPAUSED"
		if t.Paused {
			out.PauseStatus = "PAUSED"
		}
	}
	return out
}

func customFeesOf(t *ledger.Token) customFeesJSON {
	out := customFeesJSON{CreatedTimestamp: t.FeesSince.String(), FixedFees: []fixedFeeJSON{}}
	fractional, royalties := []fractionalJSON{}, []royaltyFeeJSON{}
	for _, fee := range t.Fees {
		collector := ptr(hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()).String())
		switch kind := fee.GetFee().(type) {
		case *hapi.CustomFee_FixedFee:
			out.FixedFees = append(out.FixedFees, fixedFeeJSON{
				fee.GetAllCollectorsAreExempt(), kind.FixedFee.GetAmount(), collector, denomination(kind.FixedFee),
			})
		case *hapi.CustomFee_FractionalFee:
			f := kind.FractionalFee
			fractional = append(fractional, fractionalJSON{
				AllCollectorsAreExempt: fee.GetAllCollectorsAreExempt(), Amount: fractionOf(f.GetFractionalAmount()),
				CollectorAccountID: collector, DenominatingTokenID: ptr(t.ID.String()), Maximum: positive(f.GetMaximumAmount()),
				Minimum: f.GetMinimumAmount(), NetOfTransfers: f.GetNetOfTransfers(),
			})
		case *hapi.CustomFee_RoyaltyFee:
			royalty := royaltyFeeJSON{
				AllCollectorsAreExempt: fee.GetAllCollectorsAreExempt(), CollectorAccountID: collector,
				Amount: fractionOf(kind.RoyaltyFee.GetExchangeValueFraction()),
			}
			if fallback := kind.RoyaltyFee.GetFallbackFee(); fallback != nil {
				royalty.FallbackFee = &fallbackFeeJSON{fallback.GetAmount(), denomination(fallback)}
			}
			royalties = append(royalties, royalty)
		}
	}
	if t.NonFungible {
		out.RoyaltyFees = &royalties
	} else {
		out.FractionalFees = &fractional
	}
	return out
}

func fractionOf(f *hapi.Fraction) fractionJSON {
	return fractionJSON{f.GetNumerator(), f.GetDenominator()}
}

func denomination(f *hapi.FixedFee) *string {
	if f.GetDenominatingTokenId() == nil {
		return nil
	}
	return ptr(hedera.Entity(f.GetDenominatingTokenId().GetTokenNum()).String())
}

// tokenArg finds the token that the path names.
func (r *request) tokenArg() (ledger.Token, error) {
	num, err := r.tokenNumber()
	if err != nil {
		return ledger.Token{}, err
	}
	return found(r.view.Token(hedera.Entity(num)))
}

func (r *request) tokenNumber() (int64, error) {
	if !isParty(eq, r.args[0]) {
		return 0, invalidParameter("tokenId")
	}
	num, ok := tokenNumber(r.args[0])
	if !ok {
		return absent, nil
	}
	return num, nil
}

// tokenNumber reads an entity id or a long-zero address: tokens have no other.
func tokenNumber(text string) (int64, bool) {
	if address, ok := parseAddress(text); ok {
		id, longZero := hedera.FromLongZero(address)
		return id.Num, longZero
	}
	return parseEntity(text)
}

// getToken answers tokens/{tokenId}.
func getToken(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime}, single)
	if err != nil {
		return nil, err
	}
	r.view = r.asOf(q.timestamps())
	t, err := r.tokenArg()
	if err != nil {
		return nil, err
	}
	return tokenOf(&t), nil
}

// listTokens answers tokens.
func listTokens(r *request) (any, error) {
	q, err := r.query(params{
		"account.id": isParty, "name": isText, "publickey": isPublicKey, "token.id": isParty,
		"type": oneOf("all", fungible, nonFungible),
	}, ascending)
	if err != nil {
		return nil, err
	}
	ids := q.bounds("token.id", tokenNumber)
	allows := r.tokenFilter(q)
	out := struct {
		Tokens []tokenJSON `json:"tokens"`
		paged
	}{Tokens: []tokenJSON{}}
	low, high := ids.span()
	var last int64
	for t := range r.view.Tokens(low, high, q.desc) {
		if !ids.allows(t.ID.Num) || !allows(t) {
			continue
		}
		last = t.ID.Num
		out.Tokens = append(out.Tokens, tokenJSON{
			AdminKey: keyOf(t.Keys.Admin), Decimals: int64(t.Decimals), Metadata: base64Text(t.Metadata),
			Name: t.Name, Symbol: t.Symbol, TokenID: t.ID.String(), Type: typeOf(t),
		})
		if len(out.Tokens) == q.limit {
			break
		}
	}
	full := len(out.Tokens) == q.limit && !ids.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "token.id", value: hedera.Entity(last).String()})
	return out, nil
}

// tokenFilter is the filters of the list of tokens other than those on their ids.
func (r *request) tokenFilter(q *query) func(*ledger.Token) bool {
	kind, byKind := q.last("type")
	byKind = byKind && !strings.EqualFold(kind, "all")
	name, byName := q.last("name")
	wanted, byKey := q.last("publickey")
	key := publicKey(wanted)
	holders := q.bounds("account.id", r.party)
	_, byHolder := q.last("account.id")
	return func(t *ledger.Token) bool {
		switch {
		case byKind && !strings.EqualFold(kind, typeOf(t)),
			byName && !strings.Contains(strings.ToLower(t.Name), strings.ToLower(name)):
			return false
		case byKey:
			if k := keyOf(t.Keys.Admin); k == nil || k.Key != key {
				return false
			}
		}
		if !byHolder {
			return true
		}
		for holder := range r.view.Holders(t.ID, false) {
			if holders.allows(holder.Account.Num) {
				return true
			}
		}
		return false
	}
}

func isText(op operator, v string) bool { return op == eq && len(v) >= 1 && len(v) <= 100 }

type tokenBalanceJSON struct {
	TokenID string `json:"token_id"`
	Balance int64  `json:"balance"`
}

// tokenBalances lists what an account has of every token, with a maximum of maxLimit.
func tokenBalances(v *ledger.View, account hedera.ID) []tokenBalanceJSON {
	list := []tokenBalanceJSON{}
	for rel := range v.Relations(account, false) {
		if len(list) == maxLimit {
			break
		}
		list = append(list, tokenBalanceJSON{rel.Token.String(), rel.Balance})
	}
	return list
}

type relationshipJSON struct {
	AutomaticAssociation bool    `json:"automatic_association"`
	Balance              int64   `json:"balance"`
	CreatedTimestamp     *string `json:"created_timestamp"`
	Decimals             int64   `json:"decimals"`
	FreezeStatus         string  `json:"freeze_status"`
	KYCStatus            string  `json:"kyc_status"`
	TokenID              string  `json:"token_id"`
}

// listRelationships answers accounts/{id}/tokens.
func listRelationships(r *request) (any, error) {
	q, err := r.query(params{"token.id": isParty}, ascending)
	if err != nil {
		return nil, err
	}
	a, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	ids := q.bounds("token.id", tokenNumber)
	out := struct {
		Tokens []relationshipJSON `json:"tokens"`
		paged
	}{Tokens: []relationshipJSON{}}
	var last int64
	for rel := range r.view.Relations(a.ID, q.desc) {
		t, known := r.view.Token(rel.Token)
		if !known || !ids.allows(rel.Token.Num) {
			continue
		}
		last = rel.Token.Num
		if out.Tokens = append(out.Tokens, relationshipOf(rel, &t)); len(out.Tokens) == q.limit {
			break
		}
	}
	full := len(out.Tokens) == q.limit && !ids.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "token.id", value: hedera.Entity(last).String()})
	return out, nil
}

func relationshipOf(rel *ledger.Relation, t *ledger.Token) relationshipJSON {
	out := relationshipJSON{
		AutomaticAssociation: rel.Automatic, Balance: rel.Balance, CreatedTimestamp: timeText(rel.Created),
		Decimals: int64(t.Decimals), FreezeStatus: "NOT_APPLICABLE", KYCStatus: "NOT_APPLICABLE", TokenID: rel.Token.String(),
	}
	if t.Keys.Freeze != nil {
		out.FreezeStatus = map[bool]string{true: "FROZEN", false: "UNFROZEN"}[rel.Frozen]
	}
	if t.Keys.KYC != nil {
		out.KYCStatus = map[bool]string{true: "GRANTED", false: "REVOKED"}[rel.KYC]
	}
	return out
}

type holderJSON struct {
	Account  string `json:"account"`
	Balance  int64  `json:"balance"`
	Decimals int64  `json:"decimals"`
}

// listHolders answers tokens/{tokenId}/balances.
func listHolders(r *request) (any, error) {
	q, err := r.query(params{
		"account.balance": isCount, "account.id": isParty, "account.publickey": isPublicKey, "timestamp": isTime,
	}, descending)
	if err != nil {
		return nil, err
	}
	r.view = r.asOf(q.timestamps())
	num, err := r.tokenNumber()
	if err != nil {
		return nil, err
	}
	out := struct {
		Timestamp *string      `json:"timestamp"`
		Balances  []holderJSON `json:"balances"`
		paged
	}{Balances: []holderJSON{}}
	t, known := r.view.Token(hedera.Entity(num))
	if !known {
		return out, nil
	}
	out.Timestamp = timeText(r.view.Time())
	ids, amounts := q.bounds("account.id", r.party), q.bounds("account.balance", parseCount)
	wanted, byKey := q.last("account.publickey")
	var last int64
	for rel := range r.view.Holders(t.ID, q.desc) {
		if !ids.allows(rel.Account.Num) || !amounts.allows(rel.Balance) || byKey && !r.hasKey(rel.Account, wanted) {
			continue
		}
		last = rel.Account.Num
		out.Balances = append(out.Balances, holderJSON{rel.Account.String(), rel.Balance, int64(t.Decimals)})
		if len(out.Balances) == q.limit {
			break
		}
	}
	full := len(out.Balances) == q.limit && !ids.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "account.id", value: hedera.Entity(last).String()})
	return out, nil
}

func (r *request) hasKey(account hedera.ID, wanted string) bool {
	a, known := r.view.Account(account)
	k := keyOf(a.Key)
	return known && k != nil && k.Key == publicKey(wanted)
}
