package ledger

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const (
	ed25519Size   = 32
	secp256k1Size = 33
	maxKeyDepth   = 15 // nesting of key lists
	maxKeys       = 256
)

func ed25519Key(public []byte) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: public}}
}

func secp256k1Key(public []byte) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: public}}
}

// keyOf makes a key of raw public bytes.
func keyOf(public []byte) (*hapi.Key, error) {
	switch len(public) {
	case ed25519Size:
		return ed25519Key(public), nil
	case secp256k1Size:
		return secp256k1Key(public), nil
	default:
		return nil, fmt.Errorf("public key of %d bytes: want 32 or 33", len(public))
	}
}

// hollowKey marks an account that has no key yet.
func hollowKey() *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{}}}
}

// contractKey is the admin key of a contract that is its own admin.
func contractKey(num int64) *hapi.Key {
	return &hapi.Key{Key: &hapi.Key_ContractID{ContractID: contractID(hedera.Entity(num))}}
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

// count is how many signatures there are.
func (s *Signatures) count() int { return len(s.pairs) }

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
	return satisfied(key, func(one *hapi.Key) bool {
		public := rawKey(one)
		return public != nil && s.by(public)
	})
}

// rawKey is the public key in a primitive key, nil for a contract's.
func rawKey(key *hapi.Key) []byte {
	switch k := key.GetKey().(type) {
	case *hapi.Key_Ed25519:
		return k.Ed25519
	case *hapi.Key_ECDSASecp256K1:
		return k.ECDSASecp256K1
	default:
		return nil
	}
}

// satisfied tells whether the primitive keys that hold are enough for a key: all of a list,
// so many of a threshold key. An empty list is never satisfied.
func satisfied(key *hapi.Key, holds func(primitive *hapi.Key) bool) bool {
	return satisfiedAt(0, key, holds)
}

func satisfiedAt(depth int, key *hapi.Key, holds func(*hapi.Key) bool) bool {
	if depth > maxKeyDepth || key.GetKey() == nil {
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

// by tells whether there is a valid signature by a raw public key.
func (s *Signatures) by(public []byte) bool {
	if known, ok := s.verified[string(public)]; ok {
		return known
	}
	ok := len(s.signature(public)) > 0
	s.verified[string(public)] = ok
	return ok
}

// of returns the signature by a primitive key, nil where there is none.
func (s *Signatures) of(key *hapi.Key) []byte {
	public := rawKey(key)
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
		if len(public) == secp256k1Size {
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
		if len(prefix) != secp256k1Size || len(pair.GetECDSASecp256K1()) == 0 {
			continue
		}
		if a, err := hedera.AddressOf(prefix); err == nil && a == address && s.by(prefix) {
			return prefix, true
		}
	}
	return nil, false
}

// validKey tells whether a key that is to be stored is well formed: known kinds,
// right lengths, not too deep, not too many.
func validKey(key *hapi.Key) bool {
	budget := maxKeys
	return wellFormed(key, 0, &budget)
}

func wellFormed(key *hapi.Key, depth int, budget *int) bool {
	if *budget--; *budget < 0 || depth > maxKeyDepth {
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
		return len(k.Ed25519) == ed25519Size
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

func accountID(id hedera.ID) *hapi.AccountID {
	return &hapi.AccountID{
		ShardNum: &id.Shard, RealmNum: &id.Realm,
		Account: &hapi.AccountID_AccountNum{AccountNum: id.Num},
	}
}

func contractID(id hedera.ID) *hapi.ContractID {
	return &hapi.ContractID{
		ShardNum: &id.Shard, RealmNum: &id.Realm,
		Contract: &hapi.ContractID_ContractNum{ContractNum: id.Num},
	}
}

func nodeAddress(n NodeInfo) *hapi.NodeAddress {
	at := func(port int) *hapi.ServiceEndpoint {
		return &hapi.ServiceEndpoint{IpAddressV4: net.ParseIP(n.Host).To4(), Port: int32(port)}
	}
	address := &hapi.NodeAddress{
		NodeId: n.NodeID, NodeAccountId: accountID(n.Account),
		Description:     fmt.Sprintf("node %d of the development network", n.NodeID),
		ServiceEndpoint: []*hapi.ServiceEndpoint{at(n.Port)},
	}
	if n.TLSPort != 0 {
		address.ServiceEndpoint = append(address.ServiceEndpoint, at(n.TLSPort))
		address.NodeCertHash = []byte(n.CertHash) // the text, as on the real network
	}
	return address
}

// marshal encodes a message of ours, which cannot fail: no required fields, valid text.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return b
}

// hexBytes is 0x and lower-case digits.
func hexBytes(b []byte) string { return "0x" + hex.EncodeToString(b) }

// hexStatus is the error message of what was refused before it ran: the status
// name as hexadecimal of its letters.
func hexStatus(s hedera.Status) string { return hexBytes([]byte(s.String())) }
