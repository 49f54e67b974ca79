package ledger

import (
	"crypto/ecdsa"
	"math/rand/v2"
	"testing"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
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
