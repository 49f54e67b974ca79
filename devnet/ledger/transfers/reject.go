package transfers

import (
	"slices"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const MaxRejections = 10 // in one transaction

func pureReject(body *hapi.TokenRejectTransactionBody) hedera.Status {
	list := body.GetRejections()
	if len(list) == 0 {
		return hapi.ResponseCodeEnum_EMPTY_TOKEN_REFERENCE_LIST
	}
	for i, ref := range list {
		nft := ref.GetNft()
		switch {
		case ref.GetTokenIdentifier() == nil:
			return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		case nft != nil && nft.GetToken_ID() == nil:
			return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		case nft != nil && nft.GetSerialNumber() <= 0:
			return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
		case slices.ContainsFunc(list[:i], func(other *hapi.TokenReference) bool { return sameReference(ref, other) }):
			return hapi.ResponseCodeEnum_TOKEN_REFERENCE_REPEATED
		}
	}
	return okay
}

func sameReference(a, b *hapi.TokenReference) bool {
	return a.GetFungibleToken().GetTokenNum() == b.GetFungibleToken().GetTokenNum() &&
		a.GetNft().GetToken_ID().GetTokenNum() == b.GetNft().GetToken_ID().GetTokenNum() &&
		a.GetNft().GetSerialNumber() == b.GetNft().GetSerialNumber()
}

// tokenReject sends what an owner does not want back to the treasury: all of a fungible
// token, or single NFTs. No custom fees are due, the treasury is not asked, and the relation
// stays.
func tokenReject(h *core.Handling, body *hapi.TokenRejectTransactionBody) hedera.Status {
	owner := h.State.EntityAccount(h.Sub.Payer.Num)
	if body.GetOwner().GetAccount() != nil {
		owner = h.Resolve(body.GetOwner())
	}
	switch {
	case owner == nil || !owner.Exists && !owner.Deleted():
		return hapi.ResponseCodeEnum_INVALID_OWNER_ID
	case !h.SignedBy(owner):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case len(body.GetRejections()) > MaxRejections:
		return hapi.ResponseCodeEnum_TOKEN_REFERENCE_LIST_SIZE_LIMIT_EXCEEDED
	case owner.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	}
	for _, ref := range body.GetRejections() {
		id := ref.GetFungibleToken()
		if nft := ref.GetNft(); nft != nil {
			id = nft.GetToken_ID()
		}
		t, status := tokens.Usable(h, id)
		if status != okay {
			return status
		}
		if status := rejectOne(h, t, owner.Num, ref.GetNft()); status != okay {
			return status
		}
	}
	h.Did().Sorted()
	return okay
}

// rejectOne sends back one NFT, or all that an owner has of a fungible token.
func rejectOne(h *core.Handling, t *state.Token, owner int64, one *hapi.NftID) hedera.Status {
	r := tokens.Relation(h, owner, t.ID.Num)
	switch {
	case owner == t.Treasury.Num:
		return hapi.ResponseCodeEnum_ACCOUNT_IS_TREASURY
	case one != nil && !t.NonFungible:
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	case one == nil && t.NonFungible:
		return hapi.ResponseCodeEnum_ACCOUNT_AMOUNT_TRANSFERS_ONLY_ALLOWED_FOR_FUNGIBLE_COMMON
	case r == nil:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	}
	if one == nil {
		if r.Balance == 0 {
			return hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
		}
		if status := tokens.Adjust(h, t, owner, -r.Balance, false); status != okay {
			return status
		}
		return tokens.Adjust(h, t, t.Treasury.Num, r.Balance, false)
	}
	nft := h.State.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: one.GetSerialNumber()})
	switch {
	case nft == nil || nft.Deleted:
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	case nft.Owner.Num != owner:
		return hapi.ResponseCodeEnum_INVALID_OWNER_ID
	}
	return tokens.MoveNFT(h, t, nft, t.Treasury.Num, false)
}
