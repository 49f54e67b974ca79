package near_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"math/big"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"

	devnear "lockstep/devnet/near"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/txmgr"
	"lockstep/txmgr/chaintest"
	"lockstep/txmgr/nearchain"
)

// vector is a signed transaction, or a signed delegate action, made by near-api-js.
type vector struct {
	Name      string `json:"name"`
	Delegate  bool   `json:"delegate"`
	PublicKey string `json:"publicKey"`
	Bytes     []byte `json:"bytes"`
	Hash      string `json:"hash"`
}

// everyAction is what near.mjs has under these names.
func everyAction(ed, secp near.PublicKey) map[string]near.Action {
	highest := *new(uint256.Int).Sub(new(uint256.Int).Lsh(uint256.NewInt(1), 128), uint256.NewInt(1))
	call := func(p near.CallPermission) near.AccessKey { return near.AccessKey{Permission: p} }
	return map[string]near.Action{
		"create account":              near.CreateAccount{},
		"deploy contract":             near.DeployContract{Code: []byte("\x00asm")},
		"call with JSON":              near.FunctionCall{Method: "create_account", Args: []byte(`{"new_account_id":"carol.near"}`), Gas: 30e12, Deposit: *uint256.NewInt(1)},
		"call with bytes":             near.FunctionCall{Method: "grüße", Args: []byte{0, 255}, Gas: math.MaxUint64, Deposit: highest},
		"transfer":                    near.Transfer{Deposit: highest},
		"stake":                       near.Stake{Stake: *uint256.NewInt(5), PublicKey: ed},
		"add full access key":         near.AddKey{PublicKey: secp, AccessKey: near.AccessKey{Permission: near.FullAccess{}}},
		"add call key":                near.AddKey{PublicKey: ed, AccessKey: call(near.CallPermission{Allowance: uint256.NewInt(250), Receiver: "carol.near", Methods: []string{"a", "b"}})},
		"add call key without bounds": near.AddKey{PublicKey: secp, AccessKey: call(near.CallPermission{Receiver: "carol.near"})},
		"delete key":                  near.DeleteKey{PublicKey: ed},
		"delete account":              near.DeleteAccount{Beneficiary: "carol.near"},
		"publish by hash":             near.DeployGlobalContract{Code: []byte{1, 2, 3}, Mode: near.DeployByHash},
		"publish by account":          near.DeployGlobalContract{Code: []byte{}, Mode: near.DeployByAccount},
		"use by hash":                 near.UseGlobalContract{Hash: near.Hash(bytes.Repeat([]byte{7}, 32))},
		"use by account":              near.UseGlobalContract{Account: "carol.near"},
	}
}

// TestWire makes each transaction here, too: bytes, hashes and signatures are the same.
func TestWire(t *testing.T) {
	t.Parallel()
	var texts []string
	keys := map[string]near.SecretKey{}
	var public []near.PublicKey
	for _, curve := range []string{"ed25519", "secp256k1"} {
		key := must.Get(near.ParseSecretKey(curve + ":" + near.EncodeBase58(bytes.Repeat([]byte{5}, 32))))(t)
		// near-api-js wants the public key behind the seed.
		texts = append(texts, curve+":"+near.EncodeBase58(append(bytes.Repeat([]byte{5}, 32), key.Public().Bytes()...)))
		keys[key.Public().String()] = key
		public = append(public, key.Public())
	}
	var vectors []vector
	script(t, map[string]any{"task": "vectors", "keys": texts}, &vectors)
	actions := everyAction(public[0], public[1])
	if want := len(keys) * (3*len(actions) + 2); len(vectors) != want {
		t.Fatalf("%d vectors, want %d", len(vectors), want)
	}
	for _, v := range vectors {
		name := v.PublicKey[:strings.Index(v.PublicKey, ":")] + " " + v.Name
		key, ok := keys[v.PublicKey]
		if !ok {
			t.Fatalf("%s: no key has the text %s", name, v.PublicKey)
		}
		if v.Delegate {
			checkDelegate(t, name, v, delegateOf(t, key, actions[v.Name]))
			continue
		}
		checkTransaction(t, name, v, key, actions)
	}
}

func delegateOf(t *testing.T, key near.SecretKey, action near.Action) near.SignedDelegate {
	t.Helper()
	signed := must.Get(near.DelegateAction{
		Sender: "alice.near", Receiver: "bob.near", Actions: []near.Action{action}, Nonce: 3, MaxBlockHeight: math.MaxUint64, PublicKey: key.Public(),
	}.Sign(key))(t)
	return signed
}

func checkDelegate(t *testing.T, name string, v vector, want near.SignedDelegate) {
	t.Helper()
	hash, err := want.Hash()
	if err != nil || hash.String() != v.Hash {
		t.Errorf("%s: the delegate's hash is %s (%v), near-api-js says %s", name, hash, err, v.Hash)
	}
	data, err := want.Encode()
	if err != nil || !bytes.Equal(data, v.Bytes) {
		t.Errorf("%s: the delegate is\n%s (%v), near-api-js says\n%s", name, base64.StdEncoding.EncodeToString(data), err, base64.StdEncoding.EncodeToString(v.Bytes))
	}
	got, err := near.DecodeDelegate(v.Bytes)
	if err != nil || !reflect.DeepEqual(got, want) || !got.Verify() {
		t.Errorf("%s: the delegate decodes to %+v (%v), want %+v", name, got, err, want)
	}
}

func checkTransaction(t *testing.T, name string, v vector, key near.SecretKey, actions map[string]near.Action) {
	t.Helper()
	got, err := near.DecodeTransaction(v.Bytes)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	tx := near.Transaction{
		Signer: "alice.near", PublicKey: key.Public(), Nonce: 1<<63 + 5, Receiver: "bob.near", BlockHash: near.Hash(bytes.Repeat([]byte{9}, 32)),
		Actions: []near.Action{},
	}
	switch inner, delegate := strings.CutPrefix(v.Name, "delegate: "); {
	case delegate:
		tx.Actions = append(tx.Actions, near.Delegate{SignedDelegate: delegateOf(t, key, actions[inner])})
	case v.Name == "all":
		// In the order of near.mjs, and each is compared by itself above.
		if len(got.Actions) != 2*len(actions) {
			t.Errorf("%s: %d actions, want %d", name, len(got.Actions), 2*len(actions))
		}
		tx.Actions = got.Actions
	case v.Name != "none":
		tx.Actions = append(tx.Actions, actions[v.Name])
	}
	want := must.Get(tx.Sign(key))(t)
	if !reflect.DeepEqual(got, want) || !got.Verify() {
		t.Errorf("%s: decodes to %+v, want %+v", name, got, want)
	}
	if data, err := want.Encode(); err != nil || !bytes.Equal(data, v.Bytes) {
		t.Errorf("%s: %x (%v), near-api-js says\n%x", name, data, err, v.Bytes)
	}
	if hash, err := want.Hash(); err != nil || hash.String() != v.Hash {
		t.Errorf("%s: the hash is %s (%v), near-api-js says %s", name, hash, err, v.Hash)
	}
}

// accessKey is a key as the manager wants it.
type accessKey struct {
	account string
	secret  near.SecretKey
}

func (k accessKey) Account() string { return k.account + "/" + k.secret.Public().String() }

func (k accessKey) Sign(_ context.Context, unsigned []byte) ([]byte, error) {
	digest := sha256.Sum256(unsigned)
	s, err := k.secret.Sign(digest[:])
	return s.Bytes(), err
}

// network is a model of a chain in this process, with its developers' keys by account.
type network struct {
	chain *devnear.Chain
	url   string
	keys  map[string]accessKey

	secrets map[string]string
}

func startNetwork(t *testing.T, config devnear.Config) *network {
	t.Helper()
	developers, accounts := must.Get2(devnear.Developers())(t)
	n := &network{keys: map[string]accessKey{}, secrets: map[string]string{}}
	for _, d := range developers {
		secret := must.Get(near.ParseSecretKey(d.SecretKey))(t)
		n.keys[d.ID], n.secrets[d.ID] = accessKey{d.ID, secret}, d.SecretKey
	}
	config.Accounts = append(accounts, config.Accounts...)
	n.chain = devnear.New(config)
	server := httptest.NewServer(n.chain)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *network) driver(t *testing.T, url string) *nearchain.Chain {
	t.Helper()
	c := must.Get(nearchain.New(nearchain.Config{ID: "near", URLs: []string{url}, Timeout: time.Minute}))(t)
	t.Cleanup(c.Close)
	return c
}

// TestContract holds the driver against the contract of txmgr.Chain, with keys of both curves.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, curve := range []string{"ed25519", "secp256k1"} {
		t.Run(curve, func(t *testing.T) {
			t.Parallel()
			secret := must.Get(near.ParseSecretKey(curve + ":" + near.EncodeBase58([]byte("32 bytes of a key of these tests"))))(t)
			n := startNetwork(t, devnear.Config{Accounts: []devnear.Account{{ID: "fresh.test", Key: secret.Public(), NEAR: 1000}}})
			for range 3 {
				n.chain.Mine() // until something is final
			}
			chaintest.Run(t, chaintest.Harness{
				Chain: n.driver(t, n.url), Dead: n.driver(t, "http://127.0.0.1:1"), Key: accessKey{"fresh.test", secret}, Stranger: n.keys["alice.test"],
				To: "bob.test", Value: big.NewInt(1_000_000), Reverting: "nobody.test",
				Garbage: []string{"Alice", "a", ".near", "alice.test/", "alice.test/ed25519:1", "0x5200000000000000000000000000000000000f01", "a b"},
				Mine:    n.chain.Mine,
			})
		})
	}
}

// TestExpired has attempts whose blocks are over: one that nobody has sent is dead, and one
// that was executed is not, whatever nodes remember of it.
func TestExpired(t *testing.T) {
	t.Parallel()
	const validity = 5
	n := startNetwork(t, devnear.Config{Validity: validity})
	c := must.Get(nearchain.New(nearchain.Config{ID: "near", URLs: []string{n.url}, Validity: validity, Timeout: time.Minute}))(t)
	defer c.Close()
	for range 3 {
		n.chain.Mine()
	}
	key := n.keys["alice.test"]
	sign := func(nonce uint64) txmgr.Signed {
		unsigned := must.Get(c.Prepare(t.Context(), txmgr.Draft{Signer: key.Account(), Nonce: nonce, Call: txmgr.Call{To: "bob.test", Value: big.NewInt(1)}}))(t)
		signature := must.Get(key.Sign(t.Context(), unsigned.Bytes))(t)
		return must.Get(c.Seal(unsigned, signature))(t)
	}
	executed, never := sign(1), sign(2)
	must.Do(t, c.Send(t.Context(), []txmgr.Signed{executed})[0])
	dead := func(attempt txmgr.Signed) bool {
		return must.Get(c.Expired(t.Context(), attempt))(t)
	}
	for block := range validity + 1 {
		if dead(executed) || dead(never) {
			t.Fatalf("dead after %d blocks", block)
		}
		n.chain.Mine()
	}
	for range 3 {
		n.chain.Mine()
	}
	if dead(executed) {
		t.Error("what was executed is dead")
	}
	if !dead(never) {
		t.Error("what nobody has sent is not dead")
	}
	if class := txmgr.ClassOf(c.Send(t.Context(), []txmgr.Signed{{Hash: never.Hash, Raw: never.Raw, Tag: never.Tag, Again: true}})[0]); class != txmgr.ClassPoolPolicy {
		t.Errorf("what has expired is answered with %q", class)
	}
}
