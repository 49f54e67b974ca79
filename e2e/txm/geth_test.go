package txm_test

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	"github.com/ethereum/go-ethereum/node"

	"lockstep/txmgr"
)

// TestReplacementOnGeth bumps a stuck head on go-ethereum's own pool, which takes a
// replacement only if both fields rise by a tenth; anvil takes any.
func TestReplacementOnGeth(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	alloc := types.GenesisAlloc{
		common.HexToAddress(keyOf(devKeys[0]).Account()): {Balance: new(big.Int).Lsh(big.NewInt(1), 80)},
		common.HexToAddress(counter):                     {Code: hexutil.MustDecode(counterCode), Balance: new(big.Int)},
	}
	backend := simulated.NewBackend(alloc, func(n *node.Config, _ *ethconfig.Config) {
		n.HTTPHost, n.HTTPPort, n.HTTPModules = "127.0.0.1", port, []string{"eth"}
	})
	t.Cleanup(func() { _ = backend.Close() })
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
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
	backend.Commit()
	c.reaches(i.ID, txmgr.StatusConfirmed)
	c.settled()
	c.audit(url)
}
