package signers

import (
	"crypto/ecdsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

var (
	curveOrder = crypto.S256().Params().N
	halfOrder  = new(big.Int).Rsh(curveOrder, 1)
)

func parseDER(der []byte) (r, s *big.Int, err error) {
	var sig struct{ R, S *big.Int }
	rest, err := asn1.Unmarshal(der, &sig)
	if err != nil {
		return nil, nil, fmt.Errorf("signature is not DER: %w", err)
	}
	if len(rest) > 0 {
		return nil, nil, errors.New("signature has bytes behind its end")
	}
	return sig.R, sig.S, nil
}

// recoverable returns a signature with s made low, and with the v that recovers the address.
func recoverable(r, s *big.Int, digest common.Hash, address common.Address) ([]byte, error) {
	for _, n := range []*big.Int{r, s} {
		if n.Sign() <= 0 || n.Cmp(curveOrder) >= 0 {
			return nil, errors.New("signature is out of the curve's range")
		}
	}
	if s.Cmp(halfOrder) > 0 {
		s = new(big.Int).Sub(curveOrder, s)
	}
	out := make([]byte, SignatureLength)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:64])
	for v := range byte(2) {
		out[64] = v
		if verify(address, digest, out) == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("signature is not of %s", address)
}

var (
	oidPublicKey = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidSecp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}
)

// publicKey reads a SubjectPublicKeyInfo of a secp256k1 key. The standard library
// does not know that curve.
func publicKey(der []byte) (*ecdsa.PublicKey, error) {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &info)
	if err != nil {
		return nil, fmt.Errorf("public key is not DER: %w", err)
	}
	if len(rest) > 0 {
		return nil, errors.New("public key has bytes behind its end")
	}
	var curve asn1.ObjectIdentifier
	if !info.Algorithm.Algorithm.Equal(oidPublicKey) {
		return nil, fmt.Errorf("not an elliptic curve key but one of algorithm %s; want secp256k1", info.Algorithm.Algorithm)
	}
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &curve); err != nil {
		return nil, fmt.Errorf("public key names no curve: %w", err)
	}
	if !curve.Equal(oidSecp256k1) {
		return nil, fmt.Errorf("a key of curve %s; want secp256k1 (%s)", curve, oidSecp256k1)
	}
	key, err := crypto.UnmarshalPubkey(info.Key.RightAlign())
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return key, nil
}

// pemKey reads the same in PEM.
func pemKey(text []byte) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("public key is not PEM")
	}
	return publicKey(block.Bytes)
}
