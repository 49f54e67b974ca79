package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

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
