package signers_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// service holds one key and signs as key services do: DER, the low and the high s by
// turns. Spoil changes what goes out.
type service struct {
	key   *ecdsa.PrivateKey
	curve asn1.ObjectIdentifier
	spoil func(der []byte) []byte
	signs atomic.Int64
}

var secp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}

func newService(t *testing.T) *service {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	return &service{key: key, curve: secp256k1}
}

func (s *service) publicDER() []byte {
	curve, _ := asn1.Marshal(s.curve)
	der, _ := asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, Parameters: asn1.RawValue{FullBytes: curve}},
		asn1.BitString{Bytes: crypto.FromECDSAPub(&s.key.PublicKey), BitLength: 65 * 8},
	})
	return der
}

func (s *service) publicPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: s.publicDER()}))
}

func (s *service) sign(digest []byte) []byte {
	signature, err := crypto.Sign(digest, s.key)
	if err != nil {
		panic(err)
	}
	r, low := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])
	if s.signs.Add(1)%2 == 1 {
		low.Sub(crypto.S256().Params().N, low)
	}
	der, _ := asn1.Marshal(struct{ R, S *big.Int }{r, low})
	if s.spoil != nil {
		der = s.spoil(der)
	}
	return der
}

// aws speaks the JSON protocol of AWS KMS.
func (s *service) aws(t *testing.T) (endpoint string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ KeyId, Message, MessageType, SigningAlgorithm string }
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fail := func(kind string) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, kind)
		}
		switch err := json.NewDecoder(r.Body).Decode(&in); {
		case err != nil || r.Method != http.MethodPost:
			fail("SerializationException")
		case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKTEST/"):
			fail("IncompleteSignatureException")
		case in.KeyId != "alias/trader":
			fail("NotFoundException")
		case r.Header.Get("X-Amz-Target") == "TrentService.GetPublicKey":
			json.NewEncoder(w).Encode(map[string]any{"KeyId": in.KeyId, "KeySpec": "ECC_SECG_P256K1", "KeyUsage": "SIGN_VERIFY", "PublicKey": s.publicDER()})
		case r.Header.Get("X-Amz-Target") == "TrentService.Sign" && in.MessageType == "DIGEST" && in.SigningAlgorithm == "ECDSA_SHA_256":
			digest, _ := base64.StdEncoding.DecodeString(in.Message)
			json.NewEncoder(w).Encode(map[string]any{"KeyId": in.KeyId, "SigningAlgorithm": in.SigningAlgorithm, "Signature": s.sign(digest)})
		default:
			fail("ValidationException")
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKTEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "only for tests")
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("AWS_CONFIG_FILE", missing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", missing)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	return server.URL
}

const googleName = "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"

// google speaks the REST protocol of Google Cloud KMS, and of the token service that
// its client asks first.
func (s *service) google(t *testing.T) (endpoint string) {
	sum := func(b []byte) string {
		return fmt.Sprint(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("assertion") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"access_token":"of-the-test","token_type":"Bearer","expires_in":3600}`))
	})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer of-the-test" {
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no"}}`))
			return
		}
		var in struct {
			Digest struct {
				SHA256 []byte `json:"sha256"`
			}
			DigestCrc32c string
		}
		switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); {
		case r.Method == http.MethodGet && path == googleName+"/publicKey":
			text := s.publicPEM()
			json.NewEncoder(w).Encode(map[string]any{"name": googleName, "algorithm": "EC_SIGN_SECP256K1_SHA256", "pem": text, "pemCrc32c": sum([]byte(text))})
		case r.Method == http.MethodPost && path == googleName+":asymmetricSign" && json.NewDecoder(r.Body).Decode(&in) == nil:
			der := s.sign(in.Digest.SHA256)
			json.NewEncoder(w).Encode(map[string]any{"name": googleName, "signature": der, "signatureCrc32c": sum(der), "verifiedDigestCrc32c": in.DigestCrc32c == sum(in.Digest.SHA256)})
		default:
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"error":{"code":404,"status":"NOT_FOUND","message":"no such key"}}`))
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	login := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	der, _ := x509.MarshalPKCS8PrivateKey(login)
	account, _ := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "client_email": "t@p.iam.gserviceaccount.com", "private_key_id": "1", "client_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": server.URL + "/token",
	})
	file := filepath.Join(t.TempDir(), "account.json")
	must.Do(t, os.WriteFile(file, account, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	return server.URL
}

// vault speaks the API of a transit engine.
func (s *service) vault(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/transit/keys/trader", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{
			"type": "ecdsa-secp256k1", "latest_version": 2, "keys": map[string]any{
				"1": map[string]any{"name": "secp256k1", "public_key": "an older key"}, "2": map[string]any{"name": "secp256k1", "public_key": s.publicPEM()},
			},
		}})
	})
	mux.HandleFunc("POST /v1/transit/sign/trader/sha2-256", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Input      []byte `json:"input"`
			Prehashed  bool   `json:"prehashed"`
			Marshaling string `json:"marshaling_algorithm"`
			Version    int    `json:"key_version"`
		}
		if json.NewDecoder(r.Body).Decode(&in) != nil || !in.Prehashed || in.Marshaling != "asn1" || in.Version != 2 {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"errors":["invalid request"]}`))
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"signature": "vault:v2:" + base64.StdEncoding.EncodeToString(s.sign(in.Input)), "key_version": 2}})
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Vault-Token") != "sesame" || r.Header.Get("X-Vault-Request") != "true" {
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte(`{"errors":["permission denied"]}`))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN", "sesame")
}

// web3signer speaks the interface of Web3Signer in its mode eth1: a key is known by its public key, and what is sent is hashed
// before it is signed. Token, if there is one, is what a proxy before it asks for.
func (s *service) web3signer(token string) http.Handler {
	identifier := hexutil.Encode(crypto.FromECDSAPub(&s.key.PublicKey)[1:])
	mux := http.NewServeMux()
	mux.HandleFunc("GET /upcheck", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("OK")) })
	mux.HandleFunc("GET /api/v1/eth1/publicKeys", func(w http.ResponseWriter, _ *http.Request) {
		listed := identifier
		if !s.curve.Equal(secp256k1) {
			listed = "0x" + strings.Repeat("77", 64)
		}
		json.NewEncoder(w).Encode([]string{"0x" + strings.Repeat("00", 64), "what is that", listed})
	})
	mux.HandleFunc("POST /api/v1/eth1/sign/{identifier}", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Data hexutil.Bytes }
		switch {
		case r.PathValue("identifier") != identifier:
			http.Error(w, "Resource not found", http.StatusNotFound)
		case json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Data) == 0:
			http.Error(w, "Bad Request", http.StatusBadRequest)
		default:
			der := s.sign(crypto.Keccak256(in.Data))
			var rs struct{ R, S *big.Int }
			if _, err := asn1.Unmarshal(der, &rs); err != nil {
				fmt.Fprintf(w, "0x%x", der)
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintf(w, "0x%064x%064x1b", rs.R, rs.S) // v says 27, which is right every second time
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
