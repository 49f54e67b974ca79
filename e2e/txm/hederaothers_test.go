package txm_test

import (
	"log/slog"
	"math/big"
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/devnet/node"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// signedBy makes a transfer from a key outside of the manager.
func (h *hederanet) signedBy(n txmNode, key txmgr.Key, nonce uint64) (txmgr.Chain, txmgr.Signed) {
	h.t.Helper()
	n.Timeout = time.Minute // an offer has to be answered, however slow the machine is
	chain, err := n.open(slog.New(slog.DiscardHandler))
	if err != nil {
		h.t.Fatal(err)
	}
	var market txmgr.Market
	until(h.t, "the price is known", func() bool {
		market, err = chain.Market(h.t.Context())
		return err == nil
	})
	call := txmgr.Call{From: key.Account(), To: key.Account(), Value: big.NewInt(3 * hedera.WeibarPerTinybar), Gas: 60_000}
	unsigned := must.Get(chain.Prepare(h.t.Context(), txmgr.Draft{Signer: key.Account(), Nonce: nonce, Call: call, Fees: market.Tips[txmgr.SpeedFast]}))(h.t)
	signature := must.Get(key.Sign(h.t.Context(), unsigned.Bytes))(h.t)
	signed := must.Get(chain.Seal(unsigned, signature))(h.t)
	return chain, signed
}

// TestHederaForeign lets somebody else send from a signer's key: the nonce is noted as somebody
// else's, and the next intent gets the one after it.
func TestHederaForeign(t *testing.T) {
	t.Parallel()
	h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2, BlockTime: 300 * time.Millisecond})
	c := h.caller(func(n *txmNode) { n.Reconcile = time.Second })
	c.n.start(t)
	c.many(3)
	c.settled()
	chain, foreign := h.signedBy(c.n, keyOf(c.n.Keys[0]), 3)
	must.Do(t, chain.Send(t.Context(), []txmgr.Signed{foreign})[0])
	until(t, "somebody else's transaction is noted", func() bool {
		return c.count("SELECT count(*) FROM slots WHERE holder = 'foreign' AND consumed = $1 AND nonce = 3", foreign.Hash) == 1
	})
	if i := c.reaches(c.must().ID, txmgr.StatusConfirmed); i.Nonce != 4 {
		t.Errorf("the next intent has nonce %d, want 4", i.Nonce)
	}
	c.settled()
	h.audit(c)
	c.sameBytes()
	h.logged(map[string]int{"SUCCESS": 5})
}

// TestHederaLostHead loses the first of many transactions that are on their way at once: those
// behind it are refused at consensus, no more of them than may be in flight, nothing is executed
// twice, and everything is executed in the end with the nonce and the bytes that it had.
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
