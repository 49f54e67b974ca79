package mirrorrest

import (
	"iter"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	fungible    = "FUNGIBLE_COMMON"
	nonFungible = "NON_FUNGIBLE_UNIQUE"
)

func typeOf(t *state.Token) string {
	if t.NonFungible {
		return nonFungible
	}
	return fungible
}

func tokenOf(t *state.Token) object {
	out := object{
		"admin_key": keyOf(t.Keys.Admin), "auto_renew_account": idText(t.AutoRenewAccount), "auto_renew_period": positive(t.AutoRenewPeriod),
		"created_timestamp": timeText(t.Created), "custom_fees": customFeesOf(t), "decimals": decimal(int64(t.Decimals)),
		"deleted": t.Deleted, "expiry_timestamp": t.Expires.UnixNano(), "fee_schedule_key": keyOf(t.Keys.FeeSchedule),
		"freeze_default": t.FreezeDefault, "freeze_key": keyOf(t.Keys.Freeze), "initial_supply": decimal(t.Initial),
		"kyc_key": keyOf(t.Keys.KYC), "max_supply": decimal(t.MaxSupply), "memo": t.Memo, "metadata": base64Text(t.Metadata),
		"metadata_key": keyOf(t.Keys.Metadata), "modified_timestamp": timeText(t.Modified), "name": t.Name, "pause_key": keyOf(t.Keys.Pause),
		"pause_status": "NOT_APPLICABLE", "supply_key": keyOf(t.Keys.Supply), "supply_type": "INFINITE", "symbol": t.Symbol,
		"token_id": t.ID.String(), "total_supply": decimal(t.Supply), "treasury_account_id": t.Treasury.String(), "type": typeOf(t),
		"wipe_key": keyOf(t.Keys.Wipe),
	}
	if t.MaxSupply > 0 {
		out["supply_type"] = "FINITE"
	}
	if t.Keys.Pause != nil {
		out["pause_status"] = map[bool]string{true: "PAUSED", false: "UNPAUSED"}[t.Paused]
	}
	return out
}

// customFeesOf lists fixed fees, and besides those the fees that only a token of its type has.
func customFeesOf(t *state.Token) object {
	fixed, fractional, royalties := []any{}, []any{}, []any{}
	for _, fee := range t.Fees {
		out := object{
			"all_collectors_are_exempt": fee.GetAllCollectorsAreExempt(),
			"collector_account_id":      hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()).String(),
		}
		switch kind := fee.GetFee().(type) {
		case *hapi.CustomFee_FixedFee:
			out["amount"], out["denominating_token_id"] = kind.FixedFee.GetAmount(), denomination(kind.FixedFee)
			fixed = append(fixed, out)
		case *hapi.CustomFee_FractionalFee:
			f := kind.FractionalFee
			out["amount"], out["denominating_token_id"] = fractionOf(f.GetFractionalAmount()), t.ID.String()
			out["maximum"], out["minimum"], out["net_of_transfers"] = positive(f.GetMaximumAmount()), f.GetMinimumAmount(), f.GetNetOfTransfers()
			fractional = append(fractional, out)
		case *hapi.CustomFee_RoyaltyFee:
			out["amount"], out["fallback_fee"] = fractionOf(kind.RoyaltyFee.GetExchangeValueFraction()), nil
			if fallback := kind.RoyaltyFee.GetFallbackFee(); fallback != nil {
				out["fallback_fee"] = object{"amount": fallback.GetAmount(), "denominating_token_id": denomination(fallback)}
			}
			royalties = append(royalties, out)
		}
	}
	out := object{"created_timestamp": t.FeesSince.String(), "fixed_fees": fixed}
	if t.NonFungible {
		out["royalty_fees"] = royalties
	} else {
		out["fractional_fees"] = fractional
	}
	return out
}

func fractionOf(f *hapi.Fraction) object {
	return object{"numerator": f.GetNumerator(), "denominator": f.GetDenominator()}
}

func denomination(f *hapi.FixedFee) *string {
	if f.GetDenominatingTokenId() == nil {
		return nil
	}
	return new(hedera.Entity(f.GetDenominatingTokenId().GetTokenNum()).String())
}

// tokenArg finds the token that the path names.
func (r *request) tokenArg() (state.Token, error) {
	num, err := r.tokenNumber()
	if err != nil {
		return state.Token{}, err
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
func getToken(r *request, q *query) (any, error) {
	r.view = r.asOf(q.timestamps())
	t, err := r.tokenArg()
	if err != nil {
		return nil, err
	}
	return tokenOf(&t), nil
}

// listTokens answers tokens.
func listTokens(r *request, q *query) (any, error) {
	ids := q.bounds("token.id", tokenNumber)
	allows := r.tokenFilter(q)
	low, high := ids.span()
	return list(r, q, "tokens", where(r.view.Tokens(low, high, q.desc), allows), func(t *state.Token) any {
		return object{
			"admin_key": keyOf(t.Keys.Admin), "decimals": t.Decimals, "metadata": base64Text(t.Metadata),
			"name": t.Name, "symbol": t.Symbol, "token_id": t.ID.String(), "type": typeOf(t),
		}
	}, byID("token.id", tokenNumber, func(t *state.Token) hedera.ID { return t.ID })), nil
}

// tokenFilter is the filters of the list of tokens other than those on their ids.
func (r *request) tokenFilter(q *query) func(*state.Token) bool {
	kind, byKind := q.last("type")
	byKind = byKind && !strings.EqualFold(kind, "all")
	name, byName := q.last("name")
	wanted, byKey := q.last("publickey")
	holders := q.bounds("account.id", r.party)
	_, byHolder := q.last("account.id")
	return func(t *state.Token) bool {
		switch {
		case byKind && !strings.EqualFold(kind, typeOf(t)),
			byName && !strings.Contains(strings.ToLower(t.Name), strings.ToLower(name)),
			byKey && !isKey(t.Keys.Admin, wanted):
			return false
		case !byHolder:
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

// tokenBalances lists what an account has of every token, with a maximum of maxLimit.
func tokenBalances(v *ledger.View, account hedera.ID) []any {
	list := []any{}
	for rel := range v.Relations(account, false) {
		if len(list) == maxLimit {
			break
		}
		list = append(list, object{"token_id": rel.Token.String(), "balance": rel.Balance})
	}
	return list
}

// listRelationships answers accounts/{id}/tokens.
func listRelationships(r *request, q *query, a state.Account) (any, error) {
	return list(r, q, "tokens", r.view.Relations(a.ID, q.desc), r.relationshipOf,
		byID("token.id", tokenNumber, func(rel *state.Relation) hedera.ID { return rel.Token })), nil
}

func (r *request) relationshipOf(rel *state.Relation) any {
	t, _ := r.view.Token(rel.Token)
	out := object{
		"automatic_association": rel.Automatic, "balance": rel.Balance, "created_timestamp": timeText(rel.Created),
		"decimals": t.Decimals, "freeze_status": "NOT_APPLICABLE", "kyc_status": "NOT_APPLICABLE", "token_id": rel.Token.String(),
	}
	if t.Keys.Freeze != nil {
		out["freeze_status"] = map[bool]string{true: "FROZEN", false: "UNFROZEN"}[rel.Frozen]
	}
	if t.Keys.KYC != nil {
		out["kyc_status"] = map[bool]string{true: "GRANTED", false: "REVOKED"}[rel.KYC]
	}
	return out
}

// listHolders answers tokens/{tokenId}/balances.
func listHolders(r *request, q *query) (any, error) {
	r.view = r.asOf(q.timestamps())
	num, err := r.tokenNumber()
	if err != nil {
		return nil, err
	}
	t, known := r.view.Token(hedera.Entity(num))
	amounts := q.bounds("account.balance", parseCount)
	wanted, byKey := q.last("account.publickey")
	rows := where(r.view.Holders(t.ID, q.desc), func(rel *state.Relation) bool {
		return known && amounts.allows(rel.Balance) && (!byKey || r.hasKey(rel.Account, wanted))
	})
	out := list(r, q, "balances", rows, func(rel *state.Relation) any {
		return object{"account": rel.Account.String(), "balance": rel.Balance, "decimals": t.Decimals}
	}, byID("account.id", r.party, func(rel *state.Relation) hedera.ID { return rel.Account }))
	out["timestamp"] = nil
	if known {
		out["timestamp"] = timeText(r.view.Time())
	}
	return out, nil
}

func (r *request) hasKey(account hedera.ID, wanted string) bool {
	a, known := r.view.Account(account)
	return known && isKey(a.Key, wanted)
}

// nftOf writes an NFT. Those of a deleted token count as deleted.
func nftOf(n *state.NFT, t *state.Token) object {
	return object{
		"account_id": idText(n.Owner), "created_timestamp": timeText(n.Created), "deleted": n.Deleted || t.Deleted,
		"delegating_spender": idText(n.Delegating), "metadata": base64Text(n.Metadata), "modified_timestamp": timeText(n.Modified), "serial_number": n.Serial,
		"spender": idText(n.Spender), "token_id": n.Token.String(),
	}
}

func serials() column[*state.NFT] {
	return byNumber("serialnumber", func(n *state.NFT) int64 { return n.Serial })
}

// listTokenNFTs answers tokens/{tokenId}/nfts.
func listTokenNFTs(r *request, q *query, num int64) (any, error) {
	t, known := r.view.Token(hedera.Entity(num))
	owners, numbers := q.bounds("account.id", r.party), q.bounds("serialnumber", parseCount)
	low, high := numbers.span()
	rows := where(r.view.NFTs(hedera.Entity(num), low, high, q.desc), func(n *state.NFT) bool { return known && owners.allows(n.Owner.Num) })
	return list(r, q, "nfts", rows, func(n *state.NFT) any { return nftOf(n, &t) }, serials()), nil
}

// nftArg finds the NFT that the path names.
func (r *request) nftArg() (state.NFT, error) {
	num, err := r.tokenNumber()
	if err != nil {
		return state.NFT{}, err
	}
	serial, ok := parseCount(r.args[1])
	if !ok || serial == 0 {
		return state.NFT{}, invalidParameter("serialNumber")
	}
	return found(r.view.NFT(hedera.Entity(num), serial))
}

// getNFT answers tokens/{tokenId}/nfts/{serialNumber}.
func getNFT(r *request) (any, error) {
	n, err := r.nftArg()
	if err != nil {
		return nil, err
	}
	t, _ := r.view.Token(n.Token)
	return nftOf(&n, &t), nil
}

// listNFTTransactions answers tokens/{tokenId}/nfts/{serialNumber}/transactions.
func listNFTTransactions(r *request, q *query, n state.NFT) (any, error) {
	times := q.timestamps()
	return list(r, q, "transactions", moves(r.records(&times, q.desc), &n), func(m nftMove) any {
		return object{
			"consensus_timestamp": m.Consensus.String(), "is_approval": m.move.Approval, "nonce": m.ID.Nonce,
			"receiver_account_id": idText(m.move.Receiver), "sender_account_id": idText(m.move.Sender), "transaction_id": m.ID.Mirror(), "type": m.Kind,
		}
	}, byTime(func(m nftMove) hedera.Timestamp { return m.Consensus })), nil
}

// nftMove is what a record says of an NFT.
type nftMove struct {
	*history.Record
	move history.NFTTransfer
}

// moves yields the records that changed an NFT's owner.
func moves(records iter.Seq[*history.Record], n *state.NFT) iter.Seq[nftMove] {
	return func(yield func(nftMove) bool) {
		for rec := range records {
			for _, t := range rec.Did().NFTs {
				if t.Token == n.Token && t.Serial == n.Serial && !yield(nftMove{rec, t}) {
					return
				}
			}
		}
	}
}

// listAccountNFTs answers accounts/{id}/nfts, by token and serial.
func listAccountNFTs(r *request, q *query, a state.Account) (any, error) {
	spenders := q.bounds("spender.id", r.party)
	rows := where(r.owned(a.ID, q.desc), func(n *state.NFT) bool { return spenders.allows(n.Spender.Num) })
	return list(r, q, "nfts", rows, func(n *state.NFT) any {
		t, _ := r.view.Token(n.Token)
		return nftOf(n, &t)
	}, byID("token.id", tokenNumber, func(n *state.NFT) hedera.ID { return n.Token }), serials()), nil
}

// owned yields the NFTs that an account owns.
func (r *request) owned(account hedera.ID, descending bool) iter.Seq[*state.NFT] {
	return func(yield func(*state.NFT) bool) {
		for rel := range r.view.Relations(account, descending) {
			t, known := r.view.Token(rel.Token)
			if !known || !t.NonFungible || rel.Balance == 0 {
				continue
			}
			for n := range r.view.NFTs(t.ID, 1, t.LastSerial, descending) {
				if n.Owner == account && !n.Deleted && !yield(n) {
					return
				}
			}
		}
	}
}

func airdropOf(a *state.Airdrop) any {
	out := object{
		"amount": a.Amount, "receiver_id": a.Receiver.String(), "sender_id": a.Sender.String(), "serial_number": nil,
		"timestamp": rangeJSON{From: a.Since.String()}, "token_id": a.Token.String(),
	}
	if a.Serial != 0 {
		out["serial_number"] = a.Serial
	}
	return out
}

// listOutstandingAirdrops answers accounts/{id}/airdrops/outstanding: what the account sent
// and others have not claimed.
func listOutstandingAirdrops(r *request, q *query) (any, error) {
	return r.airdrops(q, false, "receiver.id", func(a *state.Airdrop) hedera.ID { return a.Receiver })
}

// listPendingAirdrops answers accounts/{id}/airdrops/pending: what the account may claim.
func listPendingAirdrops(r *request, q *query) (any, error) {
	return r.airdrops(q, true, "sender.id", func(a *state.Airdrop) hedera.ID { return a.Sender })
}

// airdrops lists by the other party, the token and the serial number, which is 0 for a
// fungible token.
func (r *request) airdrops(q *query, received bool, party string, other func(*state.Airdrop) hedera.ID) (any, error) {
	account, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	return list(r, q, "airdrops", r.view.Airdrops(account.ID, received, q.desc), airdropOf,
		byID(party, r.party, other), byID("token.id", tokenNumber, func(a *state.Airdrop) hedera.ID { return a.Token }),
		byNumber("serialnumber", func(a *state.Airdrop) int64 { return a.Serial })), nil
}

func allowanceOf(a *state.Allowance) any {
	out := object{
		"amount": a.Amount, "amount_granted": a.Granted, "owner": a.Owner.String(), "spender": a.Spender.String(),
		"timestamp": rangeJSON{From: a.Since.String()},
	}
	if !a.Token.IsZero() {
		out["token_id"] = a.Token.String()
	}
	return out
}

func (r *request) spenders() column[*state.Allowance] {
	return byID("spender.id", r.party, func(a *state.Allowance) hedera.ID { return a.Spender })
}

// listCryptoAllowances answers accounts/{id}/allowances/crypto.
func listCryptoAllowances(r *request, q *query, owner state.Account) (any, error) {
	hbar := where(r.view.Allowances(owner.ID, q.desc), func(a *state.Allowance) bool { return a.Token.IsZero() })
	return list(r, q, "allowances", hbar, allowanceOf, r.spenders()), nil
}

// listTokenAllowances answers accounts/{id}/allowances/tokens, by spender and token.
func listTokenAllowances(r *request, q *query, owner state.Account) (any, error) {
	tokens := where(r.view.Allowances(owner.ID, q.desc), func(a *state.Allowance) bool { return !a.Token.IsZero() })
	return list(r, q, "allowances", tokens, allowanceOf,
		r.spenders(), byID("token.id", tokenNumber, func(a *state.Allowance) hedera.ID { return a.Token })), nil
}

// listNFTAllowances answers accounts/{id}/allowances/nfts: what the account gave, or with
// owner=false what it got.
func listNFTAllowances(r *request, q *query, party state.Account) (any, error) {
	gave := q.flag("owner", true)
	from, other := party.ID, func(a *state.NFTAllowance) hedera.ID { return a.Spender }
	if !gave {
		from, other = hedera.ID{}, func(a *state.NFTAllowance) hedera.ID { return a.Owner }
	}
	rows := where(r.view.NFTAllowances(from, q.desc), func(a *state.NFTAllowance) bool { return a.Approved && (gave || a.Spender == party.ID) })
	return list(r, q, "allowances", rows, func(a *state.NFTAllowance) any {
		return object{
			"approved_for_all": a.Approved, "owner": a.Owner.String(), "spender": a.Spender.String(),
			"timestamp": rangeJSON{From: a.Since.String()}, "token_id": a.Token.String(),
		}
	}, byID("account.id", r.party, other), byID("token.id", tokenNumber, func(a *state.NFTAllowance) hedera.ID { return a.Token })), nil
}
