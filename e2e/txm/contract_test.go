package txm_test

import (
	"log/slog"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/chaintest"
)

const (
	reverting     = "0x52000000000000000000000000000000000bad01"
	revertingCode = "0x60006000fd" // REVERT
	receiver      = "0x5200000000000000000000000000000000000f01"
)

// TestContract holds every driver against the contract of txmgr.Chain, on a real chain of its own.
func TestContract(t *testing.T) {
	t.Parallel()
	garbage := []string{"0x", "alice", "0x12", "0.0.x", receiver + "00", "0xZZ00000000000000000000000000000000000f01"}
	t.Run("ethchain", func(t *testing.T) {
		chain := startAnvil(t)
		chain.call("anvil_setCode", nil, reverting, revertingCode)
		open := func(url string) txmNode { return txmNode{Chain: 31337, URLs: []string{url}, Timeout: time.Minute} }
		alive := must.Get(open(chain.url).open(nil))(t)
		dead := must.Get(open("http://127.0.0.1:1").open(nil))(t)
		chaintest.Run(t, chaintest.Harness{
			Chain: alive, Dead: dead, Key: keyOf(newKey(t, chain)), Stranger: keyOf(devKeys[3]), To: receiver, Value: big.NewInt(1_000_000), Reverting: reverting,
			Garbage: garbage, Mine: func() { chain.mine(1) },
		})
	})
	t.Run("ethchain without a pool", func(t *testing.T) {
		h := startHedera(t, devnet.Config{ConsensusLatency: 50 * time.Millisecond, Nodes: 2, Signers: 2, BlockTime: 200 * time.Millisecond})
		h.reverts()
		chaintest.Run(t, h.harness(h.through(h.node(""), h.relay()), "http://127.0.0.1:1", garbage))
	})
	t.Run("hederachain", func(t *testing.T) {
		h := startHedera(t, devnet.Config{ConsensusLatency: 50 * time.Millisecond, Nodes: 2, Signers: 2, BlockTime: 200 * time.Millisecond})
		h.reverts()
		chaintest.Run(t, h.harness(h.node(""), "http://127.0.0.1:1", garbage))
	})
}

// reverts puts a contract there that fails every call.
func (h *hederanet) reverts() {
	h.t.Helper()
	code := hexutil.MustDecode(revertingCode)
	must.Do(h.t, h.Ledger().Edit(ledger.Edit{Address: common.HexToAddress(reverting), Code: &code}))
}

// harness opens a node's driver for the contract, and the same driver on nobody's address.
func (h *hederanet) harness(n txmNode, nobody string, garbage []string) chaintest.Harness {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	lost := n
	n.Timeout = time.Minute // an offer has to be answered, however slow the machine is
	alive := must.Get(n.open(log))(h.t)
	until(h.t, "the mirror node shows the contract", func() bool {
		tried, err := alive.Simulate(h.t.Context(), txmgr.Call{From: keyOf(n.Keys[0]).Account(), To: reverting, Value: new(big.Int), Data: []byte{1}})
		return err == nil && !tried.Success
	})
	lost.URLs = []string{nobody}
	if lost.Network != "" {
		lost.Network = `{"127.0.0.1:1":"0.0.3"}`
	}
	dead := must.Get(lost.open(log))(h.t)
	return chaintest.Harness{
		Chain: alive, Dead: dead, Key: keyOf(n.Keys[0]), Stranger: keyOf(n.Keys[1]), To: keyOf(n.Keys[1]).Account(), Reverting: reverting,
		Value: big.NewInt(5 * hedera.WeibarPerTinybar), Garbage: garbage, Mine: func() {},
	}
}
