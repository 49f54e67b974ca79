package ethtx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/txmgr"
)

// Form is the form of the transactions of one chain: the part of a txmgr.Chain that asks
// nobody. Drivers embed it.
type Form struct{ ChainID uint64 }

// Account returns the address in lower case. Letters of both cases are a checksum (EIP-55), which has to be right: who has one digit
// wrong would send to somebody else.
func (f Form) Account(text string) (string, error) {
	if !common.IsHexAddress(text) || !strings.HasPrefix(text, "0x") && !strings.HasPrefix(text, "0X") {
		return "", errors.New("not an address of 20 bytes in hex")
	}
	digits, lower := text[2:], strings.ToLower(text[2:])
	if digits != lower && digits != strings.ToUpper(digits) && digits != common.HexToAddress(text).Hex()[2:] {
		return "", errors.New("the checksum of the address is wrong (EIP-55): a digit or the case of a letter is not right; in lower case it is taken as it is")
	}
	return "0x" + lower, nil
}

// Prepare makes the transaction that is signed.
func (f Form) Prepare(_ context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	var to *common.Address
	if d.To != "" {
		address := common.HexToAddress(d.To)
		to = &address
	}
	if d.Fees.Max == nil || d.Gas == 0 {
		return txmgr.Unsigned{}, errForm
	}
	more, err := read(d.Extra)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	var tx *types.Transaction
	chain := new(big.Int).SetUint64(f.ChainID)
	switch {
	case len(more.authorizations) > 0 && to != nil:
		tip := d.Fees.Tip
		if tip == nil { // a chain without a base fee
			tip = d.Fees.Max
		}
		set := &types.SetCodeTx{Nonce: d.Nonce, Gas: d.Gas, To: *to, Data: d.Data, AccessList: more.accesses, AuthList: more.authorizations}
		for n, in := range []*big.Int{chain, tip, d.Fees.Max, d.Value} {
			out := []**uint256.Int{&set.ChainID, &set.GasTipCap, &set.GasFeeCap, &set.Value}[n]
			if *out, _ = uint256.FromBig(in); *out == nil {
				*out = new(uint256.Int)
			}
		}
		tx = types.NewTx(set)
	case d.Fees.Tip != nil:
		tx = types.NewTx(&types.DynamicFeeTx{
			ChainID: chain, Nonce: d.Nonce, GasTipCap: d.Fees.Tip, GasFeeCap: d.Fees.Max, Gas: d.Gas, To: to, Value: d.Value, Data: d.Data, AccessList: more.accesses,
		})
	case len(more.accesses) > 0:
		tx = types.NewTx(&types.AccessListTx{ChainID: chain, Nonce: d.Nonce, GasPrice: d.Fees.Max, Gas: d.Gas, To: to, Value: d.Value, Data: d.Data, AccessList: more.accesses})
	default:
		tx = types.NewTx(&types.LegacyTx{Nonce: d.Nonce, GasPrice: d.Fees.Max, Gas: d.Gas, To: to, Value: d.Value, Data: d.Data})
	}
	payload, err := payload(tx, chain)
	return txmgr.Unsigned{Bytes: payload, Form: unsigned{tx, d.Signer}}, err
}

// payload returns the bytes whose Keccak-256 hash is signed: all fields but the signature, as EIP-155, EIP-2930,
// EIP-1559 and EIP-7702 list them.
func payload(tx *types.Transaction, chain *big.Int) ([]byte, error) {
	var out bytes.Buffer
	if tx.Type() != types.LegacyTxType {
		out.WriteByte(tx.Type())
	}
	what := []any{tx.Gas(), tx.To(), tx.Value(), tx.Data()}
	var fields []any
	switch tx.Type() {
	case types.LegacyTxType:
		fields = slices.Concat([]any{tx.Nonce(), tx.GasPrice()}, what, []any{chain, uint(0), uint(0)})
	case types.AccessListTxType:
		fields = slices.Concat([]any{chain, tx.Nonce(), tx.GasPrice()}, what, []any{tx.AccessList()})
	case types.DynamicFeeTxType:
		fields = slices.Concat([]any{chain, tx.Nonce(), tx.GasTipCap(), tx.GasFeeCap()}, what, []any{tx.AccessList()})
	case types.SetCodeTxType:
		fields = slices.Concat([]any{chain, tx.Nonce(), tx.GasTipCap(), tx.GasFeeCap()}, what, []any{tx.AccessList(), tx.SetCodeAuthorizations()})
	}
	err := rlp.Encode(&out, fields)
	return out.Bytes(), err
}

type unsigned struct {
	tx   *types.Transaction
	from string
}

func (f Form) signer() types.Signer {
	return types.LatestSignerForChainID(new(big.Int).SetUint64(f.ChainID))
}

// Seal puts the signature to a transaction, and checks that it is the signer's.
func (f Form) Seal(u txmgr.Unsigned, signature []byte) (txmgr.Signed, error) {
	form, ok := u.Form.(unsigned)
	if !ok {
		return txmgr.Signed{}, errors.New("not a transaction of this driver")
	}
	signed, err := form.tx.WithSignature(f.signer(), signature)
	if err != nil {
		return txmgr.Signed{}, fmt.Errorf("the key's signature does not fit: %w", err)
	}
	from, err := types.Sender(f.signer(), signed)
	if err != nil || from != common.HexToAddress(form.from) {
		return txmgr.Signed{}, errors.New("the signature is not the signer's")
	}
	raw, err := signed.MarshalBinary()
	if err != nil {
		return txmgr.Signed{}, err
	}
	return txmgr.Signed{Hash: signed.Hash().Hex(), Raw: raw}, nil
}

// Decode reads a transaction that a caller signed. It takes none with blobs: their fee is one that
// txmgr.Fees does not have, so budgets and the fees of a replacement would be wrong.
func (f Form) Decode(raw []byte) (txmgr.Decoded, error) {
	if len(raw) > 0 && raw[0] == types.BlobTxType {
		return txmgr.Decoded{}, errors.New("a transaction with blobs (type 3): the manager takes none")
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return txmgr.Decoded{}, err
	}
	if id := tx.ChainID(); !tx.Protected() || !id.IsUint64() || id.Uint64() != f.ChainID {
		return txmgr.Decoded{}, fmt.Errorf("signed for chain %s, not %d", id, f.ChainID)
	}
	fields := tx.Fields()
	if err := enough(tx.Gas(), tx.Data(), tx.To() == nil, extra{fields.AccessList(), fields.SetCodeAuthorizations()}); err != nil {
		return txmgr.Decoded{}, fmt.Errorf("gas of %d: %w", tx.Gas(), err)
	}
	from, err := f.Account(tx.From().Hex())
	if err != nil {
		return txmgr.Decoded{}, err
	}
	out := txmgr.Decoded{
		Signed: txmgr.Signed{Hash: tx.Hash().Hex(), Raw: tx.Raw()}, Signer: from, Nonce: tx.Nonce(),
		Call: txmgr.Call{From: from, Value: tx.Value(), Data: tx.Data(), Gas: tx.Gas()}, Fees: txmgr.Fees{Max: tx.GasPrice()},
	}
	if to := tx.To(); to != nil {
		if out.To, err = f.Account(to.Hex()); err != nil {
			return txmgr.Decoded{}, err
		}
	}
	if fields.Type() != types.LegacyTxType && fields.Type() != types.AccessListTxType {
		out.Fees = txmgr.Fees{Max: fields.GasFeeCap(), Tip: fields.GasTipCap()}
	}
	return out, nil
}
