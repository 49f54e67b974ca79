package txm_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// alone is one node on SQLite and a chain, with a caller.
func alone(t testing.TB, change func(*txmNode), args ...string) (*caller, *anvil) {
	t.Helper()
	chain := startAnvil(t, args...)
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1],
		Resend: time.Second, Reconcile: time.Second,
	}
	if change != nil {
		change(&n)
	}
	c := newCaller(t, n)
	n.Instance = "node"
	n.start(t)
	return c, chain
}

func (c *caller) must(change ...func(*txmgr.Request)) *txmgr.Intent {
	c.t.Helper()
	return must.Get(c.submit(change...))(c.t)
}

func (c *caller) reaches(id string, want txmgr.Status) *txmgr.Transaction {
	c.t.Helper()
	until(c.t, "intent "+id+" is "+string(want), func() bool { return c.get(id).Status == want })
	return c.get(id)
}

func (a *anvil) mine(blocks int) { a.call("anvil_mine", nil, fmt.Sprintf("0x%x", blocks)) }

// TestBump sticks the head of the line by its fees: the same nonce is signed again for more,
// and one of both is mined.
func TestBump(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Bump, n.Cancel = time.Second, time.Hour }, "--no-mining")
	cheap := func(r *txmgr.Request) { r.MaxTip = big.NewInt(1); r.MaxFee = new(big.Int).SetUint64(20_000_000_000) }
	i := c.must(cheap)
	c.reaches(i.ID, txmgr.StatusBroadcast)
	until(t, "the head is bumped", func() bool { return len(c.get(i.ID).Attempts) > 1 })
	list := c.get(i.ID).Attempts
	for n := 1; n < len(list); n++ {
		for _, pair := range [][2]*big.Int{{list[n-1].Fees.Max, list[n].Fees.Max}, {list[n-1].Fees.Tip, list[n].Fees.Tip}} {
			least := new(big.Int).Mul(pair[0], big.NewInt(9))
			if new(big.Int).Mul(pair[1], big.NewInt(8)).Cmp(least) < 0 {
				t.Errorf("a replacement pays %s after %s: less than an eighth more", pair[1], pair[0])
			}
		}
		if list[n].Nonce != list[0].Nonce {
			t.Errorf("a replacement has nonce %d, not %d", list[n].Nonce, list[0].Nonce)
		}
	}
	chain.mine(1)
	c.settled()
	c.audit(chain.url)
}

// TestForeignReorged lets somebody else's transaction take a nonce that we have signed for, and takes its
// block away before it is final: the intent keeps its nonce and is executed once with it.
func TestForeignReorged(t *testing.T) {
	t.Parallel()
	var line *proxy // between the manager and the chain
	c, chain := alone(t, func(n *txmNode) {
		line = startProxy(t, n.URLs[0])
		n.Depth, n.Resend, n.URLs = 3, 5*time.Second, []string{line.url}
	}, "--no-mining")
	chain.mine(1)
	id := c.must().ID
	hash := c.reaches(id, txmgr.StatusBroadcast).Hash
	line.fall(true) // what is offered again would take the place of what somebody else sends
	chain.call("anvil_dropAllTransactions", nil)
	from := keyOf(devKeys[0]).Account()
	foreign := map[string]any{"from": from, "to": from, "value": "0x1", "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x2540be400"}
	chain.call("eth_sendTransaction", nil, foreign)
	chain.mine(1)
	line.fall(false)
	until(t, "the foreign transaction is seen", func() bool { return strings.HasPrefix(c.get(id).Waiting, "foreign") })
	line.fall(true)
	chain.call("anvil_reorg", nil, 1, []any{})
	chain.call("anvil_dropAllTransactions", nil) // what the block held may wait again
	line.fall(false)
	until(t, "the intent is mined", func() bool {
		chain.mine(1)
		return c.get(id).Status.Rank() >= txmgr.StatusMined.Rank()
	})
	chain.mine(3)
	c.settled()
	got := c.get(id)
	if got.Status != txmgr.StatusConfirmed || got.Nonce != 0 || got.Hash != hash || len(got.Attempts) != 1 {
		t.Errorf("it is %s with nonce %d as %s after %d attempts, want %s", got.Status, got.Nonce, got.Hash, len(got.Attempts), hash)
	}
	if n := c.count("SELECT count(*) FROM slots"); n != 1 {
		t.Errorf("%d nonces were given away", n)
	}
	c.audit(chain.url)
	c.sameBytes()
}

// TestReorg takes three blocks away: what was mined in them is sent again, as the same bytes.
func TestReorg(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Depth = 6 }, "--no-mining")
	chain.mine(1)
	c.many(5)
	until(t, "all are in the pool", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'broadcast'") == 5 })
	chain.mine(3)
	until(t, "all are mined", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'mined'") == 5 })
	chain.call("anvil_reorg", nil, 3, []any{})
	until(t, "all were sent again", func() bool {
		return c.count("SELECT count(DISTINCT subject) FROM outbox WHERE kind = 'tx.broadcast' AND body LIKE '%reorganised%'") == 5
	})
	until(t, "all are in the pool again", func() bool {
		chain.mine(1)
		return c.count("SELECT count(*) FROM intents WHERE status = 'mined' OR final") == 5
	})
	chain.mine(10)
	c.settled()
	c.audit(chain.url)
	c.sameBytes()
}
