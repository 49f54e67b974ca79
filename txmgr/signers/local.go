package signers

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"

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
