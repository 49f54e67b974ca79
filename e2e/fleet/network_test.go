package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"os"
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
	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

const chainID = 298

// network is a Hedera network of four nodes, a Redis, and what the relays of a
// test have in common.
type network struct {
	t        *testing.T
	redis    *redistest.Server
	store    redis.UniversalClient // to look into Redis
	settings []string              // of every relay, after the ones all tests share
	sentinel *redistest.Sentinel   // if the relays find Redis through one
	group    *group                // of servers that Redis consists of; nil: it is redis alone
	mirrors  int                   // how many mirror nodes each relay has; 0 = 1
	program  string                // of the relays, if it is not the usual one
	defaults bool                  // relays have the default settings for all that takes time

	Mirror   string            `json:"mirror"`
	Nodes    map[string]string `json:"nodes"` // address to account
	Accounts []account         `json:"accounts"`
	Control  string            `json:"control"` // where its calls can be spoiled

	taken  int // accounts given out as senders
	relays []*relay
}

// group is several servers of Redis. Each relay has a line of its own to each.
type group struct {
	servers []*redistest.Server
	url     string
	relays  int // that have lines so far
}

// account is one funded account of the network.
type account struct {
	ID         string `json:"id"`
	Address    string `json:"address"`
	PrivateKey string `json:"privateKey"`
	KeyType    string `json:"keyType"`
}

// newNetwork runs the network and Redis. Four nodes with jitter between them
// change the order of what is given to different ones; the mirror node lags, so
// that nobody can get by with asking it. The first account is the relays'.
func newNetwork(t *testing.T, settings ...string) *network {
	t.Helper()
	n := &network{t: t, redis: redistest.Start(t), settings: settings, taken: 1}
	n.store = n.redis.Client()
	p := start(t, "devnet", nil,
		"devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0", "--control", "127.0.0.1:0",
		"--nodes", "4", "--consensus-latency", "100ms", "--jitter", "100ms", "--mirror-lag", "200ms",
	)
	p.ReadReady(n)
	if len(n.Nodes) != 4 {
		t.Fatalf("%d nodes, want 4", len(n.Nodes))
	}
	return n
}

// decision is one entry of the log of what consensus saw.
type decision struct {
	Sender common.Address `json:"sender"`
	Nonce  uint64         `json:"nonce"`
	Hash   common.Hash    `json:"hash"`
	Node   string         `json:"node"`
	Status string         `json:"status"`
	Time   string         `json:"time"` // seconds and nanoseconds, separated by a point
}

// at is when consensus saw it.
func (d decision) at(t *testing.T) time.Time {
	t.Helper()
	whole, rest, _ := strings.Cut(d.Time, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, bad := strconv.ParseInt(rest, 10, 64)
	if err != nil || bad != nil || len(rest) != 9 {
		t.Fatalf("the time of %v is %q", d, d.Time)
	}
	return time.Unix(seconds, nanos)
}

func (d decision) String() string {
	return fmt.Sprintf("%s nonce %d %s at %s, %s: %s", d.Sender.Hex()[:8], d.Nonce, d.Hash.Hex()[:10], d.Node, d.Time, d.Status)
}

// Statuses in the log.
const (
	success    = "SUCCESS"
	wrongNonce = "WRONG_NONCE"
)

// decisions reads the whole log, in the order of consensus.
func (n *network) decisions() []decision {
	n.t.Helper()
	var all []decision
	for since := int64(0); ; {
		var page struct {
			Entries []decision `json:"entries"`
			Next    int64      `json:"next"`
		}
		getJSON(n.t, fmt.Sprintf("%s/devnet/consensus?since=%d", n.Mirror, since), &page)
		if len(page.Entries) == 0 {
			return all
		}
		all = append(all, page.Entries...)
		since = page.Next
	}
}

// executed waits until consensus has seen all the transactions.
func (n *network) executed(txs ...*transaction) {
	n.t.Helper()
	until(n.t, normal, "all transactions are executed", func() bool {
		log := n.decisions()
		return !slices.ContainsFunc(txs, func(tx *transaction) bool {
			return !slices.ContainsFunc(log, func(d decision) bool { return d.Hash == tx.hash && d.Status == success })
		})
	})
}

// nonce gives the sender's next nonce as the mirror node shows it.
func (n *network) nonce(s *sender) uint64 {
	n.t.Helper()
	var account struct {
		Nonce uint64 `json:"ethereum_nonce"`
	}
	getJSON(n.t, n.Mirror+"/api/v1/accounts/"+s.address.Hex(), &account)
	return account.Nonce
}

// waiting gives how many transactions wait for their turn at the relays that live, besides the owner.
func (n *network) waiting() (count int) {
	n.t.Helper()
	for _, r := range n.relays {
		if r.process.Alive() {
			count += int(r.metric("rpc_relay_lock_waiting_txns"))
		}
	}
	return count
}

// owned tells whether the sender's lock belongs to somebody, by Redis.
func (n *network) owned(s *sender) bool {
	n.t.Helper()
	count := must.Get(n.store.Exists(n.t.Context(), "lock:"+tag(s)).Result())(n.t)
	return count == 1
}

func tag(s *sender) string { return "{" + strings.ToLower(s.address.Hex()) + "}" }

// pushes waits until Redis can tell each relay of its turns: one that does not hear looks for them.
func (n *network) pushes() {
	n.t.Helper()
	until(n.t, normal, "the relays hear of their turns", func() bool {
		channels, err := n.store.PubSubChannels(n.t.Context(), "lock:grants:*").Result()
		return err == nil && len(channels) == len(n.relays)
	})
}

// checkTidy fails unless, soon, nothing is left of what was sent: no gauge of a
// living relay counts a transaction still (L26), no lock is owned and no place taken
// (L9, L13, L21), and whatever else the locks keep in Redis expires by itself (L22).
func (n *network) checkTidy() {
	n.t.Helper()
	gauges := []string{"rpc_relay_lock_active_count", "rpc_relay_lock_waiting_txns", "rpc_relay_tx_in_progress"}
	for _, r := range n.relays {
		if !r.process.Alive() {
			continue
		}
		for _, g := range gauges {
			until(n.t, normal, r.name+": "+g+" is 0", func() bool { return r.metric(g) == 0 })
		}
	}
	var left string
	defer func() {
		if left != "" {
			n.t.Logf("in Redis: %s", left)
		}
	}()
	// What a relay owned that was taken for dead, if only because the machine stood still, is left until its time is over.
	until(n.t, 3*normal, "nothing is left in Redis", func() bool { left = n.leftover(); return left == "" })
}

// leftover names a key of the locks that should not be there.
func (n *network) leftover() string {
	n.t.Helper()
	ctx, client := n.t.Context(), n.store
	keys := must.Get(client.Keys(ctx, "lock:*").Result())(n.t)
	for _, key := range keys {
		if strings.HasPrefix(key, "lock:{") || strings.HasPrefix(key, "lock:queue:") {
			return key
		}
		ttl := must.Get(client.TTL(ctx, key).Result())(n.t)
		if ttl == -1 {
			return key + ", which never expires"
		}
	}
	return ""
}

// counts are commands that Redis has executed, those in scripts included, by name.
type counts map[string]int

// commands gives what Redis has executed so far.
func (n *network) commands() counts {
	n.t.Helper()
	info, err := n.store.Info(n.t.Context(), "commandstats").Result()
	if err != nil {
		n.t.Fatal(err)
	}
	all := counts{}
	for line := range strings.Lines(info) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		if all[name], err = strconv.Atoi(calls); err != nil {
			n.t.Fatalf("commandstats: %q", line)
		}
	}
	return all
}

// since gives what each of so many transactions cost after an earlier count, in all and by
// command.
func (c counts) since(earlier counts, transactions int) (each float64, by string) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if per := float64(c[name]-earlier[name]) / float64(transactions); per > 0 {
			each += per
			by += fmt.Sprintf(" %s %.2f", name, per)
		}
	}
	return each, by
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	doJSON(t, request, into)
}

func doJSON(t *testing.T, request *http.Request, into any) {
	t.Helper()
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", request.Method, request.URL, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL, err)
	}
}

// relay is one `lockstep serve`, with lines of its own to everything it needs.
type relay struct {
	net     *network
	name    string
	process *harness.Process
	client  *http.Client
	http    string // URLs
	ws      string
	admin   string

	redis, mirror *link      // the first of each
	stores        links      // to all servers of Redis
	mirrors       links      // to all mirror nodes
	clock         *wallClock // of the day; nil if it cannot be set
	nodes         links
	nodeOf        map[string]*link // by the node's account
}

// startRelay runs a relay and waits until Redis decides its order, if that is on.
func (n *network) startRelay(name string, settings ...string) *relay {
	n.t.Helper()
	r := n.launch(name, settings...)
	if r.orders() {
		r.sharesOrder()
	}
	return r
}

// startRelays runs several relays with equal settings.
func (n *network) startRelays(count int) []*relay {
	n.t.Helper()
	var all []*relay
	for i := range count {
		all = append(all, n.launch(string(rune('A'+i))))
	}
	for _, r := range all {
		if r.orders() {
			r.sharesOrder()
		}
	}
	return all
}

// launch runs a relay until it listens.
func (n *network) launch(name string, settings ...string) *relay {
	n.t.Helper()
	r := &relay{
		net: n, name: name, nodeOf: map[string]*link{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}},
	}
	url := n.linesToRedis(r)
	var mirrors []string
	for range max(n.mirrors, 1) {
		l := newLink(n.t, strings.TrimPrefix(n.Mirror, "http://"))
		r.mirrors, mirrors = append(r.mirrors, l), append(mirrors, "http://"+l.addr())
	}
	r.redis, r.mirror = r.stores[0], r.mirrors[0]
	n.t.Cleanup(r.client.CloseIdleConnections)
	nodes := map[string]string{}
	for _, addr := range slices.Sorted(maps.Keys(n.Nodes)) {
		l := newLink(n.t, addr)
		nodes[l.addr()] = n.Nodes[addr]
		r.nodeOf[n.Nodes[addr]] = l
		r.nodes = append(r.nodes, l)
	}
	roster := must.Get(json.Marshal(nodes))(n.t)
	var env []string
	if !n.defaults {
		env = append(harness.Patient(), calm()...)
	}
	env = append(env,
		"CHAIN_ID=298", "HEDERA_NETWORK="+string(roster), "MIRROR_NODE_URL="+strings.Join(mirrors, ","),
		"OPERATOR_ID_MAIN="+n.Accounts[0].ID, "OPERATOR_KEY_MAIN="+n.Accounts[0].PrivateKey, "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false",
		"WS_CONNECTION_LIMIT=1000", "WS_CONNECTION_LIMIT_PER_IP=1000", "PRETTY_LOGS_ENABLED=false",
		"REDIS_ENABLED=true", "REDIS_URL="+url, "ENABLE_NONCE_ORDERING=true",
	)
	env = append(append(env, n.settings...), settings...)
	if level := os.Getenv(logLevel); level != "" {
		env = append(env, "LOG_LEVEL="+level)
	}
	if n.program != "" {
		r.clock = newWallClock(n.t)
		env = append(env, dayShift+"="+r.clock.file)
	}
	r.process = startOther(n.t, n.program, "relay "+name, env, "serve")
	http, ws, admin := r.process.Addresses()
	r.http, r.ws, r.admin = "http://"+http, "ws://"+ws, "http://"+admin
	n.relays = append(n.relays, r)
	return r
}

// linesToRedis opens the relay's lines to all servers of Redis, and returns the URL by which it finds them.
func (n *network) linesToRedis(r *relay) (url string) {
	n.t.Helper()
	if n.group == nil {
		r.stores = links{newLink(n.t, n.redis.Addr())}
		return "redis://" + r.stores[0].addr()
	}
	// A relay sees each server at the server's own port and at an address that only this relay has. By this address
	// the servers name each other to it, or the relay would go around the lines.
	n.group.relays++
	host := fmt.Sprint("127.0.0.", 1+n.group.relays)
	if len(host) != len(serversHost) {
		n.t.Fatal("there are no more addresses for relays")
	}
	for _, server := range n.group.servers {
		l := must.Get(newLinkAt(n.t, fmt.Sprint(host, ":", server.Port()), server.Addr()))(n.t)
		l.add("address", "readdress", "downstream", fmt.Sprintf(`"To":%q`, host))
		r.stores = append(r.stores, l)
	}
	return strings.ReplaceAll(n.group.url, serversHost, host)
}

// sharesOrder waits until Redis decides the order.
func (r *relay) sharesOrder() {
	t := r.net.t
	t.Helper()
	until(t, harness.StartLimit, "Redis decides the order of relay "+r.name, func() bool { return r.metric("lockstep_lock_redis_up") == 1 })
}

// metric sums a metric over its labels.
func (r *relay) metric(name string) float64 {
	t := r.net.t
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, r.http+"/metrics", nil))(t)
	response := must.Get(r.client.Do(request))(t)
	defer response.Body.Close()
	sum, found := 0.0, false
	scan := bufio.NewScanner(response.Body)
	for scan.Scan() {
		series, text, _ := strings.Cut(scan.Text(), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		value, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metric %q: %v", scan.Text(), err)
		}
		sum, found = sum+value, true
	}
	if !found {
		t.Fatalf("relay %s has no metric %s", r.name, name)
	}
	return sum
}

// orders tells whether ordering is on.
func (r *relay) orders() bool {
	r.net.t.Helper()
	var on struct{ Enabled bool }
	getJSON(r.net.t, r.admin+"/ordering", &on)
	return on.Enabled
}

// setOrdering switches ordering at run time.
func (r *relay) setOrdering(on bool) {
	t := r.net.t
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"enabled":%t}`, on))
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, r.admin+"/ordering", body))(t)
	var now struct{ Enabled bool }
	doJSON(t, request, &now)
	if now.Enabled != on {
		t.Fatalf("relay %s: ordering is %t after it was set to %t", r.name, now.Enabled, on)
	}
}

// transaction is signed and ready to be sent.
type transaction struct {
	sender common.Address
	nonce  uint64
	hash   common.Hash
	raw    hexutil.Bytes
}

func (tx *transaction) String() string {
	return fmt.Sprintf("%s nonce %d %s", tx.sender.Hex()[:8], tx.nonce, tx.hash.Hex()[:10])
}

// sender is one account that transactions come from.
type sender struct {
	key     *ecdsa.PrivateKey
	address common.Address
	next    uint64 // nonce of the next transaction
}

// newSender gives the next of the network's funded accounts that an Ethereum
// client can use, from its first transaction on.
func (n *network) newSender() *sender {
	n.t.Helper()
	for n.taken < len(n.Accounts) {
		a := n.Accounts[n.taken]
		n.taken++
		key, err := crypto.HexToECDSA(strings.TrimPrefix(a.PrivateKey, "0x"))
		if err == nil && crypto.PubkeyToAddress(key.PublicKey) == common.HexToAddress(a.Address) {
			return &sender{key: key, address: common.HexToAddress(a.Address)}
		}
	}
	n.t.Fatal("the network has no more accounts")
	return nil
}

func (n *network) newSenders(count int) []*sender {
	n.t.Helper()
	all := make([]*sender, count)
	for i := range all {
		all[i] = n.newSender()
	}
	return all
}

// stranger is a key that the network knows nothing of.
func (n *network) stranger() *sender {
	n.t.Helper()
	key := must.Get(crypto.GenerateKey())(n.t)
	return &sender{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

// crowd gives many senders, funded from one of the network's accounts through a
// relay. That is a burst by itself.
func (n *network) crowd(count int, through *relay) []*sender {
	n.t.Helper()
	bank := n.newSender()
	all := make([]*sender, count)
	txs := make([]*transaction, count)
	for i := range all {
		all[i] = n.stranger()
		txs[i] = bank.sign(all[i].address, ether(100), 1_000_000)
	}
	b := newBurst(n)
	for len(txs) > 0 {
		size := min(len(txs), 100)
		b.post(through, txs[:size]...)
		txs = txs[size:]
	}
	const limit = 5 * normal // setting up is not what is tested
	n.check(b.waitFor(limit), allowance{slow: limit})
	last := all[count-1]
	until(n.t, normal, "the senders are funded", func() bool {
		return string(through.call("eth_getBalance", last.address, "latest")) != `"0x0"`
	})
	return all
}

func ether(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18)) }

// sign makes the sender's next transaction, a payment.
func (s *sender) sign(to common.Address, value *big.Int, gas uint64) *transaction {
	tx := s.signNonce(s.next, to, value, gas)
	s.next++
	return tx
}

func (s *sender) signNonce(nonce uint64, to common.Address, value *big.Int, gas uint64) *transaction {
	chain := big.NewInt(chainID)
	signed := types.MustSignNewTx(s.key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: nonce, GasFeeCap: big.NewInt(2e12), Gas: gas, To: &to, Value: value,
	})
	raw, err := signed.MarshalBinary()
	if err != nil {
		panic(err) // it was signed a moment ago
	}
	return &transaction{sender: s.address, nonce: nonce, hash: signed.Hash(), raw: raw}
}

// plain gas and value of a payment to an account that exists.
const paymentGas = 30_000

func payment() *big.Int { return big.NewInt(1e10) } // one tinybar

// pay makes the sender's next transactions.
func (s *sender) pay(count int) []*transaction {
	txs := make([]*transaction, count)
	for i := range txs {
		txs[i] = s.sign(s.address, payment(), paymentGas)
	}
	return txs
}

// rival makes another transaction with the same nonce, as a wallet does to replace one.
func (s *sender) rival(tx *transaction) *transaction {
	return s.signNonce(tx.nonce, s.address, new(big.Int).Mul(payment(), big.NewInt(2)), paymentGas)
}

// answer is what a client was told about one transaction it sent.
type answer struct {
	tx    *transaction
	relay string
	hash  common.Hash // the result, if refusal and lost are nil
	// refusal is the relay's error.
	refusal *refusal
	// lost says that no answer came: the connection broke.
	lost error
	sent time.Time
	took time.Duration
}

func (a answer) ok() bool { return a.refusal == nil && a.lost == nil }

// says tells whether the relay refused with these words.
func (a answer) says(text string) bool {
	return a.refusal != nil && strings.Contains(strings.ToLower(a.refusal.Message), text)
}

// Words of refusals.
const (
	tooLow   = "nonce too low"
	tooHigh  = "nonce too high"
	turnLost = "not submitted in its turn"
	stopping = "shutting down"
)

func (a answer) String() string {
	switch {
	case a.lost != nil:
		return fmt.Sprintf("%v at %s: no answer after %v: %v", a.tx, a.relay, a.took.Round(time.Millisecond), a.lost)
	case a.refusal != nil:
		return fmt.Sprintf("%v at %s: %v after %v", a.tx, a.relay, a.refusal, a.took.Round(time.Millisecond))
	default:
		return fmt.Sprintf("%v at %s: accepted after %v", a.tx, a.relay, a.took.Round(time.Millisecond))
	}
}

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *refusal) String() string { return fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data) }

// open tells whether the relay said that it does not know the outcome.
func (e *refusal) open() bool {
	var data struct{ Provisional bool }
	return json.Unmarshal(e.Data, &data) == nil && data.Provisional
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *refusal        `json:"error"`
}

// submission is the request body for transactions, with ids from first on: one
// call, or a batch.
func submission(first int, txs []*transaction) []byte {
	calls := make([]request, len(txs))
	for i, tx := range txs {
		calls[i] = request{"2.0", first + i, "eth_sendRawTransaction", []any{tx.raw}}
	}
	var body any = calls
	if len(calls) == 1 {
		body = calls[0]
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return text
}

// readReplies reads one answer or an array of them.
func readReplies(body []byte) ([]reply, error) {
	var all []reply
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '[' {
		all = make([]reply, 1)
		return all, json.Unmarshal(body, &all[0])
	}
	return all, json.Unmarshal(body, &all)
}

func newAnswer(tx *transaction, r *relay, got reply, sent time.Time) answer {
	a := answer{tx: tx, relay: r.name, refusal: got.Error, sent: sent, took: time.Since(sent)}
	if got.Error == nil {
		a.lost = json.Unmarshal(got.Result, &a.hash)
	}
	return a
}

// post sends transactions in one HTTP request and waits for the answers.
func (r *relay) post(ctx context.Context, txs ...*transaction) []answer {
	sent := time.Now()
	replies, err := r.roundTrip(ctx, submission(0, txs))
	answers := make([]answer, len(txs))
	for i, tx := range txs {
		at := slices.IndexFunc(replies, func(got reply) bool { return got.ID != nil && *got.ID == i })
		switch {
		case err != nil:
			answers[i] = answer{tx: tx, relay: r.name, lost: err, sent: sent, took: time.Since(sent)}
		case at < 0:
			answers[i] = answer{tx: tx, relay: r.name, lost: fmt.Errorf("no reply with its id among %d", len(replies)), sent: sent, took: time.Since(sent)}
		default:
			answers[i] = newAnswer(tx, r, replies[at], sent)
		}
	}
	return answers
}

func (r *relay) roundTrip(ctx context.Context, body []byte) ([]reply, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(post)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return readReplies(text)
}

// call makes one call that must succeed.
func (r *relay) call(method string, params ...any) json.RawMessage {
	t := r.net.t
	t.Helper()
	body := must.Get(json.Marshal(request{"2.0", 1, method, params}))(t)
	replies := must.Get(r.roundTrip(t.Context(), body))(t)
	if replies[0].Error != nil {
		t.Fatalf("%s: %v", method, replies[0].Error)
	}
	return replies[0].Result
}

// socket is a WebSocket client. What it sends arrives in the order in which it
// was sent, without waiting for answers.
type socket struct {
	burst *burst
	relay *relay
	conn  *websocket.Conn

	mu   sync.Mutex // guards all below, and writes
	next int
	open map[int]sentAt
	err  error // why the connection ended
}

type sentAt struct {
	tx   *transaction
	time time.Time
}

// dial connects to a relay's WebSocket.
func (b *burst) dial(r *relay) *socket {
	t := b.net.t
	t.Helper()
	conn, response := must.Get2((&websocket.Dialer{HandshakeTimeout: normal}).DialContext(t.Context(), r.ws, nil))(t)
	response.Body.Close()
	s := &socket{burst: b, relay: r, conn: conn, open: map[int]sentAt{}}
	go s.read()
	t.Cleanup(func() { conn.Close() })
	return s
}

// send sends transactions in one message, several as a batch.
func (s *socket) send(txs ...*transaction) {
	s.burst.sent(txs...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		for _, tx := range txs {
			s.burst.answered(answer{tx: tx, relay: s.relay.name, lost: s.err})
		}
		return
	}
	body := submission(s.next, txs)
	for i, tx := range txs {
		s.open[s.next+i] = sentAt{tx, time.Now()}
	}
	s.next += len(txs)
	if err := s.conn.WriteMessage(websocket.TextMessage, body); err != nil {
		s.conn.Close() // the reader tells the clients
	}
}

func (s *socket) read() {
	for {
		_, body, err := s.conn.ReadMessage()
		if err != nil {
			s.end(err)
			return
		}
		replies, err := readReplies(body)
		if err != nil {
			s.end(err)
			return
		}
		for _, got := range replies {
			s.take(got)
		}
	}
}

func (s *socket) take(got reply) {
	if got.ID == nil && got.Error == nil {
		return // a ping, as established relays send it
	}
	if got.ID == nil {
		s.end(fmt.Errorf("a reply without an id: %v", got.Error))
		return
	}
	s.mu.Lock()
	sent, known := s.open[*got.ID]
	delete(s.open, *got.ID)
	s.mu.Unlock()
	if known {
		s.burst.answered(newAnswer(sent.tx, s.relay, got, sent.time))
	}
}

func (s *socket) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for id, sent := range s.open {
		delete(s.open, id)
		s.burst.answered(answer{tx: sent.tx, relay: s.relay.name, lost: err, took: time.Since(sent.time)})
	}
}
