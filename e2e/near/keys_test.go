package near_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	devnear "lockstep/devnet/near"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/txmgr/client"
)

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
	n.run(t)
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
	n.run(t)
	secret, public := moreKey(t, 2)
	p, c := n.signing(t, "missing", "memory:", "", secret)
	_, err := c.Send(t.Context(), client.Intent{Chain: "near", To: "bob.test", Value: "1"}, client.Options{})
	if codeOf(err) != "POLICY" || !strings.Contains(err.Error(), "relayer.test has no access key "+public.String()) {
		t.Errorf("%v", err)
	}
	harness.Until(t, limit, "the log says which key is missing", func() bool { return p.Log.Has(public.String() + " does not exist") })
}
