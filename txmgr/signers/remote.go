package signers

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// remote is a key that a service holds. The service signs the digest and answers DER.
type remote struct {
	address common.Address
	source  string
	timeout time.Duration
	sign    func(context.Context, common.Hash) ([]byte, error)
}

func newRemote(source string, key *ecdsa.PublicKey, timeout time.Duration, sign func(context.Context, common.Hash) ([]byte, error)) *remote {
	return &remote{address: crypto.PubkeyToAddress(*key), source: source, timeout: timeout, sign: sign}
}

func (r *remote) Address() common.Address { return r.address }
func (r *remote) Source() string          { return r.source }

func (r *remote) Sign(ctx context.Context, digest common.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	der, err := r.sign(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("%s key of %s: %w", r.source, r.address, err)
	}
	signature, err := FromDER(der, digest, r.address)
	if err != nil {
		return nil, fmt.Errorf("%s key of %s: %w", r.source, r.address, err)
	}
	return signature, nil
}
