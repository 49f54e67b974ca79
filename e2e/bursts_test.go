package e2e

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// A burst is one sender's transactions with consecutive nonces, none waiting for
// the one before it. Each calls Journal.write with its own position, so that an
// execution out of turn would revert as well.

const (
	ordering = "ENABLE_NONCE_ORDERING=true"
	holding  = "NONCE_GAP_HOLD_MS=1200000" // longer than a loaded machine needs to start a hundred processes
)

// gossip makes a network that changes the order of what is given to different
// nodes, and is slow enough for a queue to build up.
var gossip = []string{"--nodes", "4", "--consensus-latency", "200ms", "--jitter", "100ms"}

// TestBursts runs clients that send all they have at once. Their requests reach
// the relay in any order; it waits for the nonce that is missing.
func TestBursts(t *testing.T) {
	t.Parallel()
	n := startDev(t, []string{ordering, holding}, gossip...)

	t.Run("cast in random order", func(t *testing.T) {
		const count = 100
		sender := n.Accounts[0]
		journal, first := deployJournal(t, n, sender)
		burst := newCastBurst(t, n.RPC, sender, journal, first, count)
		begin := time.Now()
		for _, i := range rand.Perm(count) {
			burst.start(i)
		}
		t.Logf("%d processes started within %v", count, time.Since(begin).Round(time.Millisecond))
		burst.check(n)
	})

	clients := []struct {
		name, script, task string
		count              int
	}{
		{"ethers at once", "ethers", "burst", 50},
		{"viem at once", "viem", "burst", 50},
		{"web3.js in one batch", "web3", "rawBatch", 20},
	}
	for i, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			sender := n.Accounts[1+i]
			journal, first := deployJournal(t, n, sender)
			var got struct {
				Statuses []int
				Nonce    int
			}
			script(t, client.script, map[string]any{
				"task": client.task, "rpc": n.RPC, "chainId": chainID, "privateKey": sender.PrivateKey,
				"contract": journal, "artifact": contract(t, "Journal"), "count": client.count,
			}, &got)
			expect(t, got.Nonce, client.count)
			expect(t, fmt.Sprint(got.Statuses), fmt.Sprint(ones(client.count)))
			checkBurst(t, n, sender, journal, first, client.count)
		})
	}
}

// deployJournal gives a new Journal and the sender's next nonce.
func deployJournal(t *testing.T, n *network, sender account) (common.Address, uint64) {
	t.Helper()
	created := mine(t, t.Context(), dial(t, n.RPC), sender, nil, contract(t, "Journal").code())
	return created.receipt.ContractAddress, created.nonce + 1
}

// checkBurst fails unless every transaction of the burst was executed, once and
// in nonce order.
func checkBurst(t *testing.T, n *network, sender account, journal common.Address, first uint64, count int) {
	t.Helper()
	checkOrder(t, n.Mirror, sender.address(), first, count)
	client := dial(t, n.RPC)
	data := must.Get(contract(t, "Journal").parsed(t).Pack("length"))(t)
	length, err := client.CallContract(t.Context(), ethereum.CallMsg{To: &journal, Data: data}, nil)
	if err != nil || new(big.Int).SetBytes(length).Int64() != int64(count) {
		t.Errorf("the journal has %x entries, %v; want %d", length, err, count)
	}
	nonce, err := client.NonceAt(t.Context(), sender.address(), nil)
	if err != nil || nonce != first+uint64(count) {
		t.Errorf("the sender's nonce is %d, %v; want %d", nonce, err, first+uint64(count))
	}
}

// castBurst is a burst of `cast send --async` processes, one for each nonce.
type castBurst struct {
	t              *testing.T
	ctx            context.Context
	url            string
	sender         account
	journal        common.Address
	first          uint64
	count          int
	processes      []*exec.Cmd
	stdout, stderr []proctest.Tail
}

func newCastBurst(t *testing.T, url string, sender account, journal common.Address, first uint64, count int) *castBurst {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	t.Cleanup(cancel)
	return &castBurst{
		t: t, ctx: ctx, url: url, sender: sender, journal: journal, first: first, count: count,
		processes: make([]*exec.Cmd, count), stdout: make([]proctest.Tail, count), stderr: make([]proctest.Tail, count),
	}
}

// start starts the process of transaction i and does not wait for it. The gas
// limit is given because only the first could be estimated.
func (b *castBurst) start(i int) {
	b.t.Helper()
	cmd := foundry(b.ctx, b.t, cast, "send", "--async", "--rpc-url", b.url, "--private-key", b.sender.PrivateKey,
		"--nonce", strconv.FormatUint(b.first+uint64(i), 10), "--gas-limit", "200000",
		b.journal.Hex(), "write(uint256)", strconv.Itoa(i))
	cmd.Stdout, cmd.Stderr = &b.stdout[i], &b.stderr[i]
	must.Do(b.t, cmd.Start())
	b.processes[i] = cmd
}

// check waits for all processes, and fails unless each printed the hash of a
// transaction that was executed.
func (b *castBurst) check(n *network) {
	b.t.Helper()
	client := dial(b.t, n.RPC)
	for i, cmd := range b.processes {
		if err := cmd.Wait(); err != nil {
			b.t.Errorf("cast for nonce %d: %v\n%s", b.first+uint64(i), err, &b.stderr[i])
		}
	}
	if b.t.Failed() {
		return
	}
	for i := range b.processes {
		hash := common.HexToHash(strings.TrimSpace(b.stdout[i].String()))
		if receipt := receiptOf(b.t, b.ctx, client, hash); receipt.Status != types.ReceiptStatusSuccessful {
			b.t.Errorf("transaction %d failed", i)
		}
	}
	checkBurst(b.t, n, b.sender, b.journal, b.first, b.count)
}

func ones(count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = 1
	}
	return list
}
