package txm_test

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/internal/hedera"
	"lockstep/txmgr"
)

// oneIntentEach checks that no nonce was ever signed for two intents, and returns how many were
// signed for more than once.
func (c *caller) oneIntentEach() int {
	c.t.Helper()
	if n := c.count("SELECT count(*) FROM (SELECT 1 FROM attempts GROUP BY chain, era, signer, nonce HAVING count(DISTINCT intent) > 1) AS two"); n != 0 {
		c.t.Errorf("%d nonces were signed for two intents", n)
	}
	return c.count("SELECT count(*) FROM (SELECT 1 FROM attempts GROUP BY chain, era, signer, nonce HAVING count(DISTINCT hash) > 1) AS again")
}

// TestHederaPriceRises raises the network's price while a transaction is on its way: the network
// refuses it, and it is signed again with the same nonce for the new price. One whose caller forbids the
// new price is not offered again before the price has fallen, and then as the same bytes.
func TestHederaPriceRises(t *testing.T) {
	t.Parallel()
	const low, high = hedera.Tinybar(71), hedera.Tinybar(400)
	h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2})
	c := h.caller(nil)
	price := func(p hedera.Tinybar) {
		if err := h.Ledger().SetGasPrice(p); err != nil {
			t.Error(err)
		}
	}
	c.n.start(t)
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
	h.logged(map[string]int{"SUCCESS": 5, "INSUFFICIENT_TX_FEE": refused})
	if n := c.oneIntentEach(); n != 1 {
		t.Errorf("%d nonces were signed for again", n)
	}
	again := c.get(capped.ID).Attempts
	if last := again[len(again)-1]; last.Hash != again[0].Hash || last.Tag == again[0].Tag {
		t.Errorf("the capped one has attempts %+v", again)
	}
}
