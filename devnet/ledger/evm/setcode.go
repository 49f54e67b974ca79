package evm

import (
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/state"
)

// Authorizations (EIP-7702) as the network has decided to have them (HIP-1340): an account
// lets the code of an address run as its own. The network does not execute them yet, and
// nor does this one unless Config.SetCode says so.

const (
	authorizationGas    = 25_000 // of each, from the start
	authorizationRefund = 12_500 // for each whose account exists
)

// authorize applies authorizations, and returns the gas that this takes beyond what was paid
// from the start, which is for accounts that come into being. What is applied stays, whatever
// becomes of the transaction. An authorization that is not valid, or whose account there is no
// gas for, is passed over.
func (e *Engine) authorize(o *stateDB, list []types.SetCodeAuthorization, gas uint64) (spent uint64) {
	for i := range list {
		account := e.authority(o, &list[i])
		switch {
		case account == nil:
			continue
		case account.Exists:
			o.AddRefund(authorizationRefund)
		case gas-spent < LazyCreationGas:
			continue
		default:
			spent += LazyCreationGas
			o.Create(account, true)
		}
		var code []byte // the zero address takes a delegation back
		if to := list[i].Address; to != (common.Address{}) {
			code = types.AddressToDelegation(to)
		}
		o.PutCode(account, code)
		o.PutNonce(account, account.Nonce+1)
	}
	return spent
}

// authority returns the account that signed an authorization, which may not exist yet, or nil
// if the authorization is not valid.
func (e *Engine) authority(o *stateDB, a *types.SetCodeAuthorization) *state.Party {
	if !a.ChainID.IsZero() && a.ChainID.CmpBig(e.chain.ChainID) != 0 || a.Nonce == math.MaxUint64 {
		return nil
	}
	address, err := a.Authority()
	if err != nil {
		return nil
	}
	o.AddAddressToAccessList(address)
	account := o.Get(address)
	if account.Contract || account.Deleted() || account.Nonce != a.Nonce {
		return nil
	}
	return account
}
