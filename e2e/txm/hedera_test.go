package txm_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/config"
	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	devnear "lockstep/devnet/near"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/hederachain"
	"lockstep/txmgr/signers"
)

// hederaCounter is where the counter is on Hedera, whose low addresses are entities'.
const hederaCounter = "0x52000000000000000000000000000000000c0de1"

// hederanet is a development network in this process, whose consensus log judges.
type hederanet struct {
	*devnet.Network
	t *testing.T

	mu     sync.Mutex
	faults []node.Fault // of the next Ethereum transactions, in order
	met    func()       // is called when the next one comes to a node, before consensus has it
}

func startHedera(t *testing.T, cfg devnet.Config) *hederanet {
	t.Helper()
	h := &hederanet{t: t}
	cfg.Log, cfg.Fault = slog.New(slog.DiscardHandler), h.fault
	cfg.Signers = cmp.Or(cfg.Signers, 1)
	h.Network = harness.Network(t, cfg)
	code := hexutil.MustDecode(counterCode)
	must.Do(t, h.Ledger().Edit(ledger.Edit{Address: common.HexToAddress(hederaCounter), Code: &code}))
	return h
}

// spoil puts faults on the next Ethereum transactions that come to a node.
func (h *hederanet) spoil(faults ...node.Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, faults...)
}

// meet does something when the next Ethereum transaction comes to a node.
func (h *hederanet) meet(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.met = do
}

// left is how many faults wait for their transaction.
func (h *hederanet) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.faults)
}

func (h *hederanet) fault(call node.Call) node.Fault {
	if call.Submission == nil || call.Submission.Ethereum == nil {
		return node.Fault{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.met != nil {
		h.met()
		h.met = nil
	}
	if len(h.faults) == 0 {
		return node.Fault{}
	}
	f := h.faults[0]
	h.faults = h.faults[1:]
	return f
}

// node is the configuration of a process that sends from the network's signers.
func (h *hederanet) node(ledger string) txmNode {
	h.t.Helper()
	network := must.Get(json.Marshal(h.Nodes()))(h.t)
	n := txmNode{
		Ledger: ledger, Chain: 298, URLs: []string{h.Mirror()}, Network: string(network), Instance: "node",
		Lease: 4 * time.Second, Resend: 2 * time.Second, Timeout: time.Second,
	}
	for _, a := range h.Signers() {
		n.Keys = append(n.Keys, strings.TrimPrefix(a.PrivateKey, "0x"))
	}
	return n
}

// hedera opens the driver of a node's network. Its connections end with the process.
func (n txmNode) hedera(log *slog.Logger) (txmgr.Chain, error) {
	client, err := consensus.New(consensus.Config{
		Network: n.Network, OperatorID: devnet.OperatorID(), OperatorKey: secret.String(devnet.OperatorKey()), OperatorKeyFormat: "HEX_ECDSA",
		AttemptTimeout: envx.Millis(n.Timeout), RequestTimeout: envx.Millis(max(10*time.Second, 2*n.Timeout)), MaxAttempts: 10,
	}, log)
	if err != nil {
		return nil, err
	}
	// What the settings say of mirror nodes where nothing is set.
	cfg, err := config.LoadManager([]string{"TXM_CHAINS=1=http://127.0.0.1:1", "RELAYER_PRIVATE_KEYS=" + n.Keys[0], "MIRROR_NODE_URL=" + n.URLs[0]})
	if err != nil {
		return nil, err
	}
	reader, err := mirror.New(cfg.Mirror, mirror.Options{Log: log})
	if err != nil {
		return nil, err
	}
	return hederachain.New(hederachain.Config{ID: n.Chain, InFlight: n.InFlight, Log: log}, client, reader)
}

// records are the Ethereum transactions of the consensus log.
func (h *hederanet) records() []*history.Record {
	var list []*history.Record
	end := hedera.TimestampOf(time.Now().Add(time.Hour))
	for r := range h.Ledger().Handled().Records(hedera.Timestamp{}, end, false) {
		if r.Kind == history.KindEthereum && !r.IsChild() {
			list = append(list, r)
		}
	}
	return list
}

// statuses counts the consensus log by status.
func (h *hederanet) statuses() map[string]int {
	counts := map[string]int{}
	for _, r := range h.records() {
		counts[r.Status.String()]++
	}
	return counts
}

// logged checks what the consensus log has, by status.
func (h *hederanet) logged(want map[string]int) {
	h.t.Helper()
	if got := h.statuses(); !maps.Equal(got, want) {
		h.t.Errorf("the consensus log has %v, want %v", got, want)
	}
}

// caller is a caller of one node on SQLite, which does not run yet.
func (h *hederanet) caller(change func(*txmNode)) *caller {
	h.t.Helper()
	n := h.node(fmt.Sprintf("sqlite:%s/ledger.db", h.t.TempDir()))
	if change != nil {
		change(&n)
	}
	return newCaller(h.t, n)
}

// audit judges the ledger by the consensus log: every intent was executed as often as its fate
// says, the nonces are the ledger's, and each slot was used by the transaction that it names.
func (h *hederanet) audit(c *caller) {
	h.t.Helper()
	runs, used := map[string]int{}, map[string]string{}
	for _, r := range h.records() {
		if r.Status != hapi.ResponseCodeEnum_SUCCESS {
			continue
		}
		used[r.EthereumHash.Hex()] = fmt.Sprintf("%s/%d", strings.ToLower(r.Result.Sender.Hex()), r.Result.SignerNonce-1)
		for _, l := range r.Result.Logs {
			runs[l.Topics[0].Hex()]++
		}
	}
	c.judge(runs)
	lanes := must.Get(c.m.Signers(context.WithoutCancel(h.t.Context()), ""))(h.t)
	for _, lane := range lanes {
		a, ok := h.Ledger().Handled().AccountByAddress(common.HexToAddress(lane.Signer))
		if !ok || uint64(a.Nonce) != lane.NextNonce {
			h.t.Errorf("%s: the network's nonce is %d, the ledger's %d", lane.Signer, a.Nonce, lane.NextNonce)
		}
	}
	for hash, slot := range used {
		signer, nonce, _ := strings.Cut(slot, "/")
		if c.count("SELECT count(*) FROM slots WHERE consumed = $1 AND signer = $2 AND CAST(nonce AS TEXT) = $3", hash, signer, nonce) != 1 {
			h.t.Errorf("the network executed %s as nonce %s of %s, and the ledger does not know", hash, nonce, signer)
		}
	}
	if h.t.Failed() {
		h.t.Logf("consensus log: %v", h.statuses())
	}
}

// TestHederaUnderFaults sends 500 intents over five signers, through a mirror node that is ten
// seconds late and two nodes that break connections before and after they take a transaction, and
// say that they are busy: no nonce is wrong, and each fate is the consensus log's.
func TestHederaUnderFaults(t *testing.T) {
	t.Parallel()
	const intents, signers = 500, 5
	h := startHedera(t, devnet.Config{ConsensusLatency: 300 * time.Millisecond, MirrorLag: 10 * time.Second, Nodes: 2, Signers: signers})
	c := h.caller(func(n *txmNode) { n.InFlight = 50 })
	busy := node.Fault{Status: hapi.ResponseCodeEnum_BUSY}
	for range intents / 50 {
		h.spoil(
			node.Fault{}, node.Fault{DropAfter: true}, node.Fault{}, busy, node.Fault{}, node.Fault{DropBefore: true}, node.Fault{}, busy, busy, node.Fault{},
			node.Fault{DropAfter: true}, node.Fault{Status: hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE}, node.Fault{}, node.Fault{DropAfter: true, Delay: 300 * time.Millisecond},
			node.Fault{Delay: 1500 * time.Millisecond}, // longer than it is waited for
		)
	}
	c.n.start(t)
	for range intents / 50 {
		c.many(50)
	}
	c.settledWithin(20 * time.Minute)
	h.audit(c)
	c.sameBytes()
	if left := h.left(); left != 0 {
		t.Errorf("%d faults were never met", left)
	}
	if c.count("SELECT count(*) FROM attempts WHERE ambiguous") == 0 {
		t.Error("no answer was ever lost")
	}
	if used := c.count("SELECT count(DISTINCT signer) FROM intents"); used != signers {
		t.Errorf("%d signers were used", used)
	}
	h.logged(map[string]int{"SUCCESS": intents})
}

// TestHederaRefusedAtConsensus has the network refuse at consensus what a node had accepted. What another time may be taken is sent again at the
// same nonce under a new id, with the same bytes; what somebody cannot pay for ends with the network's words. What the network runs and calls
// INVALID_SOLIDITY_ADDRESS, as it calls others that it never runs, is reverted, also where the mirror node shows it seconds later. What is behind
// goes on, and by default nothing is on its way behind, so that no nonce is wrong. The longest call data that is accepted goes as a jumbo
// transaction; a byte more is refused before anything is stored.
func TestHederaRefusedAtConsensus(t *testing.T) {
	t.Parallel()
	const destroyer, most = "0x52000000000000000000000000000000000c0de2", 131_072
	h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, MirrorLag: 2 * time.Second, Nodes: 2})
	code := program.New().Selfdestruct(common.HexToAddress("0xabcdef0000000000000000000000000000000001")).Bytes()
	must.Do(t, h.Ledger().Edit(ledger.Edit{Address: common.HexToAddress(destroyer), Code: &code}))
	c := h.caller(nil)
	h.spoil(
		node.Fault{}, node.Fault{Outcome: hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED}, node.Fault{},
		node.Fault{Outcome: hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE},
	)
	c.n.start(t)
	long := func(size int) func(*txmgr.Request) {
		return func(r *txmgr.Request) { r.Data, r.Gas = append(r.Data, make([]byte, size-len(r.Data))...), 10_000_000 }
	}
	c.must()
	again, poor, ran, jumbo := c.must().ID, c.must().ID, c.must(func(r *txmgr.Request) { r.To = destroyer }).ID, c.must(long(most)).ID
	c.ids[jumbo] = c.ids[jumbo][:32] // its event has the first word alone
	var invalid *txmgr.InvalidError
	if _, err := c.submit(long(most + 1)); !errors.As(err, &invalid) || invalid.Field != "data" {
		t.Errorf("a byte too many: %v", err)
	}
	c.many(2)
	c.settled()
	h.audit(c)
	if list := c.get(again).Attempts; len(list) != 2 || list[0].Hash != list[1].Hash || list[0].Tag == list[1].Tag {
		t.Errorf("what was refused has the attempts %+v", list)
	}
	if i := c.get(poor); i.Status != txmgr.StatusFailed || i.Class != txmgr.ClassFunds || !strings.Contains(i.Message, "INSUFFICIENT_PAYER_BALANCE") {
		t.Errorf("what nobody could pay for is %s: %+v", i.Status, i.Failure)
	}
	if i := c.get(ran); i.Status != txmgr.StatusReverted || !strings.Contains(i.Message, "INVALID_SOLIDITY_ADDRESS") {
		t.Errorf("what ran is %s: %+v", i.Status, i.Failure)
	}
	h.logged(map[string]int{"SUCCESS": 5, "CONSENSUS_GAS_EXHAUSTED": 1, "INSUFFICIENT_PAYER_BALANCE": 1, "INVALID_SOLIDITY_ADDRESS": 1})
}

// TestHederaLostHead has a node accept the first of many transactions that are on their way at once, say for as long as it is asked that it has it,
// and never bring it to consensus. Those behind it are refused there, no more of them than may be in flight. When consensus time is past its validity it
// is sent again, and everything is executed once with the nonce and the bytes that it had.
func TestHederaLostHead(t *testing.T) {
	t.Parallel() // it waits for two minutes
	const inFlight = 8
	h := startHedera(t, devnet.Config{ConsensusLatency: 300 * time.Millisecond, Nodes: 2, BlockTime: 500 * time.Millisecond})
	c := h.caller(func(n *txmNode) { n.InFlight = inFlight })
	h.spoil(node.Fault{}, node.Fault{Vanish: true})
	c.n.start(t)
	c.many(12)
	c.settledWithin(20 * time.Minute)
	h.audit(c)
	got := h.statuses()
	if got["SUCCESS"] != 12 || got["WRONG_NONCE"] >= 2*inFlight || len(got) > 2 {
		t.Errorf("the consensus log has %v", got)
	}
	t.Logf("the consensus log has %v", got)
	if n := c.count("SELECT count(DISTINCT hash) FROM attempts"); n != 12 {
		t.Errorf("%d payloads were signed for 12 intents", n)
	}
}

// nearID is the model's id in the ledger.
const nearID = 397

// accessKeyOf reads an access key of NEAR, given as account/secret.
func accessKeyOf(text string) txmgr.Key {
	account, key, _ := strings.Cut(text, "/")
	list, err := signers.OpenNEAR(signers.Config{NEARKeys: secret.String(fmt.Sprintf("{%q:[%q]}", account, key))})
	if err != nil {
		panic(err) // a constant of these tests
	}
	return list[0]
}

// nearnet is a model of NEAR that makes five blocks a second.
type nearnet struct {
	t     testing.TB
	chain *devnear.Chain
	url   string
	key   string // as accessKeyOf takes it
}

func startNEAR(t testing.TB) *nearnet {
	t.Helper()
	developers, accounts := must.Get2(devnear.Developers())(t)
	n := &nearnet{t: t, chain: devnear.New(devnear.Config{Accounts: accounts})}
	for _, d := range developers {
		if d.ID == "relayer.test" {
			n.key = d.ID + "/" + d.SecretKey
		}
	}
	server := httptest.NewServer(n.chain)
	t.Cleanup(server.Close)
	must.Run(t, n.chain.Run)
	n.url = server.URL
	return n
}

// node is the configuration of a process that sends from the relayer's key.
func (n *nearnet) node(ledger string) txmNode {
	return txmNode{
		Ledger: ledger, Chain: nearID, Driver: "near", URLs: []string{n.url}, Keys: []string{n.key}, Instance: "node",
		Lease: 4 * time.Second, Resend: 2 * time.Second, Timeout: time.Second,
	}
}

// nearIntent has an execution of its own: the counter takes no notice of the word.
func nearIntent(word []byte) (to string, data []byte) {
	data, err := near.EncodeActions([]near.Action{near.FunctionCall{Method: "increment", Args: fmt.Appendf(nil, `{"by":1,"word":"%x"}`, word), Gas: 30e12}})
	if err != nil {
		panic(err) // a constant but for the word
	}
	return "counter.test", data
}

// audit judges the ledger by the chain: every intent was executed as often as its fate says, no transaction was refused
// or overtaken, and the key's nonce is the ledger's.
func (n *nearnet) audit(c *caller) {
	n.t.Helper()
	runs := map[string]int{}
	var highest uint64
	for _, tx := range n.chain.Executed() {
		data := must.Get(near.EncodeActions(tx.Actions))(n.t)
		runs["0x"+hex.EncodeToString(data)]++
		if tx.Nonce <= highest {
			n.t.Errorf("nonce %d was executed behind %d", tx.Nonce, highest)
		}
		highest = tx.Nonce
		hash := must.Get(tx.Hash())(n.t)
		if c.count("SELECT count(*) FROM slots WHERE consumed = $1 AND signer = $2 AND CAST(nonce AS TEXT) = $3", hash.String(), accessKeyOf(n.key).Account(), fmt.Sprint(tx.Nonce)) != 1 {
			n.t.Errorf("the chain executed %s with nonce %d, and the ledger does not know", hash, tx.Nonce)
		}
	}
	c.judge(runs)
	lane := must.Get(c.store.Lane(context.WithoutCancel(n.t.Context()), fmt.Sprint(nearID), accessKeyOf(n.key).Account()))(n.t)
	if lane.NextNonce != highest+1 {
		n.t.Errorf("the chain's nonce is %d, the ledger's next %d", highest, lane.NextNonce)
	}
	if refusals := n.chain.Refusals(); len(refusals) != 0 {
		n.t.Errorf("the chain has refused %v", refusals)
	}
}

// TestNEARUnderFaults has a node that loses replies after it has acted and requests before it, that is congested and late:
// every intent is executed once, and each fate is the chain's.
func TestNEARUnderFaults(t *testing.T) {
	t.Parallel()
	const intents = 200
	n := startNEAR(t)
	c := newCaller(t, n.node(fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir())))
	n.chain.Faults().Next("send_tx", devnear.Congested, 10)
	for _, method := range []string{"send_tx", "tx", "query", "block"} {
		for _, fault := range []devnear.Fault{devnear.LostReply, devnear.LostRequest, devnear.Late} {
			n.chain.Faults().Next(method, fault, 10)
		}
	}
	c.n.start(t)
	for range intents / 20 {
		c.many(20)
	}
	c.settledWithin(20 * time.Minute)
	n.audit(c)
	c.sameBytes()
	if left := n.chain.Faults().Left(); left != 0 {
		t.Errorf("%d faults were never met", left)
	}
	if got := c.count("SELECT count(*) FROM intents WHERE status = 'confirmed'"); got != intents {
		t.Errorf("%d of %d intents are confirmed", got, intents)
	}
}

// relay starts a relay of the network in this process, which knows nothing of the manager, and returns its URL.
func (h *hederanet) relay() string {
	h.t.Helper()
	a, _ := harness.Relay(h.t, h.Network, nil, append(harness.Patient(), "MIRROR_NODE_RETRY_DELAY=50", "SHUTDOWN_DRAIN_TIMEOUT_MS=100")...)
	return "http://" + a.HTTPAddr()
}

// through lets a node reach the network by relays alone.
func (h *hederanet) through(n txmNode, urls ...string) txmNode {
	n.Driver, n.Network, n.URLs, n.Resend = "relay", "", urls, 3*time.Second // longer than the mirror node is late
	return n
}

// TestHederaThroughRelay sends through a relay that is somebody else's, by JSON-RPC alone, and loses the relay's
// answers in every way, at two endpoints. It raises the network's price while a transaction is on its way. The network executes
// each intent once, and no nonce is wrong.
func TestHederaThroughRelay(t *testing.T) {
	t.Parallel()
	h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2})
	relay := h.relay()
	proxy := startProxy(t, relay)
	n := h.through(h.node(fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir())), proxy.url, relay)
	n.Bump, n.Cancel = 100*time.Millisecond, 200*time.Millisecond // for which a chain without a pool has no use
	c := newCaller(t, n)
	n.start(t)
	for _, how := range []string{swallow, delay} {
		proxy.spoil("eth_sendRawTransaction", how, 1)
		c.many(4)
		until(t, "an answer is lost", func() bool { return proxy.left() == 0 })
		c.settled()
	}
	h.audit(c)
	c.sameBytes()
	h.logged(map[string]int{"SUCCESS": 8})
	if c.count("SELECT count(*) FROM attempts WHERE ambiguous") == 0 {
		t.Error("no attempt was ever unknown: the proxy lost nothing that mattered")
	}
	if signed := c.count("SELECT count(*) FROM attempts"); signed != 8 {
		t.Errorf("%d transactions were signed for 8 intents: something was bumped, cancelled or filled", signed)
	}

	const high = hedera.Tinybar(400)
	h.meet(func() {
		if err := h.Ledger().SetGasPrice(high); err != nil {
			t.Error(err)
		}
	})
	tx := c.reaches(c.must().ID, txmgr.StatusConfirmed)
	first, last := tx.Attempts[0], tx.Attempts[len(tx.Attempts)-1]
	if first.Hash == last.Hash || tx.Hash != last.Hash || first.Nonce != last.Nonce || last.Fees.Max.Cmp(high.Weibar()) < 0 {
		t.Errorf("at the new price it was executed as %s; attempts %+v", tx.Hash, tx.Attempts)
	}
	c.many(2)
	c.settled()
	h.audit(c)
	got := h.statuses()
	if delete(got, "INSUFFICIENT_TX_FEE"); got["SUCCESS"] != 11 || len(got) != 1 {
		t.Errorf("the consensus log has %v", got)
	}
}
