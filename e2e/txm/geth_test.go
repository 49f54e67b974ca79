package txm_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/txmgr"
	"lockstep/watch/watchtest"
)

// TestReplacementOnGeth bumps a stuck head on go-ethereum's own pool, which takes a
// replacement only if both fields rise by a tenth; anvil takes any.
func TestReplacementOnGeth(t *testing.T) {
	t.Parallel()
	alloc := types.GenesisAlloc{
		common.HexToAddress(keyOf(devKeys[0]).Account()): {Balance: new(big.Int).Lsh(big.NewInt(1), 80)},
		common.HexToAddress(counter):                     {Code: hexutil.MustDecode(counterCode), Balance: new(big.Int)},
	}
	backend, host := watchtest.Node(t, alloc)
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
	until(t, "it is mined", func() bool {
		backend.Commit()
		return c.get(i.ID).Status == txmgr.StatusConfirmed
	})
	c.settled()
	c.audit(url)
}
