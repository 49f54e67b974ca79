package ledger

import (
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func TestSignatures(t *testing.T) {
	a, b, c := fresh(t, 1), fresh(t, 2), fresh(t, 3)
	body := []byte("what is signed")
	list := func(keys ...*hapi.Key) *hapi.Key {
		return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: keys}}}
	}
	threshold := func(n uint32, keys ...*hapi.Key) *hapi.Key {
		return &hapi.Key{Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{Threshold: n, Keys: &hapi.KeyList{Keys: keys}}}}
	}
	ka, kb, kc := publicKey(a), publicKey(b), publicKey(c)
	tests := []struct {
		name string
		key  *hapi.Key
		by   []*ecdsa.PrivateKey
		want bool
	}{
		{"single", ka, []*ecdsa.PrivateKey{a.key}, true},
		{"another", ka, []*ecdsa.PrivateKey{b.key}, false},
		{"nobody", ka, nil, false},
		{"one of many", kb, []*ecdsa.PrivateKey{a.key, b.key}, true},
		{"list, all", list(ka, kb), []*ecdsa.PrivateKey{a.key, b.key}, true},
		{"list, some", list(ka, kb), []*ecdsa.PrivateKey{a.key}, false},
		{"list of none", list(), []*ecdsa.PrivateKey{a.key}, false},
		{"threshold met", threshold(2, ka, kb, kc), []*ecdsa.PrivateKey{a.key, c.key}, true},
		{"threshold not met", threshold(2, ka, kb, kc), []*ecdsa.PrivateKey{c.key}, false},
		{"threshold of none", threshold(0, ka), []*ecdsa.PrivateKey{a.key}, false},
		{"nested", list(ka, threshold(1, kb, list(kc))), []*ecdsa.PrivateKey{a.key, c.key}, true},
		{"contract", contractKey(1042), []*ecdsa.PrivateKey{a.key}, false},
		{"threshold with a contract", threshold(1, contractKey(1042), ka), []*ecdsa.PrivateKey{a.key}, true},
		{"no key", nil, []*ecdsa.PrivateKey{a.key}, false},
	}
	for _, tt := range tests {
		if got := NewSignatures(body, pairsBy(t, body, 33, tt.by...)).Signed(tt.key); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if NewSignatures([]byte("something else"), pairsBy(t, body, 33, a.key)).Signed(ka) {
		t.Error("a signature over another body counts")
	}
	if !NewSignatures(body, pairsBy(t, body, 5, a.key, b.key)).Signed(list(ka, kb)) {
		t.Error("prefixes of keys do not do")
	}
	if !NewSignatures(body, pairsBy(t, body, 0, a.key, b.key)).AmbiguousPrefix() || NewSignatures(body, pairsBy(t, body, 33, a.key, b.key)).AmbiguousPrefix() {
		t.Error("ambiguous prefixes are told wrongly")
	}
	s := NewSignatures(body, pairsBy(t, body, 33, a.key, b.key))
	if public, ok := s.Completes(b.address); !ok || len(public) != secp256k1Size {
		t.Error("the key of an address is not found")
	}
	if _, ok := s.Completes(c.address); ok {
		t.Error("a key of another address completes")
	}
}

// pairsBy signs with each key and names it by its first bytes.
func pairsBy(t *testing.T, body []byte, prefix int, keys ...*ecdsa.PrivateKey) []*hapi.SignaturePair {
	t.Helper()
	var pairs []*hapi.SignaturePair
	for _, key := range keys {
		signature, err := crypto.Sign(crypto.Keccak256(body), key)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, &hapi.SignaturePair{
			PubKeyPrefix: crypto.CompressPubkey(&key.PublicKey)[:prefix],
			Signature:    &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature[:64]},
		})
	}
	return pairs
}

func TestEd25519Signature(t *testing.T) {
	key, err := hedera.ParsePrivateKey(OperatorKey, hedera.FormatHexEd25519)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("what is signed")
	signature, err := key.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	pair := &hapi.SignaturePair{PubKeyPrefix: key.Public(), Signature: &hapi.SignaturePair_Ed25519{Ed25519: signature}}
	if !NewSignatures(body, []*hapi.SignaturePair{pair}).Signed(ed25519Key(key.Public())) {
		t.Error("does not verify")
	}
}
