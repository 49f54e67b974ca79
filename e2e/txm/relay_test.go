package txm_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/txmgr"
)

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
