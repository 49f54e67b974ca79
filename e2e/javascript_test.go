package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// tokenReport is what every client says after deploying an ERC-20, moving 1234
// of it and reading that back.
type tokenReport struct {
	Contract            string       `json:"contract"`
	CreationStatus      int          `json:"creationStatus"`
	CreationContract    string       `json:"creationContract"`
	Hash                string       `json:"hash"`
	Status              int          `json:"status"`
	BlockHasTransaction bool         `json:"blockHasTransaction"`
	Nonce               uint64       `json:"nonce"`
	Supply              string       `json:"supply"`
	Balance             string       `json:"balance"`
	Events              []tokenEvent `json:"events"`
	Refused             *tokenRevert `json:"refused"`
}

type tokenEvent struct {
	From  common.Address `json:"from"`
	To    common.Address `json:"to"`
	Value string         `json:"value"`
}

type tokenRevert struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
}

// valueReport is what a client saw of a transfer of 1.5 hbar. All amounts are
// in weibar.
type valueReport struct {
	Status   int    `json:"status"`
	Type     int    `json:"type"`
	Received string `json:"received"`
	Spent    string `json:"spent"`
	Cost     string `json:"cost"`
}

// batchReport is what a client got from one JSON-RPC batch.
type batchReport struct {
	LargestBatch int    `json:"largestBatch"`
	ChainID      string `json:"chainId"`
	Number       int64  `json:"number"`
	Balance      string `json:"balance"`
	Missing      int    `json:"missing"` // the error code of a method that does not exist
}

// TestJavaScript runs the libraries against a relay of each profile, because
// libraries differ in what they make of the HTTP status of an error.
func TestJavaScript(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			javascript(t, startDev(t, []string{"RELAY_PROFILE=" + d.profile}))
		})
	}
}

// javascript runs the libraries side by side on one chain, each with a sender
// and a recipient of its own.
func javascript(t *testing.T, n *network) {
	token := contract(t, "Token")
	clients := []struct{ name, script, tokenTask string }{
		{"ethers", "ethers", "token"},
		{"viem", "viem", "token"},
		{"viem over WebSocket", "viem", "tokenWS"},
		{"web3.js", "web3", "token"},
	}
	for i, client := range clients {
		sender, recipient := n.Accounts[1+i], n.Accounts[1+len(clients)+i]
		input := func(task string) map[string]any {
			return map[string]any{
				"task": task, "rpc": n.RPC, "ws": n.WS, "chainId": chainID, "privateKey": sender.PrivateKey,
				"recipient": recipient.Address, "stranger": recipient.Address, "artifact": token,
			}
		}
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			t.Run("token", func(t *testing.T) {
				var got tokenReport
				script(t, client.script, input(client.tokenTask), &got)
				checkToken(t, got, sender.address(), recipient.address())
			})
			if client.tokenTask != "token" {
				return
			}
			t.Run("value", func(t *testing.T) {
				var got valueReport
				script(t, client.script, input("value"), &got)
				checkValue(t, got)
			})
			t.Run("batch", func(t *testing.T) {
				var got batchReport
				script(t, client.script, input("batch"), &got)
				checkBatch(t, got)
			})
			if client.name != "ethers" {
				return
			}
			t.Run("a gas price and no chain id", func(t *testing.T) {
				type report struct {
					Type    int            `json:"type"`
					ChainID string         `json:"chainId"`
					Status  int            `json:"status"`
					From    common.Address `json:"from"`
				}
				var got report
				script(t, client.script, input("priceOnly"), &got)
				if want := (report{Type: 1, ChainID: "0", Status: 1, From: sender.address()}); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

func checkToken(t *testing.T, got tokenReport, sender, recipient common.Address) {
	t.Helper()
	// A fresh sender deploys with nonce 0, which fixes the contract's address.
	address := crypto.CreateAddress(sender, 0)
	for _, reported := range []string{got.Contract, got.CreationContract} {
		if common.HexToAddress(reported) != address {
			t.Errorf("contract address %s, want %s", reported, address)
		}
	}
	if len(common.FromHex(got.Hash)) != common.HashLength {
		t.Errorf("transaction hash %q", got.Hash)
	}
	got.Contract, got.CreationContract, got.Hash = "", "", ""
	want := tokenReport{
		CreationStatus: 1, Status: 1, BlockHasTransaction: true, Nonce: 1, Supply: "1000000", Balance: "1234",
		Events: []tokenEvent{{From: sender, To: recipient, Value: "1234"}},
		// The recipient has 1234 and tries to move 5000.
		Refused: &tokenRevert{Name: "InsufficientBalance", Args: []string{recipient.Hex(), "1234", "5000"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("token report (-want +got):\n%s", diff)
	}
}

func checkValue(t *testing.T, got valueReport) {
	t.Helper()
	if got.Status != 1 || got.Type != 2 {
		t.Errorf("status %d and type %d, want 1 and 2", got.Status, got.Type)
	}
	if got.Received != "1500000000000000000" {
		t.Errorf("the recipient received %s weibar", got.Received)
	}
	if got.Spent != got.Cost {
		t.Errorf("the sender spent %s weibar; value and gas of the receipt come to %s", got.Spent, got.Cost)
	}
}

func checkBatch(t *testing.T, got batchReport) {
	t.Helper()
	if got.LargestBatch < 4 {
		t.Errorf("the largest batch had %d calls, want 4", got.LargestBatch)
	}
	if got.ChainID != "0x12a" || got.Number <= 0 || got.Missing != -32601 {
		t.Errorf("chain id %s, block %d, code %d for an unknown method", got.ChainID, got.Number, got.Missing)
	}
	balance, ok := new(big.Int).SetString(got.Balance, 10)
	if !ok || balance.Sign() <= 0 || !strings.HasSuffix(got.Balance, "0000000000") {
		t.Errorf("balance %s is not a positive number of whole tinybars", got.Balance)
	}
}

// liveReport is what a client heard over WebSocket while it wrote entries 0 to count-1
// into a Journal, one after the other, and then one more after it had stopped listening
// to the contract.
type liveReport struct {
	Blocks    []int    `json:"blocks"`    // numbers of the blocks it was told of
	Positions []int    `json:"positions"` // of the contract's events
	Pending   []string `json:"pending"`   // hashes of pending transactions
	Sent      []string `json:"sent"`
	Mined     []int    `json:"mined"` // numbers of the blocks of what it sent
}

// TestLive: each library's own way of listening, against both response profiles.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			// One chain for each client: what it hears of pending transactions is its own.
			for _, client := range []string{"live_ethers", "live_viem", "live_web3"} {
				t.Run(strings.TrimPrefix(client, "live_"), func(t *testing.T) {
					t.Parallel()
					const count = 5
					n := startDev(t, []string{"RELAY_PROFILE=" + d.profile})
					var got liveReport
					script(t, client, map[string]any{
						"task": "live", "rpc": n.RPC, "ws": n.WS, "chainId": chainID, "privateKey": n.Accounts[0].PrivateKey,
						"artifact": contract(t, "Journal"), "count": count,
					}, &got)
					checkLive(t, got, count)
				})
			}
		})
	}
}

func checkLive(t *testing.T, got liveReport, count int) {
	t.Helper()
	var positions []int
	for i := range count {
		positions = append(positions, i)
	}
	if diff := cmp.Diff(positions, got.Positions); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got.Sent, got.Pending); diff != "" {
		t.Errorf("pending transactions (-sent +heard):\n%s", diff)
	}
	heard := map[int]bool{}
	for i, number := range got.Blocks {
		if i > 0 && number != got.Blocks[i-1]+1 {
			t.Errorf("block %d came after block %d", number, got.Blocks[i-1])
		}
		heard[number] = true
	}
	for _, number := range got.Mined {
		if !heard[number] {
			t.Errorf("block %d was not told; told were %v", number, got.Blocks)
		}
	}
}

// next waits for a value, within reason.
func next[T any](t *testing.T, values <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-values:
	case <-time.After(harness.StartLimit):
		t.Fatalf("no %T came", value)
	}
	return value
}

// TestLiveCast: cast logs --subscribe prints events as they come.
func TestLiveCast(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	journal := contract(t, "Journal")
	created := castFields(t, n, "send", "--private-key", n.Accounts[0].PrivateKey, "--create", journal.Bytecode)
	address := created["contractAddress"].(string)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := foundry(ctx, t, cast, "logs", "--subscribe", "--rpc-url", n.WS, "--address", address, "Entry(uint256 indexed,address indexed)")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	until(t, "the subscription of cast", func() bool {
		_, metrics := get(t, n.RPC+"/metrics")
		return strings.Contains(string(metrics), `rpc_websocket_active_subscriptions{tag="logs"} 1`)
	})
	for i := range 3 {
		sent := castFields(t, n, "send", address, "write(uint256)", fmt.Sprint(i), "--private-key", n.Accounts[0].PrivateKey)
		hash := sent["transactionHash"].(string)
		for line := next(t, lines); !strings.Contains(line, hash); line = next(t, lines) {
			if line == "" && ctx.Err() != nil {
				t.Fatal("cast ended")
			}
		}
	}
	stop()
	_ = cmd.Wait() // it was told to end
}

// delegateReport is what a client says after letting a contract's code run as its account's.
type delegateReport struct {
	Contract   common.Address `json:"contract"`
	Status     int            `json:"status"`
	Type       int            `json:"type"`
	Code       string         `json:"code"`
	Authorized common.Address `json:"authorized"` // by the list of the transaction
	Authority  common.Address `json:"authority"`  // who signed that
	Spent      int            `json:"spent"`      // nonces
	Supply     string         `json:"supply"`     // told by the account itself
}

// Clients send transactions with authorizations (EIP-7702), where the network executes them and
// the relay lets them through.
func TestSetCode(t *testing.T) {
	t.Parallel()
	n := startDev(t, []string{"TX_TYPE_4_ENABLED=true"}, "--set-code")
	token := contract(t, "Token")
	for i, client := range []string{"ethers", "viem"} {
		t.Run(client, func(t *testing.T) {
			var got delegateReport
			sender := n.Accounts[1+i]
			script(t, client, map[string]any{
				"task": "delegate", "rpc": n.RPC, "chainId": chainID, "privateKey": sender.PrivateKey, "artifact": token,
			}, &got)
			want := delegateReport{
				Contract: got.Contract, Status: 1, Type: 4, Code: "0xef0100" + strings.ToLower(got.Contract.Hex()[2:]),
				Authorized: got.Contract, Authority: sender.address(), Spent: 2, Supply: "0",
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Contract == (common.Address{}) {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// pendingReport is what a client says of a transaction that is in no block yet.
type pendingReport struct {
	Hash    common.Hash `json:"hash"`
	Type    uint8       `json:"type"`
	Nonce   uint64      `json:"nonce"`
	InBlock bool        `json:"inBlock"`
}

// TestPending: a transaction that is held back for its predecessor is in the pool as the
// document says, and clients read it where the profile shows it to them.
func TestPending(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			pending(t, d.profile, startDev(t, []string{"RELAY_PROFILE=" + d.profile, ordering, holding, "TXPOOL_API_ENABLED=true"}))
		})
	}
}

func pending(t *testing.T, profile string, n *network) {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	client, sender := dial(t, n.RPC), n.Accounts[0]
	to := n.Accounts[1].address()
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	signed := func(nonce uint64) *types.Transaction {
		tx := must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
			ChainID: big.NewInt(chainID), Nonce: nonce, GasTipCap: new(big.Int), GasFeeCap: price, Gas: 21_000, To: &to,
		}))(t)
		return tx
	}
	held, first := signed(1), signed(0)
	sent := make(chan error, 1)
	go func() { sent <- client.SendTransaction(ctx, held) }()
	c := &conformance{t: t, network: n, document: discover(t, n.RPC)}
	hash := held.Hash().Hex()
	var status struct{ Pending, Queued string }
	until(t, "the transaction in the pool", func() bool {
		err := client.Client().CallContext(ctx, &status, "txpool_status")
		return err == nil && status.Pending+status.Queued != "0x00x0"
	})
	for _, one := range [][2]string{
		{"eth_getTransactionByHash", `["` + hash + `"]`},
		{"eth_getTransactionReceipt", `["` + hash + `"]`},
		{"txpool_content", `[]`},
		{"txpool_contentFrom", `["` + sender.Address + `"]`},
		{"txpool_status", `[]`},
	} {
		c.answered(c.document.Methods[slices.IndexFunc(c.document.Methods, func(m methodSchema) bool { return m.Name == one[0] })], one[1])
	}
	if profile == "ethereum" { // the other one shows it in the pool only
		readPending(t, ctx, n, held)
	}

	must.Do(t, client.SendTransaction(ctx, first))
	must.Do(t, <-sent)
	if receipt := receiptOf(t, ctx, client, held.Hash()); receipt.Status != 1 {
		t.Errorf("%+v", receipt)
	}
}

func readPending(t *testing.T, ctx context.Context, n *network, held *types.Transaction) {
	t.Helper()
	want := pendingReport{Hash: held.Hash(), Type: held.Type(), Nonce: held.Nonce()}
	for _, client := range []string{"ethers", "viem", "web3"} {
		var got pendingReport
		script(t, client, map[string]any{
			"task": "pending", "rpc": n.RPC, "chainId": chainID, "privateKey": n.Accounts[1].PrivateKey, "hash": held.Hash(),
		}, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", client, diff)
		}
	}
	tx, waits := must.Get2(dial(t, n.RPC).TransactionByHash(ctx, held.Hash()))(t)
	if diff := cmp.Diff(want, pendingReport{tx.Hash(), tx.Type(), tx.Nonce(), !waits}); diff != "" {
		t.Errorf("go-ethereum (-want +got)\n%s", diff)
	}
}
