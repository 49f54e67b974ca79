package tokens

import (
	"math"
	"slices"

	"lockstep/devnet/ledger/core"
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
func tokenMint(h *core.Handling, body *hapi.TokenMintTransactionBody) hedera.Status {
	old, status := keyedToken(h, body.GetToken(), supplyKey, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY)
	if status != okay {
		return status
	}
	t := *old
	if t.NonFungible {
		return mintNFTs(h, &t, body.GetMetadata())
	}
	amount := int64(body.GetAmount())
	switch {
	case amount > math.MaxInt64-t.Supply:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_AMOUNT
	case t.MaxSupply > 0 && t.Supply+amount > t.MaxSupply:
		return hapi.ResponseCodeEnum_TOKEN_MAX_SUPPLY_REACHED
	}
	t.Supply += amount
	return changeSupply(h, &t, t.Treasury.Num, amount)
}

// changeSupply writes a token with its new supply and the balance that came of it.
func changeSupply(h *core.Handling, t *state.Token, account, amount int64) hedera.Status {
	putToken(h, t)
	h.Did().TokenSupply = t.Supply
	return Adjust(h, t, account, amount, false)
}

func mintNFTs(h *core.Handling, t *state.Token, metadata [][]byte) hedera.Status {
	switch {
	case len(metadata) == 0:
		return hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_METADATA
	case len(metadata) > MaxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	case t.MaxSupply > 0 && t.Supply+int64(len(metadata)) > t.MaxSupply:
		return hapi.ResponseCodeEnum_TOKEN_MAX_SUPPLY_REACHED
	case slices.ContainsFunc(metadata, func(m []byte) bool { return len(m) > MaxTokenMetadata }):
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	}
	if status := MayHold(h, t, t.Treasury.Num); status != okay {
		return status
	}
	did := h.Did()
	for _, m := range metadata {
		t.LastSerial++
		t.Supply++
		h.State.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: t.LastSerial}, &state.NFT{
			Token: t.ID, Serial: t.LastSerial, Owner: t.Treasury, Metadata: m,
			Created: h.Record.Consensus, Modified: h.Record.Consensus,
		})
		did.Serials = append(did.Serials, t.LastSerial)
		did.NFTs = append(did.NFTs, history.NFTTransfer{Token: t.ID, Serial: t.LastSerial, Receiver: t.Treasury})
	}
	count(h, t, t.Treasury.Num, int64(len(metadata)))
	did.TokenSupply = t.Supply
	putToken(h, t)
	return okay
}

// tokenBurn takes from the supply what is in the treasury. Serial numbers burn nothing of a fungible token.
func tokenBurn(h *core.Handling, body *hapi.TokenBurnTransactionBody) hedera.Status {
	old, status := keyedToken(h, body.GetToken(), supplyKey, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY)
	if status != okay {
		return status
	}
	t := *old
	if t.NonFungible {
		if status := MayHold(h, &t, t.Treasury.Num); status != okay {
			return status
		}
		return destroy(h, &t, t.Treasury.Num, body.GetSerialNumbers(), hapi.ResponseCodeEnum_TREASURY_MUST_OWN_BURNED_NFT, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_METADATA)
	}
	if body.GetAmount() > uint64(t.Supply) {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT
	}
	t.Supply -= int64(body.GetAmount())
	return changeSupply(h, &t, t.Treasury.Num, -int64(body.GetAmount()))
}

// tokenWipe takes from the supply what an account holds.
func tokenWipe(h *core.Handling, body *hapi.TokenWipeAccountTransactionBody) hedera.Status {
	old, status := keyedToken(h, body.GetToken(), func(k *state.TokenKeys) *hapi.Key { return k.Wipe }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_WIPE_KEY)
	if status != okay {
		return status
	}
	a, status := h.Party(body.GetAccount())
	if status != okay {
		return status
	}
	if status := MayHold(h, old, a.Num); status != okay {
		return status
	}
	r := Relation(h, a.Num, old.ID.Num)
	t := *old
	switch {
	case a.Num == t.Treasury.Num:
		return hapi.ResponseCodeEnum_CANNOT_WIPE_TOKEN_TREASURY_ACCOUNT
	case t.NonFungible:
		return destroy(h, &t, a.Num, body.GetSerialNumbers(), hapi.ResponseCodeEnum_ACCOUNT_DOES_NOT_OWN_WIPED_NFT, hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT)
	case body.GetAmount() > uint64(r.Balance):
		return hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT
	}
	t.Supply -= int64(body.GetAmount())
	changed := *r
	changed.Balance -= int64(body.GetAmount())
	h.State.SetRelation(a.Num, t.ID.Num, &changed)
	did := h.Did()
	did.TokenSupply = t.Supply
	if body.GetAmount() > 0 {
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: hedera.Entity(a.Num), Amount: -int64(body.GetAmount())})
	}
	putToken(h, &t)
	return okay
}

// destroy ends NFTs of one owner. It is the same to name one twice.
func destroy(h *core.Handling, t *state.Token, owner int64, serials []int64, foreign, none hedera.Status) hedera.Status {
	serials = slices.Compact(slices.Sorted(slices.Values(serials)))
	switch {
	case len(serials) == 0:
		return none
	case len(serials) > MaxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	}
	for _, serial := range serials {
		nft := h.State.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial})
		switch {
		case nft == nil || nft.Deleted:
			return hapi.ResponseCodeEnum_INVALID_NFT_ID
		case nft.Owner.Num != owner:
			return foreign
		}
		end(h, t, nft)
		t.Supply--
	}
	count(h, t, owner, -int64(len(serials)))
	h.Did().TokenSupply = t.Supply
	putToken(h, t)
	return okay
}

// end takes an NFT away from its owner for good.
func end(h *core.Handling, t *state.Token, nft *state.NFT) {
	gone := *nft
	gone.Deleted, gone.Owner, gone.Spender, gone.Delegating, gone.Modified = true, hedera.ID{}, hedera.ID{}, hedera.ID{}, h.Record.Consensus
	h.State.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: nft.Serial}, &gone)
	did := h.Did()
	did.NFTs = append(did.NFTs, history.NFTTransfer{Token: t.ID, Serial: nft.Serial, Sender: nft.Owner})
}

// tokenUpdateNFTs replaces the metadata of NFTs. The supply key may do so for those in
// the treasury.
func tokenUpdateNFTs(h *core.Handling, body *hapi.TokenUpdateNftsTransactionBody) hedera.Status {
	t, status := Usable(h, body.GetToken())
	if status != okay {
		return status
	}
	byMetadata := t.Keys.Metadata != nil && h.Signed(t.Keys.Metadata)
	bySupply := t.Keys.Supply != nil && h.Signed(t.Keys.Supply)
	switch {
	case len(body.GetSerialNumbers()) == 0:
		return hapi.ResponseCodeEnum_MISSING_SERIAL_NUMBERS
	case len(body.GetSerialNumbers()) > MaxTokenBatch:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	case len(body.GetMetadata().GetValue()) > MaxTokenMetadata:
		return hapi.ResponseCodeEnum_METADATA_TOO_LONG
	case t.Keys.Metadata == nil && t.Keys.Supply == nil:
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_METADATA_OR_SUPPLY_KEY
	case !byMetadata && !bySupply:
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, serial := range body.GetSerialNumbers() {
		nft := h.State.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial})
		switch {
		case nft == nil || nft.Deleted:
			return hapi.ResponseCodeEnum_INVALID_NFT_ID
		case !byMetadata && nft.Owner != t.Treasury:
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case body.GetMetadata() == nil:
			continue
		}
		changed := *nft
		changed.Metadata, changed.Modified = body.GetMetadata().GetValue(), h.Record.Consensus
		h.State.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: serial}, &changed)
	}
	h.Record.Entity = t.ID
	return okay
}
