package eth

import (
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// Tx is a signed raw transaction: its bytes as received, its fields, its hash and
// its sender. It is immutable.
type Tx struct {
	raw    []byte
	fields *types.Transaction
	hash   common.Hash
	from   common.Address
}

// DecodeTx decodes a signed transaction (type byte and RLP, or legacy RLP) and
// recovers its sender, once for the whole path. It keeps raw and does not copy it.
//
// Signatures with a high s value are accepted, as the network accepts them. The
// error is an *Error, with code -32000 except for what type 4 alone can have wrong.
func DecodeTx(raw []byte) (*Tx, error) {
	if len(raw) == 0 {
		return nil, ErrInvalidArguments("empty transaction")
	}
	fields := new(types.Transaction)
	if err := fields.UnmarshalBinary(raw); err != nil {
		return nil, decodeError(raw, err)
	}
	from, err := recoverSender(fields)
	if err != nil {
		return nil, ErrInvalidArguments("%s", err)
	}
	return &Tx{raw: raw, fields: fields, hash: fields.Hash(), from: from}, nil
}

func decodeError(raw []byte, err error) *Error {
	if errors.Is(err, types.ErrTxTypeNotSupported) {
		return ErrInvalidArguments("unsupported transaction type: 0x%02x", raw[0])
	}
	if known := setCodeError(raw); known != nil {
		return known
	}
	return ErrInvalidArguments("invalid transaction encoding: %s", err)
}

var errSignature = errors.New("invalid signature")

// recoverSender is types.Sender without the low-s rule, which the network does
// not have, and for a transaction of any chain: the chain is a precheck.
func recoverSender(tx *types.Transaction) (common.Address, error) {
	v, r, s := tx.RawSignatureValues()
	if r.Sign() == 0 && s.Sign() == 0 {
		return common.Address{}, errors.New("the transaction is not signed")
	}
	parity, ok := recoveryID(tx, v)
	if !ok || !crypto.ValidateSignatureValues(parity, r, s, false) {
		return common.Address{}, errSignature
	}
	var signer types.Signer = types.HomesteadSigner{}
	if tx.Type() != types.LegacyTxType || tx.Protected() {
		if tx.ChainId().Sign() <= 0 {
			return common.Address{}, errors.New("the signature covers chain id 0, which no chain has")
		}
		signer = types.LatestSignerForChainID(tx.ChainId())
	}
	var signature [crypto.SignatureLength]byte
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:64])
	signature[64] = parity
	digest := signer.Hash(tx)
	public, err := crypto.Ecrecover(digest[:], signature[:])
	if err != nil {
		return common.Address{}, errSignature
	}
	return common.BytesToAddress(crypto.Keccak256(public[1:])[12:]), nil
}

// recoveryID reads the parity out of v: 0/1 for typed transactions, 27/28 for
// unprotected legacy ones, 35 + 2·chain + parity for protected ones.
func recoveryID(tx *types.Transaction, v *big.Int) (byte, bool) {
	if tx.Type() != types.LegacyTxType {
		return byte(v.Uint64()), v.IsUint64() && v.Uint64() <= 1
	}
	if !tx.Protected() {
		return byte(v.Uint64() - 27), v.IsUint64() && (v.Uint64() == 27 || v.Uint64() == 28)
	}
	if v.Cmp(big.NewInt(35)) < 0 {
		return 0, false
	}
	return 1 - byte(v.Bit(0)), true // 35 is odd: parity 0
}

// Raw returns the bytes as received. The caller must not change them.
func (t *Tx) Raw() []byte { return t.raw }

// Hash returns Keccak-256 of the raw bytes, the transaction's Ethereum hash.
func (t *Tx) Hash() common.Hash { return t.hash }

// From returns the recovered sender.
func (t *Tx) From() common.Address { return t.from }

// Type returns the transaction type, 0 for legacy.
func (t *Tx) Type() uint8 { return t.fields.Type() }

// Nonce returns the sender's sequence number.
func (t *Tx) Nonce() uint64 { return t.fields.Nonce() }

// Gas returns the gas limit.
func (t *Tx) Gas() uint64 { return t.fields.Gas() }

// To returns the receiver, or nil for a contract creation.
func (t *Tx) To() *common.Address { return t.fields.To() }

// Value returns the value in weibar. The result is the caller's own.
func (t *Tx) Value() *big.Int { return t.fields.Value() }

// Data returns the call data, or the init code of a creation. The caller must
// not change it.
func (t *Tx) Data() []byte { return t.fields.Data() }

// GasPrice returns the most the sender pays for a unit of gas, in weibar: the gas
// price of types 0 and 1, the fee cap of later types. The result is the caller's own.
func (t *Tx) GasPrice() *big.Int { return t.fields.GasFeeCap() }

// Cost returns value plus gas limit times GasPrice, in weibar: what the sender's
// balance must cover.
func (t *Tx) Cost() *big.Int {
	cost := new(big.Int).Mul(t.GasPrice(), new(big.Int).SetUint64(t.Gas()))
	return cost.Add(cost, t.Value())
}

// ChainID returns the chain that the signature covers. An unprotected legacy
// transaction covers none: the result is 0 and Protected tells.
func (t *Tx) ChainID() *big.Int { return t.fields.ChainId() }

// Protected tells whether the signature covers a chain id. Only legacy
// transactions from before EIP-155 do not.
func (t *Tx) Protected() bool { return t.Type() != types.LegacyTxType || t.fields.Protected() }

// Fields gives the decoded transaction for what has no accessor here. It must
// not be changed.
func (t *Tx) Fields() *types.Transaction { return t.fields }
