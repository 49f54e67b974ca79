package signers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/internal/near"
)

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
