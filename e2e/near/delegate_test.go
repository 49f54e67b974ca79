package near_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/holiman/uint256"

	devnear "lockstep/devnet/near"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/client"
	"lockstep/txmgr/nearchain"
)

// delegate is alice's wish that somebody pays for, which a test may spoil before it is signed.
func (n *network) delegate(t *testing.T, nonce uint64, change func(*near.DelegateAction)) near.SignedDelegate {
	t.Helper()
	d := near.DelegateAction{
		Sender: "alice.test", Receiver: "counter.test", Actions: []near.Action{near.FunctionCall{Method: "increment", Args: []byte(`{"by":1}`), Gas: 30e12}},
		Nonce: nonce, MaxBlockHeight: 1 << 40, PublicKey: n.keys["alice.test"].secret.Public(),
	}
	if change != nil {
		change(&d)
	}
	return must.Get(d.Sign(n.keys["alice.test"].secret))(t)
}

// TestDelegatesAreScreened has delegate actions that nobody should pay for.
func TestDelegatesAreScreened(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	for range 5 {
		n.chain.Mine()
	}
	bounds := must.Get(nearchain.NewDelegates([]string{"bob.test", "*.test"}, "7", 40e12))(t)
	open := func(d *nearchain.Delegates, url string) *nearchain.Chain {
		c := must.Get(nearchain.New(nearchain.Config{ID: "near", URLs: []string{url}, Delegates: d}))(t)
		t.Cleanup(c.Close)
		return c
	}
	narrow := must.Get(nearchain.NewDelegates([]string{"bob.test"}, "", 0))(t)
	secp := must.Get(near.ParseSecretKey("secp256k1:" + near.EncodeBase58([]byte("32 bytes of a key of these tests"))))(t)
	carrying := open(bounds, n.url)
	foreign := n.delegate(t, 7, nil)
	foreign.Signature = n.delegate(t, 8, nil).Signature
	gas := func(each ...uint64) func(*near.DelegateAction) {
		return func(d *near.DelegateAction) {
			d.Actions = nil
			for _, g := range each {
				d.Actions = append(d.Actions, near.FunctionCall{Method: "increment", Gas: g})
			}
		}
	}
	deposit := func(amount uint64) func(*near.DelegateAction) {
		return func(d *near.DelegateAction) {
			d.Actions = []near.Action{near.Transfer{Deposit: *uint256.NewInt(amount)}}
		}
	}
	for name, test := range map[string]struct {
		chain    *nearchain.Chain
		to       string
		delegate near.SignedDelegate
		kind     error
		want     string // "" for none
	}{
		"good":               {carrying, "alice.test", n.delegate(t, 1, nil), nil, ""},
		"at the bounds":      {carrying, "alice.test", n.delegate(t, 1, gas(40e12)), nil, ""},
		"its deposit too":    {carrying, "alice.test", n.delegate(t, 1, deposit(7)), nil, ""},
		"nothing allowed":    {open(nil, n.url), "alice.test", n.delegate(t, 1, nil), txmgr.ErrPolicy, "carries none"},
		"another receiver":   {open(narrow, n.url), "alice.test", n.delegate(t, 1, nil), txmgr.ErrPolicy, "counter.test is not one of the receivers"},
		"the end of a name":  {carrying, "alice.test", n.delegate(t, 1, func(d *near.DelegateAction) { d.Receiver = "eviltest" }), txmgr.ErrPolicy, "not one of the receivers"},
		"too much gas":       {carrying, "alice.test", n.delegate(t, 1, gas(40e12+1)), txmgr.ErrPolicy, "the maximum is 40000000000000"},
		"gas in parts":       {carrying, "alice.test", n.delegate(t, 1, gas(20e12, 20e12, 1)), txmgr.ErrPolicy, "the maximum is"},
		"gas that overflows": {carrying, "alice.test", n.delegate(t, 1, gas(1<<63, 1<<63)), txmgr.ErrPolicy, "the maximum is"},
		"a deposit":          {carrying, "alice.test", n.delegate(t, 1, deposit(8)), txmgr.ErrPolicy, "its deposits are 8, and the maximum is 7"},
		"for another":        {carrying, "bob.test", n.delegate(t, 1, nil), txmgr.ErrInvalid, "must be for that account"},
		"foreign signature":  {carrying, "alice.test", foreign, txmgr.ErrInvalid, "the signature is not"},
		"old block":          {carrying, "alice.test", n.delegate(t, 1, func(d *near.DelegateAction) { d.MaxBlockHeight = 1 }), txmgr.ErrInvalid, "it was valid up to block 1"},
		"used nonce":         {carrying, "alice.test", n.delegate(t, 0, nil), txmgr.ErrInvalid, "its key has used"},
		"nobody":             {carrying, "nobody.test", n.delegate(t, 1, func(d *near.DelegateAction) { d.Sender = "nobody.test" }), txmgr.ErrInvalid, "nobody.test has no access key"},
		"somebody's sender":  {carrying, "bob.test", n.delegate(t, 1, func(d *near.DelegateAction) { d.Sender = "bob.test" }), txmgr.ErrInvalid, "bob.test has no access key"},
		"no node":            {open(bounds, "http://127.0.0.1:1"), "alice.test", n.delegate(t, 1, nil), txmgr.ErrUnavailable, "the key of the delegate action"},
	} {
		t.Run(name, func(t *testing.T) {
			data := must.Get(near.EncodeActions([]near.Action{near.Delegate{SignedDelegate: test.delegate}}))(t)
			claims, err := test.chain.Screen(t.Context(), txmgr.Call{To: test.to, Data: data})
			hash, _ := test.delegate.Hash()
			switch {
			case test.want != "":
				if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v; want %q", err, test.want)
				}
			case err != nil || len(claims) != 1 || claims[0] != "delegate:"+hash.String():
				t.Errorf("%v, %v", claims, err)
			}
		})
	}
	two := must.Get(near.EncodeActions([]near.Action{near.Delegate{SignedDelegate: n.delegate(t, 1, nil)}, near.Delegate{SignedDelegate: n.delegate(t, 2, nil)}}))(t)
	if _, err := carrying.Screen(t.Context(), txmgr.Call{To: "alice.test", Data: two}); err == nil || !strings.Contains(err.Error(), "one delegate action") {
		t.Errorf("two at once: %v", err)
	}
	// A key of the other curve.
	other := startNetwork(t, devnear.Config{Accounts: []devnear.Account{{ID: "fresh.test", Key: secp.Public(), NEAR: 10}}})
	other.chain.Mine()
	d := near.DelegateAction{Sender: "fresh.test", Receiver: "bob.test", Actions: []near.Action{near.Transfer{}}, Nonce: 1, MaxBlockHeight: 1 << 40, PublicKey: secp.Public()}
	signed := must.Get(d.Sign(secp))(t)
	data := must.Get(near.EncodeActions([]near.Action{near.Delegate{SignedDelegate: signed}}))(t)
	if _, err := open(bounds, other.url).Screen(t.Context(), txmgr.Call{To: "fresh.test", Data: data}); err != nil {
		t.Errorf("secp256k1: %v", err)
	}
}

// TestDelegateReplays has a delegate action that a wallet's library signed, handed over many times at once under other
// idempotency keys through two processes, which end, and through another one. The chain has it once.
func TestDelegateReplays(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	for range 5 {
		n.chain.Mine() // until something is final; then nothing is executed, so that the ledger alone can refuse
	}
	database := pgtest.Start(t).Database()
	one, first := n.process(t, "first", database)
	two, second := n.process(t, "second", database)
	var wallet struct{ Bytes string }
	script(t, map[string]any{
		"task": "delegate", "rpc": n.url, "account": "alice.test", "key": n.secrets["alice.test"], "receiver": "counter.test",
		"list": []map[string]any{{"method": "increment", "gas": "10000000000000"}},
	}, &wallet)
	intent := client.Intent{Chain: "near", Actions: json.RawMessage(fmt.Sprintf(`[{"Delegate":%q}]`, wallet.Bytes))}
	var mu sync.Mutex
	outcomes := map[string]int{}
	var winner string
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c, key := first, fmt.Sprint("key ", i)
			if i%2 == 1 {
				c = second
			}
			_, err := c.Send(t.Context(), intent, client.Options{Key: key})
			mu.Lock()
			defer mu.Unlock()
			outcomes[codeOf(err)]++
			if err == nil {
				winner = key
			}
		})
	}
	all.Wait()
	if outcomes["accepted"] != 1 || outcomes["REPLAYED"] != 19 {
		t.Fatalf("of 20 at once: %v", outcomes)
	}
	one.Stop() // in order, which gives the lease back
	two.Stop()
	_, again := n.process(t, "third", database)
	if _, err := again.Send(t.Context(), intent, client.Options{Key: "after a restart"}); codeOf(err) != "REPLAYED" {
		t.Errorf("after a restart: %v", err)
	}
	must.Run(t, n.chain.Run)
	if fate := send(t, again, winner, intent); fate != "confirmed" {
		t.Errorf("the one that was accepted is %s", fate)
	}
	if _, err := again.Send(t.Context(), intent, client.Options{Key: "when it was executed"}); codeOf(err) != "INVALID" {
		t.Errorf("when the chain has used its nonce: %v", err)
	}
	if tx, err := again.Send(t.Context(), intent, client.Options{Key: winner}); err != nil || tx.Status != "confirmed" {
		t.Errorf("the key's answer: %+v, %v", tx, err)
	}
	count := 0
	for _, tx := range n.chain.Executed() {
		if _, ok := tx.Actions[0].(near.Delegate); ok {
			count++
		}
	}
	if count != 1 {
		t.Errorf("the chain has the delegate action %d times", count)
	}
}

// codeOf is the code of an answer.
func codeOf(err error) string {
	var problem *client.Problem
	switch {
	case err == nil:
		return "accepted"
	case errors.As(err, &problem):
		return problem.Code
	default:
		return err.Error()
	}
}

// TestReasons tells why transactions failed: a receipt's reason too, where the transaction itself succeeded.
func TestReasons(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	must.Run(t, n.chain.Run)
	c := n.manager(t, "reasons", "memory:")
	failing := n.delegate(t, 1, func(d *near.DelegateAction) {
		d.Receiver, d.Actions = "failing.test", []near.Action{near.FunctionCall{Method: "any", Gas: 30e12}}
	})
	bytes := must.Get(failing.Encode())(t)
	encoded := must.Get(json.Marshal(bytes))(t)
	for name, test := range map[string]struct{ to, actions, want string }{
		"an account that is there": {"alice.test", `["CreateAccount"]`, "action 0: AccountAlreadyExists"},
		"a contract that panics":   {"failing.test", `[{"FunctionCall":{"method_name":"any","args":{},"gas":30000000000000,"deposit":"0"}}]`, "action 0: FunctionCallError: ExecutionError: Smart contract panicked"},
		"inside a delegate":        {"", `[{"Delegate":` + string(encoded) + `}]`, "action 0: FunctionCallError: ExecutionError: Smart contract panicked"},
	} {
		tx := client.Intent{Chain: "near", To: test.to, Actions: json.RawMessage(test.actions)}
		if fate := send(t, c, name, tx); fate != "reverted" {
			t.Errorf("%s: %s", name, fate)
		}
		got, err := c.Send(t.Context(), tx, client.Options{Key: name})
		if err != nil || got.Error == nil || !strings.Contains(got.Error.Message, test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, got.Error, err, test.want)
		}
	}
	for name, intent := range map[string]client.Intent{
		"actions and data":   {Chain: "near", To: "bob.test", Data: "0x00", Actions: json.RawMessage(`["CreateAccount"]`)},
		"what is not known":  {Chain: "near", To: "bob.test", Actions: json.RawMessage(`[{"Burn":{}}]`)},
		"another value":      {Chain: "near", To: "bob.test", Value: "2", Actions: json.RawMessage(`[{"Transfer":{"deposit":"1"}}]`)},
		"nobody to act upon": {Chain: "near", Actions: json.RawMessage(`[{"Transfer":{"deposit":"1"}}]`)},
	} {
		var problem *client.Problem
		if _, err := c.Send(t.Context(), intent, client.Options{}); !errors.As(err, &problem) || problem.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// moreKey is a further key, by number.
func moreKey(t *testing.T, number int) (secret string, public near.PublicKey) {
	t.Helper()
	seed := sha256.Sum256(fmt.Appendf(nil, "a further key of these tests: %d", number))
	secret = "ed25519:" + near.EncodeBase58(seed[:])
	key := must.Get(near.ParseSecretKey(secret))(t)
	return secret, key.Public()
}

// TestLimitedKeys has a key that may call one method, alone and beside a full-access key: what it may not sign is
// refused, or signed by the other.
func TestLimitedKeys(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	must.Run(t, n.chain.Run)
	secret, public := moreKey(t, 1)
	owner := n.manager(t, "owner", "memory:")
	add := client.Intent{Chain: "near", To: "relayer.test", Actions: json.RawMessage(fmt.Sprintf(
		`[{"AddKey":{"public_key":%q,"access_key":{"permission":{"FunctionCall":{"allowance":null,"receiver_id":"counter.test","method_names":["increment"]}}}}}]`, public))}
	if fate := send(t, owner, "add", add); fate != "confirmed" {
		t.Fatalf("the key is not added: %s", fate)
	}
	call := func(to, method, deposit string) client.Intent {
		return client.Intent{Chain: "near", To: to, Actions: json.RawMessage(fmt.Sprintf(
			`[{"FunctionCall":{"method_name":%q,"args":{"by":1},"gas":30000000000000,"deposit":%q}}]`, method, deposit))}
	}
	transfer := client.Intent{Chain: "near", To: "bob.test", Value: "1"}
	_, alone := n.signing(t, "alone", "memory:", "", secret)
	for name, test := range map[string]struct {
		intent client.Intent
		want   string
	}{
		"a transfer":       {transfer, "signs calls alone"},
		"two actions":      {client.Intent{Chain: "near", To: "counter.test", Actions: json.RawMessage(`[{"Transfer":{"deposit":"1"}},{"Transfer":{"deposit":"1"}}]`)}, "signs one call"},
		"another contract": {call("failing.test", "increment", "0"), "calls of counter.test"},
		"another method":   {call("counter.test", "get", "0"), `methods ["increment"]`},
		"a deposit":        {call("counter.test", "increment", "1"), "no deposits"},
	} {
		if _, err := alone.Send(t.Context(), test.intent, client.Options{Key: name}); codeOf(err) != "POLICY" || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
	if fate := send(t, alone, "call", call("counter.test", "increment", "0")); fate != "confirmed" {
		t.Errorf("a call that the key is for: %s", fate)
	}
	_, both := n.signing(t, "both", "memory:", "", n.secrets["relayer.test"], secret)
	limited := map[bool]int{}
	for i := range 10 {
		for name, intent := range map[string]client.Intent{"transfer": transfer, "call": call("counter.test", "increment", "0")} {
			key := fmt.Sprint(name, i)
			if fate := send(t, both, key, intent); fate != "confirmed" {
				t.Errorf("%s beside a full-access key: %s", key, fate)
			}
			tx := must.Get(both.Send(t.Context(), intent, client.Options{Key: key}))(t)
			byLimited := strings.HasSuffix(tx.Signer, public.String())
			if name == "transfer" && byLimited {
				t.Errorf("%s was given to the limited key", key)
			}
			limited[byLimited]++
		}
	}
	if limited[true] == 0 {
		t.Error("the limited key was never used for what it may sign")
	}
	if refusals := n.chain.Refusals(); len(refusals) != 0 {
		t.Errorf("the chain has refused %v", refusals)
	}
}

// TestMissingKey: a key that its account does not have signs nothing, and the manager says which.
func TestMissingKey(t *testing.T) {
	t.Parallel()
	n := startNetwork(t, devnear.Config{})
	must.Run(t, n.chain.Run)
	secret, public := moreKey(t, 2)
	p, c := n.signing(t, "missing", "memory:", "", secret)
	_, err := c.Send(t.Context(), client.Intent{Chain: "near", To: "bob.test", Value: "1"}, client.Options{})
	if codeOf(err) != "POLICY" || !strings.Contains(err.Error(), "relayer.test has no access key "+public.String()) {
		t.Errorf("%v", err)
	}
	harness.Until(t, limit, "the log says which key is missing", func() bool { return p.Log.Has(public.String() + " does not exist") })
}
