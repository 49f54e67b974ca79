package txm_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/watch/watchtest"
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

// TestBump sticks the head of the line by its fees, on go-ethereum's own pool, which takes a replacement only if both fields rise by a tenth; anvil
// takes any. The same nonce is signed again for an eighth more, again and again, and one of all is mined.
func TestBump(t *testing.T) {
	t.Parallel()
	backend, host := watchtest.Node(t, types.GenesisAlloc{
		common.HexToAddress(keyOf(devKeys[0]).Account()): {Balance: new(big.Int).Lsh(big.NewInt(1), 80)},
		common.HexToAddress(counter):                     {Code: hexutil.MustDecode(counterCode), Balance: new(big.Int)},
	})
	url := "http://" + host
	backend.Commit()
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 1337, URLs: []string{url}, Keys: devKeys[:1],
		Instance: "node", Bump: time.Second, Cancel: time.Hour,
	}
	c := newCaller(t, n)
	n.start(t)
	i := c.must(func(r *txmgr.Request) { r.MaxTip = big.NewInt(1); r.MaxFee = new(big.Int).SetUint64(50_000_000_000) })
	until(t, "geth has taken three attempts", func() bool {
		return c.count("SELECT count(*) FROM attempts WHERE state = 'sent'") >= 3
	})
	if refused := c.count("SELECT count(*) FROM attempts WHERE error_class = 'slot_taken'"); refused != 0 {
		t.Errorf("geth refused %d replacements as underpriced", refused)
	}
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
	until(t, "it is mined", func() bool {
		backend.Commit()
		return c.get(i.ID).Status == txmgr.StatusConfirmed
	})
	c.settled()
	c.audit(url)
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
