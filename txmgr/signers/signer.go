package signers

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// SignatureLength is the length of a signature: r and s of 32 bytes, and v, which is 0 or 1.
const SignatureLength = crypto.SignatureLength

// Signer signs for one address.
type Signer interface {
	// Address is the account that the key controls.
	Address() common.Address
	// Source tells where the key is: env, keystore, aws, google, vault or web3signer.
	Source() string
	// Sign returns r, s and v for the Keccak-256 hash of a transaction without its signature, s low and v 0 or 1.
	// What a service signed is checked against the address before it is returned. It is safe for concurrent use.
	Sign(ctx context.Context, unsigned []byte) ([]byte, error)
}

// Set is the signers of a process, by address. It does not change.
type Set struct {
	byAddress map[common.Address]Signer
	order     []common.Address // as configured
}

// NewSet makes a set. An address may come up only once.
func NewSet(list ...Signer) (*Set, error) {
	set := &Set{byAddress: make(map[common.Address]Signer, len(list))}
	for _, s := range list {
		if other, ok := set.byAddress[s.Address()]; ok {
			return nil, fmt.Errorf("%s is given twice: by %s and by %s", s.Address(), other.Source(), s.Source())
		}
		set.byAddress[s.Address()] = s
		set.order = append(set.order, s.Address())
	}
	return set, nil
}

// Addresses lists the signers' addresses in the order in which they were configured.
func (s *Set) Addresses() []common.Address { return slices.Clone(s.order) }

// Get returns the signer of an address.
func (s *Set) Get(address common.Address) (Signer, bool) {
	signer, ok := s.byAddress[address]
	return signer, ok
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
