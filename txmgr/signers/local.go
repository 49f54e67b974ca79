package signers

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/near"
	"lockstep/internal/secret"
)

// local is a key in this process. The key is held by a closure alone, so that no way
// of printing or encoding a local can reach it.
type local struct {
	identity
	sign func(digest []byte) ([]byte, error)
}

// Local makes a signer of a key. Source tells where the key came from.
func Local(key *ecdsa.PrivateKey, source string) Signer {
	return &local{
		identity: identity{crypto.PubkeyToAddress(key.PublicKey), source},
		sign:     func(digest []byte) ([]byte, error) { return crypto.Sign(digest, key) },
	}
}

func (l *local) Sign(_ context.Context, unsigned []byte) ([]byte, error) {
	return l.sign(crypto.Keccak256(unsigned))
}

// errKey says nothing of the text that could not be read: it may be most of a key.
var errKey = errors.New("not a private key: want 32 bytes in hexadecimal, between 1 and the order of secp256k1")

func parseKey(text string) (*ecdsa.PrivateKey, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "0x"); ok {
		text = rest
	} else if rest, ok := strings.CutPrefix(text, "0X"); ok {
		text = rest
	}
	key, err := crypto.HexToECDSA(text)
	if err != nil {
		return nil, errKey
	}
	return key, nil
}

// keysOf reads a setting that holds several keys: a JSON array of strings, or
// separated by commas, blanks or lines.
func keysOf(name string, value secret.String, onlyJSON bool) ([]Signer, error) {
	text := strings.TrimSpace(value.Reveal())
	if text == "" {
		return nil, nil
	}
	var items []string
	switch {
	case strings.HasPrefix(text, "["):
		if json.Unmarshal([]byte(text), &items) != nil { // its error may quote the text
			return nil, fmt.Errorf("%s: not a JSON array of strings", name)
		}
	case onlyJSON:
		return nil, fmt.Errorf("%s: want a JSON array of strings", name)
	default:
		items = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n;", r) })
	}
	list := make([]Signer, 0, len(items))
	for i, item := range items {
		key, err := parseKey(item)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		list = append(list, Local(key, "env"))
	}
	return list, nil
}

const numberedPrefix = "RELAYER_PRIVATE_KEY_"

// Numbered picks RELAYER_PRIVATE_KEY_0, RELAYER_PRIVATE_KEY_1 and so on, and their
// _FILE twins, out of an environment, a list of NAME=value. They need not be without gaps.
func Numbered(environ []string) map[string]secret.String {
	found := map[string]secret.String{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, numberedPrefix)
		if !ok || value == "" {
			continue
		}
		if _, err := strconv.ParseUint(strings.TrimSuffix(rest, "_FILE"), 10, 16); err == nil {
			found[name] = secret.String(value)
		}
	}
	return found
}

// numbered reads them in the order of their numbers.
func numbered(values map[string]secret.String, read func(path string) ([]byte, error)) ([]Signer, error) {
	position := func(name string) uint64 {
		n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, numberedPrefix), "_FILE"), 10, 16)
		return n
	}
	byNumber := func(a, b string) int { return cmp.Or(cmp.Compare(position(a), position(b)), cmp.Compare(a, b)) }
	var list []Signer
	for _, name := range slices.SortedFunc(maps.Keys(values), byNumber) {
		value := values[name].Reveal()
		if strings.HasSuffix(name, "_FILE") {
			content, err := read(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			value = string(content)
		}
		key, err := parseKey(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, Local(key, "env"))
	}
	return list, nil
}

// maxKeyFile bounds what is read as a key file; real ones have about 500 bytes.
const maxKeyFile = 64 << 10

// keystoreSigners reads key files: one file, or every file in a folder.
func keystoreSigners(path string, password secret.String) ([]Signer, error) {
	if path == "" {
		return nil, nil
	}
	files, err := keyFiles(path)
	if err != nil {
		return nil, err
	}
	var list []Signer
	for _, file := range files {
		s, err := keyFile(file, password)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no key file is in it", path)
	}
	return list, nil
}

// keyFiles are a file, or those of a folder, by name.
func keyFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), "~") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}

func keyFile(path string, password secret.String) (Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxKeyFile {
		return nil, errors.New("too large for a key file")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := keystore.DecryptKey(content, password.Reveal())
	switch {
	case errors.Is(err, keystore.ErrDecrypt):
		return nil, errors.New("TXM_KEYSTORE_PASSWORD does not open it")
	case err != nil:
		return nil, errors.New("not a key file of version 3")
	}
	return Local(key.PrivateKey, "keystore"), nil
}

// NEARKey is an access key of an account of NEAR. The key is held by a closure alone, so
// that no way of printing or encoding it can reach it.
type NEARKey struct {
	account string
	sign    func([]byte) ([]byte, error)
}

// Account is the account and the public key: "relayer.near/ed25519:…".
func (k NEARKey) Account() string { return k.account }

// Sign signs the SHA-256 hash of a transaction: 64 bytes for ed25519; r, s and v for secp256k1.
func (k NEARKey) Sign(_ context.Context, unsigned []byte) ([]byte, error) { return k.sign(unsigned) }

// OpenNEAR reads the access keys of NEAR and proves that each signs. An error names the
// setting and the account, and never the key.
func OpenNEAR(c Config) ([]NEARKey, error) {
	var list []NEARKey
	seen := map[string]bool{}
	for _, setting := range []struct{ name, text string }{{"TXM_NEAR_KEYS", c.NEARKeys.Reveal()}, {"TXM_NEAR_KEYS_FILE", c.NEARKeysFile.Reveal()}} {
		if strings.TrimSpace(setting.text) == "" {
			continue
		}
		var accounts map[string][]string
		if json.Unmarshal([]byte(setting.text), &accounts) != nil { // its error may quote the text
			return nil, fmt.Errorf(`%s: want JSON such as {"relayer.near":["ed25519:…"]}`, setting.name)
		}
		for _, account := range slices.Sorted(maps.Keys(accounts)) {
			for i, text := range accounts[account] {
				key, err := nearKey(account, text)
				if err == nil && seen[key.account] {
					err = errors.New("it is given twice")
				}
				if err != nil {
					return nil, fmt.Errorf("%s: key %d of %q: %w", setting.name, i+1, account, err)
				}
				seen[key.account] = true
				list = append(list, key)
			}
		}
	}
	return list, nil
}

func nearKey(account, text string) (NEARKey, error) {
	if err := near.CheckAccount(account); err != nil {
		return NEARKey{}, err
	}
	secret, err := near.ParseSecretKey(text)
	if err != nil {
		return NEARKey{}, err
	}
	sign := func(unsigned []byte) ([]byte, error) {
		digest := sha256.Sum256(unsigned)
		s, err := secret.Sign(digest[:])
		return s.Bytes(), err
	}
	digest := make([]byte, len(near.Hash{}))
	signature, err := secret.Sign(digest)
	if err == nil && !secret.Public().Verify(digest, signature) {
		err = errors.New("its signature is not its own")
	}
	return NEARKey{account: account + "/" + secret.Public().String(), sign: sign}, err
}
