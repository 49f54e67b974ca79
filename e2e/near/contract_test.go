package near_test

import (
	"context"
	"crypto/sha256"
	"math/big"
	"net/http/httptest"
	"testing"
	"time"

	devnear "lockstep/devnet/near"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/txmgr"
	"lockstep/txmgr/chaintest"
	"lockstep/txmgr/nearchain"
)

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
