package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

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

// TestBurstInNonceOrder: transactions that arrive in nonce order, each before
// the one before it is answered, are executed in that order without any window
// in which the relay would wait for a missing nonce.
func TestBurstInNonceOrder(t *testing.T) {
	t.Parallel()
	const count = 100
	n := startDev(t, []string{ordering, "NONCE_GAP_HOLD_MS=0"}, gossip...)
	sender := n.Accounts[0]
	journal, first := deployJournal(t, n, sender)
	gate := startTurnstile(t, n.RPC, count)

	burst := newCastBurst(t, gate.URL, sender, journal, first, count)
	for i := range count {
		burst.start(i)
		select {
		case nonce := <-gate.passed:
			expect(t, nonce, first+uint64(i))
			// The bytes are out. The relay has them, and their place in the line, once they show in its pool.
			until(t, "the relay has the transaction", func() bool {
				next, err := hexutil.DecodeUint64(stringOf(t, call(t, n.RPC, "eth_getTransactionCount", `["`+sender.Address+`","pending"]`)))
				return err == nil && next > nonce
			})
		case <-burst.ctx.Done():
			t.Fatalf("transaction %d was never sent\n%s", i, &burst.stderr[i])
		}
	}
	burst.check(n)
}

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

	t.Run("one raw batch", func(t *testing.T) { rawBatch(t, n, n.Accounts[1+len(clients)]) })
}

// rawBatch posts 20 raw transactions of one sender as one JSON-RPC batch, and
// wants the hashes back in the order of the batch.
func rawBatch(t *testing.T, n *network, sender account) {
	const count = 20
	journal, first := deployJournal(t, n, sender)
	method := contract(t, "Journal").parsed(t)
	chain := big.NewInt(chainID)
	signer := types.LatestSignerForChainID(chain)
	var hashes []common.Hash
	var calls []string
	for i := range uint64(count) {
		data, err := method.Pack("write", new(big.Int).SetUint64(i))
		if err != nil {
			t.Fatal(err)
		}
		tx := types.MustSignNewTx(sender.key(t), signer, &types.DynamicFeeTx{
			ChainID: chain, Nonce: first + i, GasFeeCap: big.NewInt(1e12), Gas: 200_000, To: &journal, Data: data,
		})
		raw, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, tx.Hash())
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x%x"]}`, i, raw))
	}
	status, body := post(t, n.RPC, "["+strings.Join(calls, ",")+"]")
	expect(t, status, http.StatusOK)
	replies := parseBatch(t, body)
	expect(t, len(replies), count)
	for i, r := range replies {
		expect(t, string(r.ID), strconv.Itoa(i))
		if want := `"` + hashes[i].Hex() + `"`; string(r.Result) != want {
			t.Errorf("answer %d is %s, %v; want %s", i, r.Result, r.Error, want)
		}
	}
	checkBurst(t, n, sender, journal, first, count)
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
	data, err := contract(t, "Journal").parsed(t).Pack("length")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
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

// stringOf gives an answer that is text.
func stringOf(t *testing.T, got reply) (text string) {
	t.Helper()
	if err := json.Unmarshal(got.Result, &text); got.Error != nil || err != nil {
		t.Fatalf("the answer is %s, %v", got.Result, got.Error)
	}
	return text
}

func ones(count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = 1
	}
	return list
}
