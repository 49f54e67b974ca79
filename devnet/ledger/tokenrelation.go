package ledger

import (
	"math"
	"slices"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func (h *handling) relation(account, token int64) *state.Relation {
	return h.o.Relations.Get(state.RelationKey{Account: account, Token: token})
}

// associate makes the relation of an account with a token.
func (h *handling) associate(t *state.Token, account int64, automatic bool) {
	isTreasury := account == t.Treasury.Num
	h.o.SetRelation(account, t.ID.Num, &state.Relation{
		Account: hedera.Entity(account), Token: t.ID, Automatic: automatic, Created: h.r.Consensus,
		Frozen: t.FreezeDefault && !isTreasury, KYC: t.Keys.KYC == nil || isTreasury,
	})
}

// associateByTransfer makes the relation if the account has a slot for it left.
func (h *handling) associateByTransfer(t *state.Token, a *state.Party) hedera.Status {
	limit := int32(-1)
	if m := a.CurrentMeta(); m != nil {
		limit = m.MaxAutoAssociations
	}
	switch {
	case limit == 0:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case limit > 0 && h.automatic(a) >= limit:
		return hapi.ResponseCodeEnum_NO_REMAINING_AUTOMATIC_ASSOCIATIONS
	}
	h.associate(t, h.numberOf(a), true)
	did := h.did()
	did.Associations = append(did.Associations, history.Association{Token: t.ID, Account: hedera.Entity(a.Num)})
	return okay
}

// automatic counts the associations of an account that transfers made.
func (h *handling) automatic(a *state.Party) (n int32) {
	for _, r := range h.o.Relations.Rows(state.RelationKey{Account: a.Num, Token: 0}, state.RelationKey{Account: a.Num, Token: state.Last}) {
		if r.Automatic {
			n++
		}
	}
	return n
}

// numberOf gives an account that the transaction creates its number.
func (h *handling) numberOf(a *state.Party) int64 {
	return h.o.Number(a)
}

// mayHold checks that an account may have its balance of a token changed.
func (h *handling) mayHold(t *state.Token, account int64) hedera.Status {
	r := h.relation(account, t.ID.Num)
	switch {
	case r == nil:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case r.Frozen && t.Keys.Freeze != nil:
		return hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN
	case !r.KYC && t.Keys.KYC != nil:
		return hapi.ResponseCodeEnum_ACCOUNT_KYC_NOT_GRANTED_FOR_TOKEN
	}
	return okay
}

// adjust changes the balance of a fungible token.
func (h *handling) adjust(t *state.Token, account, amount int64, approval bool) hedera.Status {
	if status := h.mayHold(t, account); status != okay {
		return status
	}
	r := *h.relation(account, t.ID.Num)
	switch {
	case amount < 0 && r.Balance < -amount:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
	case amount > 0 && r.Balance > math.MaxInt64-amount:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
	}
	if r.Balance += amount; amount != 0 {
		h.o.SetRelation(account, t.ID.Num, &r)
	}
	did := h.did()
	did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: r.Account, Amount: amount, Approval: approval})
	return okay
}

// count changes the number of NFTs that an account owns.
func (h *handling) count(t *state.Token, account, n int64) {
	if r := h.relation(account, t.ID.Num); r != nil {
		changed := *r
		changed.Balance += n
		h.o.SetRelation(account, t.ID.Num, &changed)
	}
}

// moveNFT changes the owner of an NFT.
func (h *handling) moveNFT(t *state.Token, nft *state.NFT, to int64, approval bool) hedera.Status {
	from := nft.Owner.Num
	for _, account := range []int64{from, to} {
		if status := h.mayHold(t, account); status != okay {
			return status
		}
	}
	moved := *nft
	moved.Owner, moved.Spender, moved.Delegating, moved.Modified = hedera.Entity(to), hedera.ID{}, hedera.ID{}, h.r.Consensus
	h.o.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: nft.Serial}, &moved)
	h.count(t, from, -1)
	h.count(t, to, 1)
	did := h.did()
	did.NFTs = append(did.NFTs, history.NFTTransfer{
		Token: t.ID, Serial: nft.Serial, Sender: hedera.Entity(from), Receiver: hedera.Entity(to), Approval: approval,
	})
	return okay
}

// holding names an account and a token.
type holding interface {
	GetToken() *hapi.TokenID
	GetAccount() *hapi.AccountID
}

// someTokens names an account and tokens.
type someTokens interface {
	GetAccount() *hapi.AccountID
	GetTokens() []*hapi.TokenID
}

func pureAssociate[B someTokens](body B) hedera.Status {
	if body.GetAccount() == nil {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	var seen []int64
	for _, id := range body.GetTokens() {
		if slices.Contains(seen, id.GetTokenNum()) {
			return hapi.ResponseCodeEnum_TOKEN_ID_REPEATED_IN_TOKEN_LIST
		}
		seen = append(seen, id.GetTokenNum())
	}
	return okay
}

func (h *handling) tokenAssociate(body *hapi.TokenAssociateTransactionBody) hedera.Status {
	return h.eachToken(body, func(a *state.Party, id *hapi.TokenID) hedera.Status {
		t, status := h.usable(id)
		switch {
		case status != okay:
			return status
		case h.relation(a.Num, t.ID.Num) != nil:
			return hapi.ResponseCodeEnum_TOKEN_ALREADY_ASSOCIATED_TO_ACCOUNT
		}
		h.associate(t, a.Num, false)
		return okay
	})
}

// tokenDissociate ends relations. Of a deleted token, what is left of a balance goes with it.
func (h *handling) tokenDissociate(body *hapi.TokenDissociateTransactionBody) hedera.Status {
	return h.eachToken(body, func(a *state.Party, id *hapi.TokenID) hedera.Status {
		t := h.o.Tokens.Get(tokenNum(id))
		r := h.relation(a.Num, tokenNum(id))
		switch {
		case t == nil:
			return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		case r == nil:
			return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
		case t.Paused && !t.Deleted:
			return hapi.ResponseCodeEnum_TOKEN_IS_PAUSED
		case t.Treasury.Num == a.Num && !t.Deleted:
			return hapi.ResponseCodeEnum_ACCOUNT_IS_TREASURY
		case r.Frozen && t.Keys.Freeze != nil && !t.Deleted:
			return hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN
		case r.Balance != 0 && t.NonFungible && !t.Deleted:
			return hapi.ResponseCodeEnum_ACCOUNT_STILL_OWNS_NFTS
		case r.Balance != 0 && !t.Deleted:
			return hapi.ResponseCodeEnum_TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES
		}
		h.dissolve(t, a.Num, r)
		return okay
	})
}

// eachToken changes the relations of an account that agrees to some tokens.
func (h *handling) eachToken(of someTokens, change func(*state.Party, *hapi.TokenID) hedera.Status) hedera.Status {
	a, status := h.party(of.GetAccount())
	switch {
	case status != okay:
		return status
	case !h.signedBy(a):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, id := range of.GetTokens() {
		if status := change(a, id); status != okay {
			return status
		}
	}
	h.r.Entity = hedera.Entity(a.Num)
	return okay
}

// dissolve ends a relation, with the balance where there is one.
func (h *handling) dissolve(t *state.Token, account int64, r *state.Relation) {
	if r.Balance != 0 {
		changed := *t
		changed.Supply -= r.Balance
		h.o.Tokens.Set(t.ID.Num, &changed)
	}
	switch {
	case r.Balance != 0 && t.NonFungible:
		for _, nft := range h.o.NFTs.Rows(state.NFTKey{Token: t.ID.Num, Serial: 0}, state.NFTKey{Token: t.ID.Num, Serial: state.Last}) {
			if nft.Owner.Num == account && !nft.Deleted {
				h.end(t, nft)
			}
		}
	case r.Balance != 0:
		did := h.did()
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: r.Account, Amount: -r.Balance})
	}
	h.o.SetRelation(account, t.ID.Num, nil)
}

// tokenFreeze sets whether an account's balance may change. What is frozen can only be thawed.
func (h *handling) tokenFreeze(of holding, frozen bool) hedera.Status {
	t, status := h.keyedToken(of.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.Freeze }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY)
	if status != okay {
		return status
	}
	r, status := h.supervised(t, of.GetAccount(), frozen)
	if status != okay {
		return status
	}
	changed := *r
	changed.Frozen = frozen
	h.o.SetRelation(r.Account.Num, t.ID.Num, &changed)
	return okay
}

// tokenKYC grants or revokes what a token with a KYC key asks of holders.
func (h *handling) tokenKYC(of holding, granted bool) hedera.Status {
	if t := h.o.Tokens.Get(tokenNum(of.GetToken())); t != nil && t.Keys.KYC == nil {
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY // of a token that is paused or deleted, too
	}
	t, status := h.keyedToken(of.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.KYC }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY)
	if status != okay {
		return status
	}
	r, status := h.supervised(t, of.GetAccount(), true)
	if status != okay {
		return status
	}
	changed := *r
	changed.KYC = granted
	h.o.SetRelation(r.Account.Num, t.ID.Num, &changed)
	return okay
}

// supervised finds the relation that a key of the token decides about.
func (h *handling) supervised(t *state.Token, account *hapi.AccountID, thawed bool) (*state.Relation, hedera.Status) {
	a, status := h.party(account)
	if status != okay {
		return nil, status
	}
	r := h.relation(a.Num, t.ID.Num)
	switch {
	case r == nil:
		return nil, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case thawed && r.Frozen && t.Keys.Freeze != nil:
		return nil, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN
	}
	h.r.Entity = t.ID
	return r, okay
}
