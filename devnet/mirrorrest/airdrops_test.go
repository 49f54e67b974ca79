package mirrorrest_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// airdropScene has the treasury send coins to two accounts and NFTs to one, none of which
// have a place for them.
func airdropScene(t *testing.T) (n *network, coin, art hedera.ID, to []string) {
	t.Helper()
	n = newNetwork(t, ledger.Config{})
	key := operatorKey(n)
	var receivers []*hapi.AccountID
	for range 2 {
		rec := n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoCreateAccount{CryptoCreateAccount: &hapi.CryptoCreateTransactionBody{
			Key: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		}}}, nil)
		n.mustSucceed(rec)
		receivers, to = append(receivers, accountID(rec.Account.Num)), append(to, rec.Account.String())
	}
	coin = n.createToken(&hapi.TokenCreateTransactionBody{Name: "Coin", Symbol: "C", InitialSupply: 100})
	art = n.createToken(&hapi.TokenCreateTransactionBody{Name: "Art", Symbol: "A", TokenType: hapi.TokenType_NON_FUNGIBLE_UNIQUE})
	n.mint(art, []byte("one"), []byte("two"), []byte("three"))
	drop := []*hapi.TokenTransferList{{Token: tokenID(coin), Transfers: []*hapi.AccountAmount{
		{AccountID: accountID(2), Amount: -9}, {AccountID: receivers[0], Amount: 4}, {AccountID: receivers[1], Amount: 5},
	}}, {Token: tokenID(art)}}
	for serial := int64(1); serial <= 3; serial++ {
		drop[1].NftTransfers = append(drop[1].NftTransfers, &hapi.NftTransfer{SenderAccountID: accountID(2), ReceiverAccountID: receivers[0], SerialNumber: serial})
	}
	n.mustSucceed(n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenAirdrop{TokenAirdrop: &hapi.TokenAirdropTransactionBody{TokenTransfers: drop}}}, nil))
	return n, coin, art, to
}

// Both lists of airdrops, with their filters, in both orders and page by page.
func TestAirdrops(t *testing.T) {
	n, coin, art, to := airdropScene(t)
	const sent = "accounts/0.0.2/airdrops/outstanding"
	ask := func(path string) (got []string) {
		for _, a := range n.list(path, "airdrops") {
			if a["sender_id"] != "0.0.2" {
				t.Errorf("sent by %v", a["sender_id"])
			}
			got = append(got, fmt.Sprintf("%v %v #%v %v", a["receiver_id"], a["token_id"], a["serial_number"], a["amount"]))
		}
		return got
	}
	all := []string{
		fmt.Sprintf("%s %s #<nil> 4", to[0], coin), fmt.Sprintf("%s %s #1 0", to[0], art), fmt.Sprintf("%s %s #2 0", to[0], art),
		fmt.Sprintf("%s %s #3 0", to[0], art), fmt.Sprintf("%s %s #<nil> 5", to[1], coin),
	}
	backwards := reversed(all)
	received := "accounts/" + to[0] + "/airdrops/pending"
	for path, want := range map[string][]string{
		sent:                               all,
		sent + "?limit=2":                  all,
		sent + "?limit=1&order=desc":       backwards,
		sent + "?receiver.id=" + to[1]:     all[4:],
		sent + "?receiver.id=gte:" + to[1]: all[4:],
		sent + "?token.id=" + art.String(): all[1:4],
		sent + "?serialnumber=2":           all[2:3],
		sent + "?receiver.id=" + to[0] + "&token.id=" + art.String() + "&serialnumber=gte:2&limit=1": all[2:4],
		received:                                all[:4],
		received + "?sender.id=0.0.2&limit=3":   all[:4],
		received + "?sender.id=0.0.3":           nil,
		received + "?order=desc&limit=3":        backwards[1:],
		received + "?token.id=" + coin.String(): all[:1],
		"accounts/0.0.2/airdrops/pending":       nil,
	} {
		if got := ask(path); !slices.Equal(got, want) {
			t.Errorf("%s\n got %q\nwant %q", path, got, want)
		}
	}
	for path, status := range map[string]int{
		sent + "?sender.id=0.0.2":                  http.StatusBadRequest,
		sent + "?serialnumber=x":                   http.StatusBadRequest,
		"accounts/0.0.999999/airdrops/pending":     http.StatusNotFound,
		"accounts/0.0.999999/airdrops/outstanding": http.StatusNotFound,
	} {
		n.get(path, status)
	}
	spec := loadSpecification(t)
	for _, side := range []string{"outstanding", "pending"} {
		path := "accounts/" + map[string]string{"outstanding": "0.0.2", "pending": to[0]}[side] + "/airdrops/" + side
		spec.check(t, http.MethodGet, "accounts/{idOrAliasOrEvmAddress}/airdrops/"+side, n.do(http.MethodGet, "/api/v1/"+path, ""))
	}
	// A claim ends one.
	receiver := must.Get(hedera.ParseID(to[1]))(t)
	n.mustSucceed(n.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenClaimAirdrop{TokenClaimAirdrop: &hapi.TokenClaimAirdropTransactionBody{
		PendingAirdrops: []*hapi.PendingAirdropId{{
			SenderId: accountID(2), ReceiverId: accountID(receiver.Num),
			TokenReference: &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: tokenID(coin)},
		}},
	}}}, nil))
	if got := ask(sent); !slices.Equal(got, all[:4]) {
		t.Errorf("after a claim %q", got)
	}
}
