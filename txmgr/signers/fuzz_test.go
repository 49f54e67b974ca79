package signers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/internal/secret"
)

// Whatever stands in a list of keys is read or refused, and an error never shows a key.
func FuzzKeyLists(f *testing.F) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for _, seed := range []string{key, "0x" + key, key + "," + key, key + "\n0x01", `["` + key + `"]`, `["` + key + `"`, `[1]`, key + "00", "", ";;", key[:40], "0x" + strings.Repeat("f", 64), strings.Repeat("0", 64)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, onlyJSON bool) {
		list, err := keysOf("NAME", secret.String(text), onlyJSON)
		if err == nil {
			for _, s := range list {
				if s.Address() == [20]byte{} || s.Source() != "env" {
					t.Errorf("a key of %s from %s", s.Address(), s.Source())
				}
			}
			return
		}
		if len(list) > 0 || !strings.HasPrefix(err.Error(), "NAME") {
			t.Errorf("%d keys and %v", len(list), err)
		}
		for at := 0; at+16 <= len(key); at += 8 {
			if strings.Contains(text, key[at:at+16]) && strings.Contains(err.Error(), key[at:at+16]) {
				t.Errorf("the error shows a key: %v", err)
			}
		}
	})
}

// Whatever stands in the list of NEAR's keys is read or refused, and an error never shows a key.
func FuzzNEARKeyLists(f *testing.F) {
	const key = "3D4YudUahN1nawWogh8pAKSj92sUNMdbZGjn7kERKzYoTy8tnFQuwoGUC51DowKqorvkr2pytJSnwuSbsNVfqygr"
	for _, seed := range []string{
		`{"relayer.near":["ed25519:` + key + `"]}`, `{"relayer.near":["ed25519:` + key + `","ed25519:` + key + `"]}`, `{"a":[]}`, `{"":["x"]}`, `["ed25519:` + key + `"]`,
		`{"relayer.near":"ed25519:` + key + `"}`, `{"relayer.near":["` + key + `"]}`, `{"relayer.near":["ed25519:` + key[:40] + `"]}`, "ed25519:" + key, `{"relayer.near":["secp256k1:` + key + `"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := OpenNEAR(Config{NEARKeys: secret.String(text)})
		if err == nil {
			for _, k := range list {
				if !strings.Contains(k.Account(), "/") || strings.Contains(k.Account(), key[:16]) {
					t.Errorf("a key of %s", k.Account())
				}
			}
			return
		}
		if len(list) > 0 || !strings.HasPrefix(err.Error(), "TXM_NEAR_KEYS") {
			t.Errorf("%d keys and %v", len(list), err)
		}
		for at := 0; at+16 <= len(key); at += 8 {
			if strings.Contains(text, key[at:at+16]) && strings.Contains(err.Error(), key[at:at+16]) {
				t.Errorf("the error shows a key: %v", err)
			}
		}
	})
}

// Whatever a key service answers as its public key is a point of the curve, or refused.
func FuzzPublicKey(f *testing.F) {
	key := must.Get(crypto.GenerateKey())(f)
	curve := must.Get(asn1.Marshal(oidSecp256k1))(f)
	point := crypto.FromECDSAPub(&key.PublicKey)
	der := must.Get(asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{pkix.AlgorithmIdentifier{Algorithm: oidPublicKey, Parameters: asn1.RawValue{FullBytes: curve}}, asn1.BitString{Bytes: point, BitLength: 8 * len(point)}}))(f)
	if got, err := publicKey(der); err != nil || !got.Equal(&key.PublicKey) {
		f.Fatalf("a good key gave %v", err)
	}
	f.Add(der)
	f.Add(der[:len(der)-1])
	f.Add(append(slices.Clone(der), 0))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, read := range []func([]byte) (*ecdsa.PublicKey, error){publicKey, pemKey} {
			got, err := read(raw)
			if err != nil {
				continue
			}
			if again, err := crypto.UnmarshalPubkey(crypto.FromECDSAPub(got)); err != nil || !again.Equal(got) {
				t.Errorf("%x is not on the curve: %v", raw, err)
			}
		}
	})
}

// Whatever Vault answers is read or refused.
func FuzzVaultAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"keys":{"1":{"public_key":"-----BEGIN PUBLIC KEY-----"}}}}`, `{"data":{"keys":{"1":"2026-01-31"}}}`, `{"data":{"keys":[]}}`, `{"data":{"signature":"vault:v1:AQID"}}`,
		`{"data":{"signature":"vault:v1"}}`, `{"data":{"signature":1}}`, `{"data":null}`, `{}`, `null`, `no JSON`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if key, version, err := vaultPublicKey([]byte(text), 1); (key == "") != (err != nil) || err == nil && version != 1 {
			t.Errorf("%s gave the key %q and %v", text, key, err)
		}
		if _, err := vaultSignature([]byte(text)); err == nil && !strings.Contains(text, "signature") && !strings.Contains(text, `\u`) {
			t.Errorf("%s is a signature", text)
		}
	})
}

// Whatever a key service answers as a signature is refused, or made one of its key.
func FuzzDER(f *testing.F) {
	key := must.Get(crypto.GenerateKey())(f)
	digest, address := crypto.Keccak256Hash([]byte("x")), crypto.PubkeyToAddress(key.PublicKey)
	signature := must.Get(crypto.Sign(digest.Bytes(), key))(f)
	f.Add(must.Get(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])}))(f))
	f.Add([]byte{0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, der []byte) {
		r, s, err := parseDER(der)
		if err != nil {
			return
		}
		if out, err := recoverable(r, s, digest, address); err == nil && verify(address, digest, out) != nil {
			t.Fatalf("%x became %x, which is not of the key", der, out)
		}
	})
}

func nearSecret(t *testing.T, curve string) (text string, public near.PublicKey) {
	t.Helper()
	text = curve + ":" + near.EncodeBase58(bytes.Repeat([]byte{8}, 32))
	key := must.Get(near.ParseSecretKey(text))(t)
	return text, key.Public()
}

func TestNEARKeys(t *testing.T) {
	ed, edPublic := nearSecret(t, "ed25519")
	secp, secpPublic := nearSecret(t, "secp256k1")
	list, err := OpenNEAR(Config{
		NEARKeys:     secret.String(fmt.Sprintf(`{"relayer.near":[%q,%q]}`, ed, secp)),
		NEARKeysFile: secret.String(fmt.Sprintf(`{"other.near":[%q]}`, ed)),
	})
	if err != nil || len(list) != 3 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	unsigned := []byte("a transaction")
	digest := sha256.Sum256(unsigned)
	for i, want := range []struct {
		account string
		public  near.PublicKey
	}{{"relayer.near", edPublic}, {"relayer.near", secpPublic}, {"other.near", edPublic}} {
		key := list[i]
		if key.Account() != want.account+"/"+want.public.String() {
			t.Errorf("key %d is %s", i, key.Account())
		}
		raw := must.Get(key.Sign(t.Context(), unsigned))(t)
		if s, err := near.NewSignature(want.public.Curve, raw); err != nil || !want.public.Verify(digest[:], s) {
			t.Errorf("key %d: its signature is not its own (%v)", i, err)
		}
		if shown := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Contains(shown, ed[8:]) || strings.Contains(shown, secp[10:]) {
			t.Errorf("key %d shows itself", i)
		}
	}
}

// TestNEARKeyErrors checks that an error shows nothing of a key.
func TestNEARKeyErrors(t *testing.T) {
	text, _ := nearSecret(t, "ed25519")
	for name, setting := range map[string]string{
		"no JSON":    text,
		"a list":     fmt.Sprintf("[%q]", text),
		"no account": fmt.Sprintf(`{"A b":[%q]}`, text),
		"no key":     fmt.Sprintf(`{"relayer.near":[%q]}`, text+"0"),
		"twice":      fmt.Sprintf(`{"relayer.near":[%q,%q]}`, text, text),
	} {
		list, err := OpenNEAR(Config{NEARKeys: secret.String(setting)})
		if err == nil {
			t.Errorf("%s: %d keys", name, len(list))
		} else if !strings.Contains(err.Error(), "TXM_NEAR_KEYS") || strings.Contains(err.Error(), text[8:30]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
