package accounts

import (
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const MaxAllowances = 20 // in one transaction

func pureApprove(body *hapi.CryptoApproveAllowanceTransactionBody) hedera.Status {
	if len(body.GetCryptoAllowances())+len(body.GetTokenAllowances())+len(body.GetNftAllowances()) == 0 {
		return hapi.ResponseCodeEnum_EMPTY_ALLOWANCES
	}
	for _, a := range body.GetCryptoAllowances() {
		if a.GetAmount() < 0 {
			return hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT
		}
	}
	for _, a := range body.GetTokenAllowances() {
		if a.GetAmount() < 0 {
			return hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT
		}
	}
	return okay
}

// Grantor finds who gives an allowance, by default the payer, and who gets it. Whoever gets nothing need not exist.
func Grantor(h *core.Handling, owner, spender *hapi.AccountID, nothing bool) (from, to *state.Party, _ hedera.Status) {
	from = h.State.EntityAccount(h.Sub.Payer.Num)
	if owner.GetAccount() != nil && (owner.GetAlias() != nil || owner.GetAccountNum() != 0) {
		if from = h.Resolve(owner); from == nil || !from.Exists {
			return nil, nil, hapi.ResponseCodeEnum_INVALID_ALLOWANCE_OWNER_ID
		}
	}
	to = h.Resolve(spender)
	switch {
	case to == nil || !to.Exists && !nothing:
		return nil, nil, hapi.ResponseCodeEnum_INVALID_ALLOWANCE_SPENDER_ID
	}
	return from, to, okay
}

// cryptoApprove lets spenders spend what is the owners'.
func cryptoApprove(h *core.Handling, body *hapi.CryptoApproveAllowanceTransactionBody) hedera.Status {
	total := len(body.GetCryptoAllowances()) + len(body.GetTokenAllowances())
	for _, a := range body.GetNftAllowances() {
		total += max(1, len(a.GetSerialNumbers()))
	}
	if total > MaxAllowances {
		return hapi.ResponseCodeEnum_MAX_ALLOWANCES_EXCEEDED
	}
	for _, a := range body.GetCryptoAllowances() {
		from, to, status := Grantor(h, a.GetOwner(), a.GetSpender(), a.GetAmount() == 0)
		switch {
		case status != okay:
			return status
		case to == from:
			return hapi.ResponseCodeEnum_SPENDER_ACCOUNT_SAME_AS_OWNER
		case !h.SignedBy(from):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		allow(h, from.Num, to.Num, 0, a.GetAmount())
	}
	for _, a := range body.GetTokenAllowances() {
		if status := approveToken(h, a); status != okay {
			return status
		}
	}
	for _, a := range body.GetNftAllowances() {
		if status := approveNFTs(h, a); status != okay {
			return status
		}
	}
	return okay
}

// allow sets an allowance of hbar or of a fungible token; nothing ends it.
func allow(h *core.Handling, owner, spender, token, amount int64) {
	key := state.AllowanceKey{Owner: owner, Token: token, Spender: spender}
	if amount == 0 {
		h.State.Allowances.Set(key, nil)
		return
	}
	allowance := &state.Allowance{
		Owner: hedera.Entity(owner), Spender: hedera.Entity(spender), Granted: amount, Amount: amount, Since: h.Record.Consensus,
	}
	if token != 0 {
		allowance.Token = hedera.Entity(token)
	}
	h.State.Allowances.Set(key, allowance)
}

// approveToken lets a spender spend units of a token, paused or not. Owners may approve themselves, as in ERC-20.
func approveToken(h *core.Handling, a *hapi.TokenAllowance) hedera.Status {
	from, to, status := Grantor(h, a.GetOwner(), a.GetSpender(), a.GetAmount() == 0)
	if status != okay {
		return status
	}
	t, status := tokens.Token(h, a.GetTokenId())
	switch {
	case status != okay:
		return status
	case t.NonFungible:
		return hapi.ResponseCodeEnum_NFT_IN_FUNGIBLE_TOKEN_ALLOWANCES
	case t.MaxSupply > 0 && a.GetAmount() > t.MaxSupply:
		return hapi.ResponseCodeEnum_AMOUNT_EXCEEDS_TOKEN_MAX_SUPPLY
	case tokens.Relation(h, from.Num, t.ID.Num) == nil:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case !h.SignedBy(from):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	allow(h, from.Num, to.Num, t.ID.Num, a.GetAmount())
	return okay
}

// approveNFTs lets a spender transfer some of an owner's NFTs, or all. Whoever may
// transfer all may hand single ones on.
func approveNFTs(h *core.Handling, a *hapi.NftAllowance) hedera.Status {
	all := a.GetApprovedForAll().GetValue()
	from, to, status := Grantor(h, a.GetOwner(), a.GetSpender(), !all && len(a.GetSerialNumbers()) == 0)
	if status != okay {
		return status
	}
	t, status := tokens.Token(h, a.GetTokenId())
	switch {
	case status != okay:
		return status
	case to == from:
		return hapi.ResponseCodeEnum_SPENDER_ACCOUNT_SAME_AS_OWNER
	case !t.NonFungible:
		return hapi.ResponseCodeEnum_FUNGIBLE_TOKEN_IN_NFT_ALLOWANCES
	case tokens.Relation(h, from.Num, t.ID.Num) == nil:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	}
	delegate, status := mayApprove(h, a, from, t)
	if status != okay {
		return status
	}
	if all := a.GetApprovedForAll(); all != nil && delegate.IsZero() {
		h.State.NFTAllowances.Set(state.AllowanceKey{Owner: from.Num, Token: t.ID.Num, Spender: to.Num}, &state.NFTAllowance{
			Owner: hedera.Entity(from.Num), Spender: hedera.Entity(to.Num), Token: t.ID, Approved: all.GetValue(), Since: h.Record.Consensus,
		})
	}
	for _, serial := range a.GetSerialNumbers() {
		if status := setSpender(h, t, from.Num, serial, hedera.Entity(to.Num), delegate); status != okay {
			return status
		}
	}
	return okay
}

// mayApprove checks that the owner agrees to an allowance, or who may act for it; that one it returns.
func mayApprove(h *core.Handling, a *hapi.NftAllowance, from *state.Party, t *state.Token) (none hedera.ID, _ hedera.Status) {
	delegate := a.GetDelegatingSpender()
	if delegate.GetAccount() == nil || delegate.GetAlias() == nil && delegate.GetAccountNum() == 0 {
		if !h.SignedBy(from) {
			return none, hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		return none, okay
	}
	by := h.Resolve(delegate)
	switch {
	case by == nil || !by.Exists:
		return none, hapi.ResponseCodeEnum_INVALID_DELEGATING_SPENDER
	case a.GetApprovedForAll().GetValue():
		return none, hapi.ResponseCodeEnum_DELEGATING_SPENDER_CANNOT_GRANT_APPROVE_FOR_ALL
	case !h.SignedBy(by):
		return none, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	all := h.State.NFTAllowances.Get(state.AllowanceKey{Owner: from.Num, Token: t.ID.Num, Spender: by.Num})
	if all == nil || !all.Approved {
		return none, hapi.ResponseCodeEnum_DELEGATING_SPENDER_DOES_NOT_HAVE_APPROVE_FOR_ALL
	}
	return hedera.Entity(by.Num), okay
}

// setSpender sets who is approved for one NFT; the zero id ends an approval.
func setSpender(h *core.Handling, t *state.Token, owner, serial int64, spender, delegating hedera.ID) hedera.Status {
	nft := h.State.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial})
	switch {
	case nft == nil || nft.Deleted:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	case nft.Owner.Num != owner:
		return hapi.ResponseCodeEnum_SENDER_DOES_NOT_OWN_NFT_SERIAL_NO
	}
	changed := *nft
	changed.Spender, changed.Delegating, changed.Modified = spender, delegating, h.Record.Consensus
	h.State.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: serial}, &changed)
	return okay
}

// cryptoDeleteAllowance ends approvals of single NFTs.
func cryptoDeleteAllowance(h *core.Handling, body *hapi.CryptoDeleteAllowanceTransactionBody) hedera.Status {
	if len(body.GetNftAllowances()) == 0 {
		return hapi.ResponseCodeEnum_EMPTY_ALLOWANCES
	}
	for _, a := range body.GetNftAllowances() {
		owner := h.State.EntityAccount(h.Sub.Payer.Num)
		if a.GetOwner().GetAccount() != nil {
			if owner = h.Resolve(a.GetOwner()); owner == nil || !owner.Exists {
				return hapi.ResponseCodeEnum_INVALID_ALLOWANCE_OWNER_ID
			}
		}
		t, status := tokens.Token(h, a.GetTokenId())
		switch {
		case status != okay:
			return status
		case !t.NonFungible:
			return hapi.ResponseCodeEnum_FUNGIBLE_TOKEN_IN_NFT_ALLOWANCES
		case len(a.GetSerialNumbers()) == 0:
			return hapi.ResponseCodeEnum_EMPTY_ALLOWANCES
		case !h.SignedBy(owner):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		for _, serial := range a.GetSerialNumbers() {
			if status := setSpender(h, t, owner.Num, serial, hedera.ID{}, hedera.ID{}); status != okay {
				return status
			}
		}
	}
	return okay
}
