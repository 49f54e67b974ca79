package signers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/envx"
	"lockstep/internal/secret"
)

// SignatureLength is the length of a signature: r and s of 32 bytes, and v, which is 0 or 1.
const SignatureLength = crypto.SignatureLength

// Signer signs for one address.
type Signer interface {
	// Address is the account that the key controls, Account the same as text.
	Address() common.Address
	Account() string
	// Source tells where the key is: env, keystore, aws, google, vault or web3signer.
	Source() string
	// Sign returns r, s and v for the Keccak-256 hash of a transaction without its signature, s low and v 0 or 1.
	// What a service signed is checked against the address before it is returned. It is safe for concurrent use.
	Sign(ctx context.Context, unsigned []byte) ([]byte, error)
}

// identity is what a signer tells of itself.
type identity struct {
	address common.Address
	source  string
}

func (i identity) Address() common.Address { return i.address }
func (i identity) Account() string         { return i.address.Hex() }
func (i identity) Source() string          { return i.source }

// distinct refuses an address that comes up more than once.
func distinct(list []Signer) error {
	by := map[common.Address]Signer{}
	for _, s := range list {
		if other, ok := by[s.Address()]; ok {
			return fmt.Errorf("%s is given twice: by %s and by %s", s.Address(), other.Source(), s.Source())
		}
		by[s.Address()] = s
	}
	return nil
}

// prove asks a signer for a signature and checks it: a key that somebody else holds
// may be disabled, of another curve, or not ours to use, and that should show at start.
func prove(ctx context.Context, s Signer) error {
	question := []byte("lockstep: is this key usable?") // nothing that a chain takes for a transaction
	signature, err := s.Sign(ctx, question)
	if err != nil {
		return err
	}
	return verify(s.Address(), crypto.Keccak256Hash(question), signature)
}

func verify(address common.Address, digest common.Hash, signature []byte) error {
	key, err := crypto.SigToPub(digest.Bytes(), signature)
	if err != nil {
		return fmt.Errorf("signature of %s: %w", address, err)
	}
	if got := crypto.PubkeyToAddress(*key); got != address {
		return fmt.Errorf("signature is not of %s", address)
	}
	return nil
}

// Config says where the keys are.
type Config struct {
	// Private keys that the transaction manager signs with: a JSON array, or separated by commas.
	Keys secret.String `env:"RELAYER_PRIVATE_KEYS"`
	// File with those keys.
	KeysFile secret.String `env:"RELAYER_PRIVATE_KEYS_FILE,file"`
	// Private keys as a JSON array of strings.
	KeysJSON secret.String `env:"RELAYER_PRIVATE_KEYS_JSON"`
	// File with that array.
	KeysJSONFile secret.String `env:"RELAYER_PRIVATE_KEYS_JSON_FILE,file"`
	// One private key. More of them: RELAYER_PRIVATE_KEY_0, RELAYER_PRIVATE_KEY_1 and so on, each with a _FILE twin.
	Key secret.String `env:"RELAYER_PRIVATE_KEY"`
	// File with one private key.
	KeyFile secret.String `env:"RELAYER_PRIVATE_KEY_FILE,file"`
	// Key file of version 3, as geth writes them, or a folder of such files.
	Keystore string `env:"TXM_KEYSTORE"`
	// Password of the key files.
	KeystorePassword secret.String `env:"TXM_KEYSTORE_PASSWORD"`
	// File with that password.
	KeystorePasswordFile secret.String `env:"TXM_KEYSTORE_PASSWORD_FILE,file"`
	// Keys in AWS KMS: key ids or ARNs of keys of type ECC_SECG_P256K1 for signing. Region and credentials are found as by all AWS tools.
	AWSKeys envx.Strings `env:"TXM_AWS_KMS_KEYS"`
	// Another endpoint of AWS KMS, such as that of a private link.
	AWSEndpoint string `env:"TXM_AWS_KMS_ENDPOINT"`
	// Keys in Google Cloud KMS: resource names of key versions of algorithm EC_SIGN_SECP256K1_SHA256. Credentials are found as by all Google Cloud tools.
	GoogleKeys envx.Strings `env:"TXM_GOOGLE_KMS_KEYS"`
	// Another endpoint of Google Cloud KMS.
	GoogleEndpoint string `env:"TXM_GOOGLE_KMS_ENDPOINT"`
	// Keys in Vault, as mount/name or mount/name/version, in a transit engine that has secp256k1 keys. VAULT_ADDR, VAULT_AGENT_ADDR, VAULT_TOKEN, VAULT_NAMESPACE, those of TLS (VAULT_CACERT, VAULT_CACERT_BYTES, VAULT_CAPATH, VAULT_CLIENT_CERT, VAULT_CLIENT_KEY, VAULT_TLS_SERVER_NAME, VAULT_SKIP_VERIFY), VAULT_PROXY_ADDR and VAULT_DISABLE_REDIRECTS apply, as with Vault's own tools.
	VaultKeys envx.Strings `env:"TXM_VAULT_KEYS"`
	// Keys behind Web3Signer's HTTP interface, in its mode eth1: addresses, or public keys where the service does not let the manager list them.
	Web3SignerKeys envx.Strings `env:"TXM_WEB3SIGNER_KEYS"`
	// Where that service is, such as https://signer:9000.
	Web3SignerURL secret.URL `env:"TXM_WEB3SIGNER_URL"`
	// Token for it, sent as Authorization: Bearer. Web3Signer itself asks for none; a proxy before it may.
	Web3SignerToken secret.String `env:"TXM_WEB3SIGNER_TOKEN"`
	// File with that token.
	Web3SignerTokenFile secret.String `env:"TXM_WEB3SIGNER_TOKEN_FILE,file"`
	// File with the certificates, in PEM, of the authorities that the service's own is checked by. The system's apply without it.
	Web3SignerCA secret.String `env:"TXM_WEB3SIGNER_CA_FILE,file"`
	// File with the certificate, in PEM, that the manager shows to the service.
	Web3SignerCert secret.String `env:"TXM_WEB3SIGNER_CERT_FILE,file"`
	// File with that certificate's key.
	Web3SignerCertKey secret.String `env:"TXM_WEB3SIGNER_KEY_FILE,file"`
	// Access keys of NEAR for chains with the driver near, as JSON: {"relayer.near":["ed25519:…","secp256k1:…"]}.
	NEARKeys secret.String `env:"TXM_NEAR_KEYS"`
	// File with those keys.
	NEARKeysFile secret.String `env:"TXM_NEAR_KEYS_FILE,file"`
	// How long one call to a key service may take.
	Timeout envx.Millis `env:"TXM_SIGN_TIMEOUT_MS" envDefault:"5000" min:"1ms"`

	// Numbered are RELAYER_PRIVATE_KEY_0 and so on, as [Numbered] finds them.
	Numbered map[string]secret.String
}

// Validate checks what can be checked without a network: it reads the keys that stand in the settings, and no keystore,
// which takes long. An error names the setting and never the key.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if _, err := c.plain(); err != nil {
		errs = append(errs, err)
	}
	if err := c.checkWeb3Signer(); err != nil {
		errs = append(errs, err)
	}
	if _, err := OpenNEAR(c); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Open reads every key and proves that it can sign. An error names the setting and
// never the key.
func Open(ctx context.Context, c Config) ([]Signer, error) {
	list, err := c.local()
	if err != nil {
		return nil, err
	}
	for _, open := range []func(context.Context) ([]Signer, error){c.aws, c.google, c.vault, c.web3signer} {
		more, err := open(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	if err := distinct(list); err != nil {
		return nil, err
	}
	for _, s := range list {
		if err := prove(ctx, s); err != nil {
			return nil, fmt.Errorf("%s key of %s: %w", s.Source(), s.Address(), err)
		}
	}
	return list, nil
}

// local reads the keys that this process holds itself.
func (c Config) local() ([]Signer, error) {
	list, err := c.plain()
	if err != nil {
		return nil, err
	}
	files, err := keystoreSigners(c.Keystore, c.keystorePassword())
	if err != nil {
		return nil, fmt.Errorf("TXM_KEYSTORE: %w", err)
	}
	return append(list, files...), nil
}

// plain reads those that are not encrypted.
func (c Config) plain() ([]Signer, error) {
	var list []Signer
	for _, several := range []struct {
		name     string
		value    secret.String
		onlyJSON bool
	}{
		{"RELAYER_PRIVATE_KEYS", c.Keys, false},
		{"RELAYER_PRIVATE_KEYS_FILE", c.KeysFile, false},
		{"RELAYER_PRIVATE_KEYS_JSON", c.KeysJSON, true},
		{"RELAYER_PRIVATE_KEYS_JSON_FILE", c.KeysJSONFile, true},
	} {
		keys, err := keysOf(several.name, several.value, several.onlyJSON)
		if err != nil {
			return nil, err
		}
		list = append(list, keys...)
	}
	for _, one := range []struct {
		name  string
		value secret.String
	}{{"RELAYER_PRIVATE_KEY", c.Key}, {"RELAYER_PRIVATE_KEY_FILE", c.KeyFile}} {
		if strings.TrimSpace(one.value.Reveal()) == "" {
			continue
		}
		key, err := parseKey(one.value.Reveal())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		list = append(list, Local(key, "env"))
	}
	more, err := numbered(c.Numbered, os.ReadFile)
	if err != nil {
		return nil, err
	}
	return append(list, more...), nil
}

func (c Config) keystorePassword() secret.String {
	if c.KeystorePassword != "" {
		return c.KeystorePassword
	}
	return secret.String(strings.TrimRight(c.KeystorePasswordFile.Reveal(), "\r\n"))
}

func (c Config) timeout() time.Duration { return c.Timeout.Duration() }
