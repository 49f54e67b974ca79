package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
)

// TestForgeScript broadcasts a script of one deployment and twenty calls of one
// key. Without --slow forge sends them all before it looks for a receipt.
func TestForgeScript(t *testing.T) {
	t.Parallel()
	n := startDev(t, []string{ordering, holding}, gossip...)
	sender := n.Accounts[0]
	compiler := must.Get(filepath.Abs("clients/solc"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := foundry(ctx, t, forge, "script", "Burst.s.sol", "--broadcast", "--use", compiler,
		"--rpc-url", n.RPC, "--private-key", sender.PrivateKey)
	writeForgeProject(t, cmd.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("forge script: %v\n%s", err, out)
	}

	var run struct {
		Transactions []struct{ TransactionType string }
		Receipts     []struct{ Status string }
		Pending      []string
	}
	log := filepath.Join(cmd.Dir, "broadcast", "Burst.s.sol", strconv.Itoa(chainID), "run-latest.json")
	text := must.Get(os.ReadFile(log))(t)
	must.Do(t, json.Unmarshal(text, &run))
	const count = 21
	expect(t, len(run.Transactions), count)
	expect(t, len(run.Receipts), count)
	expect(t, len(run.Pending), 0)
	for i, receipt := range run.Receipts {
		if receipt.Status != "0x1" {
			t.Errorf("transaction %d has status %s", i, receipt.Status)
		}
	}
	checkOrder(t, n.Mirror, sender.address(), 0, count)
	journal := crypto.CreateAddress(sender.address(), 0)
	expect(t, castRun(t, n, "call", journal.Hex(), "length()(uint256)"), "20")
	expect(t, castRun(t, n, "nonce", common.HexToAddress(sender.Address).Hex()), strconv.Itoa(count))
}

// writeForgeProject puts the script and what it deploys into dir.
func writeForgeProject(t *testing.T, dir string) {
	t.Helper()
	files := map[string][]byte{
		"foundry.toml": []byte("[profile.default]\nsrc = \".\"\nscript = \".\"\noffline = true\nevm_version = \"cancun\"\n"),
	}
	for _, name := range []string{"Journal.sol", "Burst.s.sol"} {
		text := must.Get(os.ReadFile(filepath.Join("contracts", name)))(t)
		files[name] = text
	}
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}
