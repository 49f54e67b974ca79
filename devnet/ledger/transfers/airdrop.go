package transfers

import (
	"slices"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const MaxAirdrops = 10 // that one transaction claims or cancels

func pureAirdrop(body *hapi.TokenAirdropTransactionBody) hedera.Status {
	lists := body.GetTokenTransfers()
	if len(lists) == 0 {
		return hapi.ResponseCodeEnum_EMPTY_TOKEN_TRANSFER_BODY
	}
	for _, list := range lists {
		if status := pureAirdropOf(list); status != okay {
			return status
		}
	}
	_, _, status := pureTokenLists(lists)
	return status
}

// pureAirdropOf checks the part of one token: one sender, nobody twice, no allowances.
func pureAirdropOf(list *hapi.TokenTransferList) hedera.Status {
	senders, entries := 0, list.GetTransfers()
	for i, entry := range entries {
		if entry.GetIsApproval() {
			return hapi.ResponseCodeEnum_NOT_SUPPORTED
		}
		if entry.GetAmount() < 0 {
			senders++
		}
		for _, other := range entries[:i] {
			switch {
			case !core.SameAccount(entry.GetAccountID(), other.GetAccountID()):
			case (entry.GetAmount() < 0) != (other.GetAmount() < 0):
				return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
			default:
				return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
			}
		}
	}
	if senders > 1 {
		return hapi.ResponseCodeEnum_AIRDROP_CONTAINS_MULTIPLE_SENDERS_FOR_A_TOKEN
	}
	moves := list.GetNftTransfers()
	for i, move := range moves {
		switch {
		case move.GetIsApproval():
			return hapi.ResponseCodeEnum_NOT_SUPPORTED
		case core.SameAccount(move.GetSenderAccountID(), move.GetReceiverAccountID()):
			return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
		case !core.SameAccount(move.GetSenderAccountID(), moves[0].GetSenderAccountID()):
			return hapi.ResponseCodeEnum_AIRDROP_CONTAINS_MULTIPLE_SENDERS_FOR_A_TOKEN
		case slices.ContainsFunc(moves[:i], func(m *hapi.NftTransfer) bool { return m.GetSerialNumber() == move.GetSerialNumber() }):
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
		}
	}
	return okay
}

// tokenAirdrop gives tokens to accounts that need not know them: what a receiver cannot take
// yet becomes a pending airdrop. The sender pays all custom fees, and pays them now.
func tokenAirdrop(h *core.Handling, body *hapi.TokenAirdropTransactionBody) hedera.Status {
	if status := pureTokenTransfers(body.GetTokenTransfers()); status != okay {
		return status
	}
	p := NewPlan(h)
	p.airdrop = true
	for _, list := range body.GetTokenTransfers() {
		if status := airdropSender(h, list); status != okay {
			return status
		}
		if status := p.addTokens(list); status != okay {
			return status
		}
	}
	given := len(p.tokens) // fees may add more
	for _, tp := range p.tokens {
		if status := p.airdropTo(tp); status != okay {
			return status
		}
	}
	if status := p.assess(); status != okay {
		return status
	}
	for _, tp := range p.tokens[:given] {
		if status := p.postpone(tp); status != okay {
			return status
		}
	}
	return p.do(p.MoveHbar, p.MoveTokens)
}

// airdropSender checks that a sender could send what it gives, wherever it goes.
func airdropSender(h *core.Handling, list *hapi.TokenTransferList) hedera.Status {
	t, status := tokens.Usable(h, list.GetToken())
	if status != okay {
		return status
	}
	check := func(id *hapi.AccountID, amount int64) hedera.Status {
		a, status := h.Party(id)
		if status != okay {
			return status
		}
		if status := tokens.MayHold(h, t, a.Num); status != okay {
			return status
		}
		if tokens.Relation(h, a.Num, t.ID.Num).Balance < amount {
			return hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE
		}
		return okay
	}
	for _, entry := range list.GetTransfers() {
		if entry.GetAmount() < 0 {
			if status := check(entry.GetAccountID(), -entry.GetAmount()); status != okay {
				return status
			}
		}
	}
	for _, move := range list.GetNftTransfers() {
		if status := check(move.GetSenderAccountID(), 0); status != okay {
			return status
		}
	}
	return okay
}

// airdropTo checks who is to get a token.
func (p *Plan) airdropTo(tp *tokenPlan) hedera.Status {
	check := func(a *state.Party) hedera.Status {
		switch m := a.CurrentMeta(); {
		case a.Num > 0 && a.Num <= state.LastSystemNumber:
			return hapi.ResponseCodeEnum_INVALID_RECEIVING_NODE_ACCOUNT
		case a.Contract && m != nil && !signable(m.Key):
			return hapi.ResponseCodeEnum_NOT_SUPPORTED // nobody could claim it
		}
		return okay
	}
	for _, e := range tp.entries {
		if e.amount > 0 {
			if status := check(e.a); status != okay {
				return status
			}
		}
	}
	for _, move := range tp.nfts {
		if status := check(move.to); status != okay {
			return status
		}
		// Only a receiver who agrees pays a fallback fee, and nobody asks this one.
		for _, fee := range tp.t.Fees {
			if fee.GetRoyaltyFee().GetFallbackFee() != nil && !exempt(tp.t, fee, move.to.Num) && !exempt(tp.t, fee, move.nft.Owner.Num) {
				return hapi.ResponseCodeEnum_TOKEN_AIRDROP_WITH_FALLBACK_ROYALTY
			}
		}
	}
	return okay
}

// signable tells whether signatures can satisfy a key: whether any of it is no contract's.
func signable(key *hapi.Key) bool {
	switch k := key.GetKey().(type) {
	case *hapi.Key_Ed25519, *hapi.Key_ECDSASecp256K1:
		return true
	case *hapi.Key_KeyList:
		return slices.ContainsFunc(k.KeyList.GetKeys(), signable)
	case *hapi.Key_ThresholdKey:
		return slices.ContainsFunc(k.ThresholdKey.GetKeys().GetKeys(), signable)
	default:
		return false
	}
}

// postpone takes out of a plan what receivers cannot take now, and makes pending airdrops of
// it. For the rest it makes the relations that receivers lack.
func (p *Plan) postpone(tp *tokenPlan) hedera.Status {
	h := p.h
	var sender *entry
	for _, e := range tp.entries {
		if e.amount < 0 && (sender == nil || !e.fee) {
			sender = e
		}
	}
	kept := tp.entries[:0:0]
	for _, e := range tp.entries {
		if e.amount <= 0 || !mustClaim(h, tp.t, e.a) {
			kept = append(kept, e)
			continue
		}
		pending := &state.Airdrop{Sender: hedera.Entity(sender.a.Num), Receiver: hedera.Entity(e.a.Num), Token: tp.t.ID, Amount: e.amount}
		if old := h.State.Airdrops.Get(pending.Key()); old != nil {
			pending.Amount += old.Amount
			if pending.Amount < 0 {
				return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
			}
		}
		putAirdrop(h, pending)
		sender.amount += e.amount
	}
	tp.entries = kept
	moves := tp.nfts[:0:0]
	for _, move := range tp.nfts {
		if !mustClaim(h, tp.t, move.to) {
			moves = append(moves, move)
			continue
		}
		pending := &state.Airdrop{Sender: move.nft.Owner, Receiver: hedera.Entity(move.to.Num), Token: tp.t.ID, Serial: move.nft.Serial}
		if h.State.Airdrops.Get(pending.Key()) != nil {
			return hapi.ResponseCodeEnum_PENDING_NFT_AIRDROP_ALREADY_EXISTS
		}
		putAirdrop(h, pending)
	}
	tp.nfts = moves
	return p.relate(tp)
}

func putAirdrop(h *core.Handling, a *state.Airdrop) {
	a.Since = h.Record.Consensus
	h.State.SetAirdrop(a.Key(), a)
	did := h.Did()
	did.Airdrops = append(did.Airdrops, *a)
}

// mustClaim tells whether a receiver gets a token only by claiming it: it wants to sign and
// has not, or it has no relation with the token and no slot for one.
func mustClaim(h *core.Handling, t *state.Token, a *state.Party) bool {
	m := a.CurrentMeta()
	switch {
	case a.WantsSignature() && !h.SignedBy(a):
		return true
	case a.Num == 0 || m == nil, tokens.Relation(h, a.Num, t.ID.Num) != nil, m.MaxAutoAssociations < 0:
		return false
	default:
		return tokens.Automatic(h, a) >= m.MaxAutoAssociations
	}
}

// pending names pending airdrops.
type pending interface {
	GetPendingAirdrops() []*hapi.PendingAirdropId
}

func pureAirdropIDs[B pending](body B) hedera.Status {
	list := body.GetPendingAirdrops()
	if len(list) == 0 {
		return hapi.ResponseCodeEnum_EMPTY_PENDING_AIRDROP_ID_LIST
	}
	for i, id := range list {
		switch {
		case id.GetSenderId() == nil || id.GetReceiverId() == nil || id.GetTokenReference() == nil:
			return hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID
		case slices.ContainsFunc(list[:i], func(other *hapi.PendingAirdropId) bool { return sameAirdrop(id, other) }):
			return hapi.ResponseCodeEnum_PENDING_AIRDROP_ID_REPEATED
		}
	}
	return okay
}

func sameAirdrop(a, b *hapi.PendingAirdropId) bool {
	return core.SameAccount(a.GetSenderId(), b.GetSenderId()) && core.SameAccount(a.GetReceiverId(), b.GetReceiverId()) &&
		a.GetFungibleTokenType().GetTokenNum() == b.GetFungibleTokenType().GetTokenNum() &&
		a.GetNonFungibleToken().GetToken_ID().GetTokenNum() == b.GetNonFungibleToken().GetToken_ID().GetTokenNum() &&
		a.GetNonFungibleToken().GetSerialNumber() == b.GetNonFungibleToken().GetSerialNumber()
}

// tokenClaim gives receivers what was meant for them. A claim makes the relation that is
// lacking, whatever slots the receiver has left.
func tokenClaim(h *core.Handling, body *hapi.TokenClaimAirdropTransactionBody) hedera.Status {
	claimed, status := endAirdrops(h, body, func(_, receiver *state.Party) *state.Party { return receiver })
	if status != okay {
		return status
	}
	for _, a := range claimed {
		t, status := tokens.Usable(h, a.Token.TokenID())
		switch {
		case status != okay:
			return status
		case slices.ContainsFunc(t.Fees, func(fee *hapi.CustomFee) bool { return fee.GetRoyaltyFee().GetFallbackFee() != nil }):
			return hapi.ResponseCodeEnum_TOKEN_AIRDROP_WITH_FALLBACK_ROYALTY
		case h.State.EntityAccount(a.Sender.Num).Deleted() || h.State.EntityAccount(a.Receiver.Num).Deleted():
			return hapi.ResponseCodeEnum_ACCOUNT_DELETED
		}
		if tokens.Relation(h, a.Receiver.Num, t.ID.Num) == nil {
			tokens.Associate(h, t, a.Receiver.Num, false)
			did := h.Did()
			did.Associations = append(did.Associations, history.Association{Token: t.ID, Account: a.Receiver})
		}
		if status := hand(h, t, a); status != okay {
			return status
		}
	}
	h.Did().Sorted()
	return okay
}

// hand moves what was pending from the sender to the receiver.
func hand(h *core.Handling, t *state.Token, a *state.Airdrop) hedera.Status {
	if !t.NonFungible {
		return tokens.Hand(h, t, a.Sender.Num, a.Receiver.Num, a.Amount)
	}
	nft := h.State.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: a.Serial})
	switch {
	case nft == nil || nft.Deleted:
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	case nft.Owner != a.Sender:
		return hapi.ResponseCodeEnum_SENDER_DOES_NOT_OWN_NFT_SERIAL_NO
	}
	return tokens.MoveNFT(h, t, nft, a.Receiver.Num, false)
}

// tokenCancel takes back what was not claimed.
func tokenCancel(h *core.Handling, body *hapi.TokenCancelAirdropTransactionBody) hedera.Status {
	_, status := endAirdrops(h, body, func(sender, _ *state.Party) *state.Party { return sender })
	return status
}

// endAirdrops finds pending airdrops, sees that those who may end them agree, and ends them.
func endAirdrops(h *core.Handling, body pending, who func(sender, receiver *state.Party) *state.Party) ([]*state.Airdrop, hedera.Status) {
	list := body.GetPendingAirdrops()
	if len(list) > MaxAirdrops {
		return nil, hapi.ResponseCodeEnum_PENDING_AIRDROP_ID_LIST_TOO_LONG
	}
	ended := make([]*state.Airdrop, 0, len(list))
	for _, id := range list {
		sender, receiver := h.Resolve(id.GetSenderId()), h.Resolve(id.GetReceiverId())
		switch agrees := who(sender, receiver); {
		case agrees == nil || !agrees.Exists && !agrees.Deleted():
			return nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		case !h.SignedBy(agrees):
			return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case sender == nil || receiver == nil:
			return nil, hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID
		}
		key := state.AirdropKey{Sender: sender.Num, Receiver: receiver.Num, Token: tokens.TokenNum(id.GetFungibleTokenType()), Serial: 0}
		if nft := id.GetNonFungibleToken(); nft != nil {
			key.Token, key.Serial = tokens.TokenNum(nft.GetToken_ID()), nft.GetSerialNumber()
		}
		a := h.State.Airdrops.Get(key)
		if a == nil {
			return nil, hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID
		}
		h.State.SetAirdrop(key, nil)
		ended = append(ended, a)
	}
	return ended, okay
}

// SendsAirdrops tells whether an account has pending airdrops that it could cancel.
func SendsAirdrops(h *core.Handling, num int64) bool {
	for range h.State.Airdrops.Rows(state.AirdropKey{Sender: num}, state.AirdropKey{Sender: num, Receiver: state.Last, Token: state.Last, Serial: state.Last}) {
		return true
	}
	return false
}

// Services are the transactions that are handled here.
func Services() core.Services {
	return core.Services{
		"cryptoTransfer":     core.ServiceOf(cryptoTransfer, pureTransfer),
		"tokenAirdrop":       core.ServiceOf(tokenAirdrop, pureAirdrop),
		"tokenClaimAirdrop":  core.ServiceOf(tokenClaim, pureAirdropIDs[*hapi.TokenClaimAirdropTransactionBody]),
		"tokenCancelAirdrop": core.ServiceOf(tokenCancel, pureAirdropIDs[*hapi.TokenCancelAirdropTransactionBody]),
		"tokenReject":        core.ServiceOf(tokenReject, pureReject),
	}
}

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
		return tokens.Hand(h, t, owner, t.Treasury.Num, r.Balance)
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
