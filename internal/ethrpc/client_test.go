package ethrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/gorilla/websocket"

	"lockstep/internal/must"
	"lockstep/internal/sleep"
)

// asked is a call on the wire.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []any           `json:"params"`
}

// said is an answer to one call.
type said struct {
	Result any            `json:"result,omitempty"`
	Error  map[string]any `json:"error,omitempty"`
}

func refusal(code int, text string) said {
	return said{Error: map[string]any{"code": code, "message": text}}
}

// node is an endpoint of chain 5 without a network. Its zero value answers every call with "0x5".
type node struct {
	say   func(asked) said                                   // an answer; nil: "0x5"
	whole func(calls []asked, batch bool) (int, string, any) // an HTTP answer to all, if its status is not 0; the text is Retry-After
	late  func(asked) time.Duration                          // how long an answer takes; nil: no time

	mu    sync.Mutex
	sizes []int // of the exchanges
}

func (n *node) exchanges() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]int(nil), n.sizes...)
}

var errReset = errors.New("read: connection reset by peer")

func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var calls []asked
	batch := json.Unmarshal(body, &calls) == nil
	if !batch {
		calls = make([]asked, 1)
		if err := json.Unmarshal(body, &calls[0]); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	n.sizes = append(n.sizes, len(calls))
	n.mu.Unlock()
	if n.late != nil {
		select {
		case <-time.After(n.late(calls[0])):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	status, after, answer := 0, "", any(nil)
	if n.whole != nil {
		status, after, answer = n.whole(calls, batch)
	}
	if status < 0 {
		return nil, errReset
	}
	if status == 0 {
		status = http.StatusOK
		list := make([]map[string]any, len(calls))
		for i, c := range calls {
			one := said{Result: "0x5"}
			if n.say != nil && c.Method != "eth_chainId" {
				one = n.say(c)
			}
			list[i] = map[string]any{"jsonrpc": "2.0", "id": c.ID}
			if one.Error != nil {
				list[i]["error"] = one.Error
			} else {
				list[i]["result"] = one.Result
			}
		}
		answer = any(list)
		if !batch {
			answer = list[0]
		}
	}
	text, isText := answer.(string)
	if !isText {
		raw, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	header := http.Header{}
	if after != "" {
		header.Set("Retry-After", after)
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// clientOf is a client of chain 5 behind nodes.
func clientOf(t *testing.T, log *slog.Logger, nodes ...*node) *Client {
	t.Helper()
	cfg := Config{ChainID: 5, Log: log, transport: func(u *url.URL) http.RoundTripper { return nodes[u.Port()[0]-'1'] }}
	for n := range nodes {
		cfg.URLs = append(cfg.URLs, fmt.Sprintf("http://node:%d/secret", n+1))
	}
	c := must.Get(New(cfg))(t)
	t.Cleanup(c.Close)
	return c
}

// all answers an exchange as a whole.
func all(status int, after string, answer any) func([]asked, bool) (int, string, any) {
	return func([]asked, bool) (int, string, any) { return status, after, answer }
}

// What an endpoint says of itself has the next one asked; what it says of the call does not.
func TestNextEndpoint(t *testing.T) {
	whole := func(status int, answer any) *node { return &node{whole: all(status, "", answer)} }
	each := func(code int, text string) *node {
		return &node{say: func(asked) said { return refusal(code, text) }}
	}
	rpcError := func(code int, text string) map[string]any {
		return map[string]any{"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": code, "message": text}}
	}
	for name, row := range map[string]struct {
		first *node
		next  bool  // the second is asked
		class Class // what the first said, where it is about the call
		never bool  // the first is left alone afterwards
	}{
		"well":                     {first: &node{}},
		"429":                      {first: whole(429, "slow down"), next: true, never: true},
		"429 with a JSON-RPC body": {first: whole(429, rpcError(-32000, "nonce too low")), next: true, never: true},
		"-32005":                   {first: each(-32005, "limit exceeded"), next: true, never: true},
		"a quota in words":         {first: each(-32000, "daily request count exceeded, request rate limited"), next: true, never: true},
		"401":                      {first: whole(401, ""), next: true, never: true},
		"a key that is refused":    {first: each(-32600, "Must be authenticated!"), next: true, never: true},
		"another chain":            {first: whole(200, map[string]any{"jsonrpc": "2.0", "id": 1, "result": "0x1"}), next: true, never: true},
		"503":                      {first: whole(503, "<html>no</html>"), next: true},
		"500 with a JSON-RPC body": {first: whole(500, rpcError(-32000, "insufficient funds")), next: true},
		"-32603":                   {first: each(-32603, "Internal error"), next: true},
		"no backends":              {first: each(-32011, "no backends available for method"), next: true},
		"a page":                   {first: whole(200, "<html>hello</html>"), next: true},
		"nothing":                  {first: whole(200, ""), next: true},
		"a reset":                  {first: whole(-1, ""), next: true},
		"another type":             {first: &node{say: func(asked) said { return said{Result: []int{1}} }}, next: true},
		"no header":                {first: each(-32000, "header not found"), next: true},
		"indexing":                 {first: each(-32000, "transaction indexing is in progress"), next: true},
		"no such method":           {first: each(-32601, "the method does not exist"), next: true},
		"nobody knows":             {first: each(-32000, "blorp"), next: true},
		"a revert":                 {first: each(3, "execution reverted: rate limit exceeded"), class: Reverted},
		"a nonce":                  {first: each(-32000, "nonce too low"), class: NonceUsed},
		"a nonce with HTTP 400":    {first: whole(400, rpcError(-32000, "nonce too low")), class: NonceUsed},
	} {
		t.Run(name, func(t *testing.T) {
			second := &node{}
			c := clientOf(t, nil, row.first, second)
			if row.class == NonceUsed && row.first.whole != nil { // it says so of every method
				c.endpoints[0].ours = true
			}
			var number hexutil.Uint64
			q := Ask(&number, "eth_getTransactionCount", "0x0", "latest")
			by := must.Get(c.Do(t.Context(), q))(t)
			if got := by == c.endpoints[1]; got != row.next {
				t.Errorf("the second answered: %t, want %t", got, row.next)
			}
			found, err := q.Answer()
			if row.class != "" {
				if ClassOf(err) != row.class {
					t.Errorf("it is %v, want %s", err, row.class)
				}
			} else if err != nil || !found || number != 5 {
				t.Errorf("the answer is %d, %t, %v", number, found, err)
			}
			before := len(row.first.exchanges())
			if err := c.endpoints[0].answered(t.Context()); row.never && (len(row.first.exchanges()) != before || ClassOf(err) != Limited && ClassOf(err) != WrongChain) {
				t.Errorf("it is asked although it wants to be left alone: %v", err)
			}
		})
	}
}

// answered asks an endpoint for a nonce.
func (e *Endpoint) answered(ctx context.Context) error {
	return e.Do(ctx, Ask(nil, "eth_getTransactionCount", "0x0", "latest"))
}

// Where nobody knows better, what was said first counts; where nobody answers, the error says of each why, and shows no URL.
func TestNobodyKnowsBetter(t *testing.T) {
	pruned := func() *node {
		return &node{say: func(asked) said { return refusal(-32000, "header not found") }}
	}
	c := clientOf(t, nil, pruned(), pruned())
	q := Ask(nil, "eth_getBalance")
	if by, err := c.Do(t.Context(), q); err != nil || by != c.endpoints[0] || ClassOf(q.err) != Missing {
		t.Errorf("%v, %v", err, q.err)
	}
	c = clientOf(t, nil, &node{whole: all(-1, "", nil)}, &node{whole: all(502, "", "")})
	_, err := c.Do(t.Context(), q)
	if err == nil || !strings.Contains(err.Error(), "endpoint 1") || !strings.Contains(err.Error(), "endpoint 2 (node:2) of chain 5: HTTP 502") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
	if why := c.Trouble(); !strings.Contains(why, "HTTP 502") {
		t.Errorf("the trouble is %q", why)
	}
}

// A limited endpoint is left alone for as long as it wants, and for longer each time; the log has one line each way.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, after := true, "7"
		n := &node{}
		n.whole = func([]asked, bool) (int, string, any) {
			if limited {
				return 429, after, ""
			}
			return 0, "", nil
		}
		var text bytes.Buffer
		c := clientOf(t, slog.New(slog.NewTextHandler(&text, nil)), n)
		rests := func() time.Duration {
			begun, before := time.Now(), len(n.exchanges())
			for len(n.exchanges()) == before {
				_, err := c.Do(t.Context(), Ask(nil, "eth_getBalance"))
				if err == nil || ClassOf(err) != Limited {
					t.Fatalf("the answer is %v", err)
				}
				time.Sleep(100 * time.Millisecond) //nolint:forbidigo // fake time
			}
			return time.Since(begun) - 100*time.Millisecond
		}
		first := rests()
		second := rests()
		after = ""
		if third := rests(); first != 0 || second.Round(time.Second) != 7*time.Second || third.Round(time.Second) != 7*time.Second {
			t.Errorf("it was asked after %v, %v and %v", first, second, third)
		}
		if fourth := rests(); fourth.Round(time.Second) != 4*time.Second {
			t.Errorf("then after %v", fourth)
		}
		limited = false
		time.Sleep(longestRest) //nolint:forbidigo // fake time
		if _, err := c.Do(t.Context(), Ask(nil, "eth_getBalance")); err != nil {
			t.Error(err)
		}
		if lines := strings.Count(text.String(), "\n"); lines != 2 || strings.Contains(text.String(), "secret") {
			t.Errorf("the log has %d lines:\n%s", lines, &text)
		}
	})
}

// The rest of an endpoint that was refused again and again ends within seconds when the other one falls, however often and by how many at once
// that one was asked in vain.
func TestRestOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := []int{429, 0}
		nodes := []*node{{}, {}}
		for i, n := range nodes {
			n.whole = func([]asked, bool) (int, string, any) { return status[i], "", "" }
		}
		c := clientOf(t, nil, nodes...)
		ask := func() error {
			_, err := c.Do(t.Context(), Ask(nil, "eth_getBalance"))
			return err
		}
		for range 200 {
			must.Do(t, ask())
			time.Sleep(time.Second) //nolint:forbidigo // fake time
		}
		if n := len(nodes[0].exchanges()); n > 12 {
			t.Errorf("an endpoint that nobody needs was asked %d times", n)
		}
		status[1] = -1
		begun, before := time.Now(), len(nodes[0].exchanges())
		for ask() != nil {
			if time.Since(begun) > 20*time.Second {
				status[0] = 0
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("nobody is asked any more")
			}
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // fake time
		}
		if took := time.Since(begun) - 20*time.Second; took > longestAlone+time.Second {
			t.Errorf("it was asked %v after it was well", took)
		}
		if n := len(nodes[0].exchanges()) - before; n > 10 {
			t.Errorf("an endpoint that limits was asked %d times in 20 s", n)
		}
	})
}

// A batch that is refused, in whatever way, is sent in parts. What an endpoint takes is found exactly, and not tried again.
func TestBatches(t *testing.T) {
	tooLong := map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": "batch too large"}}
	ways := map[string]func(calls []asked) (int, string, any){
		"one error object": func([]asked) (int, string, any) { return 200, "", tooLong },
		"400":              func([]asked) (int, string, any) { return 400, "", tooLong },
		"413":              func([]asked) (int, string, any) { return 413, "", "" },
		"500 in words": func([]asked) (int, string, any) {
			return 500, "", `{"message":"Batch of more than 3 requests are not allowed on free tier","code":31}`
		},
		"500 without":           func([]asked) (int, string, any) { return 500, "", "" },
		"a list of one":         func([]asked) (int, string, any) { return 200, "", []any{tooLong} },
		"every call in words":   eachCall(-32600, "Exceeded maximum batch size"),
		"every call is a limit": eachCall(-32005, "batch limit exceeded"),
		"an answer without a sign": func([]asked) (int, string, any) {
			return 200, "", map[string]any{"jsonrpc": "2.0", "id": 1, "result": "0x5"}
		},
	}
	for way, refuse := range ways {
		for _, most := range []int{1, 3, 10, 20} {
			t.Run(fmt.Sprintf("%s/%d", way, most), func(t *testing.T) {
				refused := 0
				n := &node{say: func(c asked) said { return said{Result: c.Params[0]} }}
				n.whole = func(calls []asked, batch bool) (int, string, any) {
					if batch && len(calls) > most {
						refused++
						return refuse(calls)
					}
					return 0, "", nil
				}
				c := clientOf(t, nil, n)
				for range 12 {
					calls := make([]*Call, 33)
					results := make([]string, len(calls))
					for i := range calls {
						calls[i] = Ask(&results[i], "eth_call", fmt.Sprint(i))
					}
					must.Get(c.Do(t.Context(), calls...))(t)
					for i := range results {
						if results[i] != fmt.Sprint(i) {
							t.Fatalf("call %d has the answer of %s", i, results[i])
						}
					}
				}
				learned := refused
				if _, err := c.Do(t.Context(), many(50)...); err != nil || refused != learned || c.endpoints[0].cap != most {
					t.Errorf("%v; it takes %d, want %d; %d batches were refused after that", err, c.endpoints[0].cap, most, refused-learned)
				}
				if learned > 12 {
					t.Errorf("%d batches were refused before that was known", learned)
				}
			})
		}
	}
}

func eachCall(code int, text string) func(calls []asked) (int, string, any) {
	return func(calls []asked) (int, string, any) {
		list := make([]any, len(calls))
		for i, c := range calls {
			list[i] = map[string]any{"jsonrpc": "2.0", "id": c.ID, "error": map[string]any{"code": code, "message": text}}
		}
		return 200, "", list
	}
}

func many(n int) []*Call {
	calls := make([]*Call, n)
	for i := range calls {
		calls[i] = Ask(nil, "eth_call", fmt.Sprint(i))
	}
	return calls
}

// An endpoint that fails a batch for a reason of its own has shown nothing of batches.
func TestTroubleIsNoBatchLimit(t *testing.T) {
	for name, whole := range map[string]func([]asked, bool) (int, string, any){
		"a limit": all(429, "", ""), "trouble": all(503, "", ""), "always 500": all(500, "", ""), "a key": all(401, "", ""), "a reset": all(-1, "", ""),
	} {
		c := clientOf(t, nil, &node{whole: whole})
		c.endpoints[0].ours = true
		if _, err := c.Do(t.Context(), many(40)...); err == nil {
			t.Errorf("%s: no error", name)
		}
		if c.endpoints[0].cap != maxBatch {
			t.Errorf("%s: it is taken to take %d", name, c.endpoints[0].cap)
		}
	}
}

// An endpoint that stands still is asked last, though it answers. Its word counts if nobody else has one, and it is asked first again when it
// has caught up.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		stuck := true
		height := func(frozen bool) said {
			if frozen {
				return said{Result: "0x5"}
			}
			return said{Result: hexutil.EncodeUint64(5 + uint64(time.Since(begun)/time.Second))}
		}
		dead := false
		first := &node{say: func(asked) said { return height(stuck) }}
		second := &node{say: func(asked) said { return height(false) }}
		second.whole = func([]asked, bool) (int, string, any) {
			if dead {
				return -1, "", nil
			}
			return 0, "", nil
		}
		c := clientOf(t, nil, first, second)
		head := func() (*Endpoint, uint64) {
			var number hexutil.Uint64
			e := must.Get(c.Do(t.Context(), Ask(&number, "eth_blockNumber")))(t)
			return e, uint64(number)
		}
		pass := func(d time.Duration) {
			for range d / time.Second {
				head()
				time.Sleep(time.Second) //nolint:forbidigo // fake time
			}
		}
		if e, _ := head(); e != c.endpoints[0] {
			t.Error("the second was asked although the first is as good")
		}
		pass(20 * time.Second)
		if e, number := head(); e != c.endpoints[1] || number != 25 {
			t.Errorf("%s says %d", e.Name(), number)
		}
		pass(40 * time.Second)
		if n, failing := c.Endpoints(); n != 2 || len(failing) != 1 || failing[0].Number != 1 || failing[0].Why != "behind" || time.Since(failing[0].Since) < lagTold {
			t.Errorf("of %d endpoints fail %v", n, failing)
		}
		dead = true
		if e, number := head(); e != c.endpoints[0] || number != 5 {
			t.Errorf("%s says %d", e.Name(), number)
		}
		dead, stuck = false, false
		pass(15 * time.Second)
		if e, _ := head(); e != c.endpoints[0] {
			t.Error("the first has caught up and is not asked")
		}
		for range 60 { // the second is asked now and then, and has all blocks each time
			if pass(time.Second); !c.endpoints[1].Behind().IsZero() {
				t.Fatal("an endpoint that stands by is taken for one that lags")
			}
		}
	})
}

// An endpoint that has another block where the chain's cannot be replaced is asked for nothing else as long as any other may have that block, and again when it has it. One that has no
// block there yet is as good as before.
func TestOtherFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, other := common.Hash{1}, common.Hash{2}
		shown := []any{other, ours}
		dead := false
		nodes := make([]*node, 2)
		for n := range nodes {
			nodes[n] = &node{say: func(c asked) said {
				if c.Method != "eth_getBlockByNumber" {
					return said{Result: "0x5"}
				}
				if shown[n] == nil {
					return said{}
				}
				return said{Result: map[string]any{"number": c.Params[0], "hash": shown[n]}}
			}}
		}
		nodes[1].whole = func([]asked, bool) (int, string, any) {
			if dead {
				return -1, "", nil
			}
			return 0, "", nil
		}
		c := clientOf(t, nil, nodes...)
		by := func() int {
			e, err := c.Do(t.Context(), Ask(nil, "eth_getBalance", "0x1", "latest"))
			if err != nil && ClassOf(err) != OtherFork {
				t.Errorf("%v, want the class of the first", err)
			}
			return slices.Index(c.endpoints, e)
		}
		for what, of := range map[string]struct {
			shown []any
			dead  bool
			want  int
		}{
			"1: on another fork":                  {[]any{other, ours}, false, 1},
			"2: … and nobody else answers":        {[]any{other, ours}, true, -1},
			"3: … and no other has a block there": {[]any{other, nil}, false, 1},
			"4: no block there yet":               {[]any{nil, ours}, false, 0},
			"5: all on another fork":              {[]any{other, other}, false, 1},
			"6: back":                             {[]any{ours, ours}, false, 0},
		} {
			c.Anchor(uint64(what[0]), ours)
			shown, dead = of.shown, of.dead
			sleep.For(t.Context(), time.Minute) // all have rested
			if got := by(); got != of.want {
				t.Errorf("%s: answered by %d, want %d", what, got, of.want)
			}
			if of.want == -1 {
				dead = false
				sleep.For(t.Context(), time.Minute)
				if got := by(); got != 1 {
					t.Errorf("%s, and then: %d", what, got)
				}
			}
		}
		c.Anchor(9, ours)
		shown = []any{other, ours}
		sleep.For(t.Context(), time.Minute)
		if by() != 1 {
			t.Error("it is asked")
		}
		if _, failing := c.Endpoints(); len(failing) != 1 || failing[0].Number != 1 || failing[0].Why != "other_fork" {
			t.Errorf("%v fail", failing)
		}
		shown = []any{ours, ours}
		c.Anchor(10, ours)
		sleep.For(t.Context(), time.Minute)
		if by() != 0 {
			t.Error("it is back and not asked")
		}
		shown = []any{other, ours} // it has turned since, and shows it with an answer
		var found struct{ Hash common.Hash }
		if e, err := c.Do(t.Context(), Ask(&found, "eth_getBlockByNumber", "0xa", false)); err != nil || e != c.endpoints[1] || found.Hash != ours || by() != 1 {
			t.Errorf("an endpoint that has turned: %v, %v", found, err)
		}
		c.Anchor(0, common.Hash{})
		sleep.For(t.Context(), time.Minute)
		if by() != 0 {
			t.Error("without an anchor it is refused")
		}
		if _, failing := c.Endpoints(); len(failing) > 0 {
			t.Errorf("%v fail", failing)
		}
	})
}

// An answer is read up to its bound.
func TestBound(t *testing.T) {
	c := clientOf(t, nil, &node{say: func(asked) said { return said{Result: strings.Repeat("x", 1<<16)} }})
	c.cfg.MaxResponse = 1 << 10
	q := Ask(nil, "eth_call")
	if _, err := c.Do(t.Context(), q); err != nil || ClassOf(q.Err()) != TooMuch {
		t.Errorf("it is %v, %v", q.Err(), err)
	}
}

// What an endpoint says in an error is kept as far as a person reads it, however it says it, and cut between two characters.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("ü", 1<<16)
	body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": -32000, "message": "execution reverted: " + long}}))(t)
	for name, n := range map[string]*node{
		"an error":      {say: func(asked) said { return refusal(-32000, "execution reverted: "+long) }},
		"with HTTP 400": {whole: all(400, "", string(body))},
		"a plain text":  {whole: all(500, "", long)},
		"no JSON":       {whole: all(200, "", `{"result":`+long)},
		"another type":  {say: func(asked) said { return said{Result: long} }},
	} {
		c := clientOf(t, nil, n)
		c.endpoints[0].ours = true
		var number hexutil.Uint64
		q := Ask(&number, "eth_call")
		_, err := c.Do(t.Context(), q)
		if err == nil {
			_, err = q.Answer()
		}
		if err == nil || len(err.Error()) > maxJudged+100 || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: an error of %d bytes", name, len(fmt.Sprint(err)))
		}
	}
}

// halfOpen is an endpoint whose first WebSocket can be made silent.
type halfOpen struct {
	url    string
	mu     sync.Mutex
	dials  int
	silent bool
	ended  bool // the first one was closed
}

func newHalfOpen(t *testing.T) *halfOpen {
	h := &halfOpen{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.dials++ // before the client knows, which may not wait for this process
		mine := h.dials
		h.mu.Unlock()
		upgrader := websocket.Upgrader{}
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for {
			var q asked
			if conn.ReadJSON(&q) != nil {
				h.mu.Lock()
				h.ended = h.ended || mine == 1
				h.mu.Unlock()
				return
			}
			h.mu.Lock()
			quiet := h.silent && mine == 1
			h.mu.Unlock()
			if !quiet && conn.WriteJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": "0x5"}) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	h.url = "ws" + strings.TrimPrefix(server.URL, "http")
	return h
}

// silence has the first WebSocket stay open and say nothing.
func (h *halfOpen) silence() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = true
}

func (h *halfOpen) seen() (dials int, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials, h.ended
}

// A WebSocket that is silent is closed after one answer that did not come, and dialled again.
func TestHalfOpen(t *testing.T) {
	h := newHalfOpen(t)
	c, err := New(Config{ChainID: 5, URLs: []string{h.url}, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() error {
		_, err := c.Do(t.Context(), Ask(nil, "eth_blockNumber"))
		return err
	}
	must.Do(t, ask())
	h.silence()
	if err := ask(); ClassOf(err) != Lost {
		t.Fatalf("a silent endpoint answers %v", err)
	}
	err = ask()
	if dials, _ := h.seen(); err != nil || dials != 2 {
		t.Errorf("after %d dials: %v", dials, err)
	}
}

// A WebSocket that is refused for a limit is left alone, too.
func TestRefusedHandshake(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries++
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	c := must.Get(New(Config{ChainID: 5, URLs: []string{"ws" + strings.TrimPrefix(server.URL, "http")}}))(t)
	defer c.Close()
	for range 3 {
		if _, err := c.Do(t.Context(), Ask(nil, "eth_blockNumber")); ClassOf(err) != Limited {
			t.Fatalf("it is %v", err)
		}
	}
	if tries != 1 {
		t.Errorf("it was dialled %d times", tries)
	}
}
