package bench

import (
	"crypto/ecdsa"
	"encoding/binary"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// A sender is one account of the load.
type sender struct {
	key   *ecdsa.PrivateKey
	addr  common.Address
	start uint64 // nonce of its first transaction in the current run
}

// deriveSenders makes the n senders of a generation. The funder's key is part of the
// derivation, so that only its owner can spend what the senders were given; the
// target's number is too, so that two targets on one chain do not share accounts.
func deriveSenders(funder *ecdsa.PrivateKey, seed string, target, generation, n int) []*sender {
	var secret []byte
	if funder != nil {
		secret = crypto.FromECDSA(funder)
	}
	senders := make([]*sender, n)
	for i := range senders {
		key := deriveKey(secret, seed, uint64(target), uint64(generation), uint64(i))
		senders[i] = &sender{key: key, addr: crypto.PubkeyToAddress(key.PublicKey)}
	}
	return senders
}

func deriveKey(secret []byte, seed string, path ...uint64) *ecdsa.PrivateKey {
	material := crypto.Keccak256([]byte("lockstep bench sender"), secret, crypto.Keccak256([]byte(seed)))
	for _, step := range path {
		material = crypto.Keccak256(material, binary.BigEndian.AppendUint64(nil, step))
	}
	for {
		// All but about one in 2^128 hashes are valid keys.
		if key, err := crypto.ToECDSA(material); err == nil {
			return key
		}
		material = crypto.Keccak256(material)
	}
}
