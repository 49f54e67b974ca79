package signers_test

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/envx"
	"lockstep/internal/secret"
	"lockstep/txmgr/signers"
)

const (
	keyA = "105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"
	keyB = "2e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7"
)

func address(t *testing.T, key string) common.Address {
	t.Helper()
	k, err := crypto.HexToECDSA(key)
	if err != nil {
		t.Fatal(err)
	}
	return crypto.PubkeyToAddress(k.PublicKey)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every way to give a key gives its address, in the order of the settings.
func TestEveryWayToGiveAKey(t *testing.T) {
	a, b := address(t, keyA), address(t, keyB)
	file := write(t, "key", "0x"+keyB+"\n")
	folder := t.TempDir()
	parsed, _ := crypto.HexToECDSA(keyA)
	store := keystore.NewKeyStore(folder, keystore.LightScryptN, keystore.LightScryptP)
	if _, err := store.ImportECDSA(parsed, "open sesame"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config signers.Config
		env    []string
		want   []common.Address
	}{
		"none":               {},
		"commas":             {config: signers.Config{Keys: secret.String(keyA + ", 0x" + keyB)}, want: []common.Address{a, b}},
		"array":              {config: signers.Config{Keys: secret.String(`["` + keyA + `","0X` + keyB + `"]`)}, want: []common.Address{a, b}},
		"json":               {config: signers.Config{KeysJSON: secret.String(`["` + keyB + `"]`)}, want: []common.Address{b}},
		"one":                {config: signers.Config{Key: keyA}, want: []common.Address{a}},
		"file of one":        {config: signers.Config{KeyFile: secret.String(keyA + "\n")}, want: []common.Address{a}},
		"lines":              {config: signers.Config{KeysFile: secret.String(keyB + "\n" + keyA + "\n")}, want: []common.Address{b, a}},
		"numbered":           {env: []string{"RELAYER_PRIVATE_KEY_10=" + keyB, "RELAYER_PRIVATE_KEY_2=" + keyA, "RELAYER_PRIVATE_KEY_X=zz", "RELAYER_PRIVATE_KEY_3="}, want: []common.Address{a, b}},
		"numbered with file": {env: []string{"RELAYER_PRIVATE_KEY_1=" + keyA, "RELAYER_PRIVATE_KEY_0_FILE=" + file}, want: []common.Address{b, a}},
		"key files":          {config: signers.Config{Keystore: folder, KeystorePasswordFile: "open sesame\n"}, want: []common.Address{a}},
		"all at once":        {config: signers.Config{Key: keyB, Keystore: folder, KeystorePassword: "open sesame"}, want: []common.Address{b, a}},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Timeout = envx.Millis(time.Minute)
			test.config.Numbered = signers.Numbered(test.env)
			set, err := signers.Open(t.Context(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(set.Addresses()) != fmt.Sprint(test.want) {
				t.Fatalf("addresses %v, want %v", set.Addresses(), test.want)
			}
			for _, address := range test.want {
				checkSignature(t, set, address)
			}
		})
	}
}

func checkSignature(t *testing.T, set *signers.Set, address common.Address) {
	t.Helper()
	signer, ok := set.Get(address)
	if !ok {
		t.Fatalf("no signer of %s", address)
	}
	for i := range 4 {
		digest := crypto.Keccak256Hash([]byte{byte(i)})
		signature, err := signer.Sign(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		key, err := crypto.SigToPub(digest.Bytes(), signature)
		if err != nil || crypto.PubkeyToAddress(*key) != address {
			t.Fatalf("the signature recovers to another key (%v)", err)
		}
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])
		if !crypto.ValidateSignatureValues(signature[64], r, s, true) {
			t.Fatalf("s is not low, or v not 0 or 1: %x", signature)
		}
	}
}

// What is wrong with a key is said by setting and position, never by the key.
func TestWrongKeysAreRefusedWithoutShowingThem(t *testing.T) {
	broken := keyA[:63] + "g"
	parsed, _ := crypto.HexToECDSA(keyA)
	folder, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	if _, err := keystore.NewKeyStore(folder, keystore.LightScryptN, keystore.LightScryptP).ImportECDSA(parsed, "right"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config signers.Config
		env    []string
		want   string
	}{
		"not hexadecimal":    {config: signers.Config{Keys: secret.String(keyB + "," + broken)}, want: "RELAYER_PRIVATE_KEYS[1]"},
		"too short":          {config: signers.Config{Key: secret.String(keyA[:62])}, want: "RELAYER_PRIVATE_KEY: not a private key"},
		"zero":               {config: signers.Config{Key: secret.String(strings.Repeat("0", 64))}, want: "RELAYER_PRIVATE_KEY"},
		"above the order":    {config: signers.Config{Key: secret.String(strings.Repeat("f", 64))}, want: "RELAYER_PRIVATE_KEY"},
		"broken array":       {config: signers.Config{Keys: secret.String(`["` + keyA + `"`)}, want: "JSON array"},
		"array of numbers":   {config: signers.Config{KeysJSON: `[1]`}, want: "RELAYER_PRIVATE_KEYS_JSON"},
		"json without array": {config: signers.Config{KeysJSON: keyA}, want: "RELAYER_PRIVATE_KEYS_JSON: want a JSON array"},
		"twice":              {config: signers.Config{Key: keyA, Keys: keyA}, want: "given twice"},
		"numbered":           {env: []string{"RELAYER_PRIVATE_KEY_7=" + broken}, want: "RELAYER_PRIVATE_KEY_7"},
		"file missing":       {env: []string{"RELAYER_PRIVATE_KEY_7_FILE=" + missing}, want: "RELAYER_PRIVATE_KEY_7_FILE"},
		"wrong password":     {config: signers.Config{Keystore: folder, KeystorePassword: "wrong"}, want: "TXM_KEYSTORE_PASSWORD"},
		"no key file":        {config: signers.Config{Keystore: write(t, "key.json", keyA)}, want: "version 3"},
		"empty folder":       {config: signers.Config{Keystore: t.TempDir()}, want: "no key file"},
		"folder missing":     {config: signers.Config{Keystore: missing}, want: "TXM_KEYSTORE"},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Timeout = envx.Millis(time.Minute)
			test.config.Numbered = signers.Numbered(test.env)
			_, err := signers.Open(t.Context(), test.config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			for _, part := range []string{keyA[:16], keyA[40:60], keyB[:16], "right"} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("the error shows a part of a key: %v", err)
				}
			}
		})
	}
}

// No way of printing, logging or encoding a signer or the settings shows a key.
func TestNothingShowsAKey(t *testing.T) {
	config := signers.Config{Key: keyA, Keys: keyB, Timeout: envx.Millis(time.Minute), Numbered: map[string]secret.String{"RELAYER_PRIVATE_KEY_0": "3e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7"}}
	set, err := signers.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	signer, _ := set.Get(address(t, keyA))
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range []any{config, &config, set, *set, signer, []any{signer}} {
		fmt.Fprintf(&out, "%v %+v %#v %s\n", v, v, v, v)
		log.Info("m", "v", v)
		encoded, _ := json.Marshal(v)
		out.Write(encoded)
	}
	decimal := func(key string) string { n, _ := new(big.Int).SetString(key, 16); return n.String() }
	for _, key := range []string{keyA, keyB, "3e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7"} {
		if text := strings.ToLower(out.String()); strings.Contains(text, key[:20]) || strings.Contains(text, decimal(key)[:20]) {
			t.Errorf("a key is shown: %s", text)
		}
	}
}

func TestKeyServices(t *testing.T) {
	for name, configure := range map[string]func(*testing.T, *service) signers.Config{
		"aws": func(t *testing.T, s *service) signers.Config {
			return signers.Config{AWSKeys: envx.Strings{"alias/trader"}, AWSEndpoint: s.aws(t)}
		},
		"google": func(t *testing.T, s *service) signers.Config {
			return signers.Config{GoogleKeys: envx.Strings{googleName}, GoogleEndpoint: s.google(t)}
		},
		"vault": func(t *testing.T, s *service) signers.Config {
			s.vault(t)
			return signers.Config{VaultKeys: envx.Strings{"transit/trader"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(ctx context.Context, s *service) (*signers.Set, error) {
				config := configure(t, s)
				config.Timeout = envx.Millis(time.Minute)
				return signers.Open(ctx, config)
			}
			good := newService(t)
			set, err := open(t.Context(), good)
			if err != nil {
				t.Fatal(err)
			}
			want := crypto.PubkeyToAddress(good.key.PublicKey)
			if len(set.Addresses()) != 1 || set.Addresses()[0] != want {
				t.Fatalf("addresses %v, want %s", set.Addresses(), want)
			}
			checkSignature(t, set, want)
			signer, _ := set.Get(want)
			if signer.Source() != name {
				t.Errorf("source %q", signer.Source())
			}
			if good.signs.Load() < 4 {
				t.Errorf("the service signed %d times only", good.signs.Load())
			}
			other := newService(t)
			for fault, spoil := range map[string]func(*service){
				"another key signs": func(s *service) {
					s.spoil = func([]byte) []byte { return other.sign(crypto.Keccak256([]byte("x"))) }
				},
				"cut":           func(s *service) { s.spoil = func(der []byte) []byte { return der[:len(der)-3] } },
				"another curve": func(s *service) { s.curve = asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7} },
			} {
				bad := newService(t)
				spoil(bad)
				if _, err := open(t.Context(), bad); err == nil {
					t.Errorf("%s: accepted", fault)
				}
			}
			// What the service refuses, the signer says.
			good.spoil = func([]byte) []byte { return nil }
			if _, err := signer.Sign(t.Context(), common.Hash{1}); err == nil {
				t.Error("no signature passed for one")
			}
		})
	}
}

func TestUnknownAddress(t *testing.T) {
	set, err := signers.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	if signer, ok := set.Get(common.Address{1}); ok {
		t.Errorf("an empty set has the signer %v", signer)
	}
}

func TestValidate(t *testing.T) {
	if err := (signers.Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "TXM_SIGN_TIMEOUT_MS") {
		t.Errorf("error %v", err)
	}
}

func FuzzFromDER(f *testing.F) {
	key, _ := crypto.HexToECDSA(keyA)
	digest := crypto.Keccak256Hash([]byte("x"))
	address := crypto.PubkeyToAddress(key.PublicKey)
	s := &service{key: key, curve: secp256k1}
	f.Add(s.sign(digest.Bytes()))
	f.Add(s.sign(digest.Bytes()))
	f.Add([]byte{0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, der []byte) {
		out, err := signers.FromDER(der, digest, address)
		if err != nil {
			return
		}
		recovered, err := crypto.SigToPub(digest.Bytes(), out)
		if err != nil || crypto.PubkeyToAddress(*recovered) != address {
			t.Fatalf("%x became %x, which is not of the key", der, out)
		}
	})
}
