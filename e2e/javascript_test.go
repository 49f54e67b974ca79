package e2e

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
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
