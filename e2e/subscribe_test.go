package e2e

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

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
