package develop

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/rpc"
)

// accountMethods are what a node does for accounts whose keys it has.
func (d *Developer) accountMethods() []rpc.Method {
	return concat(
		named(d.listAccounts, "eth_accounts", "eth_requestAccounts"),
		named(d.sendTransaction, "eth_sendTransaction"),
		named(d.signTransaction, "eth_signTransaction"),
		named(d.sign(0, 1), "eth_sign"), named(d.sign(1, 0), "personal_sign"),
		named(d.signTyped, "eth_signTypedData", "eth_signTypedData_v4"),
	)
}

func (d *Developer) listAccounts(context.Context, *rpc.Params) (any, error) {
	return d.accounts, nil
}

// errNoKey says that the chain cannot sign for an account.
func errNoKey(a common.Address) error {
	return eth.ErrInvalidArguments("unknown account %s: it is none of eth_accounts, and nobody impersonates it", a.Hex())
}

func (d *Developer) signerOf(a common.Address) (*signer, error) {
	if s := d.keys[a]; s != nil {
		return s, nil
	}
	return nil, errNoKey(a)
}

// sender reads who a transaction is from: the first account where it does not say.
func (d *Developer) sender(tx jsonx.Value) (common.Address, error) {
	if !tx.IsObject() {
		return common.Address{}, eth.ErrInvalidParam(0, "want a transaction")
	}
	from := tx.Field("from")
	if !from.Given() {
		return d.accounts[0], nil
	}
	if raw := from.Bytes(); len(raw) == common.AddressLength {
		return common.Address(raw), nil
	}
	return common.Address{}, eth.ErrInvalidParam(0, "from is no address")
}

// sendTransaction is eth_sendTransaction: what is missing is filled in, the chain signs, and the
// transaction takes the way of all.
func (d *Developer) sendTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	from, err := d.sender(p.At(0))
	if err != nil {
		return nil, err
	}
	if d.impersonates(from) {
		return d.sendUnproven(ctx, p.At(0), from)
	}
	s, err := d.signerOf(from)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := d.signed(ctx, p.At(0), from, s)
	if err != nil {
		return nil, err
	}
	return d.self.call(ctx, "eth_sendRawTransaction", hexutil.Bytes(raw))
}

// signTransaction is eth_signTransaction.
func (d *Developer) signTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	from, err := d.sender(p.At(0))
	if err != nil {
		return nil, err
	}
	s, err := d.signerOf(from)
	if err != nil {
		return nil, err
	}
	raw, err := d.signed(ctx, p.At(0), from, s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"raw": hexutil.Bytes(raw)}, nil
}

// signed completes a transaction and signs it.
func (d *Developer) signed(ctx context.Context, args jsonx.Value, from common.Address, s *signer) ([]byte, error) {
	filled, err := d.self.call(ctx, "eth_fillTransaction", withFrom(args, from))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if err := json.Unmarshal(filled, &answer); err != nil {
		return nil, fmt.Errorf("filled transaction: %w", err)
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(answer.Raw); err != nil {
		return nil, fmt.Errorf("filled transaction: %w", err)
	}
	rules := types.LatestSignerForChainID(new(big.Int).SetUint64(d.ledger.View().ChainID()))
	tx, err = types.SignTx(tx, rules, s.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return tx.MarshalBinary()
}

// withFrom is a transaction object that says who it is from, and whose call data has one
// name: tools write data and input.
func withFrom(args jsonx.Value, from common.Address) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range args.Fields() {
		if value.Given() {
			out[name] = json.RawMessage(value)
		}
	}
	if out["input"] != nil {
		delete(out, "data")
	}
	// A type without fields of its kind decides nothing, and not all tools write one that fits.
	delete(out, "type")
	out["from"] = json.RawMessage(`"` + from.Hex() + `"`)
	return out
}

// sign is eth_sign and personal_sign, which differ in the order of their parameters.
func (d *Developer) sign(addressAtParam, dataAt int) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		a, err := addressAt(p, addressAtParam)
		if err != nil {
			return nil, err
		}
		s, err := d.signerOf(a)
		if err != nil {
			return nil, err
		}
		text := p.At(dataAt)
		data := text.Bytes()
		if data == nil { // text that is no hexadecimal stands for itself
			data = []byte(text.Text())
		}
		return s.signature(accounts.TextHash(data))
	}
}

// signTyped is eth_signTypedData_v4 (EIP-712).
func (d *Developer) signTyped(_ context.Context, p *rpc.Params) (any, error) {
	a, err := addressAt(p, 0)
	if err != nil {
		return nil, err
	}
	s, err := d.signerOf(a)
	if err != nil {
		return nil, err
	}
	text := []byte(p.At(1))
	if p.At(1).IsString() {
		text = []byte(p.At(1).Text())
	}
	var typed apitypes.TypedData
	if err := json.Unmarshal(text, &typed); err != nil {
		return nil, eth.ErrInvalidParam(1, "want typed data: %s", err)
	}
	digest, _, err := apitypes.TypedDataAndHash(typed)
	if err != nil {
		return nil, eth.ErrInvalidParam(1, "typed data: %s", err)
	}
	return s.signature(digest)
}

// signature signs a digest, with 27 or 28 for the parity, as wallets do.
func (s *signer) signature(digest []byte) (any, error) {
	signature, err := crypto.Sign(digest, s.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	signature[crypto.RecoveryIDOffset] += 27
	return hexutil.Bytes(signature), nil
}
