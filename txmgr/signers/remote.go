package signers

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
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

// aws opens the keys in AWS KMS.
func (c Config) aws(ctx context.Context) ([]Signer, error) {
	if len(c.AWSKeys) == 0 {
		return nil, nil
	}
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("TXM_AWS_KMS_KEYS: %w", err)
	}
	client := kms.NewFromConfig(loaded, func(o *kms.Options) {
		if c.AWSEndpoint != "" {
			o.BaseEndpoint = &c.AWSEndpoint
		}
	})
	return each("TXM_AWS_KMS_KEYS", c.AWSKeys, func(id string) (Signer, error) { return c.awsKey(ctx, client, id) })
}

func (c Config) awsKey(ctx context.Context, client *kms.Client, id string) (Signer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &id})
	if err != nil {
		return nil, err
	}
	key, err := publicKey(answer.PublicKey)
	if err != nil {
		return nil, err
	}
	return newRemote("aws", key, c.timeout(), signsDigest(func(ctx context.Context, digest common.Hash) ([]byte, error) {
		signed, err := client.Sign(ctx, &kms.SignInput{
			KeyId: &id, Message: digest.Bytes(), MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
		})
		if err != nil {
			return nil, err
		}
		return signed.Signature, nil
	})), nil
}

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
