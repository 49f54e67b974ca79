package devnet

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// world is a network that random operations are done to, and the three ways to ask it.
type world struct {
	fees    bool // are charged
	t       *testing.T
	ledger  *ledger.Ledger
	node    *node.Node
	mirror  http.Handler
	random  *rand.Rand
	starts  int32
	parties []devaccounts.Account
	coin    hedera.ID
	art     hedera.ID
	done    int
	kinds   map[history.Kind]int // of what succeeded
}

func newWorld(t *testing.T, seed uint64, fees bool) *world {
	t.Helper()
	n := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fees: fees}))(t)
	t.Cleanup(n.Close)
	w := &world{t: t, fees: fees, random: rand.New(rand.NewPCG(seed, 7)), parties: devaccounts.All()[:4]}
	w.use(n)
	w.coin = w.makeToken(&hapi.TokenCreateTransactionBody{Name: "Coin", Symbol: "C", InitialSupply: 1_000_000})
	w.art = w.makeToken(&hapi.TokenCreateTransactionBody{Name: "Art", Symbol: "A", TokenType: hapi.TokenType_NON_FUNGIBLE_UNIQUE})
	for i := range w.parties[1:3] { // the last one knows no token
		w.must(w.submit(i+1, core.BodyOf(&hapi.TokenAssociateTransactionBody{
			Account: w.account(i + 1), Tokens: []*hapi.TokenID{w.coin.TokenID(), w.art.TokenID()},
		})))
		w.must(w.submit(0, core.BodyOf(&hapi.CryptoTransferTransactionBody{
			TokenTransfers: []*hapi.TokenTransferList{{Token: w.coin.TokenID(), Transfers: []*hapi.AccountAmount{
				{AccountID: w.account(0), Amount: -100_000}, {AccountID: w.account(i + 1), Amount: 100_000},
			}}},
		})))
	}
	return w
}

// use has the operations done to a network.
func (w *world) use(n *Network) {
	w.ledger, w.node = n.Ledger(), n.consensus.Nodes()[0]
	cfg := mirrorrest.Config{View: n.MirrorView, Log: n.cfg.Log}
	if n.origin != nil {
		cfg.Origin = n.origin
	}
	w.mirror = mirrorrest.New(cfg)
}

func (w *world) makeToken(body *hapi.TokenCreateTransactionBody) hedera.ID {
	w.t.Helper()
	key := &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: w.parties[0].PublicKey}}
	body.Treasury, body.SupplyKey, body.WipeKey, body.AdminKey = w.account(0), key, key, key
	rec := w.submit(0, core.BodyOf(body))
	w.must(rec)
	return rec.Did().Token
}

func (w *world) must(rec *history.Record) {
	w.t.Helper()
	if rec.Status != hapi.ResponseCodeEnum_SUCCESS {
		w.t.Fatalf("%s: %s", rec.Kind, rec.Status)
	}
}

func (w *world) account(i int) *hapi.AccountID { return w.parties[i].ID.AccountID() }

func (w *world) key(i int) *ecdsa.PrivateKey {
	w.t.Helper()
	return must.Get(crypto.HexToECDSA(w.parties[i].PrivateKey))(w.t)
}

// submit signs a body with every party's key, hands it to the node and returns its record.
func (w *world) submit(payer int, body *hapi.TransactionBody) *history.Record {
	w.t.Helper()
	outer, id := w.sign(payer, 3, body)
	response, err := w.node.Submit(w.t.Context(), &hapi.Transaction{SignedTransactionBytes: outer})
	if err != nil || response.GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_OK {
		w.t.Fatalf("%v, %v", response, err)
	}
	records := w.ledger.Handled().RecordsByID(id)
	for _, rec := range records {
		if !rec.IsChild() {
			return rec
		}
	}
	w.t.Fatalf("no record of %s", id)
	return nil
}

// sign completes a body for a node, 0 for one in a batch, and has every party sign it.
func (w *world) sign(payer int, to int64, body *hapi.TransactionBody) ([]byte, hedera.TransactionID) {
	w.t.Helper()
	w.starts++
	start := time.Now().Add(-20 * time.Second).Unix()
	body.TransactionID = &hapi.TransactionID{
		AccountID: w.account(payer), TransactionValidStart: &hapi.Timestamp{Seconds: start, Nanos: w.starts},
	}
	body.NodeAccountID = hedera.Entity(to).AccountID()
	body.TransactionFee, body.TransactionValidDuration = 1_000_000_000, &hapi.Duration{Seconds: 120}
	raw := must.Get(proto.Marshal(body))(w.t)
	signed := &hapi.SignedTransaction{BodyBytes: raw, SigMap: &hapi.SignatureMap{}}
	for i := range w.parties {
		signature := must.Get(crypto.Sign(crypto.Keccak256(raw), w.key(i)))(w.t)
		signed.SigMap.SigPair = append(signed.SigMap.SigPair, &hapi.SignaturePair{
			PubKeyPrefix: w.parties[i].PublicKey, Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature[:64]},
		})
	}
	outer := must.Get(proto.Marshal(signed))(w.t)
	return outer, hedera.TransactionID{Payer: w.parties[payer].ID, ValidStart: hedera.Timestamp{Seconds: start, Nanos: w.starts}}
}

// call has a party send an Ethereum transaction.
func (w *world) call(from int, to common.Address, value hedera.Tinybar, data []byte) *history.Record {
	w.t.Helper()
	a, _ := w.ledger.Handled().Account(w.parties[from].ID)
	tx := must.Get(types.SignNewTx(w.key(from), types.LatestSignerForChainID(big.NewInt(ledger.DefaultChainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(ledger.DefaultChainID), Nonce: uint64(a.Nonce), To: &to, Value: value.Weibar(), Gas: 200_000, Data: data,
		GasFeeCap: (2 * ledger.DefaultGasPrice).Weibar(), GasTipCap: new(big.Int),
	}))(w.t)
	raw := must.Get(tx.MarshalBinary())(w.t)
	return w.submit(from, core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw}))
}

func words(selector string, values ...*big.Int) []byte {
	data := common.FromHex(selector)
	for _, v := range values {
		data = append(data, common.BigToHash(v).Bytes()...)
	}
	return data
}

func (w *world) address(i int) common.Address { return w.parties[i].EVMAddress() }

// step does one random thing.
func (w *world) step() {
	w.t.Helper()
	from, to, n := w.random.IntN(3), w.random.IntN(3), int64(w.random.IntN(5_000))
	serial := int64(1 + w.random.IntN(12))
	transfer := func(list *hapi.TokenTransferList) *hapi.TransactionBody {
		return core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{list}})
	}
	entries := []*hapi.AccountAmount{{AccountID: w.account(from), Amount: -n}, {AccountID: w.account(to), Amount: n}}
	if from == to {
		entries = nil
	}
	var rec *history.Record
	switch w.random.IntN(16) {
	case 10, 11, 12, 13, 14, 15:
		if rec = w.give(from, n, serial); rec == nil {
			return
		}
	case 0:
		rec = w.submit(from, core.BodyOf(&hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{AccountAmounts: entries}}))
	case 1:
		rec = w.submit(0, core.BodyOf(&hapi.TokenMintTransactionBody{Token: w.art.TokenID(), Metadata: [][]byte{{1}}}))
	case 2:
		rec = w.submit(0, core.BodyOf(&hapi.TokenBurnTransactionBody{Token: w.coin.TokenID(), Amount: uint64(n)}))
	case 3:
		rec = w.submit(0, core.BodyOf(&hapi.TokenWipeAccountTransactionBody{
			Token: w.coin.TokenID(), Account: w.account(to), Amount: uint64(n),
		}))
	case 4:
		if from == to {
			return
		}
		rec = w.submit(from, transfer(&hapi.TokenTransferList{Token: w.art.TokenID(), NftTransfers: []*hapi.NftTransfer{{
			SenderAccountID: w.account(from), ReceiverAccountID: w.account(to), SerialNumber: serial,
		}}}))
	case 5:
		if entries == nil {
			return
		}
		rec = w.submit(from, transfer(&hapi.TokenTransferList{Token: w.coin.TokenID(), Transfers: entries}))
	case 6:
		rec = w.call(from, w.address(to), hedera.Tinybar(n), nil)
	case 7: // transferFrom(address,address,uint256)
		rec = w.call(from, w.art.LongZero(), 0, words("0x23b872dd", w.address(from).Big(), w.address(to).Big(), big.NewInt(serial)))
	case 8: // mintToken(address,int64,bytes[]) by the token service
		rec = w.call(0, common.HexToAddress("0x167"), 0, words("0xe0f4059a", w.coin.LongZero().Big(), big.NewInt(n), big.NewInt(96), new(big.Int)))
	default: // transfer(address,uint256)
		rec = w.call(from, w.coin.LongZero(), 0, words("0xa9059cbb", w.address(to).Big(), big.NewInt(n)))
	}
	if rec.Status == hapi.ResponseCodeEnum_SUCCESS {
		w.done++
		w.kinds[rec.Kind]++
	}
}

// give has a party airdrop something, claim, cancel or reject what it can, or send two things in
// one batch; nil where there is nothing to do.
func (w *world) give(from int, n, serial int64) *history.Record {
	w.t.Helper()
	to := (from + 1 + w.random.IntN(3)) % 4
	coins := func(n int64) *hapi.TokenTransferList {
		return &hapi.TokenTransferList{Token: w.coin.TokenID(), Transfers: []*hapi.AccountAmount{
			{AccountID: w.account(from), Amount: -n - 1}, {AccountID: w.account(to), Amount: n + 1},
		}}
	}
	nft := &hapi.TokenTransferList{Token: w.art.TokenID(), NftTransfers: []*hapi.NftTransfer{{
		SenderAccountID: w.account(from), ReceiverAccountID: w.account(to), SerialNumber: serial,
	}}}
	switch w.random.IntN(6) {
	case 0:
		return w.submit(from, core.BodyOf(&hapi.TokenAirdropTransactionBody{TokenTransfers: []*hapi.TokenTransferList{coins(n)}}))
	case 1:
		return w.submit(from, core.BodyOf(&hapi.TokenAirdropTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nft}}))
	case 2:
		for i := range w.parties {
			if rec := w.endAirdrop((from + i) % len(w.parties)); rec != nil {
				return rec
			}
		}
		return nil
	case 3: // rejectTokenFT()
		return w.call(3, w.coin.LongZero(), 0, words("0x76c6b391"))
	case 4:
		refs := []*hapi.TokenReference{{TokenIdentifier: &hapi.TokenReference_FungibleToken{FungibleToken: w.coin.TokenID()}}}
		if nft, _ := w.ledger.Handled().NFT(w.art, serial); nft.Owner == w.parties[to].ID {
			refs = append(refs, &hapi.TokenReference{TokenIdentifier: &hapi.TokenReference_Nft{Nft: &hapi.NftID{Token_ID: w.art.TokenID(), SerialNumber: serial}}})
		}
		return w.submit(to, core.BodyOf(&hapi.TokenRejectTransactionBody{Rejections: refs}))
	default:
		return w.submit(from, core.BodyOf(&hapi.AtomicBatchTransactionBody{
			Transactions: [][]byte{w.inner(from, coins(n)), w.inner(from, coins(n*int64(w.random.IntN(30))))},
		}))
	}
}

// inner is a transfer in a batch.
func (w *world) inner(payer int, list *hapi.TokenTransferList) []byte {
	w.t.Helper()
	signed, _ := w.sign(payer, 0, &hapi.TransactionBody{
		BatchKey: &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: w.parties[0].PublicKey}},
		Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			TokenTransfers: []*hapi.TokenTransferList{list},
		}},
	})
	return signed
}

// endAirdrop has the receiver claim one pending airdrop of a sender, or the sender cancel it.
func (w *world) endAirdrop(from int) *history.Record {
	w.t.Helper()
	for a := range w.ledger.Handled().Airdrops(w.parties[from].ID, false, w.random.IntN(2) == 0) {
		id := &hapi.PendingAirdropId{
			SenderId: w.account(from), ReceiverId: a.Receiver.AccountID(),
			TokenReference: &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: a.Token.TokenID()},
		}
		if a.Serial != 0 {
			id.TokenReference = &hapi.PendingAirdropId_NonFungibleToken{NonFungibleToken: &hapi.NftID{Token_ID: a.Token.TokenID(), SerialNumber: a.Serial}}
		}
		if w.random.IntN(4) == 0 {
			return w.submit(from, core.BodyOf(&hapi.TokenCancelAirdropTransactionBody{PendingAirdrops: []*hapi.PendingAirdropId{id}}))
		}
		return w.submit(from, core.BodyOf(&hapi.TokenClaimAirdropTransactionBody{PendingAirdrops: []*hapi.PendingAirdropId{id}}))
	}
	return nil
}

// airdrops lists one side of a party's airdrops.
func (w *world) airdrops(i int, side string) (list []string) {
	w.t.Helper()
	var answer struct{ Airdrops []map[string]any }
	w.ask(http.MethodGet, "accounts/"+w.parties[i].ID.String()+"/airdrops/"+side+"?limit=100", "", &answer)
	for _, a := range answer.Airdrops {
		list = append(list, fmt.Sprint(a["sender_id"], a["receiver_id"], a["token_id"], a["serial_number"], a["amount"]))
	}
	return list
}

// ask reads a path of the mirror node.
func (w *world) ask(method, path, body string, into any) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, "/api/v1/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	w.mirror.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	must.Do(w.t, json.NewDecoder(bytes.NewReader(answer.Body.Bytes())).Decode(into))
}

// evm calls a view of a contract and returns the word that it answers.
func (w *world) evm(to common.Address, data []byte) int64 {
	w.t.Helper()
	var answer struct{ Result string }
	w.ask(http.MethodPost, "contracts/call", fmt.Sprintf(`{"to":%q,"data":"0x%x"}`, to.Hex(), data), &answer)
	word := must.Get(hex.DecodeString(strings.TrimPrefix(answer.Result, "0x")))(w.t)
	return new(big.Int).SetBytes(word).Int64()
}

// told is what was said about the world: of balances and supplies, and of what happened.
type told struct {
	block    int64
	balances string
	history  []string // newest first, at most 100
}

// agree asks the node, the mirror node and the EVM for every balance, and adds them up. It
// returns what it was told.
func (w *world) agree() told {
	w.t.Helper()
	var balances strings.Builder
	held := map[hedera.ID]int64{}
	var sent, received []string // airdrops, which the mirror node lists on both sides
	for i, p := range w.parties {
		response := must.Get(w.node.Query(w.t.Context(), &hapi.Query{Query: &hapi.Query_CryptogetAccountBalance{
			CryptogetAccountBalance: &hapi.CryptoGetAccountBalanceQuery{BalanceSource: &hapi.CryptoGetAccountBalanceQuery_AccountID{AccountID: w.account(i)}},
		}}))(w.t)
		answer := response.GetCryptogetAccountBalance()
		var mirrored struct {
			Balance struct {
				Balance int64
				Tokens  []struct {
					TokenID string `json:"token_id"`
					Balance int64
				}
			}
			Nonce int64 `json:"ethereum_nonce"`
		}
		w.ask(http.MethodGet, "accounts/"+p.ID.String()+"?transactions=false", "", &mirrored)
		if int64(answer.GetBalance()) != mirrored.Balance.Balance || len(answer.GetTokenBalances()) != len(mirrored.Balance.Tokens) {
			w.t.Fatalf("%s: node %v, mirror node %+v", p.ID, answer, mirrored)
		}
		fmt.Fprintln(&balances, p.ID, mirrored)
		sent, received = append(sent, w.airdrops(i, "outstanding")...), append(received, w.airdrops(i, "pending")...)
		for j, b := range answer.GetTokenBalances() {
			id := hedera.Entity(b.GetTokenId().GetTokenNum())
			inEVM := w.evm(id.LongZero(), words("0x70a08231", w.address(i).Big())) // balanceOf(address)
			if m := mirrored.Balance.Tokens[j]; int64(b.GetBalance()) != m.Balance || inEVM != m.Balance || m.TokenID != id.String() {
				w.t.Fatalf("%s of %s: node %d, mirror node %+v, EVM %d", id, p.ID, b.GetBalance(), m, inEVM)
			}
			held[id] += inEVM
		}
	}
	slices.Sort(sent)
	if slices.Sort(received); !slices.Equal(sent, received) {
		w.t.Fatalf("airdrops sent %q, received %q", sent, received)
	}
	fmt.Fprintln(&balances, sent)
	for _, id := range []hedera.ID{w.coin, w.art} {
		var token struct {
			Total string `json:"total_supply"`
		}
		w.ask(http.MethodGet, "tokens/"+id.String(), "", &token)
		inEVM := w.evm(id.LongZero(), words("0x18160ddd")) // totalSupply()
		if token.Total != fmt.Sprint(held[id]) || inEVM != held[id] {
			w.t.Fatalf("%s: held %d, mirror node %s, EVM %d", id, held[id], token.Total, inEVM)
		}
	}
	var list struct {
		Transactions []struct {
			At string `json:"consensus_timestamp"`
		}
	}
	w.ask(http.MethodGet, "transactions?limit=100&account.id="+w.parties[0].ID.String(), "", &list)
	out := told{block: w.ledger.View().LatestBlock().Number, balances: balances.String()}
	for _, tx := range list.Transactions {
		out.history = append(out.history, tx.At)
	}
	if total, _ := w.ledger.View().Supply(); total != 50_000_000_000*hedera.Hbar {
		w.t.Fatalf("%d tinybar exist", total)
	}
	return out
}

// back goes back to a snapshot and sees that all is as it was, also when life goes on.
func (w *world) back(to moment) {
	w.t.Helper()
	if !w.ledger.Revert(to.snapshot) {
		w.t.Fatal("the ledger does not go back")
	}
	if diff := cmp.Diff(to.told, w.agree(), cmp.AllowUnexported(told{})); diff != "" {
		w.t.Fatalf("after a revert (-want +got)\n%s", diff)
	}
	rec := w.submit(0, core.BodyOf(&hapi.UtilPrngTransactionBody{}))
	w.must(rec)
	want, got := to.told, w.agree()
	if rec.Fee > 0 { // balances have changed after all
		want.balances = got.balances
	}
	want.block++
	if len(got.history) > 1 {
		want.history, got.history = want.history[:min(len(want.history), 99)], got.history[1:]
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(told{})); diff != "" {
		w.t.Fatalf("after a revert and a transaction that changes nothing (-want +got)\n%s", diff)
	}
}

// moment is a snapshot with what was said when it was taken.
type moment struct {
	snapshot *ledger.Snapshot
	told     told
}

// TestWhoeverIsAskedSaysTheSame does random things through HAPI and the EVM, goes back to
// snapshots and to other networks with the same state now and then, and holds what nodes,
// mirror node and EVM say against each other.
func TestWhoeverIsAskedSaysTheSame(t *testing.T) {
	kinds := map[history.Kind]int{}
	for seed := range uint64(3) {
		w := newWorld(t, seed, seed == 2)
		w.kinds = kinds
		var kept []moment
		for i := range 150 {
			w.step()
			if i%5 == 0 {
				w.agree()
			}
			if i%40 == 39 { // another network goes on from here
				before := w.agree()
				w, kept = w.reloaded(), nil
				if diff := cmp.Diff(before, w.agree(), cmp.AllowUnexported(told{})); diff != "" {
					t.Fatalf("after a reload (-want +got)\n%s", diff)
				}
			}
			switch {
			case w.random.IntN(12) == 0:
				kept = append(kept, moment{w.ledger.Snapshot(), w.agree()})
			case len(kept) > 0 && w.random.IntN(12) == 0:
				back := w.random.IntN(len(kept))
				w.back(kept[back])
				// Moments after this one are gone.
				if last := kept[len(kept)-1]; last.told.block > kept[back].told.block && w.ledger.Revert(last.snapshot) {
					t.Fatal("the ledger went forward")
				}
				kept = kept[:back+1]
			}
		}
		if w.done < 60 {
			t.Errorf("only %d operations succeeded", w.done)
		}
	}
	for _, kind := range []history.Kind{
		history.KindTokenAirdrop, history.KindTokenClaim, history.KindTokenCancel, history.KindTokenReject, history.KindBatch, history.KindEthereum,
	} {
		if kinds[kind] == 0 {
			t.Errorf("no %s succeeded: %v", kind, kinds)
		}
	}
}
