package signers

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// remote is a key that a service holds. What the service answers is believed only after it is checked.
type remote struct {
	identity
	timeout time.Duration
	sign    sign
}

// sign asks a service for r and s. Most sign the digest; some hash what they sign themselves.
type sign func(ctx context.Context, unsigned []byte, digest common.Hash) (r, s *big.Int, err error)

// signsDigest is a service that signs the digest and answers DER.
func signsDigest(ask func(context.Context, common.Hash) ([]byte, error)) sign {
	return func(ctx context.Context, _ []byte, digest common.Hash) (r, s *big.Int, err error) {
		der, err := ask(ctx, digest)
		if err != nil {
			return nil, nil, err
		}
		return parseDER(der)
	}
}

// each opens every key that a setting names, or says which it cannot open.
func each(setting string, keys []string, open func(string) (Signer, error)) (list []Signer, err error) {
	for _, key := range keys {
		s, err := open(key)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", setting, key, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func newRemote(source string, key *ecdsa.PublicKey, timeout time.Duration, sign sign) *remote {
	return &remote{identity{crypto.PubkeyToAddress(*key), source}, timeout, sign}
}

func (r *remote) Sign(ctx context.Context, unsigned []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	digest := crypto.Keccak256Hash(unsigned)
	x, s, err := r.sign(ctx, unsigned, digest)
	var signature []byte
	if err == nil {
		signature, err = recoverable(x, s, digest, r.address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s key of %s: %w", r.source, r.address, err)
	}
	return signature, nil
}
