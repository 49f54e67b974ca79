package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
)

// Where scripts/setup.sh puts the native clients.
const (
	cast  = "node_modules/@foundry-rs/cast-linux-amd64/bin/cast"
	forge = "node_modules/@foundry-rs/forge-linux-amd64/bin/forge"
)

// clientLimit bounds a client's process: what takes longer is stuck.
const clientLimit = 30 * time.Minute

// script runs a task of clients/<name>.mjs with input and decodes what it prints.
func script(t *testing.T, name string, input map[string]any, output any) {
	t.Helper()
	text := must.Get(json.Marshal(input))(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("clients", name+".mjs"))
	cmd.Stdin = bytes.NewReader(text)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, input["task"], err, stdout.Bytes(), stderr.Bytes())
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(output); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, input["task"], err, stdout.Bytes())
	}
}

// foundry prepares a run of cast or forge, away from the developer's own
// configuration.
func foundry(ctx context.Context, t *testing.T, tool string, args ...string) *exec.Cmd {
	t.Helper()
	path := must.Get(filepath.Abs(tool))(t)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	// On a slow machine the tools' own limits, which are in seconds, would be too short.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "NO_COLOR=1", "ETH_RPC_TIMEOUT=1200", "ETH_TIMEOUT=1200"}
	return cmd
}

// castRun runs cast to its end and gives its output without the last newline.
func castRun(t *testing.T, n *network, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	// Flags go first: nothing but a contract's arguments may follow --create.
	cmd := foundry(ctx, t, cast, slices.Concat(args[:1], []string{"--rpc-url", n.RPC}, args[1:])...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cast %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// castFields runs cast with --json and gives the object it prints.
func castFields(t *testing.T, n *network, args ...string) map[string]any {
	t.Helper()
	out := castRun(t, n, slices.Concat(args[:1], []string{"--json"}, args[1:])...)
	var fields map[string]any
	if err := json.Unmarshal([]byte(out), &fields); err != nil {
		t.Fatalf("cast %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return fields
}

// artifact is a compiled contract.
type artifact struct {
	ABI      json.RawMessage `json:"abi"`
	Bytecode string          `json:"bytecode"`
}

func (a artifact) parsed(t *testing.T) abi.ABI {
	t.Helper()
	return must.Get(abi.JSON(bytes.NewReader(a.ABI)))(t)
}

func (a artifact) code() []byte { return common.FromHex(a.Bytecode) }

var compiled struct {
	sync.Mutex
	artifacts map[string]artifact
}

// contract gives a contract of contracts/, compiled on first use.
func contract(t *testing.T, name string) artifact {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.artifacts == nil {
		script(t, "compile", map[string]any{
			"task": "compile", "directory": "contracts", "files": []string{"Token.sol", "Journal.sol", "TokenUser.sol", "Vault.sol"},
		}, &compiled.artifacts)
	}
	a, ok := compiled.artifacts[name]
	if !ok {
		t.Fatalf("no contract %s", name)
	}
	return a
}
