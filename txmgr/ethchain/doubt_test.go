package ethchain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/watch/watchtest"
)

func two(t *testing.T, first, second func(method string, params []any) (any, error)) *Chain {
	t.Helper()
	c := must.Get(New(Config{ID: 5, URLs: []string{scripted(t, first), scripted(t, second)}, Timeout: time.Minute}))(t)
	t.Cleanup(c.Close)
	return c
}

// TestOnlyProvenReverts: what an endpoint says of itself is no revert, nor is what a second endpoint contradicts. An estimate that no transaction
// can have is no answer.
func TestOnlyProvenReverts(t *testing.T) {
	gas := func(string, []any) (any, error) { return "0x5208", nil }
	say := func(text string) func(string, []any) (any, error) {
		return func(string, []any) (any, error) { return nil, errors.New(text) }
	}
	takes := func(gas string) func(string, []any) (any, error) {
		return func(string, []any) (any, error) { return gas, nil }
	}
	for name, row := range map[string]struct {
		first, second func(string, []any) (any, error)
		success       bool
		fails         bool // an error: it is not known
		invalid       bool
	}{
		"both say so":              {first: say("execution reverted: no"), second: say("execution reverted: no")},
		"the second knows more":    {first: say("execution reverted: no"), second: gas, success: true},
		"nobody else can be asked": {first: say("execution reverted: no"), second: say("daily request count exceeded, request rate limited")},
		"a quota":                  {first: say("daily request count exceeded, request rate limited"), second: gas, success: true},
		"quotas":                   {first: say("daily request count exceeded"), second: say("Your app has exceeded its compute units per second capacity"), fails: true},
		"no state":                 {first: say("missing trie node 12 (path )"), second: say("header not found"), fails: true},
		"time":                     {first: say("execution aborted (timeout = 5s)"), second: say("execution aborted (timeout = 5s)"), fails: true},
		"funds":                    {first: say("insufficient funds for transfer"), second: gas, fails: true},
		"nobody knows":             {first: say("blorp"), second: say("blorp"), fails: true},
		"never valid":              {first: say("intrinsic gas too low: have 5, want 21000"), second: gas, fails: true, invalid: true},
		"no gas":                   {first: takes("0x0"), second: gas, success: true},
		"a little gas":             {first: takes("0x1"), second: gas, success: true},
		"more than a block's gas":  {first: takes("0x5f5e101"), second: gas, success: true},
		"both want too much":       {first: takes("0x5f5e101"), second: takes("0x5f5e102"), fails: true},
		"a lie and a revert":       {first: takes("0x1"), second: say("execution reverted: no"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			chain := two(t, row.first, row.second)
			chain.blockGas.Store(100_000_000)
			got, err := chain.Simulate(t.Context(), txmgr.Call{From: "0x0", To: "0x1"})
			if (err != nil) != row.fails || got.Success != row.success || errors.Is(err, txmgr.ErrInvalid) != row.invalid || row.success && got.Gas != 21000 {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
}

// TestReceiptElsewhere: a transaction that stays without a receipt at one endpoint is looked for at the other, whose head then goes with it.
func TestReceiptElsewhere(t *testing.T) {
	answers := func(head string, receipt any) func(string, []any) (any, error) {
		return func(method string, _ []any) (any, error) {
			switch method {
			case "eth_getBlockByNumber":
				return map[string]any{"number": head, "hash": block, "timestamp": "0x1"}, nil
			case "eth_blockNumber":
				return head, nil
			default:
				return receipt, nil
			}
		}
	}
	c := two(t, answers("0x10", nil), answers("0x11", map[string]any{"transactionHash": asked, "blockNumber": "0xf", "blockHash": block, "status": "0x1"}))
	list := []txmgr.Signed{{Hash: asked}}
	head, found, err := c.Receipts(t.Context(), list)
	if err != nil || head.Number != 0x10 || found[0].Receipt != nil {
		t.Fatalf("at first: %+v, %+v, %v", head, found, err)
	}
	c.waiting[asked] = time.Now().Add(-lookElsewhere)
	head, found, err = c.Receipts(t.Context(), list)
	if err != nil || head.Number != 0x11 || found[0].Receipt == nil {
		t.Errorf("later: %+v, %+v, %v", head, found, err)
	}
}

// TestSilentAtTheFirstStart: an endpoint that does not answer delays a new signer for half a minute, which is said, and not for ever.
func TestSilentAtTheFirstStart(t *testing.T) {
	live := scripted(t, func(string, []any) (any, error) { return "0x7", nil })
	c := must.Get(New(Config{ID: 5, URLs: []string{live, "http://127.0.0.1:1"}, Timeout: time.Minute}))(t)
	defer c.Close()
	_, first := c.HighestPending(t.Context(), "0x0")
	_, second := c.HighestPending(t.Context(), "0x0")
	if first == nil || second == nil || !strings.Contains(first.Error(), "waited for, for 30s") || first.Error() != second.Error() { // the log has what is new
		t.Errorf("at first: %v; %v", first, second)
	}
	c.patience = 0
	if nonce, err := c.HighestPending(t.Context(), "0x0"); err != nil || nonce != 7 {
		t.Errorf("later: %d, %v", nonce, err)
	}
	all := must.Get(New(Config{ID: 5, URLs: []string{"http://127.0.0.1:1"}, Timeout: time.Minute}))(t)
	defer all.Close()
	all.patience = 0
	_, _ = all.HighestPending(t.Context(), "0x0")
	if _, err := all.HighestPending(t.Context(), "0x0"); err == nil {
		t.Error("nobody answers, and that is an answer")
	}
}

// TestIdentityUnknown: who does not say which chain it serves does not say that it is one without a first block.
func TestIdentityUnknown(t *testing.T) {
	url := watchtest.Proxy(t, "", func(c *watchtest.Call) {
		if c.Together == 1 {
			c.Say("0x5")
		} else {
			c.Error = []byte(`{"code":-32000,"message":"header not found"}`)
		}
	})
	c := must.Get(New(Config{ID: 5, URLs: []string{url}}))(t)
	if got, err := c.Identity(t.Context()); err == nil {
		t.Errorf("the identity is %q", got)
	}
}

// TestBreaker: a nonce error never makes an endpoint rest, a lost answer does, and the next
// endpoint is asked then.
func TestBreaker(t *testing.T) {
	var first, second int
	answering := func(t *testing.T, text string, asked *int) string {
		return scripted(t, func(string, []any) (any, error) { *asked++; return nil, errors.New(text) })
	}
	good := answering(t, "nonce too low", &first)
	c := must.Get(New(Config{ID: 5, URLs: []string{good, answering(t, "already known", &second)}, Timeout: 2 * time.Minute}))(t)
	for range 50 {
		if got := txmgr.ClassOf(c.Send(t.Context(), []txmgr.Signed{{Hash: "0x1", Raw: []byte{1}}})[0]); got != txmgr.ClassNonceUsed {
			t.Fatalf("got %s", got)
		}
	}
	if since, _ := c.client.All()[0].Down(); !since.IsZero() || first != 50 || second != 0 {
		t.Fatalf("nonce errors moved the endpoint: asked %d and %d times, down since %v", first, second, since)
	}
	dead := must.Get(New(Config{ID: 5, URLs: []string{"http://127.0.0.1:1", answering(t, "already known", &second)}, Timeout: 2 * time.Minute}))(t)
	if got := txmgr.ClassOf(dead.Send(t.Context(), []txmgr.Signed{{Hash: "0x1", Raw: []byte{1}}})[0]); got != txmgr.ClassKnown {
		t.Fatalf("after an endpoint that does not answer: got %s", got)
	}
	if since, _ := dead.client.All()[0].Down(); since.IsZero() || second != 1 {
		t.Fatal("an endpoint that does not answer is asked first again")
	}
}
