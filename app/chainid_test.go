package app_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
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
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/app"
	"lockstep/devnet"
	"lockstep/devnet/faults"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A mirror node that tells the chain id and the operator's key only after the start, and first the chain id of another network, is believed each time:
// readiness, the metric and the log say what is. The setting decides whether the relay is ready meanwhile.
func TestAWrongChainIDIsShown(t *testing.T) {
	w := newWorld(t)
	target := must.Get(url.Parse(w.net.Mirror()))(t)
	var chain atomic.Int64 // what code that asks for the chain id is told; 0: an error; -1: what is true
	through := httputil.NewSingleHostReverseProxy(target)
	mirror := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch has := chain.Load(); {
		case has == 0 && (r.URL.Path == "/api/v1/contracts/call" || strings.HasPrefix(r.URL.Path, "/api/v1/accounts/")):
			rw.WriteHeader(http.StatusNotImplemented)
		case has < 0 || r.URL.Path != "/api/v1/contracts/call":
			through.ServeHTTP(rw, r)
		default:
			_, _ = fmt.Fprintf(rw, `{"result":"0x%064x"}`, has)
		}
	}))
	defer mirror.Close()
	for setting, expect := range map[string]struct {
		status string
		http   int
	}{"mirror": {"DEGRADED", http.StatusOK}, "mirror,chain": {"DOWN", http.StatusServiceUnavailable}} {
		chain.Store(0)
		r := w.relay(t, "MIRROR_NODE_URL="+mirror.URL, "READINESS_FAILS_WITHOUT="+setting)
		r.app.Announce(t.Context())
		for _, name := range []string{"lockstep_chain_id_ok", "lockstep_operator_ok"} {
			if _, told := r.scrape()[name]; told {
				t.Errorf("%s tells what nobody has told", name)
			}
		}
		r.becomes("OK")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.app.CheckAgain(t.Context())
		}()
		chain.Store(0x127)
		got := r.becomes(expect.status, "chain")
		why := got.Reasons[0]
		if got.http != expect.http || why.Fatal != (expect.http != http.StatusOK) || why.Since.IsZero() || !strings.Contains(why.Cause, "CHAIN_ID is 0x12a and the network has 0x127") {
			t.Errorf("%+v", got)
		}
		if n := r.scrape()["lockstep_chain_id_ok"]; n != 0 {
			t.Errorf("lockstep_chain_id_ok: %v", n)
		}
		chain.Store(-1)
		<-ended
		r.becomes("OK")
		for _, name := range []string{"lockstep_chain_id_ok", "lockstep_operator_ok"} {
			if n, told := r.scrape()[name]; n != 1 || !told {
				t.Errorf("%s: %v", name, n)
			}
		}
		if wrong, right := r.log.with("CHAIN_ID is not that"), r.log.with("CHAIN_ID is that of the network now"); len(wrong) != 1 || len(right) != 1 {
			t.Errorf("%q, then %q", wrong, right)
		}
	}
}

// An operator that is no account of the network, or has another key, makes the relay DEGRADED, or DOWN where the setting says so.
func TestAWrongOperatorIsShown(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct {
		settings []string
		status   string
		cause    string
	}{
		"another key": {[]string{"OPERATOR_ID_MAIN=0.0.1002"}, "DEGRADED", "the operator's key is not the key of its account 0.0.1002"},
		"no account":  {[]string{"OPERATOR_ID_MAIN=0.0.999999", "READINESS_FAILS_WITHOUT=operator"}, "DOWN", "the operator 0.0.999999 is no account of the network"},
	} {
		r := w.relay(t, test.settings...)
		r.app.Announce(t.Context())
		got := r.becomes(test.status, "operator")
		if why := got.Reasons[0]; why.Cause != test.cause || why.Since.IsZero() {
			t.Errorf("%s: %+v", name, why)
		}
	}
}

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

// A raw transaction of an account that a transaction manager sends from is refused with a
// hint and takes no nonce; the other accounts' go through.
func TestManagedAccountsAreRefused(t *testing.T) {
	w := newWorld(t)
	theirs, mine := w.account(t), w.account(t)
	relay := w.relay(t, "TXM_MANAGED_SIGNERS="+strings.ToLower(theirs.address.Hex()))
	got := relay.send(theirs.sign(theirs.pay(0)))
	if got.Error == nil || got.Error.Code != -32003 || !strings.Contains(got.Error.Message, "POST /v1/transactions") {
		t.Errorf("the answer to a managed account: %+v", got)
	}
	if n := relay.count(theirs, "pending"); n != 0 {
		t.Errorf("it has taken nonces: %d", n)
	}
	if got := relay.send(mine.sign(mine.pay(0))); got.Error != nil {
		t.Errorf("the answer to another account: %+v", got)
	}
}

// A process that serves WebSocket alone answers probes and Prometheus on a port of its own,
// and nothing else there.
func TestWebSocketOnlyProcessAnswersProbesAndPrometheus(t *testing.T) {
	r := start(t, "RPC_HTTP_ENABLED=false", "WEB_SOCKET_HTTP_PORT=0")
	if r.HTTPAddr() != "" {
		t.Errorf("HTTP is served on %s", r.HTTPAddr())
	}
	base := "http://" + r.StatusAddr()
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/health/liveness":  {http.StatusOK, "OK"},
		"/health/readiness": {http.StatusServiceUnavailable, `"upstream":"mirror"`},
		"/metrics":          {http.StatusOK, "rpc_websocket_active_connections 1"},
		"/config":           {http.StatusNotFound, ""},
		"/":                 {http.StatusNotFound, ""},
	} {
		client := must.Get(rpc.DialContext(t.Context(), "ws://"+r.WSAddr()))(t)
		must.Until(t, "the connection counts", func() bool { // which is after the client has the answer to its upgrade
			_, body := ask(t, http.MethodGet, base+"/metrics", "")
			return strings.Contains(body, "rpc_websocket_active_connections 1")
		})
		if status, body := ask(t, http.MethodGet, base+path, ""); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %.200s, want %d %s", path, status, body, want.status, want.text)
		}
		client.Close()
		must.Until(t, "the connection has ended", func() bool {
			_, body := ask(t, http.MethodGet, base+"/metrics", "")
			return strings.Contains(body, "rpc_websocket_active_connections 0")
		})
	}
	if addr := start(t, "WEB_SOCKET_HTTP_PORT=0").StatusAddr(); addr != "" {
		t.Errorf("beside the HTTP port, %s is open", addr)
	}
}

// Without RPC_WS_ENABLED no port speaks WebSocket; with it, the HTTP port does so as well.
func TestWebSocketIsClosedOnEveryPort(t *testing.T) {
	off := start(t, "RPC_WS_ENABLED=false")
	if off.WSAddr() != "" {
		t.Errorf("WebSocket is served on %s", off.WSAddr())
	}
	if client, err := rpc.DialContext(t.Context(), "ws://"+off.HTTPAddr()); err == nil {
		client.Close()
		t.Error("the HTTP port speaks WebSocket")
	}
	if status, body := ask(t, http.MethodPost, "http://"+off.HTTPAddr(), rpcBody("eth_chainId")); status != http.StatusOK {
		t.Errorf("HTTP: %d %s", status, body)
	}
	on := start(t)
	for _, address := range []string{on.HTTPAddr(), on.WSAddr()} {
		client, err := rpc.DialContext(t.Context(), "ws://"+address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		client.Close()
	}
}

// HEDERA_SPECIFIC_REVERT_STATUSES says which outcomes mean that nothing was executed.
func TestRejectedStatuses(t *testing.T) {
	w := newWorld(t)
	w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED})
	r, a := w.relay(t, "HEDERA_SPECIFIC_REVERT_STATUSES=WRONG_NONCE"), w.account(t)
	tx := good(a, 0)
	row{}.check(t, r.call("eth_sendRawTransaction", tx), tx) // an outcome like any other, then
}

// The buffer on the gas price is what eth_gasPrice and the precheck go by.
func TestGasPriceBuffer(t *testing.T) {
	w := newWorld(t)
	plain, dear := w.relay(t), w.relay(t, "GAS_PRICE_PERCENTAGE_BUFFER=100")
	var price, doubled hexutil.Big
	if json.Unmarshal(plain.call("eth_gasPrice").Result, &price) != nil || json.Unmarshal(dear.call("eth_gasPrice").Result, &doubled) != nil {
		t.Fatal("no gas price")
	}
	a := w.account(t)
	data := a.pay(0)
	data.GasFeeCap = price.ToInt()
	tx := a.raw(data)
	row{code: -32009, message: "Gas price '" + price.ToInt().String() + "' is below configured minimum gas price '" + doubled.ToInt().String() + "'"}.
		check(t, dear.call("eth_sendRawTransaction", tx), tx)
	row{}.check(t, plain.call("eth_sendRawTransaction", tx), tx)
}
