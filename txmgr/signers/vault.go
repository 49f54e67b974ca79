package signers

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/secret"
)

// vault opens the keys in a transit engine of Vault.
//
// The engine that Vault brings has no secp256k1 keys; engines with the same API have
// them. A key of another curve is refused by name at start.
func (c Config) vault(ctx context.Context) ([]Signer, error) {
	if len(c.VaultKeys) == 0 {
		return nil, nil
	}
	service, err := vaultService(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("TXM_VAULT_KEYS: %w", err)
	}
	return each("TXM_VAULT_KEYS", c.VaultKeys, func(text string) (Signer, error) { return c.vaultKey(ctx, service, text) })
}

// vaultService reads the variables of Vault's own tools, which say where Vault is and who we are to it.
func vaultService(env func(string) string) (*web, error) {
	for _, name := range []string{"VAULT_SRV_LOOKUP", "VAULT_HEADERS", "VAULT_MFA"} {
		if env(name) != "" {
			return nil, fmt.Errorf("%s: the manager does not know that variable of Vault's tools; unset it", name)
		}
	}
	read := map[string]bool{}
	for _, name := range []string{"VAULT_SKIP_VERIFY", "VAULT_DISABLE_REDIRECTS"} {
		if text := env(name); text != "" {
			on, err := strconv.ParseBool(text)
			if err != nil {
				return nil, fmt.Errorf("%s: want true or false", name)
			}
			read[name] = on
		}
	}
	var files [3]string
	for i, name := range []string{"VAULT_CACERT", "VAULT_CLIENT_CERT", "VAULT_CLIENT_KEY"} {
		if path := env(name); path != "" {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			files[i] = string(content)
		}
	}
	roots := files[0]
	roots = cmp.Or(roots, env("VAULT_CACERT_BYTES"))
	if folder := env("VAULT_CAPATH"); folder != "" && roots == "" {
		list, err := keyFiles(folder)
		if err != nil {
			return nil, fmt.Errorf("VAULT_CAPATH: %w", err)
		}
		for _, path := range list {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("VAULT_CAPATH: %w", err)
			}
			roots += string(content) + "\n"
		}
	}
	trust, err := trusts(roots, files[1], files[2])
	if err != nil {
		return nil, fmt.Errorf("VAULT_CACERT, VAULT_CLIENT_CERT, VAULT_CLIENT_KEY: %w", err)
	}
	trust.ServerName, trust.InsecureSkipVerify = env("VAULT_TLS_SERVER_NAME"), read["VAULT_SKIP_VERIFY"]

	address, socket := firstOf(env, "VAULT_AGENT_ADDR", "VAULT_ADDR"), ""
	address = cmp.Or(address, "https://127.0.0.1:8200")
	if path, ok := strings.CutPrefix(address, "unix://"); ok { // of an agent
		address, socket = "http://localhost", filepath.Clean(path)
	}
	service, err := newWeb(address, trust)
	if err != nil {
		return nil, fmt.Errorf("VAULT_ADDR: %w", err)
	}
	transport := service.client.Transport.(*http.Transport)
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	if text := firstOf(env, "VAULT_PROXY_ADDR", "VAULT_HTTP_PROXY"); text != "" {
		proxy, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("VAULT_PROXY_ADDR: not a URL") // the error would quote a password
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	if !read["VAULT_DISABLE_REDIRECTS"] {
		service.client.CheckRedirect = toTheActive
	}
	service.header.Set("X-Vault-Request", "true") // agents ask for it, so that no browser can be made to send one
	if token := env("VAULT_TOKEN"); token != "" {
		service.token = secret.String(token)
		service.header.Set("X-Vault-Token", token)
	}
	if namespace := env("VAULT_NAMESPACE"); namespace != "" {
		service.header.Set("X-Vault-Namespace", namespace)
	}
	return service, nil
}

// toTheActive follows a standby's one redirect to the node that is active, and none that drops TLS.
func toTheActive(next *http.Request, before []*http.Request) error {
	if len(before) > 1 || before[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return http.ErrUseLastResponse
	}
	return nil
}

func firstOf(env func(string) string, names ...string) string {
	for _, name := range names {
		if text := env(name); text != "" {
			return text
		}
	}
	return ""
}

func (c Config) vaultKey(ctx context.Context, service *web, text string) (Signer, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return nil, errors.New("want mount/name or mount/name/version")
	}
	mount, name := parts[0], parts[1]
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := service.call(ctx, http.MethodGet, nil, "v1", mount, "keys", name)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.status == http.StatusNotFound:
		return nil, errors.New("there is no such key")
	case err != nil:
		return nil, err
	}
	version := 0
	if len(parts) == 3 {
		if version, err = strconv.Atoi(parts[2]); err != nil || version < 1 {
			return nil, fmt.Errorf("%q is not a version", parts[2])
		}
	}
	public, version, err := vaultPublicKey(answer, version)
	if err != nil {
		return nil, err
	}
	key, err := pemKey([]byte(public))
	if err != nil {
		return nil, err
	}
	return newRemote("vault", key, c.timeout(), signsDigest(func(ctx context.Context, digest common.Hash) ([]byte, error) {
		in := map[string]any{"input": digest.Bytes(), "prehashed": true, "marshaling_algorithm": "asn1", "key_version": version}
		signed, err := service.call(ctx, http.MethodPost, in, "v1", mount, "sign", name, "sha2-256")
		if err != nil {
			return nil, err
		}
		return vaultSignature(signed)
	})), nil
}

// vaultPublicKey finds a version's public key in the answer to a key's name; 0 is the latest version.
func vaultPublicKey(answer []byte, version int) (text string, found int, err error) {
	var key struct {
		Data struct {
			Latest int                        `json:"latest_version"`
			Keys   map[string]json.RawMessage `json:"keys"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &key); err != nil {
		return "", 0, fmt.Errorf("the answer lists no keys: %w", err)
	}
	version = cmp.Or(version, key.Data.Latest)
	var one struct {
		PublicKey string `json:"public_key"`
	}
	if err := json.Unmarshal(key.Data.Keys[strconv.Itoa(version)], &one); err != nil || one.PublicKey == "" {
		return "", 0, fmt.Errorf("version %d has no public key", version)
	}
	return one.PublicKey, version, nil
}

// vaultSignature takes the DER out of "vault:v1:base64".
func vaultSignature(answer []byte) ([]byte, error) {
	var signed struct {
		Data struct {
			Signature string `json:"signature"`
		} `json:"data"`
	}
	if json.Unmarshal(answer, &signed) != nil {
		return nil, errors.New("the answer has no signature")
	}
	parts := strings.SplitN(signed.Data.Signature, ":", 3)
	if len(parts) != 3 || parts[0] != "vault" {
		return nil, errors.New("the answer has no signature")
	}
	return base64.StdEncoding.DecodeString(parts[2])
}
