package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

// Anvil runs anvil at a port, at any if that is 0, and returns where it listens.
func Anvil(t testing.TB, port int, args ...string) (p *Process, url string) {
	t.Helper()
	program := filepath.Join(root, "e2e", "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("this test needs anvil; run scripts/setup.sh: %v", err)
	}
	p = Run(t, exec.Command(program, append([]string{"--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)...)) //nolint:noctx // ended with the test
	p.must(p.Says(context.Background(), StartLimit, func(line []byte) bool {
		_, address, listens := strings.Cut(strings.TrimSpace(string(line)), "Listening on ")
		url = "http://" + address
		return listens
	}))
	go forgetOverlooked(t.Context(), url)
	return p, url
}

// forgetOverlooked makes an anvil at this URL forget transactions that it keeps and would never mine, so that it takes them when they are
// sent again. It looks once a second until the context ends, also while the chain is dead.
//
// anvil reads the nonce of a sender and then puts the transaction into its pool. Where a block is mined in between, it waits there for a
// predecessor that is mined already, and the same bytes are "already imported". A chain may forget; it may not do this.
func forgetOverlooked(ctx context.Context, url string) {
	chain, err := rpc.DialContext(ctx, url)
	if err != nil {
		return // no URL of HTTP: its caller could not use the chain either
	}
	defer chain.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := map[common.Address]uint64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := overlooked(ctx, chain)
		for sender, nonce := range now {
			if before, seen := last[sender]; seen && before == nonce {
				_ = chain.CallContext(ctx, nil, "anvil_removePoolTransactions", sender) // at the next look again
			}
		}
		last = now
	}
}

// overlooked are the senders whose next nonce waits for a predecessor, with that nonce.
func overlooked(ctx context.Context, chain *rpc.Client) map[common.Address]uint64 {
	var pool struct {
		Queued map[common.Address]map[uint64]any
	}
	if chain.CallContext(ctx, &pool, "txpool_content") != nil {
		return nil // it may be dead for a while
	}
	found := map[common.Address]uint64{}
	for sender, queued := range pool.Queued {
		var next hexutil.Uint64
		if chain.CallContext(ctx, &next, "eth_getTransactionCount", sender, "latest") != nil {
			continue
		}
		if _, waits := queued[uint64(next)]; waits {
			found[sender] = uint64(next)
		}
	}
	return found
}
