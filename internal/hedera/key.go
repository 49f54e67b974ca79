package hedera

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// KeyKind is the signature scheme of a key.
type KeyKind uint8

// The two schemes an account key can have.
const (
	Ed25519 KeyKind = iota + 1
	Secp256k1
)

// PrivateKey signs HAPI transaction bodies. Its text forms never show the secret.
type PrivateKey struct {
	kind    KeyKind
	ed      ed25519.PrivateKey
	ec      *ecdsa.PrivateKey
	public  []byte
	address common.Address
}

// KeyFormat says how the text of a private key is to be read; the values are
// those of OPERATOR_KEY_FORMAT.
type KeyFormat string

// The formats. DER is the default when the setting is empty.
const (
	FormatDER        KeyFormat = "DER"
	FormatHexEd25519 KeyFormat = "HEX_ED25519"
	FormatHexECDSA   KeyFormat = "HEX_ECDSA"
)

// DER headers that are followed by the 32 secret bytes.
var (
	derEd25519    = common.FromHex("302e020100300506032b657004220420")
	derECDSA      = common.FromHex("3030020100300706052b8104000a04220420")
	derECDSASEC1  = common.FromHex("30540201010420") // a public part follows the secret
	errPrivateKey = errors.New("private key")
)

// ParsePrivateKey reads the text of a private key. An empty format means DER. Its
// errors never quote the key.
func ParsePrivateKey(text string, format KeyFormat) (*PrivateKey, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil {
		return nil, fmt.Errorf("%w: not hexadecimal", errPrivateKey)
	}
	switch format {
	case FormatHexEd25519, FormatHexECDSA:
		kind := Secp256k1
		if format == FormatHexEd25519 {
			kind = Ed25519
		}
		if len(raw) != 32 {
			return nil, fmt.Errorf("%w: %s wants 32 bytes, got %d", errPrivateKey, format, len(raw))
		}
		return newPrivateKey(kind, raw)
	case FormatDER, "":
		return parseDER(raw)
	default:
		return nil, fmt.Errorf("invalid key format %q: want DER, HEX_ED25519 or HEX_ECDSA", string(format))
	}
}

func parseDER(raw []byte) (*PrivateKey, error) {
	if secret, ok := bytes.CutPrefix(raw, derEd25519); ok && len(secret) == 32 {
		return newPrivateKey(Ed25519, secret)
	}
	if secret, ok := bytes.CutPrefix(raw, derECDSA); ok && len(secret) == 32 {
		return newPrivateKey(Secp256k1, secret)
	}
	if secret, ok := bytes.CutPrefix(raw, derECDSASEC1); ok && len(secret) > 32 {
		return newPrivateKey(Secp256k1, secret[:32])
	}
	return nil, fmt.Errorf("%w: not a known DER form of %d bytes", errPrivateKey, len(raw))
}

func newPrivateKey(kind KeyKind, secret []byte) (*PrivateKey, error) {
	if kind == Ed25519 {
		ed := ed25519.NewKeyFromSeed(secret)
		return &PrivateKey{kind: kind, ed: ed, public: bytes.Clone(ed[32:])}, nil
	}
	ec, err := crypto.ToECDSA(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: not a secp256k1 scalar", errPrivateKey)
	}
	return &PrivateKey{
		kind: kind, ec: ec,
		public:  crypto.CompressPubkey(&ec.PublicKey),
		address: crypto.PubkeyToAddress(ec.PublicKey),
	}, nil
}

// Kind returns the signature scheme.
func (k *PrivateKey) Kind() KeyKind { return k.kind }

// Public returns the raw public key: 32 bytes of Ed25519 or 33 of compressed
// secp256k1. The caller must not change it.
func (k *PrivateKey) Public() []byte { return k.public }

// Address returns the EVM address of a secp256k1 key, and false for Ed25519,
// which has none.
func (k *PrivateKey) Address() (common.Address, bool) { return k.address, k.kind == Secp256k1 }

// Sign signs the bytes of a transaction body. Ed25519 signs them as they are,
// secp256k1 signs their Keccak-256 hash; either gives 64 bytes.
func (k *PrivateKey) Sign(body []byte) ([]byte, error) {
	if k.kind == Ed25519 {
		return ed25519.Sign(k.ed, body), nil
	}
	signature, err := crypto.Sign(crypto.Keccak256(body), k.ec)
	if err != nil {
		return nil, fmt.Errorf("sign transaction body: %w", err)
	}
	return signature[:64], nil // without the recovery byte
}

// String hides the secret.
func (k *PrivateKey) String() string { return "PrivateKey(" + hex.EncodeToString(k.public) + ")" }

// GoString hides the secret from %#v.
func (k *PrivateKey) GoString() string { return k.String() }

// Verify checks a signature over the bytes of a transaction body by a raw public
// key, whose length says which scheme it is.
func Verify(public, body, signature []byte) bool {
	switch len(public) {
	case ed25519.PublicKeySize:
		return len(signature) == ed25519.SignatureSize && ed25519.Verify(public, body, signature)
	case 33:
		return len(signature) == 64 && crypto.VerifySignature(public, crypto.Keccak256(body), signature)
	default:
		return false
	}
}

// AddressOf returns the EVM address of a compressed secp256k1 public key.
func AddressOf(compressed []byte) (common.Address, error) {
	public, err := crypto.DecompressPubkey(compressed)
	if err != nil {
		return common.Address{}, fmt.Errorf("public key: %w", err)
	}
	return crypto.PubkeyToAddress(*public), nil
}
