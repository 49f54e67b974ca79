package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// TestDevForks: the relay of a fork shows what the first network has, and changes it for itself alone.
func TestDevForks(t *testing.T) {
	first := harness.Network(t, devnet.Config{})
	const contract, from = "0x3333333333333333333333333333333333333333", "0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"
	const code = "0x5f355f5401805f555f5260205ff3" // adds to slot 0 what it is called with, and returns the sum
	balance, nonce, runtime := 7*hedera.Hbar, uint64(41), common.FromHex(code)
	for _, e := range []ledger.Edit{
		{Address: common.HexToAddress(contract), Balance: &balance, Code: &runtime, Storage: map[common.Hash]common.Hash{{}: common.HexToHash("0x5")}},
		{Address: common.HexToAddress(from), Nonce: &nonce},
	} {
		must.Do(t, first.Ledger().Edit(e))
	}
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	call := `["eth_call",{"to":"` + contract + `","data":"0x` + word(0) + `"},"latest"]`
	send := `["eth_sendTransaction",{"from":"` + from + `","to":"` + contract + `","gas":"0x30d40","data":"0x` + word(2) + `"}]`
	got := strings.Split(ask(t, []string{"--fork-url", first.Mirror()},
		`["evm_snapshot"]`, `["eth_blockNumber"]`, `["eth_getCode","`+contract+`","latest"]`, `["eth_getBalance","`+contract+`","latest"]`,
		`["eth_getStorageAt","`+contract+`","0x0","latest"]`, call, `["eth_getTransactionCount","`+from+`","latest"]`,
		send, call, `["eth_getTransactionCount","`+from+`","latest"]`, `["eth_blockNumber"]`, `["eth_getBalance","`+contract+`","0x0"]`,
		`["evm_revert","$0"]`, call, `["anvil_nodeInfo"]`, `["hardhat_reset",{"forking":{"jsonRpcUrl":"http://127.0.0.1:1"}}]`, `["anvil_dumpState"]`), "\n")
	quoted := func(s string) string { return `"` + s + `"` }
	for line, want := range map[int]string{
		1: quoted("0x2"), 2: quoted(code), 3: quoted("0x6124fee993bc0000"), 4: quoted("0x" + word(5)), 5: quoted("0x" + word(5)), 6: quoted("0x29"),
		8: quoted("0x" + word(7)), 9: quoted("0x2a"), 10: quoted("0x3"), 11: quoted("0x0"), 12: "true", 13: quoted("0x" + word(5)),
	} {
		if got[line] != want {
			t.Errorf("answer %d: %s, not %s", line, got[line], want)
		}
	}
	for line, want := range map[int]string{14: `"forkBlockNumber":2`, 15: "a request cannot choose another network", 16: "a fork: its state is not saved"} {
		if !strings.Contains(got[line], want) {
			t.Errorf("answer %d: %s", line, got[line])
		}
	}
	if s := first.Ledger().View(); s.LatestBlock().Number != 2 {
		t.Errorf("the first network is at block %d", s.LatestBlock().Number)
	}
}
