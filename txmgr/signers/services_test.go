package signers_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
)

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
