// Package hapikey is about the keys of HAPI, which are primitive keys, contracts, and lists and
// thresholds of those: which are well formed, and whether the signatures of a transaction are
// enough for one. Whether a contract acts, the caller says; no signature does.
package hapikey

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Limits of keys. Sizes are of public ones, in bytes.
const (
	Ed25519Size   = 32
	Secp256k1Size = 33  // compressed
	MaxDepth      = 15  // nesting of key lists
	Max           = 256 // keys within one, lists included
)

// Ed25519 makes a key of a public one.
func Ed25519(public []byte) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: public}}
}

// Secp256k1 makes a key of a compressed public one.
func Secp256k1(public []byte) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: public}}
}

// FromPublic makes a key of raw public bytes, by their number.
func FromPublic(public []byte) (*hapi.Key, error) {
	switch len(public) {
	case Ed25519Size:
		return Ed25519(public), nil
	case Secp256k1Size:
		return Secp256k1(public), nil
	default:
		return nil, fmt.Errorf("public key of %d bytes: want 32 or 33", len(public))
	}
}

// Hollow marks an account that has no key yet.
func Hollow() *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{}}}
}

// Contract is the admin key of a contract that is its own admin.
func Contract(num int64) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ContractID{ContractID: hedera.Entity(num).ContractID()}}
}

// Signatures is the signature map of a transaction with the bytes it signs. Pairs
// are verified when a key is asked for, since a pair may name its key by a prefix.
// It belongs to one goroutine.
type Signatures struct {
	body     []byte
	pairs    []*hapi.SignaturePair
	verified map[string]bool // by raw public key
}

// NewSignatures takes the body bytes as received: a body that was decoded and
// encoded again may differ from what was signed.
func NewSignatures(body []byte, pairs []*hapi.SignaturePair) *Signatures {
	return &Signatures{body: body, pairs: pairs, verified: map[string]bool{}}
}

// Count is how many signatures there are.
func (s *Signatures) Count() int { return len(s.pairs) }

// AmbiguousPrefix tells whether one pair's key prefix begins another's, so that it
// is unclear whose signatures they are.
func (s *Signatures) AmbiguousPrefix() bool {
	for i, a := range s.pairs {
		for _, b := range s.pairs[i+1:] {
			if bytes.HasPrefix(a.GetPubKeyPrefix(), b.GetPubKeyPrefix()) ||
				bytes.HasPrefix(b.GetPubKeyPrefix(), a.GetPubKeyPrefix()) {
				return true
			}
		}
	}
	return false
}

// Signed tells whether the signatures satisfy a key. Contract keys are never
// satisfied from outside the EVM, and neither is an empty list.
func (s *Signatures) Signed(key *hapi.Key) bool {
	return Satisfied(key, func(one *hapi.Key) bool {
		public := Raw(one)
		return public != nil && s.By(public)
	})
}

// Raw is the public key in a primitive key, nil for a contract's.
func Raw(key *hapi.Key) []byte {
	switch k := key.GetKey().(type) {
	case *hapi.Key_Ed25519:
		return k.Ed25519
	case *hapi.Key_ECDSASecp256K1:
		return k.ECDSASecp256K1
	default:
		return nil
	}
}

// Satisfied tells whether the primitive keys that hold are enough for a key: all of a list,
// so many of a threshold key. An empty list is never satisfied.
func Satisfied(key *hapi.Key, holds func(primitive *hapi.Key) bool) bool {
	return satisfiedAt(0, key, holds)
}

func satisfiedAt(depth int, key *hapi.Key, holds func(*hapi.Key) bool) bool {
	if depth > MaxDepth || key.GetKey() == nil {
		return false
	}
	keys, need := key.GetKeyList().GetKeys(), len(key.GetKeyList().GetKeys())
	switch k := key.GetKey().(type) {
	case *hapi.Key_KeyList:
	case *hapi.Key_ThresholdKey:
		keys = k.ThresholdKey.GetKeys().GetKeys()
		need = min(int(k.ThresholdKey.GetThreshold()), len(keys))
	default:
		return holds(key)
	}
	n := 0
	for _, one := range keys {
		if satisfiedAt(depth+1, one, holds) {
			n++
		}
	}
	return need > 0 && n >= need
}

// By tells whether there is a valid signature by a raw public key.
func (s *Signatures) By(public []byte) bool {
	if known, ok := s.verified[string(public)]; ok {
		return known
	}
	ok := len(s.signature(public)) > 0
	s.verified[string(public)] = ok
	return ok
}

// Of returns the signature by a primitive key, nil where there is none.
func (s *Signatures) Of(key *hapi.Key) []byte {
	public := Raw(key)
	if s == nil || public == nil {
		return nil
	}
	return s.signature(public)
}

// signature returns the valid signature by a raw public key, nil where there is none.
func (s *Signatures) signature(public []byte) []byte {
	for _, pair := range s.pairs {
		if !bytes.HasPrefix(public, pair.GetPubKeyPrefix()) {
			continue
		}
		signature := pair.GetEd25519()
		if len(public) == Secp256k1Size {
			signature = pair.GetECDSASecp256K1()
		}
		if len(signature) > 0 && hedera.Verify(public, s.body, signature) {
			return signature
		}
	}
	return nil
}

// Completes returns the secp256k1 key that hashes to an EVM address and has
// signed: the key that completes a hollow account.
func (s *Signatures) Completes(address common.Address) (public []byte, ok bool) {
	for _, pair := range s.pairs {
		prefix := pair.GetPubKeyPrefix()
		if len(prefix) != Secp256k1Size || len(pair.GetECDSASecp256K1()) == 0 {
			continue
		}
		if a, err := hedera.AddressOf(prefix); err == nil && a == address && s.By(prefix) {
			return prefix, true
		}
	}
	return nil, false
}

// Valid tells whether a key that is to be stored is well formed: known kinds,
// right lengths, not too deep, not too many.
func Valid(key *hapi.Key) bool {
	budget := Max
	return wellFormed(key, 0, &budget)
}

func wellFormed(key *hapi.Key, depth int, budget *int) bool {
	if *budget--; *budget < 0 || depth > MaxDepth {
		return false
	}
	all := func(keys []*hapi.Key) bool {
		for _, k := range keys {
			if !wellFormed(k, depth+1, budget) {
				return false
			}
		}
		return len(keys) > 0
	}
	switch k := key.GetKey().(type) {
	case *hapi.Key_Ed25519:
		return len(k.Ed25519) == Ed25519Size
	case *hapi.Key_ECDSASecp256K1:
		_, err := hedera.AddressOf(k.ECDSASecp256K1)
		return err == nil
	case *hapi.Key_KeyList:
		return all(k.KeyList.GetKeys())
	case *hapi.Key_ThresholdKey:
		n := k.ThresholdKey.GetThreshold()
		return n > 0 && int(n) <= len(k.ThresholdKey.GetKeys().GetKeys()) && all(k.ThresholdKey.GetKeys().GetKeys())
	case *hapi.Key_ContractID, *hapi.Key_DelegatableContractId:
		return true
	default:
		return false
	}
}

// Empty tells whether a key is a list of none.
func Empty(key *hapi.Key) bool {
	list := key.GetKeyList()
	return list != nil && len(list.GetKeys()) == 0
}

// IsContract tells whether a key is a contract that is to act.
func IsContract(key *hapi.Key) bool {
	return key.GetContractID() != nil || key.GetDelegatableContractId() != nil
}

// Contains tells whether a key is in a list.
func Contains(list []*hapi.Key, key *hapi.Key) bool {
	return slices.ContainsFunc(list, func(k *hapi.Key) bool { return proto.Equal(k, key) })
}
