package txm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/hederachain"
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
	if cfg.Signers == 0 {
		cfg.Signers = 1
	}
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
