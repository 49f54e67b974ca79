package devnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
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

// TestSubscription: messages come once and in order, over a turn back too; what cannot be is refused.
func TestSubscription(t *testing.T) {
	n := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", MirrorGRPC: "127.0.0.1:0"}))(t)
	must.Run(t, n.Run)
	w := newWorld(t, 1, false)
	w.use(n)
	created := w.submit(0, core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
		AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
	}))
	w.must(created)
	topic := &hapi.TopicID{TopicNum: created.Did().Topic.Num}
	say := func(text string) {
		t.Helper()
		w.must(w.submit(0, core.BodyOf(&hapi.ConsensusSubmitMessageTransactionBody{
			TopicID: topic, Message: []byte(text),
		})))
	}
	conn := must.Get(grpc.NewClient(n.MirrorGRPC(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	subscribe := func(query *hapi.ConsensusTopicQuery) grpc.ClientStream {
		t.Helper()
		stream := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, hapi.MethodSubscribeTopic))(t)
		must.Do(t, stream.SendMsg(query))
		must.Do(t, stream.CloseSend())
		return stream
	}
	hears := func(stream grpc.ClientStream, want string, sequence uint64) {
		t.Helper()
		got := new(hapi.ConsensusTopicResponse)
		if err := stream.RecvMsg(got); err != nil || string(got.GetMessage()) != want || got.GetSequenceNumber() != sequence {
			t.Errorf("%v, %v; not %s, number %d", got, err, want, sequence)
		}
	}
	beginning := &hapi.Timestamp{Seconds: 1}
	say("one")
	snapshot := n.Ledger().Snapshot()
	say("two")
	stream := subscribe(&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusStartTime: beginning})
	hears(stream, "one", 1)
	hears(stream, "two", 2)
	if !n.Ledger().Revert(snapshot) {
		t.Fatal("the ledger does not go back")
	}
	say("another two")
	hears(stream, "another two", 2)

	// The same where the chain is longer again before the subscription looks.
	for round := range 20 {
		snapshot := n.Ledger().Snapshot()
		say(fmt.Sprint("gone ", round))
		hears(stream, fmt.Sprint("gone ", round), 3)
		for range 2 {
			if !n.Ledger().Revert(snapshot) {
				t.Fatal("the ledger does not go back")
			}
			say(fmt.Sprint("passing ", round))
		}
		if !n.Ledger().Revert(snapshot) {
			t.Fatal("the ledger does not go back")
		}
		n.Ledger().Mine(1, 0)
		say(fmt.Sprint("stays ", round))
		for heard := ""; heard != fmt.Sprint("stays ", round); {
			got := new(hapi.ConsensusTopicResponse)
			if err := stream.RecvMsg(got); err != nil || got.GetSequenceNumber() != 3 {
				t.Fatalf("%v, %v", got, err)
			}
			heard = string(got.GetMessage())
		}
		n.Ledger().Revert(snapshot)
	}

	for name, c := range map[string]struct {
		query *hapi.ConsensusTopicQuery
		want  codes.Code
	}{
		"none":              {&hapi.ConsensusTopicQuery{TopicID: &hapi.TopicID{TopicNum: 999_999}}, codes.NotFound},
		"another realm":     {&hapi.ConsensusTopicQuery{TopicID: &hapi.TopicID{RealmNum: proto.Int64(1), TopicNum: topic.GetTopicNum()}}, codes.NotFound},
		"no topic":          {&hapi.ConsensusTopicQuery{}, codes.InvalidArgument},
		"a negative start":  {&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusStartTime: &hapi.Timestamp{Seconds: -1}}, codes.InvalidArgument},
		"an end before now": {&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusEndTime: beginning}, codes.InvalidArgument},
	} {
		if err := subscribe(c.query).RecvMsg(new(hapi.ConsensusTopicResponse)); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// kept makes a network with a file of state and runs it until stop is called.
func kept(t *testing.T, path string, interval time.Duration) (n *Network, stop func()) {
	t.Helper()
	n = must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path, StateInterval: interval}))(t)
	return n, must.Run(t, n.Run)
}

// TestStateIsKept: a network goes on where the one before it ended.
func TestStateIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	n, stop := kept(t, path, time.Hour)
	n.Ledger().Mine(5, 0)
	n.Ledger().SetAutomine(false)
	edit(t, n.Ledger()) // in a block that is open at the end
	want := n.Ledger().View().LatestBlock().Number + 1
	stop()
	n, stop = kept(t, path, time.Hour)
	defer stop()
	if got := n.Ledger().View().LatestBlock().Number; got != want {
		t.Errorf("block %d, not %d", got, want)
	}
	if a, _ := n.Ledger().View().Account(devaccounts.All()[0].ID); a.Nonce != 77 {
		t.Errorf("nonce %d", a.Nonce)
	}
}

func edit(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	nonce := uint64(77)
	must.Do(t, l.Edit(ledger.Edit{Address: devaccounts.All()[0].Address, Nonce: &nonce}))
}

// TestStateIsSavedMeanwhile: what happened is in the file soon, so that little is lost when the
// process is killed.
func TestStateIsSavedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	n, stop := kept(t, path, time.Millisecond)
	defer stop()
	edit(t, n.Ledger())
	copied := filepath.Join(t.TempDir(), "copy")
	for tries := 0; ; tries++ {
		state, err := os.ReadFile(path) // whole at every moment
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, os.WriteFile(copied, state, 0o600))
		other := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: copied}))(t)
		a, _ := other.Ledger().View().Account(devaccounts.All()[0].ID)
		other.Close()
		if a.Nonce == 77 {
			return
		}
		if tries > 10_000 {
			t.Fatal("nothing is saved")
		}
	}
}

// TestStateThatCannotBeLoaded is told, and stays as it is.
func TestStateThatCannotBeLoaded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	must.Do(t, os.WriteFile(path, []byte("something else"), 0o600))
	for _, tt := range []struct{ path, says string }{
		{path, "--state " + path + " cannot be loaded: it is no saved state"},
		{filepath.Join(dir, "none", "state"), "--state"},
		{dir, "--state"},
	} {
		n, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: tt.path})
		if err == nil {
			n.Close()
			t.Errorf("%s: a network", tt.path)
		} else if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "something else" {
		t.Errorf("the file has become %q", text)
	}
}

// reloaded is a network with the state of this one.
func (w *world) reloaded() *world {
	w.t.Helper()
	state := must.Get(w.ledger.Dump(1 << 30))(w.t)
	n := must.Get(New(w.t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fees: w.fees}))(w.t)
	w.t.Cleanup(n.Close)
	n.Ledger().SetNodes(w.ledger.View().Nodes()) // their ports are in a file
	must.Do(w.t, n.Ledger().Load(strings.NewReader(string(state)), 1<<30))
	again := must.Get(n.Ledger().Dump(1 << 30))(w.t)
	if string(state) != string(again) {
		w.t.Fatalf("state of %d bytes became other %d bytes", len(state), len(again))
	}
	other := *w
	other.use(n)
	return &other
}

// TestStateIsOneNetworks: a second network is refused while the first one has the file, and has it after that.
func TestStateIsOneNetworks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	_, stop := kept(t, path, time.Hour)
	_, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path})
	if !errors.Is(err, ErrStateInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	stop()
	second := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path}))(t)
	second.Close()
	_, stop = kept(t, path, time.Hour)
	stop()
}
