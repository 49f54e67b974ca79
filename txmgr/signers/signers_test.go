package signers_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/txmgr/signers"
)

const (
	keyA = "105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"
	keyB = "2e1d968b041d84dd120a5860cee60cd83f9374ef527ca86996317ada3d0d03e7"
)

func address(t *testing.T, key string) common.Address {
	t.Helper()
	k := must.Get(crypto.HexToECDSA(key))(t)
	return crypto.PubkeyToAddress(k.PublicKey)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Every way to give a key gives its address, in the order of the settings.
func TestEveryWayToGiveAKey(t *testing.T) {
	a, b := address(t, keyA), address(t, keyB)
	file := write(t, "key", "0x"+keyB+"\n")
	folder := t.TempDir()
	parsed, _ := crypto.HexToECDSA(keyA)
	store := keystore.NewKeyStore(folder, keystore.LightScryptN, keystore.LightScryptP)
	must.Get(store.ImportECDSA(parsed, "open sesame"))(t)
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
			set := must.Get(signers.Open(t.Context(), test.config))(t)
			if len(set) != len(test.want) {
				t.Fatalf("%d signers, want %v", len(set), test.want)
			}
			for n, address := range test.want {
				checkSignature(t, set[n], address)
			}
		})
	}
}

func checkSignature(t *testing.T, signer signers.Signer, address common.Address) {
	t.Helper()
	if signer.Address() != address || signer.Account() != address.Hex() {
		t.Fatalf("a signer of %s, want %s", signer.Account(), address)
	}
	for i := range 4 {
		unsigned := []byte{0xf8, byte(i)}
		signature := must.Get(signer.Sign(t.Context(), unsigned))(t)
		key, err := crypto.SigToPub(crypto.Keccak256(unsigned), signature)
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
	must.Get(keystore.NewKeyStore(folder, keystore.LightScryptN, keystore.LightScryptP).ImportECDSA(parsed, "right"))(t)
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
	set := must.Get(signers.Open(t.Context(), config))(t)
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range []any{config, &config, set, set[0], []any{set[0]}} {
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
		"web3signer": func(t *testing.T, s *service) signers.Config {
			server := httptest.NewServer(s.web3signer(""))
			t.Cleanup(server.Close)
			return signers.Config{Web3SignerURL: secret.URL(server.URL), Web3SignerKeys: envx.Strings{crypto.PubkeyToAddress(s.key.PublicKey).Hex()}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(ctx context.Context, s *service) ([]signers.Signer, error) {
				config := configure(t, s)
				config.Timeout = envx.Millis(time.Minute)
				return signers.Open(ctx, config)
			}
			good := newService(t)
			set := must.Get(open(t.Context(), good))(t)
			want := crypto.PubkeyToAddress(good.key.PublicKey)
			if len(set) != 1 || set[0].Source() != name {
				t.Fatalf("the signers are %v", set)
			}
			checkSignature(t, set[0], want)
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
			if _, err := set[0].Sign(t.Context(), []byte{1}); err == nil {
				t.Error("no signature passed for one")
			}
		})
	}
}

// A key service is a program of others: whatever it does, the signer says so soon, in few words and without a token.
func TestKeyServicesOfEveryKind(t *testing.T) {
	const token = "sesame-opens-this"
	s := newService(t)
	good := s.web3signer(token)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for elsewhere", r.URL)
	}))
	defer elsewhere.Close()
	for name, test := range map[string]struct {
		token   string
		handler http.HandlerFunc
		change  func(*signers.Config)
		want    string // in the error; "" for none
	}{
		"by its address":        {},
		"by its public key":     {change: func(c *signers.Config) { c.Web3SignerKeys[0] = hexutil.Encode(crypto.FromECDSAPub(&s.key.PublicKey)) }},
		"by its compressed key": {change: func(c *signers.Config) { c.Web3SignerKeys[0] = hexutil.Encode(crypto.CompressPubkey(&s.key.PublicKey)) }},
		"below a path":          {change: func(c *signers.Config) { c.Web3SignerURL += "/signer/" }, handler: http.StripPrefix("/signer", good).ServeHTTP},
		"another key":           {change: func(c *signers.Config) { c.Web3SignerKeys[0] = "0x00000000000000000000000000000000000000aa" }, want: "lists 1 keys, and not that one"},
		"a public key it does not have": {change: func(c *signers.Config) {
			c.Web3SignerKeys[0] = hexutil.Encode(crypto.FromECDSAPub(&newService(t).key.PublicKey))
		}, want: "no such key"},
		"another token":    {token: "another-token", want: "401: no: Bearer **********"},
		"another mode":     {handler: func(w http.ResponseWriter, r *http.Request) { up(w, r, http.NotFound) }, want: "it is up, so does it run in mode eth1"},
		"too much":         {handler: func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte{' '}, 2<<20)) }, want: "more than 1048576 bytes"},
		"a long complaint": {handler: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("no ", 1<<20), 500) }, want: "more than 1048576 bytes"},
		"silence":          {handler: func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, want: "deadline exceeded"},
		"drops":            {handler: drip, want: "deadline exceeded"},
		"a redirect":       {handler: http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, want: "answered 307"},
		"no JSON":          {handler: func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, want: "not a JSON array"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := good
			if test.handler != nil {
				handler = test.handler
			}
			server := httptest.NewServer(handler)
			defer server.Close()
			config := signers.Config{
				Web3SignerURL: secret.URL(server.URL), Web3SignerKeys: envx.Strings{crypto.PubkeyToAddress(s.key.PublicKey).Hex()},
				Web3SignerTokenFile: secret.String(cmp.Or(test.token, token) + "\n"), Timeout: envx.Millis(time.Minute),
			}
			if strings.Contains(test.want, "deadline") {
				config.Timeout = envx.Millis(50 * time.Millisecond)
			}
			if test.change != nil {
				test.change(&config)
			}
			must.Do(t, config.Validate())
			set, err := signers.Open(t.Context(), config)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 600 || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "another-token") {
					t.Errorf("error %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkSignature(t, set[0], crypto.PubkeyToAddress(s.key.PublicKey))
		})
	}
}

// up is a service that is up and does nothing else.
func up(w http.ResponseWriter, r *http.Request, otherwise http.HandlerFunc) {
	if r.URL.Path != "/upcheck" {
		otherwise(w, r)
	}
}

// drip answers a byte whenever the last one was read, for ever.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			w.Write([]byte{' '})
			w.(http.Flusher).Flush()
		}
	}
}

// A signer that asks for a certificate gets the one of the settings, and is believed by the authority of the settings.
func TestKeyServiceThatKnowsItsClients(t *testing.T) {
	s := newService(t)
	server := httptest.NewUnstartedServer(s.web3signer(""))
	server.StartTLS()
	defer server.Close()
	own := server.TLS.Certificates[0]
	clients := x509.NewCertPool()
	leaf := must.Get(x509.ParseCertificate(own.Certificate[0]))(t)
	clients.AddCert(leaf)
	server.TLS.ClientCAs, server.TLS.ClientAuth = clients, tls.RequireAnyClientCert
	pemOf := func(kind string, der []byte) secret.String {
		return secret.String(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(own.PrivateKey))(t)
	certificate, key := pemOf("CERTIFICATE", own.Certificate[0]), pemOf("PRIVATE KEY", keyDER)
	with := func(roots, certificate, key secret.String) error {
		config := signers.Config{
			Web3SignerURL: secret.URL(server.URL), Web3SignerKeys: envx.Strings{crypto.PubkeyToAddress(s.key.PublicKey).Hex()}, Timeout: envx.Millis(time.Minute),
			Web3SignerCA: roots, Web3SignerCert: certificate, Web3SignerCertKey: key,
		}
		_, err := signers.Open(t.Context(), config)
		return err
	}
	if err := with(certificate, certificate, key); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"certificate":             with("", certificate, key),
		"tls":                     with(certificate, "", ""),
		"TXM_WEB3SIGNER_CA_FILE":  with("none", "", ""),
		"TXM_WEB3SIGNER_KEY_FILE": with(certificate, certificate, "none"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := (signers.Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "TXM_SIGN_TIMEOUT_MS") {
		t.Errorf("error %v", err)
	}
	const key = "0x00000000000000000000000000000000000000aa"
	for _, test := range []struct{ url, key, want string }{
		{"http://signer:9000", "", "TXM_WEB3SIGNER_KEYS"},
		{"", key, "TXM_WEB3SIGNER_URL"},
		{"signer:9000", key, "TXM_WEB3SIGNER_URL"},
		{"file:///etc/passwd", key, "TXM_WEB3SIGNER_URL"},
		{"https://user:hunter2@signer:9000", key, "without a user"},
		{"https://signer:9000?token=hunter2", key, "without a user"},
		{"https://signer:9000", "0x12", "neither an address nor a public key"},
		{"https://signer:9000", "0x" + strings.Repeat("77", 64), "neither an address nor a public key"},
		{"https://signer:9000", "0x52908400098527886E0F7030069857D2E4169Ee7", "EIP-55"},
	} {
		config := signers.Config{Timeout: envx.Millis(time.Minute), Web3SignerURL: secret.URL(test.url)}
		if test.key != "" {
			config.Web3SignerKeys = envx.Strings{test.key}
		}
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q, %q: error %v, want %q", test.url, test.key, err, test.want)
		}
	}
}
