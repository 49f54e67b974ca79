package mirrorrest_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func tokenID(id hedera.ID) *hapi.TokenID { return &hapi.TokenID{TokenNum: id.Num} }

// operatorKey is the treasury's.
func operatorKey(n *network) *hapi.Key {
	a, _ := n.ledger.View().Account(hedera.Entity(2))
	return a.Key
}

func (n *network) createToken(body *hapi.TokenCreateTransactionBody) hedera.ID {
	n.t.Helper()
	body.Treasury, body.AdminKey, body.SupplyKey = accountID(2), operatorKey(n), operatorKey(n)
	rec := n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenCreation{TokenCreation: body}}, nil)
	n.mustSucceed(rec)
	return rec.Did().Token
}

func (n *network) mint(token hedera.ID, metadata ...[]byte) {
	n.t.Helper()
	n.mustSucceed(n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenMint{
		TokenMint: &hapi.TokenMintTransactionBody{Token: tokenID(token), Metadata: metadata},
	}}, nil))
}

// sendTokens has the treasury send units of a token, or an NFT, to a new account.
func (n *network) sendTokens(list *hapi.TokenTransferList, hbar ...*hapi.AccountAmount) *ledger.Record {
	n.t.Helper()
	rec := n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
		Transfers: &hapi.TransferList{AccountAmounts: hbar}, TokenTransfers: []*hapi.TokenTransferList{list},
	}}}, nil)
	n.mustSucceed(rec)
	return rec
}

// newTokenScene is a scene with tokens in it.
func newTokenScene(t testing.TB) *scene {
	t.Helper()
	s := newScene(t)
	s.makeTokens()
	s.makeTopic()
	s.makeSchedules()
	return s
}

// makeTokens makes one of everything that there is of tokens.
func (s *scene) makeTokens() {
	s.t.Helper()
	key := operatorKey(s.network)
	collector := accountID(account(0).ID.Num)
	s.coin = s.createToken(&hapi.TokenCreateTransactionBody{
		Name: "Coin", Symbol: "COIN", Decimals: 3, InitialSupply: 1000, FreezeKey: key, PauseKey: key, Metadata: []byte{1},
		CustomFees: []*hapi.CustomFee{{
			Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 5}}, FeeCollectorAccountId: collector,
		}},
	})
	other := s.createToken(&hapi.TokenCreateTransactionBody{Name: "Other", Symbol: "O", InitialSupply: 9})
	s.art = s.createToken(&hapi.TokenCreateTransactionBody{
		Name: "Art", Symbol: "ART", TokenType: hapi.TokenType_NON_FUNGIBLE_UNIQUE, KycKey: key,
		CustomFees: []*hapi.CustomFee{{
			Fee: &hapi.CustomFee_RoyaltyFee{RoyaltyFee: &hapi.RoyaltyFee{
				ExchangeValueFraction: &hapi.Fraction{Numerator: 1, Denominator: 2}, FallbackFee: &hapi.FixedFee{Amount: 7},
			}}, FeeCollectorAccountId: collector,
		}},
	})
	plain := s.createToken(&hapi.TokenCreateTransactionBody{Name: "Plain", Symbol: "P", TokenType: hapi.TokenType_NON_FUNGIBLE_UNIQUE})
	s.mint(s.art, []byte("one"), []byte("two"), []byte("three"))
	s.mint(plain, []byte("p"), []byte("q"))
	// By a second account, which the operator's key controls.
	holder := s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoCreateAccount{CryptoCreateAccount: &hapi.CryptoCreateTransactionBody{
		Key: key, InitialBalance: 1000, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000}, MaxAutomaticTokenAssociations: -1,
	}}}, nil)
	s.mustSucceed(holder)
	to := accountID(holder.Account.Num)
	s.sendTokens(&hapi.TokenTransferList{Token: tokenID(s.coin), Transfers: []*hapi.AccountAmount{
		{AccountID: accountID(2), Amount: -10}, {AccountID: to, Amount: 10},
	}})
	s.royalty = s.sendTokens(&hapi.TokenTransferList{Token: tokenID(s.coin), Transfers: []*hapi.AccountAmount{
		{AccountID: to, Amount: -3}, {AccountID: accountID(2), Amount: 3},
	}})
	s.associate(to, s.art)
	s.mustSucceed(s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenGrantKyc{TokenGrantKyc: &hapi.TokenGrantKycTransactionBody{
		Token: tokenID(s.art), Account: to,
	}}}, nil))
	s.sendTokens(&hapi.TokenTransferList{Token: tokenID(s.art), NftTransfers: []*hapi.NftTransfer{
		{SenderAccountID: accountID(2), ReceiverAccountID: to, SerialNumber: 1},
	}})
	s.approveAll(other, plain)
}

func (n *network) associate(account *hapi.AccountID, token hedera.ID) {
	n.t.Helper()
	n.mustSucceed(n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenAssociate{TokenAssociate: &hapi.TokenAssociateTransactionBody{
		Account: account, Tokens: []*hapi.TokenID{tokenID(token)},
	}}}, nil))
}

// approveAll has the treasury approve two spenders for hbar, tokens and NFTs.
func (s *scene) approveAll(other, plain hedera.ID) {
	s.t.Helper()
	body := &hapi.CryptoApproveAllowanceTransactionBody{}
	for i := range 2 {
		spender := accountID(account(i).ID.Num)
		body.CryptoAllowances = append(body.CryptoAllowances, &hapi.CryptoAllowance{Spender: spender, Amount: 5})
		for _, token := range []hedera.ID{s.coin, other} {
			body.TokenAllowances = append(body.TokenAllowances, &hapi.TokenAllowance{TokenId: tokenID(token), Spender: spender, Amount: 6})
		}
		for _, token := range []hedera.ID{s.art, plain} {
			body.NftAllowances = append(body.NftAllowances, &hapi.NftAllowance{
				TokenId: tokenID(token), Spender: spender, ApprovedForAll: wrapperspb.Bool(true),
			})
		}
	}
	s.mustSucceed(s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoApproveAllowance{CryptoApproveAllowance: body}}, nil))
}
