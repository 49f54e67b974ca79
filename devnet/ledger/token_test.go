package ledger

import (
	"crypto/ecdsa"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// fungibleToken creates a token of the payer's with all keys.
func (r *rig) fungibleToken(p party, change func(*hapi.TokenCreateTransactionBody)) hedera.ID {
	r.t.Helper()
	key := publicKey(p)
	body := &hapi.TokenCreateTransactionBody{
		Name: "Coin", Symbol: "C", InitialSupply: 1000, Treasury: p.id.AccountID(), AdminKey: key, SupplyKey: key,
		WipeKey: key, FreezeKey: key, PauseKey: key, FeeScheduleKey: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
	}
	if change != nil {
		change(body)
	}
	rec := r.submit(p.id, core.BodyOf(body), p.key)
	r.want(rec, okay)
	return rec.Did().Token
}

func units(token hedera.ID, parts ...any) *hapi.TransactionBody {
	list := &hapi.TokenTransferList{Token: token.TokenID(), Transfers: amounts(parts...).GetCryptoTransfer().GetTransfers().GetAccountAmounts()}
	return core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{list}})
}

func (r *rig) associated(p party, tokens ...hedera.ID) {
	r.t.Helper()
	body := &hapi.TokenAssociateTransactionBody{Account: p.id.AccountID()}
	for _, id := range tokens {
		body.Tokens = append(body.Tokens, id.TokenID())
	}
	r.want(r.submit(p.id, core.BodyOf(body), p.key), okay)
}

func (r *rig) held(account, token hedera.ID) int64 {
	relation, _ := r.Handled().Relation(account, token)
	return relation.Balance
}

// What a body of a creation may get wrong, and what a node says to it.
func TestTokenCreatePure(t *testing.T) {
	key := publicKey(dev(t, 0))
	tests := map[string]struct {
		change func(*hapi.TokenCreateTransactionBody)
		want   hedera.Status
	}{
		"plain":                  {func(*hapi.TokenCreateTransactionBody) {}, okay},
		"no name":                {func(b *hapi.TokenCreateTransactionBody) { b.Name = "" }, hapi.ResponseCodeEnum_MISSING_TOKEN_NAME},
		"no symbol":              {func(b *hapi.TokenCreateTransactionBody) { b.Symbol = "" }, hapi.ResponseCodeEnum_MISSING_TOKEN_SYMBOL},
		"no treasury":            {func(b *hapi.TokenCreateTransactionBody) { b.Treasury = nil }, hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN},
		"finite without maximum": {func(b *hapi.TokenCreateTransactionBody) { b.SupplyType = hapi.TokenSupplyType_FINITE }, hapi.ResponseCodeEnum_INVALID_TOKEN_MAX_SUPPLY},
		"maximum without finite": {func(b *hapi.TokenCreateTransactionBody) { b.MaxSupply = 7 }, hapi.ResponseCodeEnum_INVALID_TOKEN_MAX_SUPPLY},
		"more than the maximum": {func(b *hapi.TokenCreateTransactionBody) {
			b.SupplyType, b.MaxSupply, b.InitialSupply = hapi.TokenSupplyType_FINITE, 7, 8
		}, hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY},
		"NFTs with a supply": {func(b *hapi.TokenCreateTransactionBody) {
			b.TokenType, b.SupplyKey = hapi.TokenType_NON_FUNGIBLE_UNIQUE, key
		}, hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY},
		"NFTs without a supply key": {func(b *hapi.TokenCreateTransactionBody) {
			b.TokenType, b.InitialSupply = hapi.TokenType_NON_FUNGIBLE_UNIQUE, 0
		}, hapi.ResponseCodeEnum_TOKEN_HAS_NO_SUPPLY_KEY},
		"frozen without a key": {func(b *hapi.TokenCreateTransactionBody) { b.FreezeDefault = true }, hapi.ResponseCodeEnum_TOKEN_HAS_NO_FREEZE_KEY},
	}
	for name, tt := range tests {
		body := &hapi.TokenCreateTransactionBody{Name: "N", Symbol: "S", InitialSupply: 1, Treasury: dev(t, 0).id.AccountID()}
		tt.change(body)
		if got := tokens.PureTokenCreate(body); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// Who must sign for what a token's keys decide.
func TestTokenSignatures(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	create := &hapi.TokenCreateTransactionBody{Name: "N", Symbol: "S", Treasury: other.id.AccountID()}
	body := core.BodyOf(create)
	r.want(r.submit(owner.id, body, owner.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(owner.id, body, owner.key, other.key), okay)

	token := r.fungibleToken(owner, nil)
	mint := core.BodyOf(&hapi.TokenMintTransactionBody{Token: token.TokenID(), Amount: 1})
	r.want(r.submit(other.id, mint, other.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(other.id, mint, other.key, owner.key), okay)
	update := func(b *hapi.TokenUpdateTransactionBody) *hapi.TransactionBody {
		b.Token = token.TokenID()
		return core.BodyOf(b)
	}
	r.want(r.submit(other.id, update(&hapi.TokenUpdateTransactionBody{Name: "X"}), other.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(owner.id, update(&hapi.TokenUpdateTransactionBody{KycKey: publicKey(owner)}), owner.key), hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY)
	r.want(r.submit(owner.id, update(&hapi.TokenUpdateTransactionBody{Treasury: other.id.AccountID()}), owner.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.associated(other, token)
	r.want(r.submit(owner.id, update(&hapi.TokenUpdateTransactionBody{Treasury: other.id.AccountID()}), owner.key, other.key), okay)
	if got := r.held(other.id, token); got != 1001 || r.held(owner.id, token) != 0 {
		t.Errorf("the new treasury holds %d", got)
	}
	// Without its admin key a token cannot be changed any more.
	r.want(r.submit(owner.id, update(&hapi.TokenUpdateTransactionBody{AdminKey: hapikey.Hollow()}), owner.key), okay)
	r.want(r.submit(owner.id, update(&hapi.TokenUpdateTransactionBody{Name: "X"}), owner.key), hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE)
}

// A transfer that fails has moved nothing, associated nobody and spent no allowance.
func TestFailedTransferChangesNothing(t *testing.T) {
	r := newRig(t, Config{})
	owner, spender, poor := dev(t, 0), dev(t, 1), dev(t, 2)
	token, other := r.fungibleToken(owner, nil), r.fungibleToken(owner, nil)
	r.associated(spender, token)
	approve := &hapi.CryptoApproveAllowanceTransactionBody{TokenAllowances: []*hapi.TokenAllowance{
		{TokenId: token.TokenID(), Owner: owner.id.AccountID(), Spender: spender.id.AccountID(), Amount: 100},
	}}
	r.want(r.submit(owner.id, core.BodyOf(approve), owner.key), okay)
	body := units(token, owner.id.AccountID(), -60, spender.id.AccountID(), 60)
	yes := true
	body.GetCryptoTransfer().TokenTransfers[0].Transfers[0].IsApproval = &yes
	// The second list asks for more than there is.
	body.GetCryptoTransfer().TokenTransfers = append(body.GetCryptoTransfer().TokenTransfers,
		units(other, poor.id.AccountID(), -1, owner.id.AccountID(), 1).GetCryptoTransfer().GetTokenTransfers()...)
	rec := r.submit(spender.id, body, spender.key, poor.key)
	r.want(rec, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT)
	if len(rec.Did().Tokens) != 0 || r.held(spender.id, token) != 0 {
		t.Errorf("%+v", rec.Did())
	}
	for a := range r.View().Allowances(owner.id, false) {
		if a.Amount != 100 {
			t.Errorf("allowance %d", a.Amount)
		}
	}
	body.GetCryptoTransfer().TokenTransfers = body.GetCryptoTransfer().TokenTransfers[:1]
	r.want(r.submit(spender.id, body, spender.key), okay)
	r.want(r.submit(spender.id, body, spender.key), hapi.ResponseCodeEnum_AMOUNT_EXCEEDS_ALLOWANCE)
	// The view of before still shows what was before.
	before := r.View().At(hedera.FromNanos(rec.Consensus.UnixNano()))
	if got, _ := before.Relation(owner.id, token); got.Balance != 1000 || r.held(owner.id, token) != 940 {
		t.Errorf("balance then %d, now %d", got.Balance, r.held(owner.id, token))
	}
}

// A transfer of a token makes an account of an unused address, which holds it.
func TestTokenToNewAddress(t *testing.T) {
	r := newRig(t, Config{})
	owner, stranger := dev(t, 0), fresh(t, 9)
	token := r.fungibleToken(owner, nil)
	rec := r.submit(owner.id, units(token, owner.id.AccountID(), -5, aliasID(stranger.address[:]), 5), owner.key)
	r.want(rec, okay)
	id, known := r.View().Resolve(stranger.address)
	if !known || len(rec.Children) != 1 || rec.Children[0].Account != id || r.held(id, token) != 5 {
		t.Fatalf("%v: children %v, holds %d", id, rec.Children, r.held(id, token))
	}
	// Its key completes it and may spend.
	back := r.submit(owner.id, units(token, id.AccountID(), -5, owner.id.AccountID(), 5), owner.key, stranger.key)
	r.want(back, okay)
	if a, _ := r.View().Account(id); a.IsHollow() {
		t.Error("still hollow")
	}
}

// Custom fees that cause custom fees end, and cannot be paid with what is not there.
func TestFeeDepth(t *testing.T) {
	r := newRig(t, Config{})
	owner, a, b := dev(t, 0), dev(t, 1), dev(t, 2)
	collector := dev(t, 3)
	fee := func(of hedera.ID) func(*hapi.TokenCreateTransactionBody) {
		return func(body *hapi.TokenCreateTransactionBody) {
			body.CustomFees = []*hapi.CustomFee{{
				Fee:                   &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 10, DenominatingTokenId: of.TokenID()}},
				FeeCollectorAccountId: collector.id.AccountID(),
			}}
		}
	}
	tokens := []hedera.ID{r.fungibleToken(owner, nil)}
	for i := range 3 {
		r.associated(collector, tokens[i])
		tokens = append(tokens, r.fungibleToken(owner, fee(tokens[i])))
	}
	for _, p := range []party{a, b} {
		r.associated(p, tokens...)
	}
	for _, token := range tokens {
		r.want(r.submit(owner.id, units(token, owner.id.AccountID(), -100, a.id.AccountID(), 100), owner.key), okay)
	}
	r.want(r.submit(a.id, units(tokens[3], a.id.AccountID(), -1, b.id.AccountID(), 1), a.key),
		hapi.ResponseCodeEnum_CUSTOM_FEE_CHARGING_EXCEEDED_MAX_RECURSION_DEPTH)
	rec := r.submit(a.id, units(tokens[2], a.id.AccountID(), -1, b.id.AccountID(), 1), a.key)
	r.want(rec, okay)
	if len(rec.Did().Fees) != 2 || r.held(collector.id, tokens[0]) != 10 || r.held(a.id, tokens[0]) != 90 {
		t.Errorf("fees %+v", rec.Did().Fees)
	}
	r.want(r.submit(b.id, units(tokens[1], b.id.AccountID(), 0, a.id.AccountID(), 0), b.key), okay)
	r.want(r.submit(b.id, units(tokens[2], b.id.AccountID(), -1, a.id.AccountID(), 1), b.key),
		hapi.ResponseCodeEnum_INSUFFICIENT_SENDER_ACCOUNT_BALANCE_FOR_CUSTOM_FEE)
}

// Whatever is done to tokens, what accounts hold adds up to what exists.
func TestSupplyIsWhatIsHeld(t *testing.T) {
	r := newRig(t, Config{History: 20})
	random := rand.New(rand.NewPCG(1, 2))
	parties := []party{dev(t, 0), dev(t, 1), dev(t, 2), dev(t, 3)}
	owner := parties[0]
	coin := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{
			Fee: &hapi.CustomFee_FractionalFee{FractionalFee: &hapi.FractionalFee{
				FractionalAmount: &hapi.Fraction{Numerator: 1, Denominator: 7}, MinimumAmount: 1,
			}}, FeeCollectorAccountId: owner.id.AccountID(),
		}}
	})
	art := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.TokenType, b.InitialSupply = hapi.TokenType_NON_FUNGIBLE_UNIQUE, 0
	})
	for _, p := range parties[1:] {
		r.associated(p, coin, art)
	}
	keys := make([]*ecdsa.PrivateKey, len(parties))
	for i, p := range parties {
		keys[i] = p.key
	}
	done := 0
	for range 600 {
		body := randomOperation(random, parties, coin, art)
		if rec := r.submit(parties[random.IntN(4)].id, body, keys...); rec.Status == okay {
			done++
		}
		r.checkSupply(coin)
		r.checkSupply(art)
	}
	if done < 200 {
		t.Errorf("only %d operations succeeded", done)
	}
	if total, _ := r.View().Supply(); total != state.TotalSupply {
		t.Errorf("%d tinybar exist", total)
	}
}

func randomOperation(random *rand.Rand, parties []party, coin, art hedera.ID) *hapi.TransactionBody {
	from, to := parties[random.IntN(4)].id.AccountID(), parties[random.IntN(4)].id.AccountID()
	n, serial := int64(random.IntN(400)), int64(1+random.IntN(30))
	switch random.IntN(8) {
	case 0:
		return core.BodyOf(&hapi.TokenMintTransactionBody{Token: coin.TokenID(), Amount: uint64(n)})
	case 1:
		return core.BodyOf(&hapi.TokenBurnTransactionBody{Token: coin.TokenID(), Amount: uint64(n)})
	case 2:
		return core.BodyOf(&hapi.TokenWipeAccountTransactionBody{
			Token: coin.TokenID(), Account: to, Amount: uint64(n),
		})
	case 3:
		return core.BodyOf(&hapi.TokenMintTransactionBody{Token: art.TokenID(), Metadata: [][]byte{{1}, {2}}})
	case 4:
		return core.BodyOf(&hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{serial}})
	case 5:
		list := &hapi.TokenTransferList{Token: art.TokenID(), NftTransfers: []*hapi.NftTransfer{{SenderAccountID: from, ReceiverAccountID: to, SerialNumber: serial}}}
		return core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{list}})
	default:
		return units(coin, from, int(-n), to, int(n))
	}
}

func (r *rig) checkSupply(token hedera.ID) {
	r.t.Helper()
	v := r.View()
	t, _ := v.Token(token)
	held, owned := int64(0), map[hedera.ID]int64{}
	for relation := range v.Holders(token, false) {
		held += relation.Balance
	}
	if held != t.Supply || held < 0 {
		r.t.Fatalf("token %s: %d held, %d exist", token, held, t.Supply)
	}
	for nft := range v.NFTs(token, 1, state.Last, false) {
		if !nft.Deleted {
			owned[nft.Owner]++
		}
	}
	for account, n := range owned {
		if relation, _ := v.Relation(account, token); relation.Balance != n {
			r.t.Fatalf("%s owns %d of %s and is said to own %d", account, n, token, relation.Balance)
		}
	}
}

func airdropOf(lists ...*hapi.TokenTransferList) *hapi.TransactionBody {
	return core.BodyOf(&hapi.TokenAirdropTransactionBody{TokenTransfers: lists})
}

// gift is a list of transfers of one token: units, accounts and amounts in turn.
func gift(token hedera.ID, parts ...any) *hapi.TokenTransferList {
	return units(token, parts...).GetCryptoTransfer().GetTokenTransfers()[0]
}

func nftGift(token hedera.ID, from, to *hapi.AccountID, serials ...int64) *hapi.TokenTransferList {
	list := &hapi.TokenTransferList{Token: token.TokenID()}
	for _, serial := range serials {
		list.NftTransfers = append(list.NftTransfers, &hapi.NftTransfer{SenderAccountID: from, ReceiverAccountID: to, SerialNumber: serial})
	}
	return list
}

func claim(ids ...*hapi.PendingAirdropId) *hapi.TransactionBody {
	return core.BodyOf(&hapi.TokenClaimAirdropTransactionBody{PendingAirdrops: ids})
}

func cancelAirdrop(ids ...*hapi.PendingAirdropId) *hapi.TransactionBody {
	return core.BodyOf(&hapi.TokenCancelAirdropTransactionBody{PendingAirdrops: ids})
}

func reject(owner *hapi.AccountID, list ...*hapi.TokenReference) *hapi.TransactionBody {
	return core.BodyOf(&hapi.TokenRejectTransactionBody{Owner: owner, Rejections: list})
}

// collection makes NFTs of the payer's.
func (r *rig) collection(p party, n int, change func(*hapi.TokenCreateTransactionBody)) hedera.ID {
	r.t.Helper()
	token := r.fungibleToken(p, func(b *hapi.TokenCreateTransactionBody) {
		b.TokenType, b.InitialSupply = hapi.TokenType_NON_FUNGIBLE_UNIQUE, 0
		if change != nil {
			change(b)
		}
	})
	r.want(r.submit(p.id, core.BodyOf(&hapi.TokenMintTransactionBody{Token: token.TokenID(), Metadata: slices.Repeat([][]byte{{1}}, n)}), p.key), okay)
	return token
}

// account makes an account with a development account's key.
func (r *rig) account(p party, edit func(*hapi.CryptoCreateTransactionBody)) party {
	r.t.Helper()
	rec := r.submit(p.id, create(func(b *hapi.CryptoCreateTransactionBody) {
		b.Key, b.InitialBalance = publicKey(p), 10_000_000_000
		edit(b)
	}), p.key)
	r.want(rec, okay)
	return party{id: rec.Account, key: p.key, address: rec.Account.LongZero()}
}

// airdrops lists what an account sent, or may claim, and nobody claimed.
func (r *rig) airdrops(account hedera.ID, received bool) (list []state.Airdrop) {
	for a := range r.Handled().Airdrops(account, received, false) {
		one := *a
		one.Since = hedera.Timestamp{}
		list = append(list, one)
	}
	return list
}

// What a receiver has a place for arrives, and the rest waits for it.
func TestAirdropArrivesOrWaits(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	coin, art := r.fungibleToken(owner, nil), r.collection(owner, 2, nil)
	none := r.account(dev(t, 1), func(*hapi.CryptoCreateTransactionBody) {})
	one := r.account(dev(t, 1), func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = 1 })
	any := r.account(dev(t, 1), func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -1 })
	strict := r.account(dev(t, 1), func(b *hapi.CryptoCreateTransactionBody) {
		b.MaxAutomaticTokenAssociations, b.ReceiverSigRequired = -1, true
	})
	me := owner.id.AccountID()
	stranger := fresh(t, 9)
	rec := r.submit(owner.id, airdropOf(
		gift(coin, me, -26, none.id.AccountID(), 5, one.id.AccountID(), 6, any.id.AccountID(), 7, strict.id.AccountID(), 3, aliasID(stranger.address[:]), 5),
		nftGift(art, me, one.id.AccountID(), 1),
	), owner.key)
	r.want(rec, okay)
	made, _ := r.Handled().AccountByAddress(stranger.address)
	for _, tt := range []struct {
		account hedera.ID
		held    int64
	}{{none.id, 0}, {one.id, 6}, {any.id, 7}, {strict.id, 0}, {made.ID, 5}, {owner.id, 982}} {
		if got := r.held(tt.account, coin); got != tt.held {
			t.Errorf("%s holds %d, want %d", tt.account, got, tt.held)
		}
	}
	// The one slot went to the coin: the NFT waits.
	want := []state.Airdrop{
		{Sender: owner.id, Receiver: none.id, Token: coin, Amount: 5},
		{Sender: owner.id, Receiver: one.id, Token: art, Serial: 1},
		{Sender: owner.id, Receiver: strict.id, Token: coin, Amount: 3},
	}
	if diff := cmp.Diff(want, r.airdrops(owner.id, false)); diff != "" {
		t.Errorf("outstanding (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], r.airdrops(none.id, true)); diff != "" {
		t.Errorf("pending (-want +got)\n%s", diff)
	}
	if got := rec.Did().Airdrops; len(got) != 3 || got[0].Since != rec.Consensus {
		t.Errorf("record %+v", got)
	}
	// More of the same adds up; an NFT waits only once.
	r.want(r.submit(owner.id, airdropOf(gift(coin, me, -2, none.id.AccountID(), 2)), owner.key), okay)
	if got := r.airdrops(none.id, true); len(got) != 1 || got[0].Amount != 7 {
		t.Errorf("added up to %+v", got)
	}
	r.want(r.submit(owner.id, airdropOf(nftGift(art, me, one.id.AccountID(), 1)), owner.key), hapi.ResponseCodeEnum_PENDING_NFT_AIRDROP_ALREADY_EXISTS)
	// Who signs gets it at once.
	r.want(r.submit(owner.id, airdropOf(gift(coin, me, -1, strict.id.AccountID(), 1)), owner.key, strict.key), okay)
	if got := r.held(strict.id, coin); got != 1 {
		t.Errorf("the signer holds %d", got)
	}
	r.checkSupply(coin)
}

// A claim needs the receiver, a cancellation the sender, and neither may be asked twice.
func TestAirdropsEnd(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 2)
	coin, art := r.fungibleToken(owner, nil), r.collection(owner, 3, nil)
	to := r.account(dev(t, 1), func(*hapi.CryptoCreateTransactionBody) {})
	me, you := owner.id.AccountID(), to.id.AccountID()
	r.want(r.submit(owner.id, airdropOf(gift(coin, me, -10, you, 10), nftGift(art, me, you, 1, 2)), owner.key), okay)
	coins, first, second := pendingIDOf(me, you, coin.TokenID(), 0), pendingIDOf(me, you, art.TokenID(), 1), pendingIDOf(me, you, art.TokenID(), 2)

	r.want(r.submit(owner.id, claim(coins), owner.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(to.id, cancelAirdrop(coins), to.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	r.want(r.submit(to.id, claim(coins, pendingIDOf(me, you, art.TokenID(), 3)), to.key), hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID)
	rec := r.submit(other.id, claim(coins, first), other.key, to.key)
	r.want(rec, okay)
	if len(rec.Did().Associations) != 2 || len(rec.Did().Tokens) != 2 || len(rec.Did().NFTs) != 1 || r.held(to.id, coin) != 10 {
		t.Errorf("claimed %+v", rec.Did())
	}
	if relation, _ := r.Handled().Relation(to.id, coin); relation.Automatic {
		t.Error("a claim takes no automatic slot")
	}
	r.want(r.submit(to.id, claim(coins), to.key), hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID)

	r.want(r.submit(owner.id, cancelAirdrop(second), owner.key), okay)
	r.want(r.submit(to.id, claim(second), to.key), hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID)
	if left := r.airdrops(owner.id, false); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
	// What was pending still shows in the past.
	n := 0
	for range r.View().At(hedera.FromNanos(rec.Consensus.UnixNano()-1)).Airdrops(to.id, true, true) {
		n++
	}
	if n != 3 {
		t.Errorf("%d were pending before the claim", n)
	}
	// An NFT that moved on cannot be claimed, and a sender with open airdrops stays.
	third := r.account(dev(t, 2), func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -1 })
	fresh := r.account(dev(t, 1), func(*hapi.CryptoCreateTransactionBody) {})
	send := func(from, to *hapi.AccountID, serial int64) *hapi.TransactionBody {
		return core.BodyOf(&hapi.CryptoTransferTransactionBody{
			TokenTransfers: []*hapi.TokenTransferList{nftGift(art, from, to, serial)},
		})
	}
	r.want(r.submit(owner.id, send(me, third.id.AccountID(), 3), owner.key), okay)
	r.want(r.submit(third.id, airdropOf(nftGift(art, third.id.AccountID(), fresh.id.AccountID(), 3)), third.key), okay)
	r.want(r.submit(third.id, send(third.id.AccountID(), me, 3), third.key), okay)
	r.want(r.submit(fresh.id, claim(pendingIDOf(third.id.AccountID(), fresh.id.AccountID(), art.TokenID(), 3)), fresh.key), hapi.ResponseCodeEnum_SENDER_DOES_NOT_OWN_NFT_SERIAL_NO)
	remove := core.BodyOf(&hapi.CryptoDeleteTransactionBody{
		DeleteAccountID: third.id.AccountID(), TransferAccountID: me,
	})
	r.want(r.submit(owner.id, remove, owner.key, third.key), hapi.ResponseCodeEnum_ACCOUNT_HAS_PENDING_AIRDROPS)
	r.want(r.submit(third.id, cancelAirdrop(pendingIDOf(third.id.AccountID(), fresh.id.AccountID(), art.TokenID(), 3)), third.key), okay)
	r.want(r.submit(owner.id, remove, owner.key, third.key), okay)
}

// What an airdrop may get wrong.
func TestAirdropRefusals(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	me, you := owner.id.AccountID(), other.id.AccountID()
	coin := r.fungibleToken(owner, nil)
	royal := r.collection(owner, 1, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: dev(t, 2).id.AccountID(), Fee: &hapi.CustomFee_RoyaltyFee{RoyaltyFee: &hapi.RoyaltyFee{
			ExchangeValueFraction: &hapi.Fraction{Numerator: 1, Denominator: 2}, FallbackFee: &hapi.FixedFee{Amount: 7},
		}}}}
	})
	contract := r.deploy(other, 0, []byte{0})
	id, _ := r.View().Resolve(contract)
	yes := true
	approved := gift(coin, me, -1, you, 1)
	approved.Transfers[0].IsApproval = &yes
	many := []any{me, -10}
	for i := range 10 {
		stranger := fresh(t, byte(20+i))
		many = append(many, aliasID(stranger.address[:]), 1)
	}
	for name, tt := range map[string]struct {
		list *hapi.TokenTransferList
		want hedera.Status
	}{
		"nothing":             {nil, hapi.ResponseCodeEnum_EMPTY_TOKEN_TRANSFER_BODY},
		"from an allowance":   {approved, hapi.ResponseCodeEnum_NOT_SUPPORTED},
		"to oneself":          {gift(coin, me, -1, me, 1), hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"twice":               {gift(coin, me, -2, you, 1, you, 1), hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		"two senders":         {gift(coin, me, -1, dev(t, 2).id.AccountID(), -1, you, 2), hapi.ResponseCodeEnum_AIRDROP_CONTAINS_MULTIPLE_SENDERS_FOR_A_TOKEN},
		"too much":            {gift(coin, me, -1001, you, 1001), hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE},
		"another's":           {gift(coin, you, -1, me, 1), hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT},
		"to the system":       {gift(coin, me, -1, hedera.Entity(98).AccountID(), 1), hapi.ResponseCodeEnum_INVALID_RECEIVING_NODE_ACCOUNT},
		"to nobody's":         {gift(coin, me, -1, id.AccountID(), 1), hapi.ResponseCodeEnum_NOT_SUPPORTED},
		"too many":            {gift(coin, many...), hapi.ResponseCodeEnum_TOKEN_TRANSFER_LIST_SIZE_LIMIT_EXCEEDED},
		"of no token":         {gift(hedera.Entity(9_999), me, -1, you, 1), hapi.ResponseCodeEnum_INVALID_TOKEN_ID},
		"with a fallback fee": {nftGift(royal, me, you, 1), okay}, // of the treasury, which pays no royalty
	} {
		body := airdropOf(tt.list)
		if tt.list == nil {
			body = airdropOf()
		}
		status := r.PureCheck(body)
		if status == okay {
			status = r.submit(owner.id, body, owner.key, dev(t, 2).key).Status
		}
		if status != tt.want {
			t.Errorf("%s: %s, want %s", name, status, tt.want)
		}
	}
	buyer := r.account(other, func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -1 })
	r.want(r.submit(owner.id, airdropOf(nftGift(royal, me, buyer.id.AccountID(), 1)), owner.key), okay)
	r.want(r.submit(buyer.id, airdropOf(nftGift(royal, buyer.id.AccountID(), you, 1)), buyer.key), hapi.ResponseCodeEnum_TOKEN_AIRDROP_WITH_FALLBACK_ROYALTY)
}

// The sender pays fractional fees when it sends, out of what receivers are to get.
func TestAirdropFees(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	coin := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: owner.id.AccountID(), Fee: &hapi.CustomFee_FractionalFee{
			FractionalFee: &hapi.FractionalFee{FractionalAmount: &hapi.Fraction{Numerator: 1, Denominator: 10}},
		}}}
	})
	from := r.account(dev(t, 1), func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -1 })
	to := r.account(dev(t, 1), func(*hapi.CryptoCreateTransactionBody) {})
	r.want(r.submit(owner.id, units(coin, owner.id.AccountID(), -100, from.id.AccountID(), 100), owner.key), okay)
	rec := r.submit(from.id, airdropOf(gift(coin, from.id.AccountID(), -50, to.id.AccountID(), 50)), from.key)
	r.want(rec, okay)
	if got := r.airdrops(to.id, true); len(got) != 1 || got[0].Amount != 45 || r.held(owner.id, coin) != 905 || r.held(from.id, coin) != 95 {
		t.Errorf("pending %+v, the collector has %d, the sender %d", got, r.held(owner.id, coin), r.held(from.id, coin))
	}
	if len(rec.Did().Fees) != 1 || rec.Did().Fees[0].Amount != 5 {
		t.Errorf("fees %+v", rec.Did().Fees)
	}
	r.want(r.submit(to.id, claim(pendingIDOf(from.id.AccountID(), to.id.AccountID(), coin.TokenID(), 0)), to.key), okay)
	if r.held(to.id, coin) != 45 || r.held(owner.id, coin) != 905 {
		t.Errorf("claimed %d, the collector has %d", r.held(to.id, coin), r.held(owner.id, coin))
	}
	r.checkSupply(coin)
}

// What an owner rejects goes back to the treasury, without a fee and with the relation left.
func TestReject(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	holder := r.account(dev(t, 1), func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -1 })
	coin := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: dev(t, 2).id.AccountID(), Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 3}}}}
	})
	empty, art := r.fungibleToken(owner, nil), r.collection(owner, 3, nil)
	me, you := owner.id.AccountID(), holder.id.AccountID()
	r.associated(holder, empty)
	r.want(r.submit(owner.id, airdropOf(gift(coin, me, -40, you, 40), nftGift(art, me, you, 1, 2)), owner.key), okay)

	toggle := func(token hedera.ID, frozen bool) *hapi.TransactionBody {
		if frozen {
			return core.BodyOf(&hapi.TokenFreezeAccountTransactionBody{Token: token.TokenID(), Account: you})
		}
		return core.BodyOf(&hapi.TokenUnfreezeAccountTransactionBody{Token: token.TokenID(), Account: you})
	}
	r.want(r.submit(owner.id, toggle(coin, true), owner.key), okay)
	for name, tt := range map[string]struct {
		owner *hapi.AccountID
		refs  []*hapi.TokenReference
		want  hedera.Status
	}{
		"nothing":         {you, nil, hapi.ResponseCodeEnum_EMPTY_TOKEN_REFERENCE_LIST},
		"twice":           {you, []*hapi.TokenReference{rejectedNFTOf(art.TokenID(), 1), rejectedNFTOf(art.TokenID(), 1)}, hapi.ResponseCodeEnum_TOKEN_REFERENCE_REPEATED},
		"frozen":          {you, []*hapi.TokenReference{rejectedTokenOf(coin.TokenID())}, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		"none of it":      {you, []*hapi.TokenReference{rejectedTokenOf(empty.TokenID())}, hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE},
		"not associated":  {dev(t, 2).id.AccountID(), []*hapi.TokenReference{rejectedTokenOf(empty.TokenID())}, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT},
		"by the treasury": {me, []*hapi.TokenReference{rejectedTokenOf(empty.TokenID())}, hapi.ResponseCodeEnum_ACCOUNT_IS_TREASURY},
		"another's NFT":   {you, []*hapi.TokenReference{rejectedNFTOf(art.TokenID(), 3)}, hapi.ResponseCodeEnum_INVALID_OWNER_ID},
		"an NFT as coins": {you, []*hapi.TokenReference{rejectedTokenOf(art.TokenID())}, hapi.ResponseCodeEnum_ACCOUNT_AMOUNT_TRANSFERS_ONLY_ALLOWED_FOR_FUNGIBLE_COMMON},
		"coins as an NFT": {you, []*hapi.TokenReference{rejectedNFTOf(empty.TokenID(), 1)}, hapi.ResponseCodeEnum_INVALID_NFT_ID},
		"too many": {you, func() (list []*hapi.TokenReference) {
			for i := range int64(11) {
				list = append(list, rejectedNFTOf(art.TokenID(), i+1))
			}
			return list
		}(), hapi.ResponseCodeEnum_TOKEN_REFERENCE_LIST_SIZE_LIMIT_EXCEEDED},
	} {
		body := reject(tt.owner, tt.refs...)
		status := r.PureCheck(body)
		if status == okay {
			status = r.submit(owner.id, body, owner.key, holder.key, dev(t, 2).key).Status
		}
		if status != tt.want {
			t.Errorf("%s: %s, want %s", name, status, tt.want)
		}
	}
	r.want(r.submit(owner.id, toggle(coin, false), owner.key), okay)
	r.want(r.submit(owner.id, reject(you, rejectedTokenOf(coin.TokenID())), owner.key), hapi.ResponseCodeEnum_INVALID_SIGNATURE)
	rec := r.submit(holder.id, reject(nil, rejectedTokenOf(coin.TokenID()), rejectedNFTOf(art.TokenID(), 1)), holder.key)
	r.want(rec, okay)
	if len(rec.Did().Fees) != 0 || r.held(holder.id, coin) != 0 || r.held(owner.id, coin) != 1000 || r.held(holder.id, art) != 1 {
		t.Errorf("%+v, held %d", rec.Did(), r.held(holder.id, coin))
	}
	if _, ok := r.Handled().Relation(holder.id, coin); !ok {
		t.Error("the relation is gone")
	}
	if nft, _ := r.Handled().NFT(art, 1); nft.Owner != owner.id {
		t.Errorf("NFT 1 belongs to %s", nft.Owner)
	}
	r.checkSupply(coin)
}

// Arguments of the token service in the form that the encoder takes.
type (
	amountArg struct {
		Name0 common.Address
		Name1 int64
		Name2 bool
	}
	moveArg struct {
		Name0, Name1 common.Address
		Name2        int64
		Name3        bool
	}
	transfersArg struct {
		Name0 common.Address
		Name1 []amountArg
		Name2 []moveArg
	}
	pendingArg struct {
		Name0, Name1, Name2 common.Address
		Name3               int64
	}
	nftArg struct {
		Name0 common.Address
		Name1 int64
	}
)

const (
	airdropSignature = "airdropTokens((address,(address,int64,bool)[],(address,address,int64,bool)[])[])"
	claimSignature   = "claimAirdrops((address,address,address,int64)[])"
	cancelSignature  = "cancelAirdrops((address,address,address,int64)[])"
	rejectSignature  = "rejectTokens(address,address[],(address,int64)[])"
)

// The functions of the token service do what the transactions do, with children and events.
func TestAirdropCalls(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	coin, art := r.fungibleToken(owner, nil), r.collection(owner, 4, nil)
	drop := []transfersArg{
		{Name0: coin.LongZero(), Name1: []amountArg{{owner.address, -9, false}, {other.address, 9, false}}},
		{Name0: art.LongZero(), Name2: []moveArg{
			{owner.address, other.address, 1, false}, {owner.address, other.address, 2, false}, {owner.address, other.address, 3, false},
		}},
	}
	rec := r.call(owner, serviceAddress, 0, airdropSignature, drop)
	if got := r.code(rec); got != okay {
		t.Fatalf("airdrop: %s", got)
	}
	if len(rec.Children) != 1 || rec.Children[0].Kind != history.KindTokenAirdrop || len(rec.Children[0].Did().Airdrops) != 4 || len(rec.Result.Logs) != 0 {
		t.Errorf("children %+v, logs %d", rec.Children, len(rec.Result.Logs))
	}
	coins := pendingArg{owner.address, other.address, coin.LongZero(), 0}
	one := func(serial int64) pendingArg { return pendingArg{owner.address, other.address, art.LongZero(), serial} }
	if got := r.code(r.call(owner, serviceAddress, 0, claimSignature, []pendingArg{coins})); got != hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE {
		t.Errorf("claim by the sender: %s", got)
	}
	rec = r.call(other, serviceAddress, 0, claimSignature, []pendingArg{coins})
	if got := r.code(rec); got != okay || len(rec.Result.Logs) != 1 || rec.Result.Logs[0].Contract != coin || r.held(other.id, coin) != 9 {
		t.Errorf("claim: %s, logs %d, held %d", got, len(rec.Result.Logs), r.held(other.id, coin))
	}
	// The functions of the token's proxy do the same for whoever calls.
	for i, tt := range []struct {
		from, partner party
		token         hedera.ID
		signature     string
		args          []any
		kind          history.Kind
		logs          int
	}{
		{other, owner, art, "claimAirdropNFT(address,int64)", []any{owner.address, int64(1)}, history.KindTokenClaim, 1},
		{owner, other, art, "cancelAirdropNFT(address,int64)", []any{other.address, int64(2)}, history.KindTokenCancel, 0},
		{other, owner, art, "rejectTokenNFTs(int64[])", []any{[]int64{1}}, history.KindTokenReject, 1},
		{other, owner, coin, "rejectTokenFT()", nil, history.KindTokenReject, 1},
	} {
		rec := r.call(tt.from, tt.token.LongZero(), 0, tt.signature, tt.args...)
		if got := r.code(rec); got != okay || len(rec.Children) != 1 || rec.Children[0].Kind != tt.kind || len(rec.Result.Logs) != tt.logs {
			t.Errorf("%d: %s: %s, children %+v, logs %d", i, tt.signature, got, rec.Children, len(rec.Result.Logs))
		}
	}
	if r.held(other.id, coin) != 0 || r.held(other.id, art) != 0 || r.held(owner.id, art) != 4 {
		t.Errorf("held %d and %d", r.held(other.id, coin), r.held(other.id, art))
	}
	if got := r.code(r.call(owner, serviceAddress, 0, cancelSignature, []pendingArg{one(3)})); got != okay || len(r.airdrops(owner.id, false)) != 0 {
		t.Errorf("cancel: %s", got)
	}
	// A fungible one may be taken back, too, and many things be rejected at once.
	r.want(r.call(owner, serviceAddress, 0, airdropSignature, drop[:1]), okay) // other is associated by now
	r.want(r.submit(owner.id, airdropOf(nftGift(art, owner.id.AccountID(), other.id.AccountID(), 4)), owner.key), okay)
	third := dev(t, 2)
	r.want(r.submit(owner.id, airdropOf(gift(coin, owner.id.AccountID(), -5, third.id.AccountID(), 5)), owner.key), okay)
	if got := r.code(r.call(owner, coin.LongZero(), 0, "cancelAirdropFT(address)", third.address)); got != okay {
		t.Errorf("cancel of coins: %s", got)
	}
	if got := r.code(r.call(third, coin.LongZero(), 0, "claimAirdropFT(address)", owner.address)); got != hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID {
		t.Errorf("claim of what was taken back: %s", got)
	}
	rec = r.call(other, serviceAddress, 0, rejectSignature, other.address, []common.Address{coin.LongZero()}, []nftArg{{art.LongZero(), 4}})
	if got := r.code(rec); got != okay || r.held(other.id, coin) != 0 || r.held(other.id, art) != 0 {
		t.Errorf("reject: %s, held %d and %d", got, r.held(other.id, coin), r.held(other.id, art))
	}
	r.checkSupply(coin)
}

// pendingIDOf names a pending airdrop; serial 0 is of a fungible token.
func pendingIDOf(sender, receiver *hapi.AccountID, token *hapi.TokenID, serial int64) *hapi.PendingAirdropId {
	id := &hapi.PendingAirdropId{SenderId: sender, ReceiverId: receiver}
	if serial == 0 {
		id.TokenReference = &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: token}
	} else {
		id.TokenReference = &hapi.PendingAirdropId_NonFungibleToken{NonFungibleToken: &hapi.NftID{Token_ID: token, SerialNumber: serial}}
	}
	return id
}

func rejectedNFTOf(token *hapi.TokenID, serial int64) *hapi.TokenReference {
	return &hapi.TokenReference{TokenIdentifier: &hapi.TokenReference_Nft{Nft: &hapi.NftID{Token_ID: token, SerialNumber: serial}}}
}

func rejectedTokenOf(token *hapi.TokenID) *hapi.TokenReference {
	return &hapi.TokenReference{TokenIdentifier: &hapi.TokenReference_FungibleToken{FungibleToken: token}}
}
