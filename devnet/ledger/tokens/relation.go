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

// Relation is an account's relation with a token, nil for none.
func Relation(h *core.Handling, account, token int64) *state.Relation {
	return h.State.Relations.Get(state.RelationKey{Account: account, Token: token})
}

// Associate makes the relation of an account with a token.
func Associate(h *core.Handling, t *state.Token, account int64, automatic bool) {
	isTreasury := account == t.Treasury.Num
	h.State.SetRelation(account, t.ID.Num, &state.Relation{
		Account: hedera.Entity(account), Token: t.ID, Automatic: automatic, Created: h.Record.Consensus,
		Frozen: t.FreezeDefault && !isTreasury, KYC: t.Keys.KYC == nil || isTreasury,
	})
}

// AssociateByTransfer makes the relation if the account has a slot for it left.
func AssociateByTransfer(h *core.Handling, t *state.Token, a *state.Party) hedera.Status {
	limit := int32(-1)
	if m := a.CurrentMeta(); m != nil {
		limit = m.MaxAutoAssociations
	}
	switch {
	case limit == 0:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case limit > 0 && Automatic(h, a) >= limit:
		return hapi.ResponseCodeEnum_NO_REMAINING_AUTOMATIC_ASSOCIATIONS
	}
	Associate(h, t, NumberOf(h, a), true)
	did := h.Did()
	did.Associations = append(did.Associations, history.Association{Token: t.ID, Account: hedera.Entity(a.Num)})
	return okay
}

// Automatic counts the associations of an account that transfers made.
func Automatic(h *core.Handling, a *state.Party) (n int32) {
	for _, r := range h.State.Relations.Rows(state.RelationKey{Account: a.Num, Token: 0}, state.RelationKey{Account: a.Num, Token: state.Last}) {
		if r.Automatic {
			n++
		}
	}
	return n
}

// NumberOf gives an account that the transaction creates its number.
func NumberOf(h *core.Handling, a *state.Party) int64 {
	return h.State.Number(a)
}

// MayHold checks that an account may have its balance of a token changed.
func MayHold(h *core.Handling, t *state.Token, account int64) hedera.Status {
	r := Relation(h, account, t.ID.Num)
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

// Adjust changes the balance of a fungible token.
func Adjust(h *core.Handling, t *state.Token, account, amount int64, approval bool) hedera.Status {
	if status := MayHold(h, t, account); status != okay {
		return status
	}
	r := *Relation(h, account, t.ID.Num)
	switch {
	case amount < 0 && r.Balance < -amount:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
	case amount > 0 && r.Balance > math.MaxInt64-amount:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
	}
	if r.Balance += amount; amount != 0 {
		h.State.SetRelation(account, t.ID.Num, &r)
	}
	did := h.Did()
	did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: r.Account, Amount: amount, Approval: approval})
	return okay
}

// Hand moves units of a fungible token from one account to another.
func Hand(h *core.Handling, t *state.Token, from, to, amount int64) hedera.Status {
	return core.FirstFault(Adjust(h, t, from, -amount, false), Adjust(h, t, to, amount, false))
}

// count changes the number of NFTs that an account owns.
func count(h *core.Handling, t *state.Token, account, n int64) {
	if r := Relation(h, account, t.ID.Num); r != nil {
		changed := *r
		changed.Balance += n
		h.State.SetRelation(account, t.ID.Num, &changed)
	}
}

// MoveNFT changes the owner of an NFT.
func MoveNFT(h *core.Handling, t *state.Token, nft *state.NFT, to int64, approval bool) hedera.Status {
	from := nft.Owner.Num
	for _, account := range []int64{from, to} {
		if status := MayHold(h, t, account); status != okay {
			return status
		}
	}
	moved := *nft
	moved.Owner, moved.Spender, moved.Delegating, moved.Modified = hedera.Entity(to), hedera.ID{}, hedera.ID{}, h.Record.Consensus
	h.State.NFTs.Set(state.NFTKey{Token: t.ID.Num, Serial: nft.Serial}, &moved)
	count(h, t, from, -1)
	count(h, t, to, 1)
	did := h.Did()
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

func tokenAssociate(h *core.Handling, body *hapi.TokenAssociateTransactionBody) hedera.Status {
	return eachToken(h, body, func(a *state.Party, id *hapi.TokenID) hedera.Status {
		t, status := Usable(h, id)
		switch {
		case status != okay:
			return status
		case Relation(h, a.Num, t.ID.Num) != nil:
			return hapi.ResponseCodeEnum_TOKEN_ALREADY_ASSOCIATED_TO_ACCOUNT
		}
		Associate(h, t, a.Num, false)
		return okay
	})
}

// tokenDissociate ends relations. Of a deleted token, what is left of a balance goes with it.
func tokenDissociate(h *core.Handling, body *hapi.TokenDissociateTransactionBody) hedera.Status {
	return eachToken(h, body, func(a *state.Party, id *hapi.TokenID) hedera.Status {
		t := h.State.Tokens.Get(TokenNum(id))
		r := Relation(h, a.Num, TokenNum(id))
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
		dissolve(h, t, a.Num, r)
		return okay
	})
}

// eachToken changes the relations of an account that agrees to some tokens.
func eachToken(h *core.Handling, of someTokens, change func(*state.Party, *hapi.TokenID) hedera.Status) hedera.Status {
	a, status := h.Party(of.GetAccount())
	switch {
	case status != okay:
		return status
	case !h.SignedBy(a):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	for _, id := range of.GetTokens() {
		if status := change(a, id); status != okay {
			return status
		}
	}
	h.Record.Entity = hedera.Entity(a.Num)
	return okay
}

// dissolve ends a relation, with the balance where there is one.
func dissolve(h *core.Handling, t *state.Token, account int64, r *state.Relation) {
	if r.Balance != 0 {
		changed := *t
		changed.Supply -= r.Balance
		h.State.Tokens.Set(t.ID.Num, &changed)
	}
	switch {
	case r.Balance != 0 && t.NonFungible:
		for _, nft := range h.State.NFTs.Rows(state.NFTKey{Token: t.ID.Num, Serial: 0}, state.NFTKey{Token: t.ID.Num, Serial: state.Last}) {
			if nft.Owner.Num == account && !nft.Deleted {
				end(h, t, nft)
			}
		}
	case r.Balance != 0:
		did := h.Did()
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.ID, Account: r.Account, Amount: -r.Balance})
	}
	h.State.SetRelation(account, t.ID.Num, nil)
}

// tokenFreeze sets whether an account's balance may change. What is frozen can only be thawed.
func tokenFreeze(h *core.Handling, of holding, frozen bool) hedera.Status {
	return supervise(h, of, func(k *state.TokenKeys) *hapi.Key { return k.Freeze }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY, frozen, func(r *state.Relation) { r.Frozen = frozen })
}

// tokenKYC grants or revokes what a token with a KYC key asks of holders.
func tokenKYC(h *core.Handling, of holding, granted bool) hedera.Status {
	if t := h.State.Tokens.Get(TokenNum(of.GetToken())); t != nil && t.Keys.KYC == nil {
		return hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY // of a token that is paused or deleted, too
	}
	return supervise(h, of, func(k *state.TokenKeys) *hapi.Key { return k.KYC }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY, true, func(r *state.Relation) { r.KYC = granted })
}

// supervise changes a relation that a key of the token decides about; thawed asks that it is not frozen.
func supervise(h *core.Handling, of holding, role func(*state.TokenKeys) *hapi.Key, none hedera.Status, thawed bool, change func(*state.Relation)) hedera.Status {
	t, status := keyedToken(h, of.GetToken(), role, none)
	if status != okay {
		return status
	}
	a, status := h.Party(of.GetAccount())
	if status != okay {
		return status
	}
	r := Relation(h, a.Num, t.ID.Num)
	switch {
	case r == nil:
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	case thawed && r.Frozen && t.Keys.Freeze != nil:
		return hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN
	}
	changed := *r
	change(&changed)
	h.State.SetRelation(a.Num, t.ID.Num, &changed)
	h.Record.Entity = t.ID
	return okay
}

// IsTreasury tells whether an account is the treasury of a token.
func IsTreasury(h *core.Handling, num int64) bool {
	for key := range h.State.Relations.Rows(state.RelationKey{Account: num, Token: 0}, state.RelationKey{Account: num, Token: state.Last}) {
		if t := h.State.Tokens.Get(key.Token); t != nil && !t.Deleted && t.Treasury.Num == num {
			return true
		}
	}
	return false
}

// HoldsTokens tells whether an account owns anything of a token.
func HoldsTokens(h *core.Handling, num int64) bool {
	for _, r := range h.State.Relations.Rows(state.RelationKey{Account: num, Token: 0}, state.RelationKey{Account: num, Token: state.Last}) {
		if r.Balance != 0 {
			return true
		}
	}
	return false
}

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
