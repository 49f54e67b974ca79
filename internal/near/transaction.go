package near

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// Hash is a SHA-256; its text is base58.
type Hash [sha256.Size]byte

func (h Hash) String() string { return EncodeBase58(h[:]) }

// ParseHash reads a hash's text.
func ParseHash(text string) (Hash, error) {
	data, err := DecodeBase58(text)
	if err != nil {
		return Hash{}, err
	}
	if len(data) != sha256.Size {
		return Hash{}, fmt.Errorf("a hash has %d bytes, not %d", sha256.Size, len(data))
	}
	return Hash(data), nil
}

// Transaction is what a signer wants, before it is signed.
type Transaction struct {
	Signer    string    `near:"account"`
	PublicKey PublicKey // the signer's access key
	Nonce     uint64    // higher than the last one of this access key
	Receiver  string    `near:"account"`
	BlockHash Hash      // a recent block; the transaction is valid for some time after it
	Actions   []Action
}

// SignedTransaction is a transaction that can be sent.
type SignedTransaction struct {
	Transaction
	Signature Signature
}

// Encode returns the transaction's bytes.
func (t Transaction) Encode() ([]byte, error) { return encode(&t) }

// Hash returns the transaction's hash, which is what its key signs.
func (t Transaction) Hash() (Hash, error) {
	data, err := t.Encode()
	return sha256.Sum256(data), err
}

// Sign signs the transaction, which names the secret key's public key.
func (t Transaction) Sign(key SecretKey) (SignedTransaction, error) {
	hash, err := t.Hash()
	if err != nil {
		return SignedTransaction{}, err
	}
	signature, err := key.Sign(hash[:])
	return SignedTransaction{t, signature}, err
}

// Encode returns the signed transaction's bytes.
func (t SignedTransaction) Encode() ([]byte, error) { return encode(&t) }

// Verify reports whether the signature is that of the transaction's key.
func (t SignedTransaction) Verify() bool {
	hash, err := t.Hash()
	return err == nil && t.PublicKey.Verify(hash[:], t.Signature)
}

// DecodeTransaction reads a signed transaction. It does not check the signature.
func DecodeTransaction(data []byte) (t SignedTransaction, err error) {
	if err := decode(data, &t); err != nil {
		return SignedTransaction{}, fmt.Errorf("not a signed transaction: %w", err)
	}
	return t, nil
}

// DelegateAction is what a sender wants a relayer to carry. It has no Delegate within it.
type DelegateAction struct {
	Sender         string    `json:"sender_id" near:"account"`
	Receiver       string    `json:"receiver_id" near:"account"`
	Actions        []Action  `json:"actions" near:"delegated"`
	Nonce          uint64    `json:"nonce"`
	MaxBlockHeight uint64    `json:"max_block_height"`
	PublicKey      PublicKey `json:"public_key"` // the sender's access key
}

// SignedDelegate is a delegate action with its sender's signature.
type SignedDelegate struct {
	DelegateAction `json:"delegate_action"`
	Signature      Signature `json:"signature"`
}

var errNested = errors.New("a delegate action within a delegate action")

// delegatePrefix is the number of NEP-366 among the messages that are acted upon (NEP-461).
const delegatePrefix = 1<<30 + 366

// Hash returns the hash that the sender's key signs. No transaction can have the same one.
func (a DelegateAction) Hash() (Hash, error) {
	data, err := encode(&struct {
		Prefix uint32
		DelegateAction
	}{delegatePrefix, a})
	return sha256.Sum256(data), err
}

// Sign signs the delegate action, which names the secret key's public key.
func (a DelegateAction) Sign(key SecretKey) (SignedDelegate, error) {
	hash, err := a.Hash()
	if err != nil {
		return SignedDelegate{}, err
	}
	signature, err := key.Sign(hash[:])
	return SignedDelegate{a, signature}, err
}

// Encode returns the bytes in which senders hand it over to relayers.
func (a SignedDelegate) Encode() ([]byte, error) { return encode(&a) }

// Verify reports whether the signature is that of the sender's key.
func (a SignedDelegate) Verify() bool {
	hash, err := a.Hash()
	return err == nil && a.PublicKey.Verify(hash[:], a.Signature)
}

// DecodeDelegate reads a signed delegate action. It does not check the signature.
func DecodeDelegate(data []byte) (a SignedDelegate, err error) {
	if err := decode(data, &a); err != nil {
		return SignedDelegate{}, fmt.Errorf("not a signed delegate action: %w", err)
	}
	return a, nil
}
