package txm_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
)

// How a proxy spoils an answer after the node has got the question.
const (
	swallow = "swallow" // the connection closes in order, without an answer
	delay   = "delay"   // the answer does not come before the asker gives up
	reset   = "reset"   // the connection is reset
	null    = "null"    // the node is said to have nothing
	late    = "late"    // the answer comes after a minute
	held    = "held"    // the question reaches the node when release is called
)

// proxy stands before a chain's endpoint.
type proxy struct {
	url, target string
	end         chan struct{}

	mu      sync.Mutex
	method  string
	how     string
	n       int
	dead    bool
	sick    fault         // nil: none
	frozen  string        // the head when the fault began
	raws    []string      // transactions that were handed over, as hex
	free    chan struct{} // closed: what is held goes on
	reached chan struct{} // closed: the node has answered what was held
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{target: target, end: make(chan struct{}), free: make(chan struct{}), reached: make(chan struct{})}
	server := httptest.NewServer(p)
	p.url = server.URL
	t.Cleanup(func() {
		close(p.end)
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// spoil spoils the next n requests with a method.
func (p *proxy) spoil(method, how string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.method, p.how, p.n = method, how, n
}

// fall makes every connection break before its question arrives, until it is called again.
func (p *proxy) fall(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

func (p *proxy) fallen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *proxy) take(body []byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 || !bytes.Contains(body, []byte(p.method)) {
		return ""
	}
	p.n--
	return p.how
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.fallen() {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.note(body)
	if p.suffers(w, r, body) {
		return
	}
	how := p.take(body)
	if how == held {
		select {
		case <-p.free:
		case <-p.end:
		}
	}
	answer, err := http.Post(p.target, "application/json", bytes.NewReader(body)) // also when the asker has gone
	if err != nil {
		http.Error(w, "the node does not answer", http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return
	}
	switch how {
	case held:
		close(p.reached)
	case swallow:
		panic(http.ErrAbortHandler)
	case delay:
		select {
		case <-p.end:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case late:
		select {
		case <-p.end:
		case <-time.After(time.Minute):
		}
	case reset:
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = connection.(interface{ SetLinger(int) error }).SetLinger(0)
			_ = connection.Close()
		}
		return
	case null:
		text = without(body, text, p.method)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// release lets what is held, once, reach the node, and waits until it has.
func (p *proxy) release() {
	close(p.free)
	<-p.reached
}

// note keeps the transactions of a call or of a batch of calls.
func (p *proxy) note(body []byte) {
	type call struct {
		Method string
		Params []any
	}
	var calls []call
	if json.Unmarshal(body, &calls) != nil {
		calls = make([]call, 1)
		_ = json.Unmarshal(body, &calls[0]) // else it is no call
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range calls {
		if c.Method == "eth_sendRawTransaction" && len(c.Params) == 1 {
			p.raws = append(p.raws, fmt.Sprint(c.Params[0]))
		}
	}
}

// sent returns the transactions that were handed over so far.
func (p *proxy) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.raws)
}

// without puts null in the place of the results of a method.
func without(body, text []byte, method string) []byte {
	var requests []struct {
		ID     int
		Method string
	}
	var replies []map[string]any
	if json.Unmarshal(body, &requests) != nil || json.Unmarshal(text, &replies) != nil {
		return text
	}
	for _, q := range requests {
		for _, a := range replies {
			if id, ok := a["id"].(float64); ok && int(id) == q.ID && q.Method == method {
				a["result"] = nil
			}
		}
	}
	changed, err := json.Marshal(replies)
	if err != nil {
		return text
	}
	return changed
}

// newKey makes a key that the chain has given money to.
func newKey(t testing.TB, chain *anvil) string {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	text := hex.EncodeToString(crypto.FromECDSA(key))
	chain.call("anvil_setBalance", nil, keyOf(text).Account(), "0x3635c9adc5dea00000")
	return text
}

// owner returns the instance that owns the caller's signer, "" for none.
func (c *caller) owner() string {
	c.t.Helper()
	instance, _, _ := strings.Cut(c.text("SELECT coalesce(max(owner), '') FROM leases WHERE name LIKE 'txm:%'"), "/")
	return instance
}

func (c *caller) text(query ledger.SQL, args ...any) string {
	c.t.Helper()
	var s string
	ctx := context.WithoutCancel(c.t.Context())
	err := c.db.Read(ctx, func(tx *ledger.Tx) error {
		_, err := tx.One(ctx, query, args, &s)
		return err
	})
	if err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	return s
}
