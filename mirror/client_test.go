package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
)

const latestPath = "blocks?limit=1&order=desc"

func TestBlockIsAskedForOnce(t *testing.T) {
	n := newNode(t)
	n.set("blocks/17", blockJSON(17))
	client := connect(t, n.URL)
	for range 3 {
		block, err := client.BlockByNumber(t.Context(), 17)
		if err != nil || block.Number != 17 || block.Hash.Hex() != blockHash || block.ParentHash.Hex() != parentHash || block.GasUsed != 21000 || block.HAPI != "0.75.0" {
			t.Fatalf("%+v, %v", block, err)
		}
		must.Get(client.BlockByHash(t.Context(), common.HexToHash(blockHash)))(t)
	}
	if diff := cmp.Diff([]string{"blocks/17"}, n.requests()); diff != "" {
		t.Error(diff)
	}
	if _, err := client.BlockByNumber(t.Context(), 18); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown block: %v", err)
	}
	n.set("blocks/18", blockJSON(18))
	if block, err := client.BlockByNumber(t.Context(), 18); err != nil || block.Number != 18 {
		t.Errorf("absence was kept: %v, %v", block, err)
	}
}

func TestPaging(t *testing.T) {
	n := newNode(t)
	first := "blocks?block.number=gte:1&block.number=lte:5&limit=2&order=asc"
	n.set(first, blocksJSON(`"/api/v1/blocks?limit=2&p=2"`, 1, 2))
	n.set("blocks?limit=2&p=2", blocksJSON(`"https://elsewhere.example/api/v1/blocks?limit=2&p=3"`, 3, 4))
	n.set("blocks?limit=2&p=3", blocksJSON(`null`, 5))
	numbers := func(pages int) (got []uint64, err error) {
		client := connect(t, n.URL, func(c *Config) { c.PageSize, c.MaxBlockPages = 2, pages })
		for block, err := range client.Blocks(t.Context(), 1, 5) {
			if err != nil {
				return got, err
			}
			got = append(got, block.Number)
		}
		return got, nil
	}
	// A list that ends on the last page that may be read is complete.
	got, err := numbers(3)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	var pages *PagesError
	if got, err = numbers(2); !errors.As(err, &pages) || pages.Limit != 2 || len(got) != 4 {
		t.Errorf("two pages: %v, %v", got, err)
	}
	if len(n.requests()) != 5 {
		t.Error("a page was asked for that is not wanted")
	}
}

func TestPagingStopsWithItsConsumer(t *testing.T) {
	n := newNode(t)
	n.set("blocks?block.number=gte:1&block.number=lte:5&limit=2&order=asc", blocksJSON(`"/api/v1/blocks?p=2"`, 1, 2))
	client := connect(t, n.URL, func(c *Config) { c.PageSize = 2 })
	for block, err := range client.Blocks(t.Context(), 1, 5) {
		if err != nil || block.Number != 1 {
			t.Fatal(block, err)
		}
		break
	}
	if asked := n.requests(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

func TestPagingErrors(t *testing.T) {
	for name, next := range map[string]string{
		"itself":  `"/api/v1/blocks?block.number=gte:1&block.number=lte:5&limit=100&order=asc"`,
		"nowhere": `"/somewhere/else"`,
		"upwards": `"/api/v1/../../etc/passwd"`,
		"number":  `17`,
	} {
		n := newNode(t)
		n.set("blocks?block.number=gte:1&block.number=lte:5&limit=100&order=asc", blocksJSON(next, 1))
		_, err := collect(connect(t, n.URL).Blocks(t.Context(), 1, 5))
		var e *Error
		if !errors.As(err, &e) || e.Status != StatusUnreadable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Ten thousand results in pages, in the parts that a large block is read in.
func TestLargeBlock(t *testing.T) {
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		var from, to hedera.Timestamp
		for _, text := range r.URL.Query()["timestamp"] {
			operator, value, _ := strings.Cut(text, ":")
			at, err := hedera.ParseTimestamp(value)
			if err != nil {
				t.Error(err)
			}
			switch operator {
			case "gte":
				from = at
			case "gt":
				from = hedera.FromNanos(at.UnixNano() + 1)
			case "lte":
				to = at
			}
		}
		// One result every 200 microseconds.
		const step = 200_000
		var items []string
		next := "null"
		for at := from.UnixNano(); at <= to.UnixNano(); at++ {
			if at%step != 0 {
				at += step - at%step - 1
				continue
			}
			if len(items) == 100 {
				next = fmt.Sprintf(`"/api/v1/contracts/results?timestamp=gte:%s&timestamp=lte:%s&limit=100&order=asc&hbar=false"`, hedera.FromNanos(at), to)
				break
			}
			items = append(items, resultJSON(`"timestamp":"1767225600.000000001"`, `"timestamp":"`+hedera.FromNanos(at).String()+`"`))
		}
		fmt.Fprintf(w, `{"results":[%s],"links":{"next":%s}}`, strings.Join(items, ","), next)
	}
	block := &Block{Number: 17, Count: 10_000, Period: Period{From: hedera.Timestamp{Seconds: 1767225600}, To: hedera.Timestamp{Seconds: 1767225601, Nanos: 999_999_999}}}
	client := connect(t, n.URL)
	results, err := client.BlockResults(t.Context(), block)
	if err != nil || len(results) != 10_000 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i := 1; i < len(results); i++ {
		if results[i-1].Timestamp.Compare(results[i].Timestamp) >= 0 {
			t.Fatalf("result %d is out of order", i)
		}
	}
}

func TestCut(t *testing.T) {
	at := func(ns int64) hedera.Timestamp { return hedera.FromNanos(1e18 + ns) }
	for _, test := range []struct {
		length int64
		n      uint64
		want   int
	}{{1000, 3, 3}, {1000, 1, 1}, {1000, 0, 1}, {0, 5, 1}, {2, 5, 2}, {1e9, 1e6, 1000}, {10, 10, 10}} {
		parts := cut(Period{at(0), at(test.length)}, test.n)
		if len(parts) != test.want || parts[0].From != at(0) || parts[len(parts)-1].To != at(test.length) {
			t.Errorf("%+v: %v", test, parts)
		}
		for i := 1; i < len(parts); i++ {
			if parts[i].From.UnixNano() != parts[i-1].To.UnixNano()+1 {
				t.Errorf("%+v: gap before part %d", test, i)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	nobody := "http://" + nobodyListens(t)
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fail(w, code, body) }
	}
	tests := map[string]struct {
		handler http.HandlerFunc // nil: nobody listens
		want    int
		message string
	}{
		"throttled":       {status(429, `{"_status":{"messages":[{"message":"Too Many Requests","detail":"Requests per second"}]}}`), 429, "Too Many Requests"},
		"broken":          {status(500, `{"_status":{"messages":[{"message":"Internal error"}]}}`), 500, "Internal error"},
		"not JSON":        {status(503, `<html>`), 503, "Request failed with status code 503"},
		"success of HTML": {status(200, `<html>`), StatusUnreadable, "unreadable answer"},
		"nothing":         {status(200, ``), StatusUnreadable, "unreadable answer"},
		"404 of a proxy":  {status(404, `<html>`), StatusUnreadable, "unreadable answer"},
		"404, empty":      {status(404, ``), StatusUnreadable, "unreadable answer"},
		"404 of a router": {status(404, `{"message":"no Route matched with those values"}`), StatusUnreadable, "unreadable answer"},
		"empty object":    {status(200, `{}`), StatusUnreadable, "unreadable answer"},
		"another block":   {status(200, blockJSON(18)), StatusUnreadable, "unreadable answer"},
		"wrong kind":      {status(200, `{"number":"x"}`), StatusUnreadable, "unreadable answer"},
		"too long":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 5000)) }, StatusUnreadable, ErrTooLong.Error()},
		"too long, told": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			fmt.Fprint(w, strings.Repeat(" ", 5000))
		}, StatusUnreadable, ErrTooLong.Error()},
		"nobody":        {nil, StatusNoAnswer, "connection refused"},
		"cut":           {cutConnection, StatusNoAnswer, "no answer"},
		"cut body":      {cutBody, StatusNoAnswer, "no answer"},
		"slow":          {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, StatusTimeout, "timeout of 50ms exceeded"},
		"slow body":     {slowBody, StatusTimeout, "timeout of 50ms exceeded"},
		"redirect away": {http.RedirectHandler("http://elsewhere.example/", http.StatusFound).ServeHTTP, StatusUnreadable, "redirect refused"},
		"redirect loop": {http.RedirectHandler("/api/v1/blocks/17", http.StatusFound).ServeHTTP, StatusUnreadable, "redirect refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url := nobody
			if test.handler != nil {
				n := newNode(t)
				n.handler, url = test.handler, n.URL
			}
			client := connect(t, url, func(c *Config) {
				c.MaxBody, c.RetryBudget = 4000, 0 // one that throttles is not waited for
				if strings.HasPrefix(name, "slow") {
					c.Timeout = envx.Millis(50 * time.Millisecond)
				}
			})
			_, err := client.BlockByNumber(t.Context(), 17)
			var e *Error
			if !errors.As(err, &e) || e.Status != test.want || e.Message != test.message {
				t.Fatalf("%v, want %d %s", err, test.want, test.message)
			}
			if strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error names a host: %v", err)
			}
		})
	}
}

// nobodyListens returns an address that refuses connections, and that nobody else gets while the test runs: it is
// the near end of a connection.
func nobodyListens(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	t.Cleanup(func() { conn.Close() })
	return conn.LocalAddr().String()
}

func cutConnection(w http.ResponseWriter, _ *http.Request) { hijack(w).Close() }

func cutBody(w http.ResponseWriter, _ *http.Request) {
	conn := hijack(w)
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"number\":")
	conn.Close()
}

func slowBody(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, `{"number":`)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return conn
}

func TestRetries(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		broken func(http.ResponseWriter, *http.Request)
		asked  int32
		ok     bool
	}{
		"off":             {func(*Config) {}, cutConnection, 1, false},
		"no answer":       {func(c *Config) { c.Retries = 2 }, cutConnection, 3, true},
		"not long enough": {func(c *Config) { c.Retries = 1 }, cutConnection, 2, false},
		"other status":    {func(c *Config) { c.Retries = 2 }, func(w http.ResponseWriter, _ *http.Request) { fail(w, 503, "") }, 1, false},
		"chosen status":   {func(c *Config) { c.Retries, c.RetryCodes = 2, envx.Strings{"503"} }, func(w http.ResponseWriter, _ *http.Request) { fail(w, 503, "") }, 3, true},
	}
	for name, test := range tests {
		n := newNode(t)
		var asked atomic.Int32
		n.handler = func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) < 3 {
				test.broken(w, r)
				return
			}
			fmt.Fprint(w, blockJSON(17))
		}
		// Without keep-alive the transport does not repeat by itself.
		client := connect(t, n.URL, test.change, func(c *Config) { c.KeepAlive = false })
		_, err := client.BlockByNumber(t.Context(), 17)
		if (err == nil) != test.ok || asked.Load() != test.asked {
			t.Errorf("%s: %d requests, %v", name, asked.Load(), err)
		}
	}
}

// A simulation is repeated once when there was no answer, whatever is configured.
func TestCallIsRepeatedOnce(t *testing.T) {
	n := newNode(t)
	var asked atomic.Int32
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			cutConnection(w, r)
			return
		}
		fmt.Fprint(w, `{"result":"0x2a"}`)
	}
	client := connect(t, n.URL, func(c *Config) { c.KeepAlive = false })
	if output, err := client.Call(t.Context(), CallRequest{}); err != nil || string(output) != "*" || asked.Load() != 2 {
		t.Errorf("%x, %v after %d requests", output, err, asked.Load())
	}
}

func TestHeaders(t *testing.T) {
	headers := make(chan http.Header, 1)
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		fmt.Fprint(w, blockJSON(17))
	}
	config := defaults(t)
	config.URL, config.AuthHeader, config.APIKey, config.Modularized = secret.URL(n.URL), "Bearer s3cret", "k3y", "true"
	for ip, want := range map[string]string{"10.0.0.1": `for="10.0.0.1"`, "::1": `for="[::1]"`, "not an address": "", "": ""} {
		client := must.Get(New(config, Options{Origin: func(context.Context) Origin { return Origin{RequestID: "abc", ClientIP: ip} }}))(t)
		must.Get(client.BlockByNumber(t.Context(), 17))(t)
		got := <-headers
		for name, value := range map[string]string{
			"Authorization": "Bearer s3cret", "X-Api-Key": "k3y", "Is-Modularized": "true", "Requestid": "abc", "Forwarded": want,
		} {
			if got.Get(name) != value {
				t.Errorf("%s: %q, want %q", name, got.Get(name), value)
			}
		}
	}
	if shown := fmt.Sprintf("%+v %#v", config, config); strings.Contains(shown, "s3cret") || strings.Contains(shown, "k3y") {
		t.Error("the settings print their secrets")
	}
}

func TestConfig(t *testing.T) {
	config := defaults(t)
	for name, change := range map[string]func(*Config){
		"MIRROR_NODE_URL":           func(c *Config) { c.URL = "" },
		"MIRROR_NODE_URL_WEB3":      func(c *Config) { c.Web3URL = "ftp://x" },
		"MIRROR_NODE_RETRY_CODES":   func(c *Config) { c.RetryCodes = envx.Strings{"x"} },
		"MODULARIZED":               func(c *Config) { c.Modularized = "yes" },
		"MIRROR_NODE_URL: not a":    func(c *Config) { c.URL = "http://user:pass%zz@h" },
		"SLICING_CONCURRENCY: must": func(c *Config) { c.SliceConcurrency = 0 },
	} {
		c := config
		c.URL = "http://h"
		change(&c)
		if _, err := New(c, Options{}); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "pass") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who walks through the chain has it read in pages; who looks here and there does not.
func TestWalk(t *testing.T) {
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		first, page := 0, strings.HasSuffix(r.URL.Path, "/blocks")
		if page {
			_, _ = fmt.Sscanf(r.URL.Query().Get("block.number"), "gte:%d", &first)
			_, _ = fmt.Fprint(w, blocksJSON("null", first, first+1, first+2, first+3))
			return
		}
		number, err := strconv.Atoi(path.Base(r.URL.Path))
		if err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprint(w, blockJSON(number))
	}
	client := connect(t, n.URL)
	for _, step := range []struct {
		number uint64
		asked  string
	}{
		{500, "blocks/500"},
		{20, "blocks/20"},
		{21, "blocks/21"}, // a step is no walk yet
		{26, "blocks?block.number=gte:25&limit=25&order=asc"},
		{25, ""},
		{28, ""},
		{31, "blocks?block.number=gte:25&limit=25&order=asc blocks/31"}, // which the page does not have
		{51, "blocks?block.number=gte:50&limit=25&order=asc"},
		{50, ""},
		{900, "blocks/900"},
		{901, "blocks/901"},
	} {
		block, err := client.BlockByNumber(t.Context(), step.number)
		if asked := strings.Join(n.requests(), " "); err != nil || block.Number != step.number || asked != step.asked {
			t.Errorf("%d: %v, %v; asked %q, want %q", step.number, block, err, asked, step.asked)
		}
	}
}

func TestPreload(t *testing.T) {
	n := newNode(t)
	page := func(first, blocks int) string {
		return fmt.Sprintf("blocks?block.number=gte:%d&limit=%d&order=asc", first, blocks)
	}
	n.set(page(0, 25), blocksJSON("null", 17, 18, 19))
	n.set(page(50, 50), blocksJSON("null", 73, 76))
	n.set(page(75, 25), blocksJSON("null", 75, 76))
	client := connect(t, n.URL)
	load := func(first, last uint64, pages ...string) {
		t.Helper()
		must.Do(t, client.Preload(t.Context(), first, last))
		asked := n.requests()
		for i := range asked {
			asked[i] = strings.TrimPrefix(asked[i], "/prefix/api/v1/")
		}
		if !slices.Equal(asked, pages) {
			t.Errorf("%d to %d: asked %q, want %q", first, last, asked, pages)
		}
	}
	if b, ok := client.CachedBlock(17); ok {
		t.Error("kept before it was read", b)
	}
	load(17, 18, page(0, 25))
	load(17, 19) // came along
	for number := uint64(17); number <= 19; number++ {
		if b, ok := client.CachedBlock(number); !ok || b.Number != number {
			t.Error(number, b, ok)
		}
		if b, err := client.BlockByNumber(t.Context(), number); err != nil || b.Number != number {
			t.Error(b, err)
		}
	}
	load(18, 18)               // one block is one request anyhow
	load(100, 200)             // too many
	load(30, 31, page(25, 25)) // there are none
	load(73, 76, page(50, 50)) // both sides of where pages meet
	load(73, 75, page(75, 25)) // the first is there
	load(49, 73, page(25, 25)) // the last is there
	off := connect(t, n.URL, func(c *Config) { c.CacheEntries = 0 })
	if err := off.Preload(t.Context(), 17, 18); err != nil || len(n.requests()) != 0 {
		t.Error("read for a cache that is off", err)
	}
	if b, ok := off.CachedBlock(17); ok {
		t.Error("kept by a cache that is off", b)
	}
}

// blocked is a transport whose requests are answered when it is closed.
type blocked struct {
	answer  string
	release chan struct{}
	asked   atomic.Int64
}

// client asks over the transport.
func (b *blocked) client(t *testing.T) *Client {
	config := defaults(t)
	config.URL = "http://mirror"
	return must.Get(New(config, Options{Transport: b}))(t)
}

func (b *blocked) RoundTrip(*http.Request) (*http.Response, error) {
	b.asked.Add(1)
	<-b.release
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(b.answer))}, nil
}

// Identical calls that are under way are one.
func TestIdenticalCallsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &blocked{answer: `{"result":"0x2a"}`, release: make(chan struct{})}
		client := transport.client(t)
		answers := make(chan string, 11)
		ask := func(data ...byte) {
			output, err := client.Call(t.Context(), CallRequest{Data: data})
			answers <- fmt.Sprintf("%s %v", output, err)
		}
		for range cap(answers) - 1 {
			go ask(1, 2, 3)
		}
		go ask(1, 2, 4)
		synctest.Wait()
		close(transport.release)
		for range cap(answers) {
			if got := <-answers; got != "* <nil>" {
				t.Error(got)
			}
		}
		if n := transport.asked.Load(); n != 2 {
			t.Errorf("%d requests, want one for each of two calls", n)
		}
	})
}

// TestWhatWasReadIsHeld: values that were decoded count while their request lasts, those from
// the memory of the process, too, but not what a look in vain read.
func TestWhatWasReadIsHeld(t *testing.T) {
	const bytes, logs = 100_000, 3
	long := strings.Replace(logJSON("1", "1"), `"0x0102"`, `"0x`+strings.Repeat("ab", bytes)+`"`, 1)
	incomplete := strings.Replace(long, `"transaction_index":1`, `"transaction_index":null`, 1)
	if long == incomplete || len(long) < 2*bytes {
		t.Fatalf("the log is not as it should be: %.200s", long)
	}
	page := func(item string) string {
		return `{"logs":[` + strings.TrimSuffix(strings.Repeat(item+",", logs), ",") + `],"links":{"next":null}}`
	}
	n := newNode(t)
	client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts, c.CacheBytes = 3, 64<<20 })
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 8, Client: 8, Request: 8})
	request := func() (context.Context, *capacity.Holding) {
		holding := memory.Open("192.0.2.1")
		return context.WithValue(t.Context(), capacity.Key{}, holding), holding
	}
	block := &Block{Number: 17, Period: Period{From: hedera.Timestamp{Seconds: 1}, To: hedera.Timestamp{Seconds: 2}}}
	path := "contracts/results/logs?timestamp=gte:1.000000000&timestamp=lte:2.000000000&limit=100&order=desc"
	for _, c := range []struct {
		name, body string
		held       int64
		err        error
	}{
		{"of records on their way", page(incomplete), 0, ErrImmature},
		{"from the mirror node", page(long), logs * bytes, nil},
		{"from memory", "", logs * bytes, nil},
	} {
		n.set(path, c.body)
		ctx, holding := request()
		got, err := client.BlockLogs(ctx, block, LogsQuery{})
		if !errors.Is(err, c.err) || err == nil && len(got) != logs {
			t.Fatalf("%s: %d logs, %v; asked %q", c.name, len(got), err, n.requests())
		}
		if held := holding.Held(); held < c.held || held > c.held+c.held/4 {
			t.Errorf("%s: %d bytes are held, want %d and a little more", c.name, held, c.held)
		}
		holding.Close()
	}
}

func numbersOf(blocks []*Block) (numbers []uint64) {
	for _, b := range blocks {
		numbers = append(numbers, b.Number)
	}
	return numbers
}

// TestNextBlocksPolled: every call asks anew, one page, in ascending order.
func TestNextBlocksPolled(t *testing.T) {
	n := newNode(t)
	const path = "blocks?block.number=gte:7&limit=2&order=asc"
	client := connect(t, n.URL, func(c *Config) { c.PageSize = 2 })
	n.set(path, blocksJSON(`null`))
	if blocks, err := client.NextBlocks(t.Context(), 7); err != nil || len(blocks) != 0 {
		t.Errorf("got %v, %v, want none", blocks, err)
	}
	n.set(path, blocksJSON(`"/api/v1/blocks?p=2"`, 7, 8))
	blocks, err := client.NextBlocks(t.Context(), 7)
	if diff := cmp.Diff([]uint64{7, 8}, numbersOf(blocks)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := client.BlockByNumber(t.Context(), 8); err != nil {
		t.Errorf("a block that was listed is asked for again: %v", err)
	}
	if diff := cmp.Diff([]string{path, path}, n.requests()); diff != "" {
		t.Error(diff)
	}
	if client.Pushes() {
		t.Error("says that it waits")
	}
}

// TestNextBlocksOutdatesHead: whoever was told of a block must not be told an older head
// afterwards.
func TestNextBlocksOutdatesHead(t *testing.T) {
	n := newNode(t)
	n.set(latestPath, blocksJSON(`null`, 6))
	n.set("blocks?block.number=gte:7&limit=100&order=asc", blocksJSON(`null`, 7))
	client := connect(t, n.URL)
	if head, err := client.LatestBlock(t.Context()); err != nil || head.Number != 6 {
		t.Fatal(head, err)
	}
	n.set(latestPath, blocksJSON(`null`, 7))
	must.Get(client.NextBlocks(t.Context(), 7))(t)
	if head, err := client.LatestBlock(t.Context()); err != nil || head.Number != 7 {
		t.Errorf("newest block after block 7 was told: %v, %v", head, err)
	}
}

// TestNextBlocksOpenBlock: a block that is still open is none yet.
func TestNextBlocksOpenBlock(t *testing.T) {
	n := newNode(t)
	open := strings.Replace(blocksJSON(`null`, 8), `"to":`, `"to":null,"was":`, 1)
	n.set("blocks?block.number=gte:8&limit=100&order=asc", open)
	if blocks, err := connect(t, n.URL).NextBlocks(t.Context(), 8); err != nil || len(blocks) != 0 {
		t.Errorf("got %v, %v, want none", numbersOf(blocks), err)
	}
}

// TestHeadIsAskedAnew: the shared newest block is for readers, not for those who want
// to know where to begin.
func TestHeadIsAskedAnew(t *testing.T) {
	n := newNode(t)
	client := connect(t, n.URL)
	if _, err := client.Head(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a block: %v", err)
	}
	for number := range 3 {
		n.set(latestPath, blocksJSON(`null`, number))
		if head, err := client.Head(t.Context()); err != nil || head.Number != uint64(number) {
			t.Errorf("got %v, %v, want %d", head, err, number)
		}
	}
}

// TestNextBlocksPushed: the question goes to where the mirror node answers when there is
// a block; one that cannot is polled from then on.
func TestNextBlocksPushed(t *testing.T) {
	var asked []string
	able := true
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if !able && strings.HasPrefix(r.URL.Path, "/prefix/devnet/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(blocksJSON(`null`, 9)))
	}
	client := connect(t, n.URL+"/prefix", func(c *Config) { c.Push = true })
	for i := range 3 {
		blocks, err := client.NextBlocks(t.Context(), 9)
		if err != nil || len(blocks) != 1 {
			t.Fatalf("%s: %v, %v", strconv.Itoa(i), blocks, err)
		}
		if client.Pushes() != able {
			t.Errorf("says that it waits: %v", client.Pushes())
		}
		able = false
	}
	polled := "/prefix/api/v1/blocks?block.number=gte:9&limit=100&order=asc"
	pushed := "/prefix/devnet/blocks?from=9&wait=5000"
	if diff := cmp.Diff([]string{pushed, pushed, polled, polled}, asked); diff != "" {
		t.Error(diff)
	}
}

// What does not say what was asked for proves nothing: that there is none least of all.
func TestAnswersThatSayNothing(t *testing.T) {
	n := newNode(t)
	hash, somebody := common.HexToHash(txHash), address(receiver)
	for name, test := range map[string]struct {
		answer string
		ask    func(context.Context, *Client) error
	}{
		"account":         {`{}`, func(ctx context.Context, c *Client) error { _, err := c.Account(ctx, somebody); return err }},
		"another account": {accountJSON(1011, "0x00000000000000000000000000000000000000aa", "5"), func(ctx context.Context, c *Client) error { _, err := c.Account(ctx, somebody); return err }},
		"another by id":   {accountJSON(1011, receiver, "5"), func(ctx context.Context, c *Client) error { _, err := c.AccountByID(ctx, hedera.Entity(7)); return err }},
		"another's balance": {accountJSON(1011, "0x00000000000000000000000000000000000000aa", "5"), func(ctx context.Context, c *Client) error {
			_, err := c.BalanceAt(ctx, somebody, hedera.Timestamp{Seconds: 1767225700})
			return err
		}},
		"another contract": {`{"contract_id":"0.0.1011","evm_address":"0x00000000000000000000000000000000000000aa","runtime_bytecode":"0x60"}`, func(ctx context.Context, c *Client) error {
			_, err := c.Contract(ctx, somebody)
			return err
		}},
		"account by id": {`{"transactions":[]}`, func(ctx context.Context, c *Client) error { _, err := c.AccountByID(ctx, hedera.Entity(7)); return err }},
		"old balance": {`{}`, func(ctx context.Context, c *Client) error {
			_, err := c.BalanceAt(ctx, somebody, hedera.Timestamp{Seconds: 9})
			return err
		}},
		"contract":      {`{}`, func(ctx context.Context, c *Client) error { _, err := c.Contract(ctx, somebody); return err }},
		"block by hash": {blockJSON(3), func(ctx context.Context, c *Client) error { _, err := c.BlockByHash(ctx, hash); return err }},
		"result":        {`{}`, func(ctx context.Context, c *Client) error { _, err := c.ContractResult(ctx, hash); return err }},
		"another's result": {resultJSON(), func(ctx context.Context, c *Client) error {
			_, err := c.ContractResult(ctx, common.Hash{1})
			return err
		}},
		"call": {`{}`, func(ctx context.Context, c *Client) error {
			_, err := c.Call(ctx, CallRequest{To: &somebody})
			return err
		}},
		"404 of a gateway to a call": {"", func(ctx context.Context, c *Client) error {
			_, err := c.Call(ctx, CallRequest{To: &somebody})
			return err
		}},
		"newest block": {`{"links":{"next":null}}`, func(ctx context.Context, c *Client) error { _, err := c.Head(ctx); return err }},
		"logs":         {`{}`, func(ctx context.Context, c *Client) error { _, err := c.Logs(ctx, LogsQuery{}); return err }},
		"results": {`{"logs":[]}`, func(ctx context.Context, c *Client) error {
			_, err := collect(c.ContractResults(ctx, ResultsQuery{}))
			return err
		}},
		"storage": {`{}`, func(ctx context.Context, c *Client) error {
			_, err := c.Storage(ctx, somebody, hash, hedera.Timestamp{})
			return err
		}},
		"another word": {`{"state":[{"slot":"0x02","value":"0x2a"}]}`, func(ctx context.Context, c *Client) error {
			_, err := c.Storage(ctx, somebody, hash, hedera.Timestamp{})
			return err
		}},
		"another's payer": {`{"transactions":[{"transaction_id":"0.0.5-1-000000002","consensus_timestamp":"8.000000000"}]}`, func(ctx context.Context, c *Client) error {
			_, err := c.PayerAt(ctx, hedera.Timestamp{Seconds: 9})
			return err
		}},
		"another's records": {`{"transactions":[{"transaction_id":"0.0.2-1-000000002","result":"SUCCESS"}]}`, func(ctx context.Context, c *Client) error {
			_, err := c.Transactions(ctx, hedera.TransactionID{Payer: hedera.Entity(2)})
			return err
		}},
		"no balance": {`{"account":"0.0.7","balance":null}`, func(ctx context.Context, c *Client) error {
			_, err := c.BalanceAt(ctx, somebody, hedera.Timestamp{Seconds: 9})
			return err
		}},
		"records": {`{}`, func(ctx context.Context, c *Client) error {
			_, err := c.Transactions(ctx, hedera.TransactionID{Payer: hedera.Entity(2)})
			return err
		}},
	} {
		n.handler = func(w http.ResponseWriter, _ *http.Request) {
			if test.answer == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, test.answer)
		}
		err := test.ask(t.Context(), connect(t, n.URL, func(c *Config) { c.RetryBudget = 0 }))
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != StatusUnreadable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A block between the first and the newest one is there, whatever an answer says.
func TestBlockThatWasToldOf(t *testing.T) {
	n := newNode(t)
	n.set(latestPath, blocksJSON(`null`, 20))
	n.set("blocks?limit=1&order=asc", blocksJSON(`null`, 3))
	client := connect(t, n.URL)
	must.Get(client.LatestBlock(t.Context()))(t)
	n.set(latestPath, blocksJSON(`null`))
	if head, err := client.Head(t.Context()); err != nil || head.Number != 20 {
		t.Errorf("with an empty list of blocks: %v, %v", head, err)
	}
	for number, there := range map[uint64]bool{2: false, 4: true, 19: true, 21: false} {
		_, err := client.BlockByNumber(t.Context(), number)
		if e, ok := errors.AsType[*Error](err); ok != there || there && e.Status != 503 || !there && !errors.Is(err, ErrNotFound) {
			t.Errorf("block %d: %v", number, err)
		}
	}
}

// A nonce doesn't go back with a mirror node that lags, and one that was wrong doesn't stay.
func TestNonceThatWasWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := (&blocked{}).client(t)
		for _, step := range []struct {
			after      time.Duration
			told, want uint64
		}{
			{0, 6, 6}, {30 * time.Second, 5, 6}, {0, 6, 6}, {50 * time.Second, 5, 6}, {20 * time.Second, 5, 5}, {0, 4, 5}, {0, 7, 7},
		} {
			<-time.After(step.after)
			if got := c.NotBefore(common.Address{1}, step.told); got != step.want {
				t.Errorf("told %d, %v later: %d, want %d", step.told, step.after, got, step.want)
			}
		}
	})
}
