package app_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/app"
	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// world is a development network whose faults a test decides, and senders with money.
type world struct {
	*testing.T
	net     *devnet.Network
	node    atomic.Pointer[node.Fault]
	mirror  atomic.Pointer[func(*http.Request) mirrorrest.Fault]
	rules   faults.Rules // for what the two above leave alone
	offered atomic.Int64 // Ethereum transactions that reached a node's door
	sender  atomic.Int64 // senders used so far
}

func newWorld(t *testing.T, change ...func(*devnet.Config)) *world {
	t.Helper()
	w := &world{T: t}
	cfg := devnet.Config{
		Fault: func(c node.Call) node.Fault {
			if c.Submission == nil || c.Submission.Ethereum == nil {
				return w.rules.Node(c)
			}
			w.offered.Add(1)
			if f := w.node.Load(); f != nil {
				return *f
			}
			return w.rules.Node(c)
		},
		MirrorFault: func(r *http.Request) mirrorrest.Fault {
			if f := w.mirror.Load(); f != nil {
				return (*f)(r)
			}
			return w.rules.Mirror(r)
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	w.net = harness.Network(t, cfg)
	return w
}

// spoilNode decides what nodes do with Ethereum transactions, until the test ends.
func (w *world) spoilNode(t *testing.T, fault node.Fault) {
	w.node.Store(&fault)
	t.Cleanup(func() { w.node.Store(nil) })
}

// spoilMirror decides what the mirror node does, until the test ends.
func (w *world) spoilMirror(t *testing.T, fault func(*http.Request) mirrorrest.Fault) {
	w.mirror.Store(&fault)
	t.Cleanup(func() { w.mirror.Store(nil) })
}

// relay is a whole relay on the network, reached as clients reach it.
type relay struct {
	*testing.T
	world *world
	url   string
	log   *journal
	app   *app.App
	stop  func() // asks it to end, as a signal does
}

// journal is a log that may be read while it is written.
type journal struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

// Write implements io.Writer; a handler of slog writes a line at a time.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// with returns the lines that hold some words.
func (j *journal) with(words string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, words) {
			found = append(found, line)
		}
	}
	return found
}

// patient settings are for relays on a machine that may stand still for seconds. Tests of what happens when time
// is up have settings of their own.
var patient = []string{
	"SDK_REQUEST_TIMEOUT=60000", "SDK_GRPC_DEADLINE=30000", "MIRROR_NODE_TIMEOUT=60000", "SERVER_REQUEST_TIMEOUT_MS=900000",
	"LOCK_REDIS_TIMEOUT_MS=20000", "LOCK_HEARTBEAT_MISSED_COUNT=100", "LOCK_LANE_MEMORY_MS=600000", "STALE_FACTS_MAX_AGE_MS=600000",
	"CACHE_REDIS_TIMEOUT=20000", "LIMIT_REDIS_TIMEOUT_MS=20000", "TXPOOL_REDIS_TIMEOUT_MS=20000", "FILTER_REDIS_TIMEOUT=20000", "TX_STATUS_TRACING_REDIS_TIMEOUT_MS=20000",
}

// aBurst is for transactions that are sent all at once: the first may arrive long after the last, and the turn of the last
// may come late.
const aBurst = "NONCE_GAP_HOLD_MS=600000"

func (w *world) relay(t *testing.T, settings ...string) *relay {
	t.Helper()
	log := new(journal)
	a, stop := harness.Relay(t, w.net, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), slices.Concat(patient, []string{
		"OPERATOR_ID_MAIN=0.0.2", "OPERATOR_KEY_FORMAT=HEX_ED25519", "OPERATOR_KEY_MAIN=" + devaccounts.OperatorKey,
		"RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "MIRROR_NODE_RETRY_DELAY=50", "SHUTDOWN_DRAIN_TIMEOUT_MS=100",
	}, settings)...)
	return &relay{T: t, world: w, url: "http://" + a.HTTPAddr(), log: log, app: a, stop: func() { go stop() }}
}

// account is a sender with money and a nonce of 0.
type account struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	address common.Address
	balance hedera.Tinybar // at first
}

func (w *world) account(t *testing.T) *account {
	t.Helper()
	all := devaccounts.All()
	all = append(all[1:10], all[30:]...) // those whose keys are their addresses
	n := int(w.sender.Add(1)) - 1
	if n >= len(all) {
		t.Fatal("no sender is left")
	}
	key := must.Get(crypto.HexToECDSA(all[n].PrivateKey))(t)
	return &account{t, key, crypto.PubkeyToAddress(key.PublicKey), all[n].Balance}
}

var price = big.NewInt(2_000_000_000_000) // weibar, well above what the network asks

// pay is a transfer of a tinybar.
func (a *account) pay(nonce uint64) *types.DynamicFeeTx {
	return &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, Gas: 1_000_000, GasFeeCap: price, To: &common.Address{0x77, 1}, Value: big.NewInt(1e10),
	}
}

func (a *account) sign(data types.TxData) *types.Transaction {
	a.t.Helper()
	return types.MustSignNewTx(a.key, types.LatestSignerForChainID(big.NewInt(298)), data)
}

type answer struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func (a answer) String() string {
	if a.Error == nil {
		return string(a.Result)
	}
	return fmt.Sprintf("%d %s %s", a.Error.Code, a.Error.Message, a.Error.Data)
}

func (r *relay) call(method string, params ...any) (a answer) {
	r.Helper()
	if params == nil {
		params = []any{}
	}
	body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))(r)
	response, err := http.Post(r.url, "application/json", bytes.NewReader(body))
	must.Do(r, err)
	defer response.Body.Close()
	must.Do(r, json.NewDecoder(response.Body).Decode(&a))
	if a.Error != nil { // without the request's id, which clients of Hedera get
		if _, text, ok := strings.Cut(a.Error.Message, "] "); ok && strings.HasPrefix(a.Error.Message, "[Request ID: ") {
			a.Error.Message = text
		}
	}
	return a
}

func (r *relay) send(tx *types.Transaction) answer {
	r.Helper()
	raw := must.Get(tx.MarshalBinary())(r)
	return r.call("eth_sendRawTransaction", hexutil.Encode(raw))
}

func (r *relay) count(of *account, block string) uint64 {
	r.Helper()
	got := r.call("eth_getTransactionCount", of.address, block)
	var n hexutil.Uint64
	if err := json.Unmarshal(got.Result, &n); err != nil {
		r.Fatalf("eth_getTransactionCount: %s", got)
	}
	return uint64(n)
}

// record is what admin_getTransactionTraceByHash shows.
type record struct {
	Status, TransactionID, HederaStatus, Error string
	Steps                                      []struct{ Step, Node, TransactionID, HederaStatus string }
}

func (r *relay) record(hash common.Hash) (found record) {
	r.Helper()
	got := r.call("admin_getTransactionTraceByHash", hash)
	if got.Error != nil {
		r.Fatal(got)
	}
	must.Do(r, json.Unmarshal(got.Result, &found))
	return found
}

func (r record) steps() (names []string) {
	for _, s := range r.Steps {
		names = append(names, s.Step)
	}
	return names
}

// until waits for what comes about by itself.
func (r *relay) until(what string, ok func() bool) {
	r.Helper()
	must.Until(r.T, what, ok)
}

const generous = 2 * time.Minute // only says that something is stuck
