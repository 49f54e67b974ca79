package e2e

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
)

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
