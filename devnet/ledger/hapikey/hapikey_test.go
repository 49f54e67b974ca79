package hapikey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

// party is somebody who signs.
type party struct {
	key     *ecdsa.PrivateKey
	address common.Address
}

func fresh(t *testing.T, seed byte) party {
	t.Helper()
	key := must.Get(crypto.ToECDSA(common.LeftPadBytes([]byte{seed, 1, 2, 3}, 32)))(t)
	return party{key, crypto.PubkeyToAddress(key.PublicKey)}
}

func publicKey(p party) *hapi.Key { return Secp256k1(crypto.CompressPubkey(&p.key.PublicKey)) }

func listOf(keys ...*hapi.Key) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: keys}}}
}

func thresholdOf(n uint32, keys ...*hapi.Key) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{Threshold: n, Keys: &hapi.KeyList{Keys: keys}}}}
}

func TestSignatures(t *testing.T) {
	a, b, c := fresh(t, 1), fresh(t, 2), fresh(t, 3)
	body := []byte("what is signed")
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
		{"list, all", listOf(ka, kb), []*ecdsa.PrivateKey{a.key, b.key}, true},
		{"list, some", listOf(ka, kb), []*ecdsa.PrivateKey{a.key}, false},
		{"list of none", listOf(), []*ecdsa.PrivateKey{a.key}, false},
		{"threshold met", thresholdOf(2, ka, kb, kc), []*ecdsa.PrivateKey{a.key, c.key}, true},
		{"threshold not met", thresholdOf(2, ka, kb, kc), []*ecdsa.PrivateKey{c.key}, false},
		{"threshold of none", thresholdOf(0, ka), []*ecdsa.PrivateKey{a.key}, false},
		{"nested", listOf(ka, thresholdOf(1, kb, listOf(kc))), []*ecdsa.PrivateKey{a.key, c.key}, true},
		{"contract", Contract(1042), []*ecdsa.PrivateKey{a.key}, false},
		{"threshold with a contract", thresholdOf(1, Contract(1042), ka), []*ecdsa.PrivateKey{a.key}, true},
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
	if !NewSignatures(body, pairsBy(t, body, 5, a.key, b.key)).Signed(listOf(ka, kb)) {
		t.Error("prefixes of keys do not do")
	}
	if !NewSignatures(body, pairsBy(t, body, 0, a.key, b.key)).AmbiguousPrefix() || NewSignatures(body, pairsBy(t, body, 33, a.key, b.key)).AmbiguousPrefix() {
		t.Error("ambiguous prefixes are told wrongly")
	}
	s := NewSignatures(body, pairsBy(t, body, 33, a.key, b.key))
	if public, ok := s.Completes(b.address); !ok || len(public) != Secp256k1Size {
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
		signature := must.Get(crypto.Sign(crypto.Keccak256(body), key))(t)
		pairs = append(pairs, &hapi.SignaturePair{
			PubKeyPrefix: crypto.CompressPubkey(&key.PublicKey)[:prefix],
			Signature:    &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature[:64]},
		})
	}
	return pairs
}

func TestEd25519Signature(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := []byte(private.Public().(ed25519.PublicKey))
	body := []byte("what is signed")
	signature := ed25519.Sign(private, body)
	s := NewSignatures(body, []*hapi.SignaturePair{{PubKeyPrefix: public[:3], Signature: &hapi.SignaturePair_Ed25519{Ed25519: signature}}})
	key, err := FromPublic(public)
	if err != nil || !s.Signed(key) {
		t.Errorf("does not verify: %v", err)
	}
	if !bytes.Equal(s.Of(key), signature) || s.Of(Contract(1)) != nil || s.Of(publicKey(fresh(t, 1))) != nil || s.Count() != 1 {
		t.Error("the signature of a key is not what it is")
	}
	if _, err := FromPublic(public[1:]); err == nil {
		t.Error("31 bytes are a key")
	}
}

// TestValid: what is stored as a key has known kinds and lengths, ends, and is not empty.
func TestValid(t *testing.T) {
	k, ed := publicKey(fresh(t, 1)), Ed25519(make([]byte, Ed25519Size))
	deep := func(n int) *hapi.Key {
		key := ed
		for range n {
			key = listOf(key)
		}
		return key
	}
	for name, tt := range map[string]struct {
		key  *hapi.Key
		want bool
	}{
		"secp256k1":               {k, true},
		"Ed25519":                 {ed, true},
		"a contract":              {Contract(1042), true},
		"a list":                  {listOf(k, ed), true},
		"a threshold":             {thresholdOf(2, k, ed, Contract(5)), true},
		"as deep as can be":       {deep(MaxDepth), true},
		"as many as can be":       {listOf(slices.Repeat([]*hapi.Key{ed}, Max-1)...), true},
		"none":                    {nil, false},
		"no kind":                 {&hapi.Key{}, false},
		"a short one":             {Ed25519(make([]byte, 31)), false},
		"no point of the curve":   {Secp256k1(make([]byte, Secp256k1Size)), false},
		"of nobody":               {Hollow(), false},
		"a threshold of none":     {thresholdOf(0, k), false},
		"a threshold of too many": {thresholdOf(2, k), false},
		"a bad one among others":  {listOf(k, listOf(ed, Hollow())), false},
		"too deep":                {deep(MaxDepth + 1), false},
		"too many":                {listOf(slices.Repeat([]*hapi.Key{ed}, Max)...), false},
	} {
		if Valid(tt.key) != tt.want {
			t.Errorf("%s: %v", name, !tt.want)
		}
	}
	if !Empty(Hollow()) || Empty(listOf(k)) || Empty(k) || Empty(nil) || !IsContract(Contract(5)) || IsContract(k) {
		t.Error("a kind is told wrongly")
	}
	if !Contains([]*hapi.Key{ed, publicKey(fresh(t, 1))}, k) || Contains([]*hapi.Key{ed}, k) {
		t.Error("keys are not compared by what they are")
	}
}
