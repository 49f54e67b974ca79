package ethchain

import (
	"encoding/json"
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

// TestReceiptOfAReplacedBlock: some nodes go on serving the receipt that a transaction had in a block that was replaced. It proves nothing, and is not
// "none" either; an endpoint whose receipt is of its own block answers.
func TestReceiptOfAReplacedBlock(t *testing.T) {
	const replaced = "0x00000000000000000000000000000000000000000000000000000000000000b2"
	answers := func(of string, transactions ...string) func(string, []any) (any, error) {
		return func(method string, _ []any) (any, error) {
			if method == "eth_getBlockByNumber" {
				return map[string]any{"number": "0x10", "hash": block, "timestamp": "0x1", "transactions": transactions}, nil
			}
			return map[string]any{"transactionHash": asked, "blockNumber": "0xf", "blockHash": of, "status": "0x1"}, nil
		}
	}
	list := []txmgr.Signed{{Hash: asked}}
	_, found, err := two(t, answers(replaced), answers(replaced)).Receipts(t.Context(), list)
	if err != nil || found[0].Err == nil || found[0].Receipt != nil {
		t.Errorf("nobody has another one: %+v, %v", found, err)
	}
	_, found, err = two(t, answers(replaced), answers(block)).Receipts(t.Context(), list)
	if err != nil || found[0].Err != nil || found[0].Receipt == nil || found[0].Receipt.BlockHash != block {
		t.Errorf("the second endpoint has another one: %+v, %v", found, err)
	}
	_, found, err = two(t, answers(replaced, other, asked), answers(replaced)).Receipts(t.Context(), list)
	if err != nil || found[0].Err != nil || found[0].Receipt == nil || found[0].Receipt.BlockHash != block {
		t.Errorf("its own block has the transaction, too: %+v, %v", found, err)
	}
}

// TestEndpointOnAnotherFork: an endpoint that has another block where one was final is not asked while another may have that one. Without it, what it says of the chain would halt
// signing, and what it says of a nonce might be another fork's.
func TestEndpointOnAnotherFork(t *testing.T) {
	const forked = "0x00000000000000000000000000000000000000000000000000000000000000b3"
	has := func(hash, nonce string) func(string, []any) (any, error) {
		return func(method string, params []any) (any, error) {
			if method == "eth_getTransactionCount" {
				return nonce, nil
			}
			number := params[0]
			if number == "latest" {
				number = "0x20"
			}
			return map[string]any{"number": number, "hash": hash, "timestamp": "0x1"}, nil
		}
	}
	c := two(t, has(forked, "0x9"), has(block, "0x7"))
	c.Anchor(0x10, block)
	c.Anchor(0x9, forked) // it is older
	hash, err := c.BlockHash(t.Context(), 0x10, 0)
	nonces, err2 := c.Nonces(t.Context(), "0x0")
	if errors.Join(err, err2) != nil || hash != block || nonces.Latest != 7 {
		t.Errorf("block 16 is %s, the nonce %d, %v, %v", hash, nonces.Latest, err, err2)
	}
	c = two(t, has(forked, "0x9"), has(forked, "0x9"))
	c.Anchor(0x10, block)
	if hash, err := c.BlockHash(t.Context(), 0x10, 0); err != nil || hash != forked {
		t.Errorf("all are on another fork: %s, %v", hash, err)
	}
	c = two(t, has(forked, "0x9"), has(block, "0x7"))
	c.Anchor(0x10, block)
	c.Anchor(0, "")
	if hash, err := c.BlockHash(t.Context(), 0x10, 0); err != nil || hash != forked {
		t.Errorf("nothing is known to be final: %s, %v", hash, err)
	}
}

// TestBlockThatIsNotFinal: a block of an endpoint that lags may be one that the chain has left. It was noted as final if another endpoint, or another node behind the
// same address, had told how far the chain is, and halted the signers afterwards.
func TestBlockThatIsNotFinal(t *testing.T) {
	for head, want := range map[string]string{"0x12": "", "0x1c": block} {
		node := func(method string, _ []any) (any, error) {
			if method == "eth_blockNumber" {
				return head, nil
			}
			return map[string]any{"number": "0x10", "hash": block, "timestamp": "0x1"}, nil
		}
		if hash, err := two(t, node, node).BlockHash(t.Context(), 0x10, 12); err != nil || hash != want {
			t.Errorf("at block %s: %q, %v", head, hash, err)
		}
	}
}

// TestSilentAtTheFirstStart: an endpoint that does not answer delays a new signer for half a minute, which is said, and not for ever.
func TestSilentAtTheFirstStart(t *testing.T) {
	live := scripted(t, func(string, []any) (any, error) { return "0x7", nil })
	c := must.Get(New(Config{ID: 5, URLs: []string{live, "http://127.0.0.1:1"}, Timeout: time.Minute}))(t)
	defer c.Close()
	_, _, first := c.HighestPending(t.Context(), "0x0")
	_, _, second := c.HighestPending(t.Context(), "0x0")
	if first == nil || second == nil || !strings.Contains(first.Error(), "waited for, for 30s") || first.Error() != second.Error() { // the log has what is new
		t.Errorf("at first: %v; %v", first, second)
	}
	c.patience = 0
	if latest, pending, err := c.HighestPending(t.Context(), "0x0"); err != nil || latest != 7 || pending != 7 {
		t.Errorf("later: %d and %d, %v", latest, pending, err)
	}
	all := must.Get(New(Config{ID: 5, URLs: []string{"http://127.0.0.1:1"}, Timeout: time.Minute}))(t)
	defer all.Close()
	all.patience = 0
	_, _, _ = all.HighestPending(t.Context(), "0x0")
	if _, _, err := all.HighestPending(t.Context(), "0x0"); err == nil {
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

// TestNoBlockOfThatNumber: what is no block, or one of another number, says neither which chain it is nor that a block was replaced.
func TestNoBlockOfThatNumber(t *testing.T) {
	for _, result := range []string{`{}`, `{"number":"0x7"}`, `{"number":"0x8","hash":"` + block + `"}`} {
		c := two(t, func(string, []any) (any, error) { return json.RawMessage(result), nil }, func(string, []any) (any, error) { return json.RawMessage(result), nil })
		if hash, err := c.BlockHash(t.Context(), 7, 0); err == nil {
			t.Errorf("%s: the hash is %q", result, hash)
		}
		if identity, err := c.Identity(t.Context()); err == nil {
			t.Errorf("%s: the identity is %q", result, identity)
		}
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
