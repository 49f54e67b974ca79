package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/gorilla/websocket"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// attack is a row of the table.
type attack struct {
	name     string
	settings []string // beside the relay's defaults
	whole    bool     // it lasts until its clients have done all that they do
	counted  bool     // check counts the work that it makes, and an honest client's time is not judged
	// stage makes what the relay is to be connected with, and returns the settings that say so, and how to end it.
	stage   func(ctx context.Context, l *lab) (settings []string, end func(), err error)
	prepare func(ctx context.Context, t *target) error
	// run is what each client does until the context ends.
	run func(ctx context.Context, c *client)
	// check looks afterwards what came of it: what must not be is told to t.wrong.
	check func(ctx context.Context, t *target) error
}

var (
	allLogs = call("eth_getLogs", `{"fromBlock":"0x1","toBlock":"latest"}`)
	chainID = big.NewInt(298)
	price   = big.NewInt(2_000_000_000_000)
)

func attacks() []attack {
	return []attack{
		{name: "simulate-bomb", run: repeat(batch(100, simulateCall(7, returnsMegabyte)))},
		{name: "simulate-batch-20", run: repeat(batch(20, simulateCall(7, returnsMegabyte)))},
		{name: "deep-memory", run: repeat(batch(100, simulateCall(3, callsItself)))},
		{name: "trace-bomb", settings: []string{"DEBUG_API_ENABLED=true"}, run: repeat(batch(20, traceCall(loops)))},
		{name: "heavy-cpu", run: heavyNextToLight},
		{name: "logs", prepare: leaveLogs, run: repeat(batch(100, allLogs))},
		{name: "zero-hash", counted: true, prepare: leaveLogs, run: repeat(batch(100, call("eth_getTransactionReceipt", `"0x`+strings.Repeat("0", 64)+`"`))), check: countLookUps},
		{name: "unfinished-bodies", run: unfinishedBodies},
		{name: "many-connections", run: manyConnections},
		{name: "forged-addresses", whole: true, settings: []string{"TRUSTED_PROXIES=192.0.2.0/24", "WS_CONNECTION_LIMIT=1000", "WS_CONNECTION_LIMIT_PER_IP=5"}, run: forgedAddresses, check: fiveGotIn},
		{name: "far-ahead-nonces", whole: true, prepare: signFarAhead, run: sendFarAhead, check: countPaid},
		{name: "files", whole: true, settings: []string{"JUMBO_TX_ENABLED=false"}, prepare: signLong, run: sendFarAhead, check: countFiles},
		{name: "proxied-console", stage: behindProxy, run: askConsole},
		{name: "decoder-bomb", stage: withConsole, settings: []string{"ADMIN_TOKEN=" + consoleToken}, run: decodeBombs},
		{name: "filters-fill-redis", settings: []string{"REDIS_ENABLED=true", "ENABLE_NONCE_ORDERING=true"}, stage: smallRedis, run: longFilters, check: locksGoOn},
		{name: "long-mirror-answers", stage: longAnswers, run: searchAnew},
		{name: "half-closed", whole: true, run: halfClosed},
		{name: "escaped-keys", run: repeat(escapedKeys())},
		{name: "long-numbers", run: repeat(longNumber())},
		{name: "long-overrides", run: repeat(simulateWith(words(12_000, longWord)))},
		{name: "short-words", run: repeat(simulateWith(words(65_000, shortWord)))},
		{name: "short-words-of-calls", run: repeat(call("eth_call", `{"to":"0x00000000000000000000000000000000000003ea"}`, `"latest"`, words(65_000, shortWord)))},
		{name: "heads-of-fields", run: headsOfFields},
		{name: "websocket-flood", settings: []string{"WS_CONNECTION_LIMIT=1000"}, prepare: leaveLogs, run: websocketFlood},
		{name: "mixed", settings: []string{"DEBUG_API_ENABLED=true", "WS_CONNECTION_LIMIT=1000"}, prepare: leaveLogs, run: mixed()},
	}
}

func names() (list []string) {
	for _, a := range attacks() {
		list = append(list, a.name)
	}
	return list
}

func choose(chosen string) ([]attack, error) {
	if chosen == "" {
		return attacks(), nil
	}
	var list []attack
	for name := range strings.SplitSeq(chosen, ",") {
		i := slices.IndexFunc(attacks(), func(a attack) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no attack is called %q: there are %s", name, strings.Join(names(), ", "))
		}
		list = append(list, attacks()[i])
	}
	return list, nil
}

// client is one of the attack's.
type client struct {
	*target
	url    string // that its requests go to
	number int
	http   *http.Client
}

// honestNumber is the number of a client that is none of the attack's: what it is answered is not counted.
const honestNumber = 200

// address is where the client says it comes from.
func (c *client) address() string { return fmt.Sprintf("198.51.100.%d", c.number+1) }

// send posts a body and returns the answer.
func (c *client) send(ctx context.Context, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Forwarded-For", c.address())
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	const most = 256 << 20
	answer, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil && c.number != honestNumber {
		c.count(response.StatusCode, answer)
	}
	return answer, err
}

// repeat sends a body again and again.
func repeat(body string) func(ctx context.Context, c *client) {
	return func(ctx context.Context, c *client) {
		for ctx.Err() == nil {
			if _, err := c.send(ctx, body); err != nil {
				sleep.For(ctx, 10*time.Millisecond)
			}
		}
	}
}

func call(method string, params ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[%s]}`, method, strings.Join(params, ","))
}

func batch(n int, call string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(call+",", n), ",") + "]"
}

// Code that attacks run, as hex.
const (
	returnsMegabyte = "0x621000006000f3"                 // return(0, 2^20)
	loops           = "0x5b600056"                       // jumps to its beginning
	callsItself     = "0x620200005950600080808080305af1" // takes 128 KB, then calls itself with all gas
	victim          = "0xc100000000000000000000000000000000000000"
)

func simulateCall(calls int, code string) string {
	one := fmt.Sprintf(`{"from":"0x00000000000000000000000000000000000003ea","to":%q}`, victim)
	list := strings.TrimSuffix(strings.Repeat(one+",", calls), ",")
	return call("eth_simulateV1", fmt.Sprintf(`{"blockStateCalls":[{"stateOverrides":{%q:{"code":%q}},"calls":[%s]}]}`, victim, code, list), `"latest"`)
}

func traceCall(code string) string {
	return call("debug_traceCall", fmt.Sprintf(`{"to":%q}`, victim), `"latest"`, fmt.Sprintf(`{"enableMemory":true,"stateOverrides":{%q:{"code":%q}}}`, victim, code))
}

// longNumber is a call with a price of a million digits.
func longNumber() string {
	return call("eth_call", `{"to":"0x00000000000000000000000000000000000003ea","gasPrice":"0x`+strings.Repeat("f", 1_000_000)+`"}`, `"latest"`)
}

// words are overrides of so many words of an account's storage, each as word writes it.
func words(n int, word func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = word(i)
	}
	return fmt.Sprintf(`{%q:{"state":{%s}}}`, victim, strings.Join(list, ","))
}

// longWord is written with escapes; shortWord is long because there are many, not because of its text.
func longWord(i int) string  { return fmt.Sprintf(`"\u0030x%064x":"0x%01x"`, i, i%16) }
func shortWord(i int) string { return fmt.Sprintf(`"0x%x":"0x1"`, i) }

// simulateWith is a simulation without calls.
func simulateWith(overrides string) string {
	return call("eth_simulateV1", `{"blockStateCalls":[{"stateOverrides":`+overrides+`}]}`, `"latest"`)
}

// headsOfFields are heads of requests that net/http reads, each with thousands of fields. Their bodies never come.
func headsOfFields(ctx context.Context, c *client) {
	var head bytes.Buffer
	head.WriteString("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n")
	for i := 0x1000; head.Len() < 31<<10; i++ {
		fmt.Fprintf(&head, "%x:\n", i)
	}
	head.WriteString("\r\n")
	for range 400 {
		if conn, ok := c.dial(ctx); ok {
			_, _ = conn.Write(head.Bytes())
		}
	}
	<-ctx.Done()
}

// escapedKeys is a call object of which every key is written with escapes.
func escapedKeys() string {
	var b bytes.Buffer
	for b.Len() < 869_000 {
		b.WriteString(`"\u0061\u0062":1,`)
	}
	return call("eth_call", "{"+b.String()+`"to":"0x00000000000000000000000000000000000003ea"}`, `"latest"`)
}

// heavyNextToLight lets two clients send simulations that take long, and a third one a
// trivial one again and again, whose slowest answer is the row's note.
func heavyNextToLight(ctx context.Context, c *client) {
	switch c.number {
	case 0, 1:
		repeat(batch(100, simulateCall(3, loops)))(ctx, c)
	case 2:
		trivial, slowest := simulateCall(1, "0x00"), time.Duration(0)
		for ctx.Err() == nil {
			start := time.Now()
			if _, err := c.send(context.WithoutCancel(ctx), trivial); err == nil {
				slowest = max(slowest, time.Since(start))
			}
			c.say("a light client's slowest simulation: %d ms", slowest.Milliseconds())
			sleep.For(ctx, 20*time.Millisecond)
		}
	}
}

// dial opens a connection, which is closed when the context ends.
func (c *client) dial(ctx context.Context) (net.Conn, bool) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		c.refused.Add(1)
		sleep.For(ctx, 10*time.Millisecond)
		return nil, false
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() { // a refusal is all that can come
		answer := make([]byte, 1<<10)
		if n, _ := io.ReadFull(conn, answer[:12]); n == 12 || n == 0 && ctx.Err() == nil {
			c.refused.Add(1)
		}
	}()
	return conn, true
}

// unfinishedBodies holds sixteen requests each, of whose megabyte the last byte is missing.
func unfinishedBodies(ctx context.Context, c *client) {
	const size = 1 << 20
	body := bytes.Repeat([]byte{' '}, size-1)
	for range 16 {
		if conn, ok := c.dial(ctx); ok {
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n", c.address(), size)
			_ = conn.SetWriteDeadline(time.Now().Add(3 * time.Second))
			_, _ = conn.Write(body) // it may be refused
		}
	}
	<-ctx.Done()
}

// manyConnections opens as many connections as fit, each with a part of a head.
func manyConnections(ctx context.Context, c *client) {
	for range 400 {
		if conn, ok := c.dial(ctx); ok {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n")
		}
	}
	<-ctx.Done()
}

// What strangers may do to the console, which has no port of its own towards them: reach it through a proxy that somebody put in
// front of it, or have an operator's page decode what they have sent.

// withConsole gives the relay a console.
func withConsole(_ context.Context, l *lab) (settings []string, end func(), err error) {
	port, release, err := proctest.KeepPort()
	l.console = fmt.Sprintf("127.0.0.1:%d", port)
	return []string{"ADMIN_ADDRESS=" + l.console, "ENABLE_NONCE_ORDERING=true"}, release, err
}

// behindProxy gives it one without a token of its own, behind a proxy that says nothing of whom it speaks for, as a bare proxy_pass does: to the
// console all its requests come from loopback and name loopback as their host.
func behindProxy(ctx context.Context, l *lab) (settings []string, end func(), err error) {
	settings, release, err := withConsole(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	target := &url.URL{Scheme: "http", Host: l.console}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	proxy := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of requests that the attack gave up
		},
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = proxy.Serve(listener) }() // it ends with Close
	l.console = listener.Addr().String()
	return settings, func() { _ = proxy.Close(); release() }, nil
}

// askConsole asks for everything that the console can do. None of it may be answered.
func askConsole(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		for _, what := range [][2]string{
			{"PUT /ordering", `{"enabled":false}`},
			{"POST /reload", ""},
			{"GET /locks", ""},
			{"GET /ordering", ""},
			{"GET /debug/pprof/heap", ""},
			{"GET /ui/events", ""},
			{"POST /ui/rpc", call("eth_chainId")},
			{"POST /ui/decode", `{}`},
			{"POST /locks/" + victim + "/release", ""},
		} {
			method, path, _ := strings.Cut(what[0], " ")
			switch status, err := c.console(ctx, method, path, what[1], ""); {
			case err != nil:
				sleep.For(ctx, 10*time.Millisecond)
			case status < http.StatusBadRequest:
				c.answered.Add(1)
				c.wrong("a stranger's %s was answered with %d", what[0], status)
			default:
				c.refused.Add(1)
			}
		}
	}
}

// console sends the console a request and returns the status.
func (c *client) console(ctx context.Context, method, path, body, token string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.lab.console+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<20))
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

const consoleToken = "attack"

// decodeBombs has an operator's page decode call data in which small arrays contain each other: a few kilobytes that name three
// million values.
func decodeBombs(ctx context.Context, c *client) {
	const depth, width = 5, 20
	kind := "uint256" + strings.Repeat("[]", depth)
	data := slices.Concat(crypto.Keccak256([]byte("f(" + kind + ")"))[:4], word(common.HashLength))
	for level := range depth {
		data = append(data, word(width)...)
		for i := range width {
			if level == depth-1 {
				data = append(data, word(i)...)
			} else {
				data = append(data, word(width*common.HashLength)...) // all begin behind the last offset
			}
		}
	}
	body := fmt.Sprintf(`{"abi":[{"type":"function","name":"f","inputs":[{"name":"x","type":%q}]}],"call":"0x%x"}`, kind, data)
	for ctx.Err() == nil {
		status, err := c.console(ctx, http.MethodPost, "/ui/decode", body, consoleToken)
		switch {
		case err != nil:
			sleep.For(ctx, 10*time.Millisecond)
		case status == http.StatusOK:
			c.answered.Add(1)
		default:
			c.refused.Add(1)
		}
	}
}

func word(n int) []byte { return common.BigToHash(big.NewInt(int64(n))).Bytes() }

// halfClosed sends three requests on a connection, the first of which takes long, and then says that nothing more
// will come. The answers to all three must come all the same.
func halfClosed(ctx context.Context, c *client) {
	const rounds, requests, senders = 2, 3, 8 // there are places for a few simulations at a time
	if c.number >= senders {
		return
	}
	for range rounds {
		if ctx.Err() != nil {
			return
		}
		came, err := c.halfClose(ctx, simulateCall(1, loops), call("eth_chainId"), call("eth_blockNumber"))
		if err != nil && came == 0 {
			c.refused.Add(1) // the whole connection
			continue
		}
		if came < requests && ctx.Err() == nil {
			c.wrong("after a half-close %d of %d answers came: %v", came, requests, err)
		}
	}
	c.say("%d answers to requests before a half-close", c.answered.Load()+c.refused.Load())
}

// halfClose sends bodies, closes its half, and returns how many answers came.
func (c *client) halfClose(ctx context.Context, bodies ...string) (came int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) // it fails only when the connection is closed
	var all strings.Builder
	for _, body := range bodies {
		fmt.Fprintf(&all, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s", c.address(), len(body), body)
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		return 0, err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return 0, errors.New("the connection has no halves")
	}
	reader := bufio.NewReader(conn)
	for range bodies {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return came, err
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return came, err
		}
		came++
		c.count(response.StatusCode, answer)
	}
	return came, nil
}

// mixed has each client do one thing after the other of all that is expensive, in an order of
// its own, so that any of them come together.
func mixed() func(ctx context.Context, c *client) {
	kinds := []func(ctx context.Context, c *client){
		repeat(batch(100, simulateCall(7, returnsMegabyte))),
		repeat(batch(100, simulateCall(3, callsItself))),
		repeat(batch(100, simulateCall(3, loops))),
		repeat(batch(20, traceCall(loops))),
		repeat(batch(100, allLogs)),
		repeat(escapedKeys()),
		repeat(longNumber()),
		repeat(simulateWith(words(12_000, longWord))),
		unfinishedBodies,
		websocketFlood,
	}
	return func(ctx context.Context, c *client) {
		random := rand.New(rand.NewPCG(1, uint64(c.number)))
		for ctx.Err() == nil {
			for _, kind := range random.Perm(len(kinds)) {
				turn, end := context.WithTimeout(ctx, time.Second+time.Duration(random.Int64N(int64(time.Second))))
				kinds[kind](turn, c)
				end()
			}
		}
	}
}

// The accounts of the network that attacks send from.
const (
	logSender      = 2
	farAheadSender = 3
	orderedSender  = 4
	filesSender    = 5
)

// wrongNonceBudget is how many rejections a sender may cost in a minute, by default.
const wrongNonceBudget = 10

// signFarAhead signs what the clients send: five hundred nonces of one sender that are far ahead.
func signFarAhead(_ context.Context, t *target) error {
	const count = 500
	for i := range uint64(count) {
		raw, err := t.sign(farAheadSender, 1000+3*i, nil)
		if err != nil {
			return err
		}
		t.signed = append(t.signed, raw)
	}
	return nil
}

// signLong signs transactions of one sender whose call data goes into files of the network: half of them with a gap
// before them, half with one nonce.
func signLong(_ context.Context, t *target) error {
	const count = 20
	data := bytes.Repeat([]byte{1}, 20_000)
	for i := range uint64(count) {
		for _, nonce := range []uint64{5 + i, 0} {
			raw, err := t.sign(filesSender, nonce, append(data, byte(i)))
			if err != nil {
				return err
			}
			t.signed = append(t.signed, raw)
		}
	}
	return nil
}

// countFiles counts the files that the operator paid for: one transaction was executed.
func countFiles(ctx context.Context, t *target) error {
	text, err := get(ctx, t.ready.Mirror+"/api/v1/transactions?transactiontype=FILECREATE&limit=100")
	if err != nil {
		return err
	}
	var list struct{ Transactions []struct{ Name string } }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	t.say("the operator paid for %d files of %d", len(list.Transactions), len(t.signed))
	if paid := len(list.Transactions); paid != 1 {
		t.wrong("the operator paid for %d files of one sender, of which one led to an execution", paid)
	}
	return nil
}

// sign signs a transfer of a tinybar.
func (t *target) sign(account int, nonce uint64, data []byte) (raw string, err error) {
	to := common.HexToAddress("0x00000000000000000000000000000000000003ea")
	return t.signAny(account, &types.LegacyTx{Nonce: nonce, Gas: 1_000_000, To: &to, Value: big.NewInt(10_000_000_000), Data: data})
}

// signAny signs any transaction at the price of all.
func (t *target) signAny(account int, tx *types.LegacyTx) (raw string, err error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(t.ready.Accounts[account].PrivateKey, "0x"))
	if err != nil {
		return "", err
	}
	tx.GasPrice = price
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), tx)
	if err != nil {
		return "", err
	}
	encoded, err := signed.MarshalBinary()
	return fmt.Sprintf("0x%x", encoded), err
}

// sendFarAhead sends every fiftieth of them, or whatever a client's part is.
func sendFarAhead(ctx context.Context, c *client) {
	for i := c.number; i < len(c.signed) && ctx.Err() == nil; i += c.clients {
		_, _ = c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", c.signed[i]))) // what came of it, the log tells
	}
}

// countPaid counts in the network's log what the operator paid for.
func countPaid(ctx context.Context, t *target) error {
	text, err := get(ctx, t.ready.Mirror+"/devnet/consensus")
	if err != nil {
		return err
	}
	var log struct {
		Entries []struct {
			Sender common.Address
			Status string
		}
	}
	if err := json.Unmarshal(text, &log); err != nil {
		return err
	}
	paid := 0
	for _, e := range log.Entries {
		if e.Status != "SUCCESS" && e.Sender == common.HexToAddress(t.ready.Accounts[farAheadSender].Address) {
			paid++
		}
	}
	t.say("the operator paid for %d of %d, and %d a minute may be", paid, len(t.signed), wrongNonceBudget)
	if may := wrongNonceBudget * (1 + int(time.Since(t.began)/time.Minute)); paid > may {
		t.wrong("the operator paid for %d rejections of one sender, and %d may be", paid, may)
	}
	return nil
}

// sendNext sends the first transaction of an account.
func (t *target) sendNext(ctx context.Context, account int) error {
	raw, err := t.sign(account, 0, nil)
	if err != nil {
		return err
	}
	c := client{target: t, url: t.url, number: honestNumber, http: http.DefaultClient}
	answer, err := c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", raw)))
	if err == nil && !strings.Contains(string(answer), `"result"`) {
		err = fmt.Errorf("send: %s", answer)
	}
	return err
}

// socket opens a WebSocket from an address of the client's choice.
func (c *client) socket(ctx context.Context, address string) (*websocket.Conn, bool) {
	ws, response, err := websocket.DefaultDialer.DialContext(ctx, c.ws, http.Header{"X-Forwarded-For": {address}})
	if err != nil {
		if ctx.Err() == nil {
			c.refused.Add(1)
		}
		return nil, false
	}
	_ = response.Body.Close()
	context.AfterFunc(ctx, func() { _ = ws.Close() })
	return ws, true
}

// forgedAddresses opens forty WebSockets from one address that call themselves forty.
func forgedAddresses(ctx context.Context, c *client) {
	if c.number > 0 {
		return
	}
	for i := range 40 {
		ws, ok := c.socket(ctx, fmt.Sprintf("203.0.113.%d", i))
		if !ok {
			continue
		}
		_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
		_ = ws.WriteMessage(websocket.TextMessage, []byte(call("eth_chainId"))) // a refused one is closed
		if _, answer, err := ws.ReadMessage(); err == nil {
			c.count(http.StatusOK, answer)
		} else {
			c.refused.Add(1)
		}
		_ = ws.SetReadDeadline(time.Time{})
	}
	c.say("%d of 40 got in where 5 may", c.answered.Load())
}

func fiveGotIn(_ context.Context, t *target) error {
	if n := t.answered.Load(); n != 5 {
		t.wrong("%d connections of one address were taken where 5 may be", n)
	}
	return nil
}

// websocketFlood asks for everything that there is, and reads nothing.
func websocketFlood(ctx context.Context, c *client) {
	body := []byte(batch(20, allLogs))
	for range 4 {
		ws, ok := c.socket(ctx, c.address())
		if !ok {
			continue
		}
		for _, event := range []string{`"newHeads"`, `"logs",{}`} {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(call("eth_subscribe", event)))
		}
		for range 64 {
			_ = ws.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if ws.WriteMessage(websocket.TextMessage, body) != nil {
				break // its messages in progress are as many as there may be
			}
		}
	}
	<-ctx.Done()
}

// leaveLogs has the chain hold some megabytes of logs: eight transactions leave two hundred
// each. Those that are there are enough.
func leaveLogs(ctx context.Context, t *target) error {
	// A constructor that leaves a log of 4 KB two hundred times.
	code := []byte{0x60, 200, 0x5b, 0x61, 0x10, 0x00, 0x60, 0x00, 0xa0, 0x60, 0x01, 0x90, 0x03, 0x80, 0x60, 0x02, 0x57, 0x00}
	const creations, logs = 8, 8 * 200
	c := client{target: t, url: t.url, number: honestNumber, http: http.DefaultClient}
	answer, err := c.send(ctx, call("eth_getTransactionCount", fmt.Sprintf("%q", t.ready.Accounts[logSender].Address), `"latest"`))
	if err != nil {
		return err
	}
	var sent uint64
	if _, err := fmt.Sscanf(string(answer), `{"result":"0x%x"`, &sent); err != nil {
		return fmt.Errorf("nonce: %w: %s", err, answer)
	}
	for nonce := sent; nonce < creations; nonce++ {
		raw, err := t.signAny(logSender, &types.LegacyTx{Nonce: nonce, Gas: 10_000_000, Data: code})
		if err != nil {
			return err
		}
		if answer, err := c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", raw))); err != nil || !strings.Contains(string(answer), "result") {
			return fmt.Errorf("send: %w: %s", err, answer)
		}
	}
	seen := 0
	for range 600 {
		answer, err := c.send(ctx, allLogs)
		if seen = bytes.Count(answer, []byte(`"logIndex"`)); err == nil && seen == logs {
			t.say("%d logs of %d KB", seen, len(answer)>>10)
			return nil
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("of %d logs %d show", logs, seen)
}
