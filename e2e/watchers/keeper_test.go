package watchers

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/watch/watchtest"
)

// Two keys of anvil's well-known mnemonic: whoever pays, and the keeper.
const (
	payerKey  = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	keeperKey = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	anvilID   = 31337
)

// anvil is a chain in a process of its own, and an account that acts on it.
type anvil struct {
	*ethclient.Client
	t     testing.TB
	rpc   *rpc.Client
	url   string
	key   *ecdsa.PrivateKey
	nonce uint64
}

func startAnvil(t testing.TB, args ...string) *anvil {
	t.Helper()
	a := &anvil{t: t}
	_, a.url = harness.Anvil(t, 0, args...)
	var err error
	if a.rpc, err = rpc.DialContext(t.Context(), a.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.rpc.Close)
	a.Client = ethclient.NewClient(a.rpc)
	if a.key, err = crypto.HexToECDSA(payerKey); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, patience, "anvil answers", func() bool { _, err := a.ChainID(t.Context()); return err == nil })
	return a
}

// payer is the account.
func (a *anvil) payer() common.Address { return crypto.PubkeyToAddress(a.key.PublicKey) }

// call asks the node for something.
func (a *anvil) call(method string, params ...any) {
	a.t.Helper()
	if err := a.rpc.CallContext(a.t.Context(), nil, method, params...); err != nil {
		a.t.Fatalf("%s: %v", method, err)
	}
}

// send hands a transaction of the payer over. Nil to creates a contract.
func (a *anvil) send(to *common.Address, value int64, data []byte) common.Hash {
	a.t.Helper()
	tx := must.Get(types.SignNewTx(a.key, types.LatestSignerForChainID(big.NewInt(anvilID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(anvilID), Nonce: a.nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e11), Gas: 2_000_000, To: to, Value: big.NewInt(value), Data: data,
	}))(a.t)
	must.Do(a.t, a.SendTransaction(a.t.Context(), tx))
	a.nonce++
	return tx.Hash()
}

// mined waits for a transaction.
func (a *anvil) mined(hash common.Hash) *types.Receipt {
	a.t.Helper()
	var receipt *types.Receipt
	harness.Until(a.t, patience, "the transaction is mined", func() (ok bool) {
		var err error
		receipt, err = a.TransactionReceipt(a.t.Context(), hash)
		return err == nil
	})
	if receipt.Status != types.ReceiptStatusSuccessful {
		a.t.Fatalf("transaction %s failed", hash)
	}
	return receipt
}

// compiled is what the compiler makes of a contract.
type compiled struct {
	abi  abi.ABI
	code []byte
}

// compile compiles a file of the keeper's example.
func compile(t *testing.T, file string) map[string]compiled {
	t.Helper()
	source := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "keeper", file)))(t)
	input := must.Get(json.Marshal(map[string]any{
		"language": "Solidity", "sources": map[string]any{file: map[string]string{"content": string(source)}},
		"settings": map[string]any{"outputSelection": map[string]any{"*": map[string][]string{"*": {"abi", "evm.bytecode.object"}}}},
	}))(t)
	compiler := must.Get(filepath.Abs("../clients/solc"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, compiler, "--standard-json")
	cmd.Stdin = strings.NewReader(string(input))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the compiler: %v", err)
	}
	var result struct {
		Errors    []struct{ Severity, FormattedMessage string }
		Contracts map[string]map[string]struct {
			ABI json.RawMessage
			EVM struct{ Bytecode struct{ Object string } }
		}
	}
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, e := range result.Errors {
		if e.Severity == "error" {
			t.Fatal(e.FormattedMessage)
		}
	}
	list := map[string]compiled{}
	for name, c := range result.Contracts[file] {
		parsed := must.Get(abi.JSON(strings.NewReader(string(c.ABI))))(t)
		list[name] = compiled{parsed, common.FromHex(c.EVM.Bytecode.Object)}
	}
	return list
}

// TestKeeperReleasesEscrowsOnce lets the keeper of examples/keeper release escrows while it and its transaction manager are killed. Each
// escrow is released by one transaction, and the keeper has sent no others.
func TestKeeperReleasesEscrowsOnce(t *testing.T) {
	const escrows = 24
	contracts := compile(t, "Escrow.sol")
	chain := startAnvil(t, "--block-time", "1")
	factory := chain.mined(chain.send(nil, 0, contracts["EscrowFactory"].code)).ContractAddress
	keeper := must.Get(crypto.HexToECDSA(keeperKey))(t)
	keeperAddress := crypto.PubkeyToAddress(keeper.PublicKey)
	port, listener := strconv.Itoa(proctest.FreePort(t)), strconv.Itoa(proctest.FreePort(t))
	example := must.Get(os.ReadFile(filepath.Join("..", "..", "examples", "keeper", "watch.yaml")))(t)
	text := strings.NewReplacer("http://127.0.0.1:8545", chain.url, "0x5FbDB2315678afecb367f032d93F642f64180aa3", factory.Hex(), "127.0.0.1:7550", "127.0.0.1:"+port).Replace(string(example))
	dir := t.TempDir()
	file := filepath.Join(dir, "watch.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	commands := map[string]harness.Command{
		"watch": {Name: "watch", Rough: true, Shown: 3000, Args: []string{"watch", file}, Settings: []string{
			"INSTANCE_ID=keeper", "WATCH_LOOPBACK_TOKEN=false", "WATCH_ADDRESS=127.0.0.1:" + listener, "DATABASE_URL=sqlite:" + filepath.Join(dir, "watch.db"), "PRETTY_LOGS_ENABLED=false",
		}},
		"txm": {Name: "txm", Rough: true, Shown: 3000, Args: []string{"txm"}, Settings: []string{
			"INSTANCE_ID=manager", "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS=127.0.0.1:" + port, "DATABASE_URL=sqlite:" + filepath.Join(dir, "txm.db"), "PRETTY_LOGS_ENABLED=false",
			fmt.Sprintf("TXM_CHAINS=%d=%s", anvilID, chain.url), "RELAYER_PRIVATE_KEYS=" + keeperKey,
		}},
	}
	running := map[string]*harness.Process{}
	for name, c := range commands {
		running[name] = c.Start(t)
	}
	payee := common.HexToAddress("0x00000000000000000000000000000000000000ee")
	deploy := must.Get(contracts["EscrowFactory"].abi.Pack("deploy", payee, keeperAddress))(t)
	hashes := make([]common.Hash, escrows)
	for i := range hashes {
		hashes[i] = chain.send(&factory, 1000, deploy)
	}
	approve := must.Get(contracts["Escrow"].abi.Pack("approve"))(t)
	for i, hash := range hashes {
		escrow := common.BytesToAddress(chain.mined(hash).Logs[0].Topics[1].Bytes())
		chain.mined(chain.send(&escrow, 0, approve))
		if i%6 == 5 {
			for _, name := range [][]string{{"watch"}, {"txm"}, {"watch", "txm"}}[rand.IntN(3)] {
				t.Logf("%s is killed", name)
				running[name].Kill()
				running[name] = commands[name].Start(t)
			}
		}
	}
	watchtest.Until(t, "all escrows are released", func() (bool, error) {
		paid, err := chain.BalanceAt(t.Context(), payee, nil)
		if err != nil {
			return false, err
		}
		return paid.Int64() == escrows*1000, fmt.Errorf("%d of %d", paid.Int64()/1000, escrows)
	})
	// Every event is handed on once more. It finds the transaction that it had before, though its call would fail by now.
	running["watch"].Kill()
	running["watch"] = commands["watch"].Start(t)
	watchtest.Until(t, "a backfill begins", func() (bool, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+listener+"/v1/watches/keeper/backfill?from=0&repeat=true&act=true", nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err
		}
		return answer.StatusCode == http.StatusAccepted, errors.Join(errors.New(answer.Status), answer.Body.Close())
	})
	harness.Until(t, patience, "every event has its transaction again", func() bool {
		log := running["watch"].Log.String()
		return strings.Count(log, "an event has its transaction")+strings.Count(log, "refuses what an event triggers") >= escrows
	})
	if running["watch"].Log.Has("refuses what an event triggers") {
		t.Error("an event that came again was a new one to the manager")
	}
	ids := map[string]bool{}
	watchtest.Until(t, "every transaction is confirmed", func() (bool, error) {
		list, err := transactions(t, "http://127.0.0.1:"+port)
		confirmed := 0
		for _, tx := range list {
			ids[tx.IdempotencyKey] = true
			if tx.Status == "confirmed" {
				confirmed++
			}
		}
		return err == nil && confirmed >= escrows, errors.Join(fmt.Errorf("%d of %d", confirmed, len(list)), err)
	})
	list, err := transactions(t, "http://127.0.0.1:"+port)
	if err != nil || len(list) != escrows || len(ids) != escrows {
		t.Errorf("%d transactions with %d keys for %d events, %v", len(list), len(ids), escrows, err)
	}
	if nonce, err := chain.NonceAt(t.Context(), keeperAddress, nil); err != nil || nonce != escrows {
		t.Errorf("the keeper has sent %d transactions for %d escrows, %v", nonce, escrows, err)
	}
}

type sent struct{ Status, IdempotencyKey string }

func transactions(t *testing.T, url string) ([]sent, error) {
	text, err := get(t, url+"/v1/transactions?limit=500")
	if err != nil {
		return nil, err
	}
	var page struct{ Transactions []sent }
	return page.Transactions, json.Unmarshal(text, &page)
}

// get reads what a listener answers.
func get(t *testing.T, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return io.ReadAll(answer.Body)
}
