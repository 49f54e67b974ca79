package diff

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

// GenerateConfig says what Generate asks for.
type GenerateConfig struct {
	From         Endpoint
	Blocks       int // the newest blocks of the chain; 20
	Transactions int // maximum of transactions of each block; 20
}

const maxGenerated = 100_000 // blocks

// block is what Generate needs of a block.
type block struct {
	Hash         string
	Transactions []struct {
		Hash, From, To, Input, Value string
	}
}

// Generate writes requests for what a relay has in its newest blocks: the blocks, their
// transactions, receipts and logs, the accounts in them at that time, and their calls
// once more as eth_call. At the end come requests that fail, for the errors' sake. All
// name blocks by number or hash, so that they mean the same later.
func Generate(ctx context.Context, c GenerateConfig, out io.Writer) error {
	if c.Blocks == 0 {
		c.Blocks = 20
	}
	if c.Transactions == 0 {
		c.Transactions = 20
	}
	if c.Blocks < 0 || c.Blocks > maxGenerated || c.Transactions < 0 {
		return fmt.Errorf("want 1 to %d blocks and no negative number of transactions", maxGenerated)
	}
	if err := checkURL(c.From.URL); err != nil {
		return err
	}
	p := newPeer("the relay", c.From, Config{Timeout: defaultTimeout, MaxAnswer: defaultMaxAnswer, Concurrency: 1})
	defer p.http.CloseIdleConnections()
	head, err := p.head(ctx)
	if err != nil {
		return err
	}
	g := &generator{out: bufio.NewWriter(out)}
	for _, method := range []string{"eth_chainId", "net_version", "eth_syncing", "eth_accounts", "eth_gasPrice", "eth_maxPriorityFeePerGas"} {
		g.ask(method)
	}
	first := uint64(0)
	if n := uint64(c.Blocks); head >= n {
		first = head - n + 1
	}
	for n := first; n <= head; n++ {
		var b *block
		if err := p.call(ctx, &b, "eth_getBlockByNumber", hexutil.EncodeUint64(n), true); err != nil {
			return err
		}
		if b != nil {
			g.block(hexutil.EncodeUint64(n), b, c.Transactions)
		}
	}
	g.failures(hexutil.EncodeUint64(head))
	return g.out.Flush()
}

type generator struct{ out *bufio.Writer }

// ask writes one request.
func (g *generator) ask(method string, params ...any) {
	if params == nil {
		params = []any{}
	}
	_ = json.NewEncoder(g.out).Encode(struct { // Flush has the error
		Method string `json:"method"`
		Params []any  `json:"params"`
	}{method, params})
}

func (g *generator) block(number string, b *block, most int) {
	g.ask("eth_getBlockByNumber", number, false)
	g.ask("eth_getBlockByNumber", number, true)
	g.ask("eth_getBlockByHash", b.Hash, false)
	g.ask("eth_getBlockTransactionCountByNumber", number)
	g.ask("eth_getBlockTransactionCountByHash", b.Hash)
	g.ask("eth_getBlockReceipts", number)
	g.ask("eth_getLogs", map[string]string{"fromBlock": number, "toBlock": number})
	g.ask("eth_getLogs", map[string]string{"blockHash": b.Hash})
	g.ask("eth_feeHistory", "0x1", number, []int{25, 75})
	seen := map[string]bool{"": true}
	for i, tx := range b.Transactions {
		if i == most {
			break
		}
		index := hexutil.EncodeUint64(uint64(i))
		g.ask("eth_getTransactionByHash", tx.Hash)
		g.ask("eth_getTransactionReceipt", tx.Hash)
		g.ask("eth_getTransactionByBlockNumberAndIndex", number, index)
		g.ask("eth_getTransactionByBlockHashAndIndex", b.Hash, index)
		for _, address := range []string{tx.From, tx.To} {
			if !seen[address] {
				g.account(address, number)
			}
			seen[address] = true
		}
		if tx.To != "" {
			g.ask("eth_call", map[string]string{"from": tx.From, "to": tx.To, "data": tx.Input, "value": tx.Value}, number)
		}
	}
}

func (g *generator) account(address, number string) {
	g.ask("eth_getBalance", address, number)
	g.ask("eth_getTransactionCount", address, number)
	g.ask("eth_getCode", address, number)
	g.ask("eth_getStorageAt", address, "0x0", number)
}

// failures are requests that no relay can answer well.
func (g *generator) failures(head string) {
	const nobody = "0x00000000000000000000000000000000000fffff"
	unknown := "0x" + fmt.Sprintf("%064x", 0xdead)
	g.ask("eth_getBlockByNumber", "0x7fffffff", false)
	g.ask("eth_getBlockByHash", unknown, false)
	g.ask("eth_getTransactionByHash", unknown)
	g.ask("eth_getTransactionReceipt", unknown)
	g.ask("eth_getBalance", nobody, head)
	g.ask("eth_getBalance")
	g.ask("eth_getBalance", "0x1", "latest")
	g.ask("eth_getBlockByNumber", head)
	g.ask("eth_getBlockByNumber", "first", false)
	g.ask("eth_getLogs", map[string]string{"fromBlock": head, "toBlock": "0x0"})
	g.ask("eth_getProof", nobody, []string{}, head)
	g.ask("eth_noSuchMethod")
	g.ask("eth_subscribe", "newHeads")
}
