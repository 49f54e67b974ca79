package ethapi

import (
	"bytes"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
)

// txArgs is a transaction object of a client: nil members were left out.
type txArgs struct {
	from, to           *common.Address
	gas, nonce         *uint64
	price, maxFee, tip *big.Int // weibar
	value              *big.Int // weibar
	chainID            *big.Int
	data               []byte
	accessList         types.AccessList             // nil: none
	authorizations     []types.SetCodeAuthorization // nil: none
}

// verifyFees refuses fees that contradict each other, as go-ethereum does; nil ones were left out.
func verifyFees(price, maxFee, tip *big.Int) error {
	switch {
	case price != nil && (maxFee != nil || tip != nil):
		return eth.ErrInvalidArguments("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
	case maxFee != nil && tip != nil && maxFee.Cmp(tip) < 0:
		return eth.ErrInvalidArguments("maxFeePerGas (%v) < maxPriorityFeePerGas (%v)", maxFee, tip)
	}
	return nil
}

// readTxArgs reads a transaction object that its rule has accepted.
func readTxArgs(v jsonx.Value) (t txArgs, err error) {
	for _, name := range []string{"blobs", "blobVersionedHashes", "maxFeePerBlobGas"} {
		if v.Field(name).Given() {
			return t, eth.ErrTransactionType(types.BlobTxType)
		}
	}
	t.from, t.to = addressField(v.Field("from")), addressField(v.Field("to"))
	t.price, t.maxFee, t.tip = v.Field("gasPrice").Big(), v.Field("maxFeePerGas").Big(), v.Field("maxPriorityFeePerGas").Big()
	t.value, t.chainID = v.Field("value").Big(), v.Field("chainId").Big()
	if t.gas, err = uintField(v, "gas"); err != nil {
		return t, err
	}
	if t.nonce, err = uintField(v, "nonce"); err != nil {
		return t, err
	}
	if t.data, err = dataField(v); err != nil {
		return t, err
	}
	for _, n := range []*big.Int{t.price, t.maxFee, t.tip, t.value, t.chainID} {
		if n != nil && n.BitLen() > 256 {
			return t, eth.ErrInvalidArguments("a number of more than 256 bits")
		}
	}
	if err := verifyFees(t.price, t.maxFee, t.tip); err != nil {
		return t, err
	}
	if t.accessList, err = accessListField(v.Field("accessList")); err != nil {
		return t, err
	}
	t.authorizations = authorizationsField(v.Field("authorizationList"))
	return t, nil
}

func addressField(v jsonx.Value) *common.Address {
	if !v.Given() {
		return nil
	}
	address := addressOf(v)
	return &address
}

// uintField reads a number of up to 64 bits; nil if it is absent.
func uintField(object jsonx.Value, name string) (*uint64, error) {
	v := object.Field(name)
	if !v.Given() {
		return nil, nil
	}
	n := v.Big()
	if n == nil || !n.IsUint64() {
		return nil, eth.ErrInvalidArguments("%s %s does not fit 64 bits", name, v.Text())
	}
	u := n.Uint64()
	return &u, nil
}

// dataField reads the call data, which has two names; input is the newer one.
func dataField(v jsonx.Value) ([]byte, error) {
	input, data := v.Field("input"), v.Field("data")
	if input.Given() && data.Given() && !bytes.Equal(input.Bytes(), data.Bytes()) {
		return nil, eth.ErrInvalidArguments(`both "data" and "input" are set and not equal; use "input"`)
	}
	if input.Given() {
		return input.Bytes(), nil
	}
	return data.Bytes(), nil
}

func accessListField(v jsonx.Value) (types.AccessList, error) {
	if !v.Given() {
		return nil, nil
	}
	list := types.AccessList{}
	for entry := range v.Elements() {
		address := entry.Field("address")
		if !AddressRule().Matches(address) {
			return nil, eth.ErrInvalidParam(0, "'accessList': %s", AddressRule().Phrase)
		}
		tuple := types.AccessTuple{Address: addressOf(address), StorageKeys: []common.Hash{}}
		for key := range entry.Field("storageKeys").Elements() {
			if !wordRule().Matches(key) {
				return nil, eth.ErrInvalidParam(0, "'accessList': %s", wordRule().Phrase)
			}
			tuple.StorageKeys = append(tuple.StorageKeys, wordOf(key))
		}
		list = append(list, tuple)
	}
	return list, nil
}

// authorizationsField reads signed authorizations that their rule has accepted.
func authorizationsField(v jsonx.Value) (list []types.SetCodeAuthorization) {
	for entry := range v.Elements() {
		parity, _ := entry.Field("yParity").Uint64()
		nonce, _ := entry.Field("nonce").Uint64()
		list = append(list, types.SetCodeAuthorization{
			ChainID: wordField(entry.Field("chainId")), Address: addressOf(entry.Field("address")), Nonce: nonce,
			V: uint8(parity), R: wordField(entry.Field("r")), S: wordField(entry.Field("s")),
		})
	}
	return list
}

func wordField(v jsonx.Value) (word uint256.Int) {
	if n := v.Big(); n != nil {
		word.SetFromBig(n)
	}
	return word
}
