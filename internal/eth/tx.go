package eth

import (
	"bytes"
	"errors"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// Tx is a signed raw transaction: its bytes as received, its fields, its hash and
// its sender. It is immutable. Thousands of them may wait for their turn, so it holds
// what the path needs and not the tree that the decoder makes.
type Tx struct {
	raw            []byte
	data           []byte // a view of raw
	hash           common.Hash
	from           common.Address
	to             common.Address
	create         bool // there is no to
	protected      bool
	kind           uint8
	nonce, gas     uint64
	value, price   *big.Int
	chainID        *big.Int
	accesses       int // entries of the access list
	storageKeys    int // of all of them
	authorizations int
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
	return txOf(raw, fields, from), nil
}

// txOf takes over what the decoder made of raw.
func txOf(raw []byte, fields *types.Transaction, from common.Address) *Tx {
	t := &Tx{
		raw: raw, data: within(raw, fields.Data()), hash: fields.Hash(), from: from, create: fields.To() == nil,
		protected: protected(fields), kind: fields.Type(),
		nonce: fields.Nonce(), gas: fields.Gas(), value: fields.Value(), price: fields.GasFeeCap(), chainID: fields.ChainId(),
		accesses: len(fields.AccessList()), storageKeys: fields.AccessList().StorageKeys(),
		authorizations: len(fields.SetCodeAuthorizations()),
	}
	if !t.create {
		t.to = *fields.To()
	}
	return t
}

// protected tells whether a signature covers a chain id: a number in legacy transactions
// since EIP-155, one that is not 0 in all others.
func protected(fields *types.Transaction) bool {
	if fields.Type() == types.LegacyTxType {
		return fields.Protected()
	}
	return fields.ChainId().Sign() != 0
}

// within finds the bytes of a part in the whole, so that they need not be kept twice.
func within(whole, part []byte) []byte {
	at := bytes.Index(whole, part)
	return whole[at : at+len(part) : at+len(part)]
}

func decodeError(raw []byte, err error) *Error {
	if errors.Is(err, types.ErrTxTypeNotSupported) {
		return ErrInvalidArguments("unsupported transaction type: 0x%02x", raw[0])
	}
	if known := setCodeError(raw); known != nil {
		return known
	}
	if trailing(raw) {
		return ErrInvalidArguments("unexpected junk after rlp payload").ethereum("%s", err)
	}
	return ErrInvalidArguments("invalid transaction encoding: %s", err)
}

// trailing tells whether something follows the list of the transaction's fields.
func trailing(raw []byte) bool {
	if raw[0] <= 0x7f { // the type comes first
		raw = raw[1:]
	}
	_, rest, err := rlp.SplitList(raw)
	return err == nil && len(rest) > 0
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
	signer, err := SignerOf(tx)
	if err != nil {
		return common.Address{}, err
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
func (t *Tx) Type() uint8 { return t.kind }

// Nonce returns the sender's sequence number.
func (t *Tx) Nonce() uint64 { return t.nonce }

// Gas returns the gas limit.
func (t *Tx) Gas() uint64 { return t.gas }

// To returns the receiver, or nil for a contract creation. The caller must not change
// it.
func (t *Tx) To() *common.Address {
	if t.create {
		return nil
	}
	return &t.to
}

// Value returns the value in weibar. The result is the caller's own.
func (t *Tx) Value() *big.Int { return new(big.Int).Set(t.value) }

// Data returns the call data, or the init code of a creation. The caller must
// not change it.
func (t *Tx) Data() []byte { return t.data }

// GasPrice returns the most the sender pays for a unit of gas, in weibar: the gas
// price of types 0 and 1, the fee cap of later types. The result is the caller's own.
func (t *Tx) GasPrice() *big.Int { return new(big.Int).Set(t.price) }

// Cost returns value plus gas limit times GasPrice, in weibar: what the sender's
// balance must cover.
func (t *Tx) Cost() *big.Int {
	cost := new(big.Int).Mul(t.GasPrice(), new(big.Int).SetUint64(t.Gas()))
	return cost.Add(cost, t.Value())
}

// ChainID returns the chain that the signature covers. One that covers none holds on
// every chain: the result is 0 and Protected tells. The result is the caller's own.
func (t *Tx) ChainID() *big.Int { return new(big.Int).Set(t.chainID) }

// Protected tells whether the signature covers a chain id. Legacy transactions from
// before EIP-155 do not, and neither do those of other types that name chain id 0.
func (t *Tx) Protected() bool { return t.protected }

// Accesses returns the number of entries of the access list.
func (t *Tx) Accesses() int { return t.accesses }

// Authorizations returns the number of authorizations, which only type 4 has.
func (t *Tx) Authorizations() int { return t.authorizations }

// AuthorizationList decodes the authorizations; nil for all types but 4. The result is the
// caller's own.
func (t *Tx) AuthorizationList() []types.SetCodeAuthorization {
	if t.authorizations == 0 {
		return nil
	}
	return t.Fields().SetCodeAuthorizations()
}

// Fields decodes the transaction again, for what has no accessor here. The result is
// the caller's own.
func (t *Tx) Fields() *types.Transaction {
	fields := new(types.Transaction)
	if err := fields.UnmarshalBinary(t.raw); err != nil {
		panic("a transaction that was decoded before: " + err.Error())
	}
	return fields
}

// looseSetCode is a type 4 transaction with room for what none may have: numbers of any
// size in its authorizations, and no receiver.
type looseSetCode struct {
	ChainID        *big.Int
	Nonce          uint64
	Tip, FeeCap    *big.Int
	Gas            uint64
	To             []byte
	Value          *big.Int
	Data           []byte
	AccessList     types.AccessList
	Authorizations []looseAuthorization
	V, R, S        *big.Int
}

type looseAuthorization struct {
	ChainID *big.Int
	Address common.Address
	Nonce   *big.Int
	V, R, S *big.Int
}

var maxUint256 = new(big.Int).Sub(new(big.Int).Lsh(common.Big1, 256), common.Big1)

// setCodeError says what is wrong with a type 4 transaction that did not decode, in the
// words that clients know for it; nil if it is none of that.
func setCodeError(raw []byte) *Error {
	var tx looseSetCode
	if len(raw) == 0 || raw[0] != types.SetCodeTxType || rlp.DecodeBytes(raw[1:], &tx) != nil {
		return nil
	}
	for _, a := range tx.Authorizations {
		if !a.Nonce.IsUint64() {
			return ErrInvalidParam("authorizationList", "authorization nonce '%d' exceeds uint64 maximum of %d", a.Nonce, uint64(math.MaxUint64))
		}
		if a.ChainID.Cmp(maxUint256) > 0 {
			return ErrInvalidParam("authorizationList", "authorization chainId '%d' exceeds uint256 maximum of %d", a.ChainID, maxUint256)
		}
	}
	if len(tx.To) == 0 {
		return ErrInvalidParam("to", "type 4 transaction cannot be used to create contract")
	}
	return nil
}
