package ledger

import (
	"math"
	"slices"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func pureMint(body *hapi.TokenMintTransactionBody) hedera.Status {
	switch {
	case body.GetToken() == nil:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	case body.GetAmount() > 0 && len(body.GetMetadata()) > 0:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	case body.GetAmount() > math.MaxInt64:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_AMOUNT
	}
	return okay
}

func pureBurn(body *hapi.TokenBurnTransactionBody) hedera.Status {
	return pureSupply(body, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT)
}

func pureWipe(body *hapi.TokenWipeAccountTransactionBody) hedera.Status {
	if body.GetAccount() == nil {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	return pureSupply(body, hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT)
}

// pureSupply checks what a body takes from a supply.
func pureSupply(body interface {
	GetToken() *hapi.TokenID
	GetAmount() uint64
	GetSerialNumbers() []int64
}, invalid hedera.Status,
) hedera.Status {
	switch {
	case body.GetToken() == nil:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	case body.GetAmount() > math.MaxInt64:
		return invalid
	case body.GetAmount() > 0 && len(body.GetSerialNumbers()) > 0:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	case slices.ContainsFunc(body.GetSerialNumbers(), func(serial int64) bool { return serial <= 0 }):
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	}
	return okay
}

func supplyKey(k *state.TokenKeys) *hapi.Key { return k.Supply }

// tokenMint adds to the supply, in the treasury. Metadata mint nothing of a fungible token.
func (h *handling) tokenMint(body *hapi.TokenMintTransactionBody) hedera.Status {
	old, status := h.keyedToken(body.GetToken(), supplyKey, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY)
	if status != okay {
		return status
	}
	t := *old
	if t.NonFungible {
		return h.mintNFTs(&t, body.GetMetadata())
	}
	amount := int64(body.GetAmount())
	switch {
	case amount > math.MaxInt64-t.Supply:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_AMOUNT
	case t.MaxSupply > 0 && t.Supply+amount > t.MaxSupply:
		return hapi.ResponseCodeEnum_TOKEN_MAX_SUPPLY_REACHED
	}
	t.Supply += amount
	return h.changeSupply(&t, t.Treasury.Num, amount)
}

// changeSupply writes a token with its new supply and the balance that came of it.
func (h *handling) changeSupply(t *state.Token, account, amount int64) hedera.Status {
	h.putToken(t)
	h.did().TokenSupply = t.Supply
	return h.adjust(t, account, amount, false)
}

func (h *handling) mintNFTs(t *state.Token, metadata [][]byte) hedera.Status {
	switch {
	case len(metadata) == 0:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_METADATA
	case len(metadata) > maxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	case t.MaxSupply > 0 && t.Supply+int64(len(metadata)) > t.MaxSupply:
		return hapi.ResponseCodeEnum_TOKEN_MAX_SUPPLY_REACHED
	case slices.ContainsFunc(metadata, func(m []byte) bool { return len(m) > maxTokenMetadata }):
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	}
	if status := h.mayHold(t, t.Treasury.Num); status != okay {
		return status
	}
	did := h.did()
	for _, m := range metadata {
		t.LastSerial++
		t.Supply++
		h.o.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: t.LastSerial}, &state.NFT{
			Token: t.ID, Serial: t.LastSerial, Owner: t.Treasury, Metadata: m,
			Created: h.r.Consensus, Modified: h.r.Consensus,
		})
		did.Serials = append(did.Serials, t.LastSerial)
		did.NFTs = append(did.NFTs, history.NFTTransfer{Token: t.ID, Serial: t.LastSerial, Receiver: t.Treasury})
	}
	h.count(t, t.Treasury.Num, int64(len(metadata)))
	did.TokenSupply = t.Supply
	h.putToken(t)
	return okay
}

// tokenBurn takes from the supply what is in the treasury. Serial numbers burn nothing of a fungible token.
func (h *handling) tokenBurn(body *hapi.TokenBurnTransactionBody) hedera.Status {
	old, status := h.keyedToken(body.GetToken(), supplyKey, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY)
	if status != okay {
		return status
	}
	t := *old
	if t.NonFungible {
		if status := h.mayHold(&t, t.Treasury.Num); status != okay {
			return status
		}
		return h.destroy(&t, t.Treasury.Num, body.GetSerialNumbers(), hapi.ResponseCodeEnum_TREASURY_MUST_OWN_BURNED_NFT, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_METADATA)
	}
	if body.GetAmount() > uint64(t.Supply) {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT
	}
	t.Supply -= int64(body.GetAmount())
	return h.changeSupply(&t, t.Treasury.Num, -int64(body.GetAmount()))
}

// tokenWipe takes from the supply what an account holds.
func (h *handling) tokenWipe(body *hapi.TokenWipeAccountTransactionBody) hedera.Status {
	old, status := h.keyedToken(body.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.Wipe }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_WIPE_KEY)
	if status != okay {
		return status
	}
	a, status := h.party(body.GetAccount())
	if status != okay {
		return status
	}
	if status := h.mayHold(old, a.Num); status != okay {
		return status
	}
	r := h.relation(a.Num, old.ID.Num)
	t := *old
	switch {
	case a.Num == t.Treasury.Num:
		return hapi.ResponseCodeEnum_CANNOT_WIPE_TOKEN_TREASURY_ACCOUNT
	case t.NonFungible:
		return h.destroy(&t, a.Num, body.GetSerialNumbers(), hapi.ResponseCodeEnum_ACCOUNT_DOES_NOT_OWN_WIPED_NFT, hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT)
	case body.GetAmount() > uint64(r.Balance):
		return hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT
	}
	t.Supply -= int64(body.GetAmount())
	changed := *r
	changed.Balance -= int64(body.GetAmount())
	h.o.SetRelation(a.Num, t.ID.Num, &changed)
	did := h.did()
	did.TokenSupply = t.Supply
	if body.GetAmount() > 0 {
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: hedera.Entity(a.Num), Amount: -int64(body.GetAmount())})
	}
	h.putToken(&t)
	return okay
}

// destroy ends NFTs of one owner. It is the same to name one twice.
func (h *handling) destroy(t *state.Token, owner int64, serials []int64, foreign, none hedera.Status) hedera.Status {
	serials = slices.Compact(slices.Sorted(slices.Values(serials)))
	switch {
	case len(serials) == 0:
		return none
	case len(serials) > maxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	}
	for _, serial := range serials {
		nft := h.o.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial})
		switch {
		case nft == nil || nft.Deleted:
			return hapi.ResponseCodeEnum_INVALID_NFT_ID
		case nft.Owner.Num != owner:
			return foreign
		}
		h.end(t, nft)
		t.Supply--
	}
	h.count(t, owner, -int64(len(serials)))
	h.did().TokenSupply = t.Supply
	h.putToken(t)
	return okay
}

// end takes an NFT away from its owner for good.
func (h *handling) end(t *state.Token, nft *state.NFT) {
	gone := *nft
	gone.Deleted, gone.Owner, gone.Spender, gone.Delegating, gone.Modified = true, hedera.ID{}, hedera.ID{}, hedera.ID{}, h.r.Consensus
	h.o.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: nft.Serial}, &gone)
	did := h.did()
	did.NFTs = append(did.NFTs, history.NFTTransfer{Token: t.ID, Serial: nft.Serial, Sender: nft.Owner})
}

// tokenUpdateNFTs replaces the metadata of NFTs. The supply key may do so for those in
// the treasury.
func (h *handling) tokenUpdateNFTs(body *hapi.TokenUpdateNftsTransactionBody) hedera.Status {
	t, status := h.usable(body.GetToken())
	if status != okay {
		return status
	}
	byMetadata := t.Keys.Metadata != nil && h.signed(t.Keys.Metadata)
	bySupply := t.Keys.Supply != nil && h.signed(t.Keys.Supply)
	switch {
	case len(body.GetSerialNumbers()) == 0:
		return hapi.ResponseCodeEnum_MISSING_SERIAL_NUMBERS
	case len(body.GetSerialNumbers()) > maxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	case len(body.GetMetadata().GetValue()) > maxTokenMetadata:
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	case t.Keys.Metadata == nil && t.Keys.Supply == nil:
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_METADATA_OR_SUPPLY_KEY
	case !byMetadata && !bySupply:
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, serial := range body.GetSerialNumbers() {
		nft := h.o.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial})
		switch {
		case nft == nil || nft.Deleted:
			return hapi.ResponseCodeEnum_INVALID_NFT_ID
		case !byMetadata && nft.Owner != t.Treasury:
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case body.GetMetadata() == nil:
			continue
		}
		changed := *nft
		changed.Metadata, changed.Modified = body.GetMetadata().GetValue(), h.r.Consensus
		h.o.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: serial}, &changed)
	}
	h.r.Entity = t.ID
	return okay
}
