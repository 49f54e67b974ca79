package eth

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"
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

// Gas rules that hold before a transaction runs.
const (
	TxGas                = 21_000
	createGas            = 32_000
	initcodeWordGas      = 2
	tokenGas             = 4  // a zero byte is one token, any other four
	floorTokenGas        = 10 // EIP-7623
	accessAddressGas     = 2_400
	accessStorageKeyGas  = 1_900
	tokensPerNonZeroByte = 4
)

// AuthorizationGas is what each authorization of a type 4 transaction needs (EIP-7702).
const AuthorizationGas = 25_000

// MaxInitcodeSize is the EIP-3860 limit on the init code of a creation, in bytes.
const MaxInitcodeSize = 49_152

// DataGas returns the gas that call data or init code costs before anything runs, that of the transaction itself
// included, and the least that a transaction with it is charged, however little it does (EIP-7623). Access lists and
// authorizations are not part of either.
func DataGas(data []byte, creation bool) (standard, floor uint64) {
	zeros := uint64(bytes.Count(data, []byte{0}))
	tokens := zeros + tokensPerNonZeroByte*(uint64(len(data))-zeros)
	standard = TxGas + tokenGas*tokens
	if creation {
		standard += createGas + initcodeWordGas*((uint64(len(data))+31)/32)
	}
	return standard, TxGas + floorTokenGas*tokens
}

// IntrinsicGas returns the gas that a transaction needs before it runs: the
// larger of the classic intrinsic cost and the call data floor of EIP-7623.
func IntrinsicGas(t *Tx) uint64 {
	standard, floor := DataGas(t.Data(), t.To() == nil)
	standard += accessAddressGas*uint64(t.accesses) + accessStorageKeyGas*uint64(t.storageKeys)
	standard += AuthorizationGas * uint64(t.authorizations)
	return max(standard, floor)
}

// WithoutData encodes the transaction again with its data field empty and all else, the
// signature included, as it was. This is the form in which the network takes a
// transaction whose call data is in a file. The hash stays that of the whole
// transaction: the network puts the data back before it looks at either.
//
// Types 0 to 2 without an access list have such a form; the others give an error.
func (t *Tx) WithoutData() ([]byte, error) {
	if t.accesses > 0 {
		return nil, fmt.Errorf("transaction %s has an access list and cannot keep its data elsewhere", t.hash)
	}
	f := t.Fields()
	v, r, s := f.RawSignatureValues()
	var bare types.TxData
	switch f.Type() {
	case types.LegacyTxType:
		bare = &types.LegacyTx{Nonce: f.Nonce(), GasPrice: f.GasPrice(), Gas: f.Gas(), To: f.To(), Value: f.Value(), V: v, R: r, S: s}
	case types.AccessListTxType:
		bare = &types.AccessListTx{
			ChainID: f.ChainId(), Nonce: f.Nonce(), GasPrice: f.GasPrice(), Gas: f.Gas(), To: f.To(), Value: f.Value(), V: v, R: r, S: s,
		}
	case types.DynamicFeeTxType:
		bare = &types.DynamicFeeTx{
			ChainID: f.ChainId(), Nonce: f.Nonce(), GasTipCap: f.GasTipCap(), GasFeeCap: f.GasFeeCap(), Gas: f.Gas(), To: f.To(),
			Value: f.Value(), V: v, R: r, S: s,
		}
	default:
		return nil, fmt.Errorf("transaction type %d cannot keep its data elsewhere", f.Type())
	}
	raw, err := types.NewTx(bare).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode transaction %s without its data: %w", t.hash, err)
	}
	return raw, nil
}

// Unproven makes a transaction of a sender that nobody has proved, for networks of
// development, which run such. Its signature is none, and its hash, over the sender too, is
// not that of its bytes: nobody can take it for one that was signed.
func Unproven(unsigned *types.Transaction, from common.Address) (*Tx, error) {
	var fields types.TxData
	v, r, s := new(big.Int), new(big.Int).SetBytes(from[:]), big.NewInt(1)
	switch unsigned.Type() {
	case types.LegacyTxType:
		fields = &types.LegacyTx{
			Nonce: unsigned.Nonce(), GasPrice: unsigned.GasPrice(), Gas: unsigned.Gas(), To: unsigned.To(), Value: unsigned.Value(), Data: unsigned.Data(),
			V: big.NewInt(27), R: r, S: s,
		}
	case types.DynamicFeeTxType:
		fields = &types.DynamicFeeTx{
			ChainID: unsigned.ChainId(), Nonce: unsigned.Nonce(), GasTipCap: unsigned.GasTipCap(), GasFeeCap: unsigned.GasFeeCap(), Gas: unsigned.Gas(),
			To: unsigned.To(), Value: unsigned.Value(), Data: unsigned.Data(), AccessList: unsigned.AccessList(), V: v, R: r, S: s,
		}
	default:
		return nil, ErrTransactionType(unsigned.Type())
	}
	signed := types.NewTx(fields)
	raw, err := signed.MarshalBinary()
	if err != nil {
		return nil, ErrInvalidArguments("%s", err)
	}
	tx := txOf(raw, signed, from)
	tx.hash = crypto.Keccak256Hash([]byte("unproven"), from[:], raw)
	return tx, nil
}

// SignerOf returns the signer that a transaction was signed with, as its fields tell.
func SignerOf(tx *types.Transaction) (types.Signer, error) {
	switch {
	case tx.Type() == types.LegacyTxType && !tx.Protected():
		return types.HomesteadSigner{}, nil
	case tx.ChainId().Sign() > 0:
		return types.LatestSignerForChainID(tx.ChainId()), nil
	case tx.Type() == types.LegacyTxType:
		return nil, errors.New("the signature covers chain id 0, which no chain has")
	}
	return AnyChain{}, nil
}

// AnyChain signs transactions of all types but legacy with chain id 0. The network takes
// them on any chain, as it does unprotected legacy ones; ethers makes them when it is
// given a gas price and no chain id. go-ethereum's signers know no chain 0.
type AnyChain struct{}

// ChainID returns 0.
func (AnyChain) ChainID() *big.Int { return new(big.Int) }

// Equal tells whether the other signer is of the same kind.
func (AnyChain) Equal(other types.Signer) bool {
	_, same := other.(AnyChain)
	return same
}

// Hash returns what is signed: the type and the fields with chain id 0.
func (AnyChain) Hash(tx *types.Transaction) common.Hash {
	fields := []any{new(big.Int), tx.Nonce()}
	if tx.Type() == types.AccessListTxType {
		fields = append(fields, tx.GasPrice())
	} else {
		fields = append(fields, tx.GasTipCap(), tx.GasFeeCap())
	}
	fields = append(fields, tx.Gas(), tx.To(), tx.Value(), tx.Data(), tx.AccessList())
	if tx.Type() == types.SetCodeTxType {
		fields = append(fields, tx.SetCodeAuthorizations())
	}
	body, err := rlp.EncodeToBytes(fields)
	if err != nil {
		panic("fields that were decoded do not encode: " + err.Error())
	}
	return crypto.Keccak256Hash([]byte{tx.Type()}, body)
}

// SignatureValues splits a signature of 65 bytes.
func (AnyChain) SignatureValues(_ *types.Transaction, signature []byte) (r, s, v *big.Int, err error) {
	if len(signature) != crypto.SignatureLength {
		return nil, nil, nil, types.ErrInvalidSig
	}
	number := func(b []byte) *big.Int { return new(big.Int).SetBytes(b) }
	return number(signature[:32]), number(signature[32:64]), number(signature[64:]), nil
}

// Sender recovers who signed.
func (AnyChain) Sender(tx *types.Transaction) (common.Address, error) { return recoverSender(tx) }

// Signed returns the transaction in go-ethereum's form. Its hash is the
// transaction's own unless the network kept less than was sent, such as a value's
// part below one tinybar.
func (t *Transaction) Signed() (*types.Transaction, error) {
	switch t.Type {
	case types.LegacyTxType:
		return types.NewTx(&types.LegacyTx{
			Nonce: uint64(t.Nonce), GasPrice: whole(t.GasPrice), Gas: uint64(t.Gas), To: t.To, Value: whole(t.Value), Data: t.Input,
			V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.AccessListTxType:
		return types.NewTx(&types.AccessListTx{
			ChainID: whole(t.signedChain()), Nonce: uint64(t.Nonce), GasPrice: whole(t.GasPrice), Gas: uint64(t.Gas), To: t.To, Value: whole(t.Value), Data: t.Input,
			AccessList: t.AccessList, V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.DynamicFeeTxType:
		return types.NewTx(&types.DynamicFeeTx{
			ChainID: whole(t.signedChain()), Nonce: uint64(t.Nonce), GasTipCap: whole(t.MaxTip), GasFeeCap: whole(t.MaxFee), Gas: uint64(t.Gas), To: t.To,
			Value: whole(t.Value), Data: t.Input, AccessList: t.AccessList, V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.SetCodeTxType:
		return t.setCode()
	}
	return nil, fmt.Errorf("transaction type %d", t.Type)
}

func (t *Transaction) setCode() (*types.Transaction, error) {
	if t.To == nil {
		return nil, fmt.Errorf("transaction type %d without a receiver", t.Type)
	}
	return types.NewTx(&types.SetCodeTx{
		ChainID: word(t.signedChain()), Nonce: uint64(t.Nonce), GasTipCap: word(t.MaxTip), GasFeeCap: word(t.MaxFee), Gas: uint64(t.Gas), To: *t.To,
		Value: word(t.Value), Data: t.Input, AccessList: t.AccessList, AuthList: t.Authorizations, V: word(t.V), R: word(t.R), S: word(t.S),
	}), nil
}

// signedChain is the chain id that the signature of a transaction with a type covers.
func (t *Transaction) signedChain() *hexutil.Big {
	if t.AnyChain {
		return nil
	}
	return t.ChainID
}

func whole(n *hexutil.Big) *big.Int { return Number(n.ToInt()).ToInt() }

// word cuts a number to 256 bits; none of these fields has more.
func word(n *hexutil.Big) *uint256.Int {
	w, _ := uint256.FromBig(whole(n))
	return w
}
