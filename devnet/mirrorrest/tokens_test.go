package mirrorrest_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// operatorKey is the treasury's.
func operatorKey(n *network) *hapi.Key {
	a, _ := n.ledger.View().Account(hedera.Entity(2))
	return a.Key
}

func (n *network) createToken(body *hapi.TokenCreateTransactionBody) hedera.ID {
	n.t.Helper()
	body.Treasury, body.AdminKey, body.SupplyKey = accountID(2), operatorKey(n), operatorKey(n)
	rec := n.mustSucceed(n.handle(core.BodyOf(body), nil))
	return rec.Did().Token
}

func (n *network) mint(token hedera.ID, metadata ...[]byte) {
	n.t.Helper()
	n.mustSucceed(n.handle(core.BodyOf(&hapi.TokenMintTransactionBody{Token: token.TokenID(), Metadata: metadata}), nil))
}

// sendTokens has the treasury send units of a token, or an NFT, to a new account.
func (n *network) sendTokens(list *hapi.TokenTransferList, hbar ...*hapi.AccountAmount) *history.Record {
	n.t.Helper()
	rec := n.mustSucceed(n.handle(core.BodyOf(&hapi.CryptoTransferTransactionBody{
		Transfers: &hapi.TransferList{AccountAmounts: hbar}, TokenTransfers: []*hapi.TokenTransferList{list},
	}), nil))
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
	holder := s.mustSucceed(s.handle(core.BodyOf(&hapi.CryptoCreateTransactionBody{
		Key: key, InitialBalance: 1000, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000}, MaxAutomaticTokenAssociations: -1,
	}), nil))
	to := accountID(holder.Account.Num)
	s.sendTokens(&hapi.TokenTransferList{Token: s.coin.TokenID(), Transfers: []*hapi.AccountAmount{
		{AccountID: accountID(2), Amount: -10}, {AccountID: to, Amount: 10},
	}})
	s.royalty = s.sendTokens(&hapi.TokenTransferList{Token: s.coin.TokenID(), Transfers: []*hapi.AccountAmount{
		{AccountID: to, Amount: -3}, {AccountID: accountID(2), Amount: 3},
	}})
	s.associate(to, s.art)
	s.mustSucceed(s.handle(core.BodyOf(&hapi.TokenGrantKycTransactionBody{
		Token: s.art.TokenID(), Account: to,
	}), nil))
	s.sendTokens(&hapi.TokenTransferList{Token: s.art.TokenID(), NftTransfers: []*hapi.NftTransfer{
		{SenderAccountID: accountID(2), ReceiverAccountID: to, SerialNumber: 1},
	}})
	s.approveAll(other, plain)
}

func (n *network) associate(account *hapi.AccountID, token hedera.ID) {
	n.t.Helper()
	n.mustSucceed(n.handle(core.BodyOf(&hapi.TokenAssociateTransactionBody{
		Account: account, Tokens: []*hapi.TokenID{token.TokenID()},
	}), nil))
}

// approveAll has the treasury approve two spenders for hbar, tokens and NFTs.
func (s *scene) approveAll(other, plain hedera.ID) {
	s.t.Helper()
	body := &hapi.CryptoApproveAllowanceTransactionBody{}
	for i := range 2 {
		spender := accountID(account(i).ID.Num)
		body.CryptoAllowances = append(body.CryptoAllowances, &hapi.CryptoAllowance{Spender: spender, Amount: 5})
		for _, token := range []hedera.ID{s.coin, other} {
			body.TokenAllowances = append(body.TokenAllowances, &hapi.TokenAllowance{TokenId: token.TokenID(), Spender: spender, Amount: 6})
		}
		for _, token := range []hedera.ID{s.art, plain} {
			body.NftAllowances = append(body.NftAllowances, &hapi.NftAllowance{
				TokenId: token.TokenID(), Spender: spender, ApprovedForAll: wrapperspb.Bool(true),
			})
		}
	}
	s.mustSucceed(s.handle(core.BodyOf(body), nil))
}

// airdropScene has the treasury send coins to two accounts and NFTs to one, none of which
// have a place for them.
func airdropScene(t *testing.T) (n *network, coin, art hedera.ID, to []string) {
	t.Helper()
	n = newNetwork(t, ledger.Config{})
	key := operatorKey(n)
	var receivers []*hapi.AccountID
	for range 2 {
		rec := n.mustSucceed(n.handle(core.BodyOf(&hapi.CryptoCreateTransactionBody{
			Key: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		}), nil))
		receivers, to = append(receivers, accountID(rec.Account.Num)), append(to, rec.Account.String())
	}
	coin = n.createToken(&hapi.TokenCreateTransactionBody{Name: "Coin", Symbol: "C", InitialSupply: 100})
	art = n.createToken(&hapi.TokenCreateTransactionBody{Name: "Art", Symbol: "A", TokenType: hapi.TokenType_NON_FUNGIBLE_UNIQUE})
	n.mint(art, []byte("one"), []byte("two"), []byte("three"))
	drop := []*hapi.TokenTransferList{{Token: coin.TokenID(), Transfers: []*hapi.AccountAmount{
		{AccountID: accountID(2), Amount: -9}, {AccountID: receivers[0], Amount: 4}, {AccountID: receivers[1], Amount: 5},
	}}, {Token: art.TokenID()}}
	for serial := int64(1); serial <= 3; serial++ {
		drop[1].NftTransfers = append(drop[1].NftTransfers, &hapi.NftTransfer{SenderAccountID: accountID(2), ReceiverAccountID: receivers[0], SerialNumber: serial})
	}
	n.mustSucceed(n.handle(core.BodyOf(&hapi.TokenAirdropTransactionBody{TokenTransfers: drop}), nil))
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
	n.mustSucceed(n.handle(core.BodyOf(&hapi.TokenClaimAirdropTransactionBody{
		PendingAirdrops: []*hapi.PendingAirdropId{{
			SenderId: accountID(2), ReceiverId: accountID(receiver.Num),
			TokenReference: &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: coin.TokenID()},
		}},
	}), nil))
	if got := ask(sent); !slices.Equal(got, all[:4]) {
		t.Errorf("after a claim %q", got)
	}
}

// makeTopic makes a topic with all that a topic has, and messages in it, one in chunks.
func (s *scene) makeTopic() {
	s.t.Helper()
	key := operatorKey(s.network)
	rec := s.mustSucceed(s.handle(core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
		Memo: "a topic", AdminKey: key, SubmitKey: key, FeeScheduleKey: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		AutoRenewAccount: accountID(2), FeeExemptKeyList: []*hapi.Key{key},
		CustomFees: []*hapi.FixedCustomFee{{FixedFee: &hapi.FixedFee{Amount: 3}, FeeCollectorAccountId: accountID(account(0).ID.Num)}},
	}), nil))
	s.topic = rec.Did().Topic
	for i, text := range []string{"one", "two", "\xff three"} {
		s.message = s.submitMessage(text, i > 0)
	}
}

// submitMessage submits a message, or the first chunk of one.
func (s *scene) submitMessage(text string, chunked bool) *history.Record {
	s.t.Helper()
	body := &hapi.ConsensusSubmitMessageTransactionBody{TopicID: topicID(s.topic), Message: []byte(text)}
	if chunked {
		start := hedera.FromNanos(s.genesis.UnixNano() - int64(60e9) + s.starts + 1) // that of this very transaction
		body.ChunkInfo = &hapi.ConsensusMessageChunkInfo{
			Total: 2, Number: 1,
			InitialTransactionID: &hapi.TransactionID{
				AccountID: accountID(2), TransactionValidStart: &hapi.Timestamp{Seconds: start.Seconds, Nanos: start.Nanos},
				Scheduled: new(false),
			},
		}
	}
	rec := s.mustSucceed(s.handle(core.BodyOf(body), nil))
	return rec
}

func topicID(id hedera.ID) *hapi.TopicID { return &hapi.TopicID{TopicNum: id.Num} }

// makeSchedules makes a schedule that executes and one that waits for a signature.
func (s *scene) makeSchedules() {
	s.t.Helper()
	s.schedule = s.scheduleTransfer(2, account(0).ID.Num, true)
	s.scheduleTransfer(account(0).ID.Num, 2, false)
}

func (s *scene) scheduleTransfer(from, to int64, expiry bool) *history.Record {
	s.t.Helper()
	body := &hapi.ScheduleCreateTransactionBody{
		Memo: "a schedule", AdminKey: operatorKey(s.network),
		ScheduledTransactionBody: &hapi.SchedulableTransactionBody{Data: &hapi.SchedulableTransactionBody_CryptoTransfer{
			CryptoTransfer: &hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
				{AccountID: accountID(from), Amount: -5}, {AccountID: accountID(to), Amount: 5},
			}}},
		}},
	}
	if expiry {
		body.ExpirationTime = &hapi.Timestamp{Seconds: s.ledger.Now().Unix() + 3600}
	}
	rec := s.mustSucceed(s.handle(core.BodyOf(body), nil))
	return rec
}

func TestSchedules(t *testing.T) {
	s := newTokenScene(t)
	executed := s.ledger.View().Time()
	got := s.get("schedules?order=desc", http.StatusOK)["schedules"].([]any)
	if len(got) != 2 {
		t.Fatalf("schedules %v", got)
	}
	waiting, done := got[0].(map[string]any), got[1].(map[string]any)
	if waiting["executed_timestamp"] != nil || waiting["expiration_time"] != nil || done["expiration_time"] == nil {
		t.Errorf("waiting %v, done %v", waiting, done)
	}
	raw, err := base64.StdEncoding.DecodeString(done["transaction_body"].(string))
	body := new(hapi.SchedulableTransactionBody)
	if err != nil || proto.Unmarshal(raw, body) != nil || body.GetCryptoTransfer() == nil {
		t.Errorf("body %x", raw)
	}
	at, _ := done["executed_timestamp"].(string)
	list := s.get("transactions/"+s.schedule.ID.Mirror(), http.StatusOK)["transactions"].([]any)
	if len(list) != 2 {
		t.Fatalf("transactions %v", list)
	}
	first, second := list[0].(map[string]any), list[1].(map[string]any)
	if first["name"] != "SCHEDULECREATE" || first["entity_id"] != done["schedule_id"] || second["name"] != "CRYPTOTRANSFER" ||
		second["scheduled"] != true || second["consensus_timestamp"] != at || second["node"] != nil || at > executed.String() {
		t.Errorf("first %v, second %v", first, second)
	}
	one := s.get("transactions/"+s.schedule.ID.Mirror()+"?scheduled=false", http.StatusOK)["transactions"].([]any)
	if len(one) != 1 {
		t.Errorf("not scheduled: %v", one)
	}
}
