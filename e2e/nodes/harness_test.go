// Package nodes runs the relay against the development network's consensus nodes, both in
// this process, so that a test can spoil single calls and look into the ledger.
package nodes

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

var (
	chainID = big.NewInt(298)
	price   = big.NewInt(1_000_000_000_000) // weibar, above the network's
)

// relay is a running relay.
type relay struct {
	*rpc.Client
	http string // its address
	ws   string // its WebSocket address, if it has one
	stop func() // stops it as SIGTERM would, and waits
}

// startRelay runs a relay in front of the network. Settings that are given replace its own.
func startRelay(t *testing.T, n *devnet.Network, settings ...string) *relay {
	t.Helper()
	log := &output{to: t.Output()}
	t.Cleanup(log.end) // after it has stopped
	return startLogging(t, n, log, slog.LevelInfo, settings...)
}

// startLogging is startRelay with a log that the test reads.
func startLogging(t *testing.T, n *devnet.Network, lines io.Writer, level slog.Level, settings ...string) *relay {
	t.Helper()
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: level}))
	a, stop := harness.Relay(t, n, log, slices.Concat(harness.Patient(), []string{
		"ENABLE_NONCE_ORDERING=true", "BATCH_REQUESTS_ENABLED=true",
		"ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE=200", // so that the client reads the error
	}, settings)...)
	client := must.Get(rpc.DialContext(t.Context(), "http://"+a.HTTPAddr()))(t)
	t.Cleanup(client.Close)
	return &relay{Client: client, http: "http://" + a.HTTPAddr(), ws: "ws://" + a.WSAddr(), stop: stop}
}

// output is a test's log until the relay has stopped. What its drain left behind may go on
// for a while, as it would until the end of the process, and a test that is over takes no log.
type output struct {
	mu sync.Mutex
	to io.Writer // guarded by mu
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(text)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = io.Discard
}

// send submits a raw transaction.
func (r *relay) send(ctx context.Context, raw []byte) (common.Hash, error) {
	var hash common.Hash
	err := r.CallContext(ctx, &hash, "eth_sendRawTransaction", hexutil.Encode(raw))
	return hash, err
}

// metric sums a metric over its labels.
func (r *relay) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	response := must.Get(http.Get(r.http + "/metrics"))(t)
	defer response.Body.Close()
	found := false
	for scan := bufio.NewScanner(response.Body); scan.Scan(); {
		series, text, _ := strings.Cut(scan.Text(), " ")
		if plain, _, _ := strings.Cut(series, "{"); plain != name {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", scan.Text(), err)
		}
		sum, found = sum+value, true
	}
	if !found {
		t.Fatalf("no metric %s", name)
	}
	return sum
}

// code is the JSON-RPC code of an error, 0 without one.
func code(err error) int {
	if coded, ok := errors.AsType[rpc.Error](err); ok {
		return coded.ErrorCode()
	}
	return 0
}

// wallet signs for one funded account.
type wallet struct {
	t     *testing.T
	key   *ecdsa.PrivateKey
	nonce uint64
}

// newWallet takes the i-th funded account with an EVM address, other than the operator.
func newWallet(t *testing.T, n *devnet.Network, i int) *wallet {
	t.Helper()
	key := must.Get(crypto.HexToECDSA(strings.TrimPrefix(n.Accounts()[i+1].PrivateKey, "0x")))(t)
	return &wallet{t: t, key: key}
}

func (w *wallet) address() common.Address { return crypto.PubkeyToAddress(w.key.PublicKey) }

// sign signs a transaction with the next nonce.
func (w *wallet) sign(to *common.Address, data []byte) []byte { return w.offer(price, to, data) }

// offer signs a transaction that offers a gas price.
func (w *wallet) offer(price *big.Int, to *common.Address, data []byte) []byte {
	w.t.Helper()
	raw := must.Get(types.MustSignNewTx(w.key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: w.nonce, Gas: 5_000_000, GasFeeCap: price, To: to, Data: data,
	}).MarshalBinary())(w.t)
	w.nonce++
	return raw
}

// initCode deploys a contract of the given size that does nothing.
func initCode(size int) []byte {
	code := []byte{
		0x61, byte(size >> 8), byte(size), 0x60, 0x0f, 0x5f, 0x39, // CODECOPY(0, 15, size)
		0x61, byte(size >> 8), byte(size), 0x5f, 0xf3, 0x00, 0x00, 0x00, // RETURN(0, size)
	}
	for i := range size {
		code = append(code, byte(i*7)&0x7f) // never the 0xef that no code may begin with
	}
	code[15] = 0 // STOP
	return code
}

// files returns the files that users made and the network still has.
func files(n *devnet.Network) []state.File {
	var found []state.File
	for num := int64(1001); num < 3000; num++ {
		if f, ok := n.Ledger().Handled().File(hedera.Entity(num)); ok && !f.Deleted {
			found = append(found, f)
		}
	}
	return found
}

// records returns what consensus saw of a kind of transaction, oldest first.
func records(n *devnet.Network, kind history.Kind) (found []*history.Record) {
	for r := range n.Ledger().Handled().Records(hedera.Timestamp{}, hedera.TimestampOf(time.Now().Add(time.Hour)), false) {
		if r.Kind == kind && !r.IsChild() {
			found = append(found, r)
		}
	}
	return found
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	harness.Until(t, harness.StartLimit, what, condition)
}
