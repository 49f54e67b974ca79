package develop

import (
	"cmp"
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger"
	"lockstep/ethapi"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/rpc"
)

// stateMethods change accounts without transactions.
func (d *Developer) stateMethods() (rows []rpc.Method) {
	for _, prefix := range []string{"hardhat_", "anvil_"} {
		result := any(true)
		if prefix == "anvil_" {
			result = nil
		}
		rows = append(rows, d.editMethods(prefix, result)...)
	}
	return append(rows, named(d.faucet, "lockstep_faucet")...)
}

func (d *Developer) editMethods(prefix string, result any) []rpc.Method {
	address, quantity := rpc.Required(ethapi.AddressRule()), rpc.Required(ethapi.HexRule())
	row := func(name string, edit func(p *rpc.Params, e *ledger.Edit) error, params ...rpc.Param) rpc.Method {
		return rpc.Method{Name: prefix + name, Params: params, Handler: func(ctx context.Context, p *rpc.Params) (any, error) {
			e := ledger.Edit{Address: common.BytesToAddress(p.Bytes(0))}
			if err := edit(p, &e); err != nil {
				return nil, err
			}
			return result, d.edit(ctx, e)
		}}
	}
	return []rpc.Method{
		row("setBalance", editBalance, address, quantity),
		row("addBalance", d.addBalance, address, quantity),
		row("setNonce", editNonce, address, quantity),
		row("setCode", editCode, address, rpc.Required(ethapi.HexBytesRule())),
		row("setStorageAt", editStorage, address, quantity, quantity),
	}
}

func (d *Developer) edit(ctx context.Context, e ledger.Edit) error {
	if err := d.ledger.Edit(e); err != nil {
		return eth.ErrInvalidParam(0, "%s", err)
	}
	d.changed(ctx)
	return nil
}

// addBalance adds weibar to a balance.
func (d *Developer) addBalance(p *rpc.Params, e *ledger.Edit) error {
	if err := editBalance(p, e); err != nil {
		return err
	}
	if a, exists := d.ledger.Handled().AccountByAddress(e.Address); exists {
		*e.Balance += a.Balance
	}
	return nil
}

// faucet is lockstep_faucet: an address gets so many hbar from the treasury, 100 if it is not
// said, and an account if it has none. It answers the balance, in weibar.
func (d *Developer) faucet(ctx context.Context, p *rpc.Params) (any, error) {
	a, err := addressAt(p, 0)
	if err != nil {
		return nil, err
	}
	hbar, err := countOr(p, 1, 100)
	if err != nil {
		return nil, err
	}
	const most = 1_000_000
	if hbar > most {
		return nil, eth.ErrInvalidParam(1, "the maximum is %d hbar at once", most)
	}
	balance := hedera.Tinybar(hbar) * hedera.Hbar
	if account, exists := d.ledger.Handled().AccountByAddress(a); exists {
		balance += account.Balance
	}
	return (*hexutil.Big)(balance.Weibar()), d.edit(ctx, ledger.Edit{Address: a, Balance: &balance})
}

// editBalance takes weibar, of which whole tinybars count.
func editBalance(p *rpc.Params, e *ledger.Edit) error {
	wei := p.At(1).Big()
	wei = cmp.Or(wei, new(big.Int))
	balance, ok := hedera.TinybarOf(wei)
	if !ok {
		return eth.ErrInvalidParam(1, "more than all hbar that can exist")
	}
	e.Balance = &balance
	return nil
}

func editNonce(p *rpc.Params, e *ledger.Edit) error {
	nonce, ok := p.At(1).Uint64()
	if !ok {
		return eth.ErrInvalidParam(1, "no nonce")
	}
	e.Nonce = &nonce
	return nil
}

func editCode(p *rpc.Params, e *ledger.Edit) error {
	code := common.CopyBytes(p.Bytes(1))
	e.Code = &code
	return nil
}

func editStorage(p *rpc.Params, e *ledger.Edit) error {
	slot, value := p.At(1).Big(), p.At(2).Big()
	if slot == nil || value == nil || slot.BitLen() > 256 || value.BitLen() > 256 {
		return eth.ErrInvalidParam(1, "not within 32 bytes")
	}
	e.Storage = map[common.Hash]common.Hash{common.BigToHash(slot): common.BigToHash(value)}
	return nil
}
