package txm_test

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch/watchtest"
)

// How a proxy spoils an answer after the node has got the question.
const (
	swallow = "swallow" // the connection breaks
	delay   = "delay"   // the answer does not come before the asker gives up
	null    = "null"    // the node is said to have nothing
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
	between := watchtest.Between(target, p.answer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		dead := p.dead
		p.mu.Unlock()
		if dead {
			panic(http.ErrAbortHandler)
		}
		between(w, r)
	}))
	p.url = server.URL
	t.Cleanup(func() {
		close(p.end)
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// spoil spoils the next n calls of a method.
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

func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// take notes a call, and returns what becomes of it.
func (p *proxy) take(c *watchtest.Call) (sick fault, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Method == "eth_sendRawTransaction" && len(c.Params) == 1 {
		p.raws = append(p.raws, strings.Trim(string(c.Params[0]), `"`))
	}
	if p.sick == nil && p.n > 0 && c.Method == p.method {
		p.n--
		how = p.how
	}
	return p.sick, how
}

// lost ends a connection when its asker has gone, or the test.
func (p *proxy) lost(c *watchtest.Call) {
	select {
	case <-p.end:
	case <-c.Context.Done():
	}
	panic(http.ErrAbortHandler)
}

func (p *proxy) answer(c *watchtest.Call) {
	sick, how := p.take(c)
	if sick != nil {
		sick(p, c)
		return
	}
	if how == held {
		select {
		case <-p.free:
		case <-p.end:
		}
	}
	c.Ask()
	switch how {
	case held:
		close(p.reached)
	case swallow:
		panic(http.ErrAbortHandler)
	case delay:
		p.lost(c)
	case null:
		c.Say(nil)
	}
}

// release lets what is held, once, reach the node, and waits until it has.
func (p *proxy) release() {
	close(p.free)
	<-p.reached
}

// sent returns the transactions that were handed over so far.
func (p *proxy) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.raws)
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
	return must.Get(ledgertest.One[string](c.t, c.db, query, args...))(c.t)
}
