package transfers

import (
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

// Plan is what a transfer is to move, with the custom fees that it causes. Nothing is
// moved before all of it is known.
type Plan struct {
	h       *core.Handling
	hbar    []*entry
	tokens  []*tokenPlan
	airdrop bool // receivers are not asked to sign
	before  int  // how many accounts the transaction had made
}

// NewPlan makes one with nothing in it.
func NewPlan(h *core.Handling) *Plan { return &Plan{h: h, before: len(h.State.Creations())} }

// tokenPlan is the part of a plan for one token.
type tokenPlan struct {
	t       *state.Token
	entries []*entry
	nfts    []nftMove
}

// entry is a net change of one account's balance.
type entry struct {
	a        *state.Party
	amount   int64
	approval bool
	fee      bool // a custom fee is part of it
}

type nftMove struct {
	nft      *state.NFT
	to       *state.Party
	approval bool
}

func pureTokenTransfers(lists []*hapi.TokenTransferList) hedera.Status {
	amounts, nfts, status := pureTokenLists(lists)
	switch {
	case status != okay:
		return status
	case amounts > core.MaxTransfers:
		return hapi.ResponseCodeEnum_TOKEN_TRANSFER_LIST_SIZE_LIMIT_EXCEEDED
	case nfts > core.MaxTransfers:
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	}
	return okay
}

// pureTokenLists checks lists of transfers one by one, and counts their entries.
func pureTokenLists(lists []*hapi.TokenTransferList) (amounts, nfts int, _ hedera.Status) {
	var tokens []int64
	for _, list := range lists {
		switch id := list.GetToken().GetTokenNum(); {
		case list.GetToken() == nil:
			return 0, 0, hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		case slices.Contains(tokens, id):
			return 0, 0, hapi.ResponseCodeEnum_TOKEN_ID_REPEATED_IN_TOKEN_LIST
		case len(list.GetTransfers())+len(list.GetNftTransfers()) == 0:
			return 0, 0, hapi.ResponseCodeEnum_EMPTY_TOKEN_TRANSFER_ACCOUNT_AMOUNTS
		default:
			tokens = append(tokens, id)
		}
		if !zeroSum(list.GetTransfers()) {
			return 0, 0, hapi.ResponseCodeEnum_TRANSFERS_NOT_ZERO_SUM_FOR_TOKEN
		}
		for i, entry := range list.GetTransfers() {
			switch {
			case entry.GetAccountID().GetAccount() == nil:
				return 0, 0, hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
			case names(list.GetTransfers()[:i], entry.GetAccountID()):
				return 0, 0, hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
			}
		}
		moves := list.GetNftTransfers()
		for i, move := range moves {
			switch {
			case move.GetSerialNumber() <= 0:
				return 0, 0, hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
			case move.GetSenderAccountID().GetAccount() == nil || move.GetReceiverAccountID().GetAccount() == nil:
				return 0, 0, hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
			case slices.ContainsFunc(moves[:i], func(m *hapi.NftTransfer) bool { return m.GetSerialNumber() == move.GetSerialNumber() }):
				return 0, 0, hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
			case core.SameAccount(move.GetSenderAccountID(), move.GetReceiverAccountID()):
				return 0, 0, hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
			}
		}
		amounts, nfts = amounts+len(list.GetTransfers()), nfts+len(list.GetNftTransfers())
	}
	return amounts, nfts, okay
}

// cryptoTransfer moves hbar, tokens and NFTs. Credits to addresses that nothing is at
// create accounts.
func cryptoTransfer(h *core.Handling, body *hapi.CryptoTransferTransactionBody) hedera.Status {
	p := NewPlan(h)
	for _, entry := range body.GetTransfers().GetAccountAmounts() {
		if status := p.addHbar(entry); status != okay {
			return status
		}
	}
	for _, list := range body.GetTokenTransfers() {
		if status := p.addTokens(list); status != okay {
			return status
		}
	}
	return p.do(p.associate, p.assess, p.MoveHbar, p.MoveTokens)
}

// do takes the steps of a plan, and records the accounts that came to be.
func (p *Plan) do(steps ...func() hedera.Status) hedera.Status {
	for _, step := range steps {
		if status := step(); status != okay {
			return status
		}
	}
	for _, a := range p.h.State.Creations()[p.before:] {
		createdByTransfer(p.h, a)
	}
	return okay
}

// addHbar takes in one entry of the list of hbar.
func (p *Plan) addHbar(listed *hapi.AccountAmount) hedera.Status {
	a, status := p.party(listed, 0)
	if status != okay {
		return status
	}
	if slices.ContainsFunc(p.hbar, func(e *entry) bool { return e.a == a }) {
		return hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
	}
	p.hbar = append(p.hbar, &entry{a: a, amount: listed.GetAmount(), approval: listed.GetIsApproval()})
	return okay
}

// addTokens takes in the transfers of one token.
func (p *Plan) addTokens(list *hapi.TokenTransferList) hedera.Status {
	t, status := tokens.Usable(p.h, list.GetToken())
	switch {
	case status != okay:
		return status
	case list.GetExpectedDecimals() != nil && list.GetExpectedDecimals().GetValue() != t.Decimals:
		return hapi.ResponseCodeEnum_UNEXPECTED_TOKEN_DECIMALS
	case t.NonFungible && len(list.GetTransfers()) > 0:
		return hapi.ResponseCodeEnum_ACCOUNT_AMOUNT_TRANSFERS_ONLY_ALLOWED_FOR_FUNGIBLE_COMMON
	case !t.NonFungible && len(list.GetNftTransfers()) > 0:
		return hapi.ResponseCodeEnum_NFT_TRANSFERS_ONLY_ALLOWED_FOR_NON_FUNGIBLE_UNIQUE
	}
	tp := p.of(t)
	for _, listed := range list.GetTransfers() {
		a, status := p.party(listed, t.ID.Num)
		if status != okay {
			return status
		}
		if slices.ContainsFunc(tp.entries, func(e *entry) bool { return e.a == a }) {
			return hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
		}
		tp.entries = append(tp.entries, &entry{a: a, amount: listed.GetAmount(), approval: listed.GetIsApproval()})
	}
	for _, listed := range list.GetNftTransfers() {
		if status := p.addNFT(tp, listed); status != okay {
			return status
		}
	}
	return okay
}

// of returns the part of the plan for a token.
func (p *Plan) of(t *state.Token) *tokenPlan {
	for _, tp := range p.tokens {
		if tp.t.ID == t.ID {
			return tp
		}
	}
	tp := &tokenPlan{t: t}
	p.tokens = append(p.tokens, tp)
	return tp
}

func (p *Plan) addNFT(tp *tokenPlan, listed *hapi.NftTransfer) hedera.Status {
	h := p.h
	from, status := h.Party(listed.GetSenderAccountID())
	if status != okay {
		return status
	}
	to, status := p.receiver(listed.GetReceiverAccountID())
	if status != okay {
		return status
	}
	nft := h.State.NFTs.Get(state.NFTKey{Token: tp.t.ID.Num, Serial: listed.GetSerialNumber()})
	switch {
	case nft == nil || nft.Deleted:
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	case nft.Owner.Num != from.Num:
		return hapi.ResponseCodeEnum_SENDER_DOES_NOT_OWN_NFT_SERIAL_NO
	case listed.GetIsApproval() && !mayTransfer(h, nft):
		return hapi.ResponseCodeEnum_SPENDER_DOES_NOT_HAVE_ALLOWANCE
	case !listed.GetIsApproval() && !h.SignedBy(from):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	tp.nfts = append(tp.nfts, nftMove{nft: nft, to: to, approval: listed.GetIsApproval()})
	return okay
}

// mayTransfer tells whether the payer was approved for an NFT.
func mayTransfer(h *core.Handling, nft *state.NFT) bool {
	if nft.Spender == h.Sub.Payer {
		return true
	}
	all := h.State.NFTAllowances.Get(state.AllowanceKey{Owner: nft.Owner.Num, Token: nft.Token.Num, Spender: h.Sub.Payer.Num})
	return all != nil && all.Approved
}

// party resolves one side of a transfer and checks that it agreed.
func (p *Plan) party(listed *hapi.AccountAmount, token int64) (*state.Party, hedera.Status) {
	h := p.h
	if listed.GetAmount() > 0 {
		return p.receiver(listed.GetAccountID())
	}
	a, status := h.Party(listed.GetAccountID())
	switch {
	case status != okay:
		return nil, status
	case listed.GetAmount() == 0:
		return a, okay
	case listed.GetIsApproval():
		return a, spend(h, a.Num, token, -listed.GetAmount())
	case !h.SignedBy(a):
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return a, okay
}

// receiver resolves who gets something, and creates it where the id is an unused alias.
func (p *Plan) receiver(id *hapi.AccountID) (*state.Party, hedera.Status) {
	a := p.h.Resolve(id)
	switch {
	case a == nil || !a.Exists:
		return missingParty(p.h, a, id.GetAlias())
	case a.WantsSignature() && !p.airdrop && !p.h.SignedBy(a):
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return a, okay
}

// missingParty creates the receiver of a credit to an unused alias.
func missingParty(h *core.Handling, a *state.Party, alias []byte) (*state.Party, hedera.Status) {
	switch {
	case a != nil && a.Deleted():
		return nil, hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case len(alias) == 0:
		return nil, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case len(alias) == common.AddressLength:
		if _, longZero := hedera.FromLongZero(common.Address(alias)); longZero {
			return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
		}
		h.State.Create(a, true)
		return a, okay
	}
	key := core.AliasKey(alias)
	if key == nil {
		return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
	}
	m := h.HollowMeta(common.Address{})
	m.Alias, m.Key = alias, key
	return h.Enter(m, a), okay
}

// spend takes an amount from what an owner lets the payer spend.
func spend(h *core.Handling, owner, token, amount int64) hedera.Status {
	key := state.AllowanceKey{Owner: owner, Token: token, Spender: h.Sub.Payer.Num}
	allowance := h.State.Allowances.Get(key)
	switch {
	case allowance == nil:
		return hapi.ResponseCodeEnum_SPENDER_DOES_NOT_HAVE_ALLOWANCE
	case allowance.Amount < amount || amount < 0: // the amount of a debit may be the one without a negative
		return hapi.ResponseCodeEnum_AMOUNT_EXCEEDS_ALLOWANCE
	case allowance.Amount == amount:
		h.State.Allowances.Set(key, nil)
		return okay
	}
	left := *allowance
	left.Amount -= amount
	left.Since = h.Record.Consensus
	h.State.Allowances.Set(key, &left)
	return okay
}

// associate makes the relations that receivers lack.
func (p *Plan) associate() hedera.Status {
	for _, tp := range p.tokens {
		if status := p.relate(tp); status != okay {
			return status
		}
	}
	return okay
}

func (p *Plan) relate(tp *tokenPlan) hedera.Status {
	for _, e := range tp.entries {
		if status := p.ensureRelation(tp.t, e.a, e.amount > 0); status != okay {
			return status
		}
	}
	for _, move := range tp.nfts {
		if status := p.ensureRelation(tp.t, move.to, true); status != okay {
			return status
		}
	}
	return okay
}

func (p *Plan) ensureRelation(t *state.Token, a *state.Party, receives bool) hedera.Status {
	if tokens.Relation(p.h, tokens.NumberOf(p.h, a), t.ID.Num) != nil {
		return okay
	}
	if !receives {
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	}
	return tokens.AssociateByTransfer(p.h, t, a)
}

// add changes an account's part of a list.
func add(list *[]*entry, a *state.Party, amount int64, fee bool) {
	for _, e := range *list {
		if e.a == a {
			e.amount, e.fee = e.amount+amount, e.fee || fee
			return
		}
	}
	*list = append(*list, &entry{a: a, amount: amount, fee: fee})
}

// MoveHbar moves what is planned of hbar.
func (p *Plan) MoveHbar() hedera.Status {
	for _, e := range p.hbar {
		next := int64(e.a.Tinybar()) + e.amount
		switch {
		case e.a.Deleted(): // a collector of fees: the parties of a transfer were checked
			return hapi.ResponseCodeEnum_ACCOUNT_DELETED
		case next < 0 && e.fee:
			return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE_FOR_CUSTOM_FEE
		case next < 0:
			return hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE
		}
		p.h.State.PutTinybar(e.a, hedera.Tinybar(next))
		if e.approval {
			p.h.Approved = append(p.h.Approved, e.a.Num)
		}
		if e.amount != 0 && p.h.Child {
			p.h.Record.Transfers = append(p.h.Record.Transfers, history.Transfer{
				Account: hedera.Entity(tokens.NumberOf(p.h, e.a)), Amount: hedera.Tinybar(e.amount), Approval: e.approval,
			})
		}
	}
	return okay
}

// MoveTokens moves what is planned of tokens.
func (p *Plan) MoveTokens() hedera.Status {
	for _, tp := range p.tokens {
		// Debits first: what an account gets in the same transfer does not help it.
		for _, debits := range []bool{true, false} {
			for _, e := range tp.entries {
				if (e.amount < 0) != debits {
					continue
				}
				if e.a.Deleted() {
					return hapi.ResponseCodeEnum_ACCOUNT_DELETED
				}
				status := tokens.Adjust(p.h, tp.t, e.a.Num, e.amount, e.approval)
				if status == hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE && e.fee {
					status = hapi.ResponseCodeEnum_INSUFFICIENT_SENDER_ACCOUNT_BALANCE_FOR_CUSTOM_FEE
				}
				if status != okay {
					return status
				}
			}
		}
		for _, move := range tp.nfts {
			if status := tokens.MoveNFT(p.h, tp.t, move.nft, move.to.Num, move.approval); status != okay {
				return status
			}
		}
	}
	p.h.Did().Sorted()
	return okay
}

func pureTransfer(body *hapi.CryptoTransferTransactionBody) hedera.Status {
	list := body.GetTransfers().GetAccountAmounts()
	if len(list) > core.MaxTransfers {
		return hapi.ResponseCodeEnum_TRANSFER_LIST_SIZE_LIMIT_EXCEEDED
	}
	if !zeroSum(list) {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
	}
	for i, entry := range list {
		if entry.GetAccountID().GetAccount() == nil {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		}
		if names(list[:i], entry.GetAccountID()) {
			return hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
		}
	}
	return pureTokenTransfers(body.GetTokenTransfers())
}

// zeroSum tells whether what is given and what is taken come to nothing.
func zeroSum(list []*hapi.AccountAmount) bool {
	var sum big.Int
	for _, entry := range list {
		sum.Add(&sum, big.NewInt(entry.GetAmount()))
	}
	return sum.Sign() == 0
}

func names(list []*hapi.AccountAmount, id *hapi.AccountID) bool {
	return slices.ContainsFunc(list, func(entry *hapi.AccountAmount) bool { return core.SameAccount(entry.GetAccountID(), id) })
}

// createdByTransfer makes the preceding child of an account creation.
func createdByTransfer(h *core.Handling, a *state.Party) {
	h.State.Number(a)
	if a.Meta == nil {
		h.HollowChild(a)
		return
	}
	id := hedera.Entity(a.Num)
	child := &history.Record{Kind: history.KindCryptoCreate, Status: okay, Entity: id, Account: id, Alias: a.Meta.Alias}
	if _, longZero := hedera.FromLongZero(a.Address); !longZero {
		child.EVMAddress = a.Address.Bytes()
	}
	h.Preceding = append(h.Preceding, child)
}
