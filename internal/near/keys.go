package near

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// Curve is a kind of key, as Borsh numbers it.
type Curve byte

// The curves.
const (
	Ed25519   Curve = 0
	Secp256k1 Curve = 1
)

func (c Curve) String() string {
	switch c {
	case Ed25519:
		return "ed25519"
	case Secp256k1:
		return "secp256k1"
	default:
		return fmt.Sprintf("curve %d", byte(c))
	}
}

// sizes are the bytes of a public key and of a signature, 0 for a curve that is not known.
func (c Curve) sizes() (public, signature int) {
	switch c {
	case Ed25519:
		return ed25519.PublicKeySize, ed25519.SignatureSize
	case Secp256k1:
		return 64, 65
	default:
		return 0, 0
	}
}

// parseCurve splits "curve:base58". A text without a curve is ed25519.
func parseCurve(text string) (Curve, []byte, error) {
	name, rest, found := strings.Cut(text, ":")
	curve := Ed25519
	switch {
	case !found:
		rest = name
	case strings.EqualFold(name, "secp256k1"):
		curve = Secp256k1
	case !strings.EqualFold(name, "ed25519"):
		return 0, nil, errors.New("a key is ed25519: or secp256k1: and base58")
	}
	data, err := DecodeBase58(rest)
	return curve, data, err
}

// PublicKey is a public key; it can be compared and be a key of a map.
type PublicKey struct {
	Curve Curve
	data  [64]byte // ed25519 uses the first 32
}

// NewPublicKey takes the bytes of a public key.
func NewPublicKey(curve Curve, data []byte) (PublicKey, error) {
	size, _ := curve.sizes()
	if size == 0 || len(data) != size {
		return PublicKey{}, fmt.Errorf("%v: a public key has %d bytes, not %d", curve, size, len(data))
	}
	key := PublicKey{Curve: curve}
	copy(key.data[:], data)
	return key, nil
}

// ParsePublicKey reads a public key's text.
func ParsePublicKey(text string) (PublicKey, error) {
	curve, data, err := parseCurve(text)
	if err != nil {
		return PublicKey{}, err
	}
	return NewPublicKey(curve, data)
}

// Bytes returns the key without its curve.
func (k PublicKey) Bytes() []byte {
	size, _ := k.Curve.sizes()
	return k.data[:size]
}

func (k PublicKey) String() string { return k.Curve.String() + ":" + EncodeBase58(k.Bytes()) }

// Verify reports whether a signature of a digest is this key's. In secp256k1 the higher of
// the two values of s is refused, as the chain does, and a recovery id that does not lead to
// this key, so that nobody can make another signature of one.
func (k PublicKey) Verify(digest []byte, s Signature) bool {
	if s.Curve != k.Curve {
		return false
	}
	switch k.Curve {
	case Ed25519:
		return ed25519.Verify(k.Bytes(), digest, s.Bytes())
	case Secp256k1:
		public := append([]byte{4}, k.Bytes()...)
		recovered, err := crypto.Ecrecover(digest, s.Bytes())
		return err == nil && bytes.Equal(recovered, public) && crypto.VerifySignature(public, digest, s.data[:64])
	default:
		return false
	}
}

// Signature is a signature; it can be compared.
type Signature struct {
	Curve Curve
	data  [65]byte // ed25519 uses the first 64
}

// NewSignature takes the bytes of a signature.
func NewSignature(curve Curve, data []byte) (Signature, error) {
	_, size := curve.sizes()
	if size == 0 || len(data) != size {
		return Signature{}, fmt.Errorf("%v: a signature has %d bytes, not %d", curve, size, len(data))
	}
	s := Signature{Curve: curve}
	copy(s.data[:], data)
	return s, nil
}

// ParseSignature reads a signature's text.
func ParseSignature(text string) (Signature, error) {
	curve, data, err := parseCurve(text)
	if err != nil {
		return Signature{}, err
	}
	return NewSignature(curve, data)
}

// Bytes returns the signature without its curve.
func (s Signature) Bytes() []byte {
	_, size := s.Curve.sizes()
	return s.data[:size]
}

func (s Signature) String() string { return s.Curve.String() + ":" + EncodeBase58(s.Bytes()) }

// SecretKey signs. It has no text form, so that it cannot be printed by mistake.
type SecretKey struct {
	public PublicKey
	ed     ed25519.PrivateKey
	secp   *ecdsa.PrivateKey
}

// ParseSecretKey reads a secret key's text: the seed, or the seed and the public key. Its
// errors show nothing of it.
func ParseSecretKey(text string) (SecretKey, error) {
	curve, data, err := parseCurve(strings.TrimSpace(text))
	if err != nil {
		return SecretKey{}, err
	}
	size, _ := curve.sizes()
	if len(data) != 32 && len(data) != 32+size {
		return SecretKey{}, fmt.Errorf("%v: a secret key has 32 or %d bytes, not %d", curve, 32+size, len(data))
	}
	key, err := newSecretKey(curve, data[:32])
	if err == nil && len(data) > 32 && !bytes.Equal(data[32:], key.public.Bytes()) {
		return SecretKey{}, fmt.Errorf("%v: the secret key does not fit the public key behind it", curve)
	}
	return key, err
}

func newSecretKey(curve Curve, seed []byte) (SecretKey, error) {
	if curve == Ed25519 {
		secret := ed25519.NewKeyFromSeed(seed)
		public, err := NewPublicKey(curve, secret[32:])
		return SecretKey{public: public, ed: secret}, err
	}
	secret, err := crypto.ToECDSA(seed)
	if err != nil {
		return SecretKey{}, errors.New("secp256k1: the number is no secret key")
	}
	public, err := NewPublicKey(curve, crypto.FromECDSAPub(&secret.PublicKey)[1:])
	return SecretKey{public: public, secp: secret}, err
}

// Public returns the public key.
func (k SecretKey) Public() PublicKey { return k.public }

// String and GoString keep the key out of what is printed.
func (k SecretKey) String() string { return k.public.Curve.String() + " secret key" }

// GoString is String.
func (k SecretKey) GoString() string { return k.String() }

// Sign signs a digest of 32 bytes.
func (k SecretKey) Sign(digest []byte) (Signature, error) {
	if k.ed != nil {
		return NewSignature(Ed25519, ed25519.Sign(k.ed, digest))
	}
	if k.secp == nil {
		return Signature{}, errors.New("no secret key")
	}
	raw, err := crypto.Sign(digest, k.secp)
	if err != nil {
		return Signature{}, err
	}
	return NewSignature(Secp256k1, raw)
}

func (k *PublicKey) code(c *codec) {
	c.byte((*byte)(&k.Curve))
	size, _ := k.Curve.sizes()
	if size == 0 {
		c.fail(fmt.Errorf("a public key of %v", k.Curve))
	}
	c.raw(k.data[:size])
}

func (s *Signature) code(c *codec) {
	c.byte((*byte)(&s.Curve))
	_, size := s.Curve.sizes()
	if size == 0 {
		c.fail(fmt.Errorf("a signature of %v", s.Curve))
	}
	c.raw(s.data[:size])
}
