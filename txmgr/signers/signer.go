package signers

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
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
