package devnet

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

func start(t *testing.T, cfg Config) *Network {
	t.Helper()
	cfg.Consensus, cfg.Mirror = "127.0.0.1:0", "127.0.0.1:0"
	n := must.Get(New(t.Context(), cfg))(t)
	must.Run(t, n.Run)
	return n
}

func get(t *testing.T, url string) string {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	response, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer func() {
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	body := must.Get(io.ReadAll(response.Body))(t)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, response.Status, body)
	}
	return string(body)
}

func TestNetwork(t *testing.T) {
	n := start(t, Config{Nodes: 2})
	if nodes := n.Nodes(); len(nodes) != 2 || nodes[n.Consensus()[0]] != "0.0.3" || nodes[n.Consensus()[1]] != "0.0.4" {
		t.Errorf("nodes %v", nodes)
	}
	var blocks struct {
		Blocks []struct{ Number int64 }
	}
	if err := json.Unmarshal([]byte(get(t, n.Mirror()+"/api/v1/blocks")), &blocks); err != nil || len(blocks.Blocks) != 1 {
		t.Errorf("blocks %+v, %v", blocks, err)
	}
	if got := get(t, n.Mirror()+"/api/v1/network/nodes"); !strings.Contains(got, `"0.0.4"`) {
		t.Errorf("address book %s", got)
	}
}

func TestAccounts(t *testing.T) {
	n := start(t, Config{})
	accounts := n.Accounts()
	if len(accounts) != 40 || accounts[0].ID != OperatorID() || accounts[0].PrivateKey != OperatorKey() ||
		accounts[0].Balance != 1_000_000 || accounts[0].Address != "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69" {
		t.Fatalf("accounts %+v", accounts[:1])
	}
	for _, a := range accounts {
		id := must.Get(hedera.ParseID(a.ID))(t)
		if held, ok := n.Ledger().View().Account(id); !ok || int64(held.Balance/hedera.Hbar) != a.Balance || held.Address.Hex() != a.Address {
			t.Errorf("account %s: %+v", a.ID, held)
		}
	}
}

// Signers of one's own are funded, are no wallet's, and are the same at every start.
func TestSigners(t *testing.T) {
	n := start(t, Config{Signers: 3})
	wallets := map[string]bool{}
	for _, a := range n.Accounts() {
		wallets[a.Address] = true
	}
	for i, a := range n.Signers() {
		id := must.Get(hedera.ParseID(a.ID))(t)
		held, ok := n.Ledger().View().Account(id)
		if !ok || int64(held.Balance/hedera.Hbar) != a.Balance || held.Address.Hex() != a.Address || wallets[a.Address] {
			t.Errorf("signer %d, %s: %+v", i, a.Address, held)
		}
	}
	if got := n.Signers(); len(got) != 3 || got[0].Address != "0x0090d898F51Ee0E3F76f8627eA2BdFB5Fe52b841" {
		t.Errorf("signers %+v", got)
	}
}

func TestPortTaken(t *testing.T) {
	n := start(t, Config{})
	taken := n.Consensus()[0]
	mirror := strings.TrimPrefix(n.Mirror(), "http://")
	port := func(addr string) string { return "port " + addr[strings.LastIndex(addr, ":")+1:] }
	for flag, cfg := range map[string]Config{
		"--consensus": {Consensus: taken, Mirror: "127.0.0.1:0"},
		"--mirror":    {Consensus: "127.0.0.1:0", Mirror: mirror},
	} {
		want := port(taken)
		if flag == "--mirror" {
			want = port(mirror)
		}
		_, err := New(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	for _, addr := range []string{"nowhere", "127.0.0.1:http", "127.0.0.1:70000"} {
		if _, err := New(t.Context(), Config{Consensus: addr, Mirror: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "--consensus") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// The mirror node of a network that lags hides what is younger than its lag.
func TestMirrorLag(t *testing.T) {
	for lag, want := range map[time.Duration]int64{0: 1, time.Hour: 0} {
		n := start(t, Config{MirrorLag: lag})
		transfer(t, n)
		if got := n.MirrorView().LatestBlock().Number; got != want {
			t.Errorf("lag %s: block %d, want %d", lag, got, want)
		}
		if got := n.Ledger().View().LatestBlock().Number; got != 1 {
			t.Errorf("lag %s: the ledger is at block %d", lag, got)
		}
	}
}

// transfer submits a transfer over the wire.
func transfer(t *testing.T, n *Network) {
	t.Helper()
	key := must.Get(hedera.ParsePrivateKey(OperatorKey(), hedera.FormatHexECDSA))(t)
	account := func(num int64) *hapi.AccountID {
		return hedera.Entity(num).AccountID()
	}
	body := marshal(t, &hapi.TransactionBody{
		TransactionID: &hapi.TransactionID{
			TransactionValidStart: &hapi.Timestamp{Seconds: time.Now().Unix() - 5}, AccountID: account(1002),
		},
		NodeAccountID: account(3), TransactionFee: uint64(hedera.Hbar),
		TransactionValidDuration: &hapi.Duration{Seconds: 120},
		Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
				{AccountID: account(1002), Amount: -1}, {AccountID: account(1003), Amount: 1},
			}},
		}},
	})
	signature := must.Get(key.Sign(body))(t)
	tx := &hapi.Transaction{SignedTransactionBytes: marshal(t, &hapi.SignedTransaction{
		BodyBytes: body, SigMap: &hapi.SignatureMap{SigPair: []*hapi.SignaturePair{{
			PubKeyPrefix: key.Public(), Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature},
		}}},
	})}
	conn := must.Get(grpc.NewClient(n.Consensus()[0], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	response := new(hapi.TransactionResponse)
	if err := conn.Invoke(t.Context(), hapi.MethodCryptoTransfer, tx, response); err != nil ||
		response.GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_OK {
		t.Fatalf("%v, %v", response, err)
	}
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	return must.Get(proto.Marshal(m))(t)
}

// A ledger is made for every test of many, so it must not do much work: the memory that it takes tells.
func TestStartIsCheap(t *testing.T) {
	const most = 30_000 // pieces of memory; it is about 5,000
	got := testing.AllocsPerRun(5, func() {
		must.Get(ledger.New(ledger.Config{}))(t)
	})
	if got > most {
		t.Errorf("a ledger takes %.0f pieces of memory", got)
	}
}
