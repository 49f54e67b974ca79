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
	Signer    string
	PublicKey PublicKey // the signer's access key
	Nonce     uint64    // higher than the last one of this access key
	Receiver  string
	BlockHash Hash // a recent block; the transaction is valid for some time after it
	Actions   []Action
}

// SignedTransaction is a transaction that can be sent.
type SignedTransaction struct {
	Transaction
	Signature Signature
}

func (t Transaction) write(e *encoder) {
	e.account(t.Signer)
	e.publicKey(t.PublicKey)
	e.u64(t.Nonce)
	e.account(t.Receiver)
	e.raw(t.BlockHash[:])
	e.actions(t.Actions)
}

func (d *decoder) transaction() Transaction {
	t := Transaction{Signer: d.account(), PublicKey: d.publicKey(), Nonce: d.u64(), Receiver: d.account()}
	copy(t.BlockHash[:], d.raw(len(t.BlockHash)))
	t.Actions = d.actions(false)
	return t
}

// Encode returns the transaction's bytes.
func (t Transaction) Encode() ([]byte, error) {
	var e encoder
	t.write(&e)
	return e.done()
}

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
func (t SignedTransaction) Encode() ([]byte, error) {
	var e encoder
	t.write(&e)
	e.signature(t.Signature)
	return e.done()
}

// Verify reports whether the signature is that of the transaction's key.
func (t SignedTransaction) Verify() bool {
	hash, err := t.Hash()
	return err == nil && t.PublicKey.Verify(hash[:], t.Signature)
}

// DecodeTransaction reads a signed transaction. It does not check the signature.
func DecodeTransaction(data []byte) (SignedTransaction, error) {
	d, err := newDecoder(data)
	if err != nil {
		return SignedTransaction{}, err
	}
	t := SignedTransaction{d.transaction(), d.signature()}
	if err := d.end(); err != nil {
		return SignedTransaction{}, fmt.Errorf("not a signed transaction: %w", err)
	}
	return t, nil
}

func newDecoder(data []byte) (*decoder, error) {
	if len(data) > MaxTransaction {
		return nil, tooLong(len(data))
	}
	return &decoder{in: data}, nil
}

// DelegateAction is what a sender wants a relayer to carry. It has no Delegate within it.
type DelegateAction struct {
	Sender         string
	Receiver       string
	Actions        []Action
	Nonce          uint64
	MaxBlockHeight uint64
	PublicKey      PublicKey // the sender's access key
}

// SignedDelegate is a delegate action with its sender's signature.
type SignedDelegate struct {
	DelegateAction
	Signature Signature
}

var errNested = errors.New("a delegate action within a delegate action")

// delegatePrefix is the number of NEP-366 among the messages that are acted upon (NEP-461).
const delegatePrefix = 1<<30 + 366

func (a DelegateAction) write(e *encoder) {
	e.account(a.Sender)
	e.account(a.Receiver)
	for _, action := range a.Actions {
		if action != nil && action.kind() == kindDelegate {
			e.fail(errNested)
		}
	}
	e.actions(a.Actions)
	e.u64(a.Nonce)
	e.u64(a.MaxBlockHeight)
	e.publicKey(a.PublicKey)
}

func (a SignedDelegate) write(e *encoder) {
	a.DelegateAction.write(e)
	e.signature(a.Signature)
}

func (d *decoder) signedDelegate() SignedDelegate {
	return SignedDelegate{
		DelegateAction: DelegateAction{
			Sender: d.account(), Receiver: d.account(), Actions: d.actions(true),
			Nonce: d.u64(), MaxBlockHeight: d.u64(), PublicKey: d.publicKey(),
		},
		Signature: d.signature(),
	}
}

// Hash returns the hash that the sender's key signs. No transaction can have the same one.
func (a DelegateAction) Hash() (Hash, error) {
	var e encoder
	e.u32(delegatePrefix)
	a.write(&e)
	data, err := e.done()
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
func (a SignedDelegate) Encode() ([]byte, error) {
	var e encoder
	a.write(&e)
	return e.done()
}

// Verify reports whether the signature is that of the sender's key.
func (a SignedDelegate) Verify() bool {
	hash, err := a.Hash()
	return err == nil && a.PublicKey.Verify(hash[:], a.Signature)
}

// DecodeDelegate reads a signed delegate action. It does not check the signature.
func DecodeDelegate(data []byte) (SignedDelegate, error) {
	d, err := newDecoder(data)
	if err != nil {
		return SignedDelegate{}, err
	}
	a := d.signedDelegate()
	if err := d.end(); err != nil {
		return SignedDelegate{}, fmt.Errorf("not a signed delegate action: %w", err)
	}
	return a, nil
}
