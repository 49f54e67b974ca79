package txm_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/internal/hedera"
	"lockstep/txmgr"
)

func gwei(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }

func (a *anvil) baseFee(wei *big.Int) {
	a.t.Helper()
	a.call("anvil_setNextBlockBaseFeePerGas", nil, "0x"+wei.Text(16))
}

// oneIntentEach checks that no nonce was ever signed for two intents, and returns how many were
// signed for more than once.
func (c *caller) oneIntentEach() int {
	c.t.Helper()
	if n := c.count("SELECT count(*) FROM (SELECT 1 FROM attempts GROUP BY chain, era, signer, nonce HAVING count(DISTINCT intent) > 1) AS two"); n != 0 {
		c.t.Errorf("%d nonces were signed for two intents", n)
	}
	return c.count("SELECT count(*) FROM (SELECT 1 FROM attempts GROUP BY chain, era, signer, nonce HAVING count(DISTINCT hash) > 1) AS again")
}

// TestPriceRises raises the base fee far above what three waiting transactions offer. Blocks leave
// them out, until each is signed again with the same nonce for the new price; the chain executes
// each once. One whose caller forbids the new price waits with its own, and is mined with
// that when the price has fallen.
func TestPriceRises(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Bump, n.Cancel = time.Second, time.Hour }, "--no-mining")
	capped := func(r *txmgr.Request) { r.MaxFee = gwei(10) }
	ids := []string{c.must().ID, c.must().ID, c.must(capped).ID}
	for _, id := range ids {
		c.reaches(id, txmgr.StatusBroadcast)
	}
	rise := func() { // a base fee falls by itself from block to block
		chain.baseFee(gwei(20))
		chain.mine(1)
	}
	for _, id := range ids[:2] {
		offered := c.get(id).Attempts[0].Fees.Max
		if offered.Cmp(gwei(20)) >= 0 {
			t.Fatalf("%s offered %s before the price rose", id, offered)
		}
		until(t, "the head is mined at the new price", func() bool {
			rise()
			return c.get(id).Status == txmgr.StatusConfirmed
		})
		tx := c.get(id)
		mined := slices.IndexFunc(tx.Attempts, func(a txmgr.Attempt) bool { return a.Hash == tx.Hash }) // one more may have been signed when it was mined
		if mined < 1 || tx.Attempts[mined].Fees.Max.Cmp(gwei(20)) < 0 || tx.Attempts[mined].Nonce != tx.Attempts[0].Nonce {
			t.Errorf("it was mined as %s; attempts %+v", tx.Hash, tx.Attempts)
		}
	}
	until(t, "the last one waits because of its cap", func() bool {
		rise()
		return strings.HasPrefix(c.get(ids[2]).Waiting, "fee_cap")
	})
	for _, a := range c.get(ids[2]).Attempts {
		if a.Fees.Max.Cmp(gwei(10)) > 0 {
			t.Errorf("an attempt offers %s, above its cap", a.Fees.Max)
		}
	}
	chain.baseFee(gwei(1))
	until(t, "it is mined at the old price", func() bool {
		chain.mine(1)
		return c.get(ids[2]).Status == txmgr.StatusConfirmed
	})
	c.settled()
	c.audit(chain.url)
	if n := c.oneIntentEach(); n < 2 {
		t.Errorf("%d nonces were signed for again", n)
	}
}

// TestNoBaseFee sends on a chain from before base fees: each transaction has one price. A stuck one is
// signed again for an eighth more.
func TestNoBaseFee(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Bump, n.Cancel = time.Second, time.Hour }, "--no-mining", "--hardfork", "berlin")
	id := c.must().ID
	until(t, "it is signed again", func() bool { return len(c.get(id).Attempts) > 1 })
	chain.mine(1)
	c.settled()
	c.audit(chain.url)
	list := c.get(id).Attempts
	for n, a := range list {
		var tx struct{ Type, GasPrice string }
		if a.Hash == c.get(id).Hash {
			chain.call("eth_getTransactionByHash", &tx, a.Hash)
			if tx.Type != "0x0" || tx.GasPrice != "0x"+a.Fees.Max.Text(16) {
				t.Errorf("the chain has it with type %s for %s", tx.Type, tx.GasPrice)
			}
		}
		if a.Fees.Tip != nil || a.Nonce != list[0].Nonce {
			t.Errorf("attempt %d has nonce %d, price %s and tip %s", n, a.Nonce, a.Fees.Max, a.Fees.Tip)
		}
		if n > 0 && new(big.Int).Mul(a.Fees.Max, big.NewInt(8)).Cmp(new(big.Int).Mul(list[n-1].Fees.Max, big.NewInt(9))) < 0 {
			t.Errorf("a replacement pays %s after %s: less than an eighth more", a.Fees.Max, list[n-1].Fees.Max)
		}
	}
}

// TestHederaPriceRises raises the network's price while a transaction is on its way: the network
// refuses it, and it is signed again with the same nonce for the new price. One whose caller forbids the
// new price is not offered again before the price has fallen, and then as the same bytes.
func TestHederaPriceRises(t *testing.T) {
	t.Parallel()
	const low, high = hedera.Tinybar(71), hedera.Tinybar(400)
	h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2})
	n := h.node(fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()))
	c := newCaller(t, n)
	price := func(p hedera.Tinybar) {
		if err := h.Ledger().SetGasPrice(p); err != nil {
			t.Error(err)
		}
	}
	n.start(t)
	c.many(2)
	c.settled()
	h.meet(func() { price(high) })
	first := c.must()
	tx := c.reaches(first.ID, txmgr.StatusConfirmed)
	last := tx.Attempts[len(tx.Attempts)-1]
	if tx.Attempts[0].Hash == last.Hash || tx.Hash != last.Hash || tx.Attempts[0].Nonce != last.Nonce || last.Fees.Max.Cmp(high.Weibar()) < 0 {
		t.Errorf("it was executed as %s; attempts %+v", tx.Hash, tx.Attempts)
	}
	price(low)
	until(t, "the price has fallen", func() bool {
		market, err := c.m.Fees(t.Context(), "298")
		return err == nil && market.BaseFee.Cmp(low.Weibar()) == 0
	})
	h.meet(func() { price(high) })
	capped := c.must(func(r *txmgr.Request) { r.MaxFee = new(big.Int).Mul(low.Weibar(), big.NewInt(2)) })
	until(t, "it waits because of its cap", func() bool {
		return strings.HasPrefix(c.get(capped.ID).Waiting, "fee_cap: the price is above what it offers")
	})
	refused := h.statuses()["INSUFFICIENT_TX_FEE"]
	behind := c.must()
	lease := func() int { return c.count("SELECT max(expires_at) FROM leases WHERE name LIKE 'txm:%'") }
	began := lease()
	until(t, "its owner has looked again for seconds", func() bool { return lease() >= began+3_000_000 })
	price(low)
	c.reaches(behind.ID, txmgr.StatusConfirmed)
	c.settled()
	h.audit(c)
	if got := h.statuses(); got["SUCCESS"] != 5 || got["INSUFFICIENT_TX_FEE"] != refused || len(got) != 2 {
		t.Errorf("the consensus log has %v", got)
	}
	if n := c.oneIntentEach(); n != 1 {
		t.Errorf("%d nonces were signed for again", n)
	}
	again := c.get(capped.ID).Attempts
	if last := again[len(again)-1]; last.Hash != again[0].Hash || last.Tag == again[0].Tag {
		t.Errorf("the capped one has attempts %+v", again)
	}
}
