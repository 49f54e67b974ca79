package evm

import (
	"bytes"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Gas of the account service. Signatures cost what it takes to check them.
const (
	accountUpdateGas = 3_098 // 0.022 of a cent
	EcdsaGas         = 3_000
	Ed25519Gas       = 1_500_000
)

const signatureSize = 64 // r and s, or a signature of Ed25519

func newAccountFunctions() *serviceFunctions {
	const redirectForAccount = 0xe4cbd3a7
	return newServiceFunctions("account service", redirectForAccount, accountCalls, accountFacade)
}

// accountCalls are the functions of the account service itself.
func accountCalls() []*serviceFunction {
	return []*serviceFunction{
		{signature: "isValidAlias(address)", returns: "bool", codeless: true, view: true, run: (*serviceCall).validAlias},
		{signature: "getEvmAddressAlias(address)", returns: "address", view: true, run: (*serviceCall).aliasOf},
		{signature: "getHederaAccountNumAlias(address)", returns: "address", view: true, run: (*serviceCall).numberAliasOf},
		{signature: "hbarAllowance(address,address)", returns: "int256", view: true, run: func(c *serviceCall) hedera.Status {
			return c.hbarAllowance(c.account(0), c.account(1))
		}},
		{signature: "hbarApprove(address,address,int256)", gas: approveGas, run: func(c *serviceCall) hedera.Status {
			return c.hbarApprove(c.account(0), c.account(1), &c.args[2])
		}},
		{signature: "isAuthorizedRaw(address,bytes,bytes)", returns: "bool", codeless: true, view: true, price: rawPrice, run: (*serviceCall).authorizedRaw},
		{signature: "isAuthorized(address,bytes,bytes)", returns: "bool", view: true, price: keyPrice, run: (*serviceCall).authorized},
	}
}

// accountFacade is what can be called at the address of an account.
func accountFacade() []*serviceFunction {
	return []*serviceFunction{
		{signature: "hbarAllowance(address)", returns: "int64,int256", view: true, run: func(c *serviceCall) hedera.Status {
			return c.hbarAllowance(c.entity.AccountID(), c.account(0))
		}},
		{signature: "hbarApprove(address,int256)", returns: "int64", gas: approveGas, run: func(c *serviceCall) hedera.Status {
			return c.hbarApprove(c.entity.AccountID(), c.account(0), &c.args[1])
		}},
		{signature: "setUnlimitedAutomaticAssociations(bool)", returns: "int64", gas: accountUpdateGas, run: (*serviceCall).setUnlimited},
	}
}

// accountProxy is what answers a call at an account without code, nil where nobody does: of
// call data to accounts, only the three functions mean something.
func (x *execution) accountProxy(op vm.OpCode, a *state.Party, input []byte) vm.PrecompiledContract {
	if !a.Exists || a.Contract || a.Num == 0 || len(input) < 4 || op != vm.CALL && op != vm.STATICCALL || a.Delegation() != (common.Address{}) {
		return nil
	}
	if x.accounts.facade()[[4]byte(input)] == nil {
		return nil
	}
	return &serviceProxy{x: x, functions: x.accounts, entity: hedera.Entity(a.Num)}
}

// known is the account or contract that the first argument names, nil for none.
func (c *serviceCall) known() *state.Party {
	if a := c.x.o.Get(c.args[0].Address()); a.Exists && a.Num != 0 {
		return a
	}
	return nil
}

func (c *serviceCall) validAlias() hedera.Status {
	c.result = []sysabi.Value{sysabi.Bool(c.known() != nil)}
	return okay
}

// aliasOf translates a number's address to the EVM address behind it.
func (c *serviceCall) aliasOf() hedera.Status {
	a := c.known()
	_, longZero := hedera.FromLongZero(c.args[0].Address())
	if a == nil || !longZero || a.Address == hedera.Entity(a.Num).LongZero() {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	c.result = []sysabi.Value{sysabi.Address(a.Address)}
	return okay
}

// numberAliasOf translates an account's own EVM address to that of its number.
func (c *serviceCall) numberAliasOf() hedera.Status {
	a := c.known()
	if a == nil || a.Address != c.args[0].Address() {
		return hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS
	}
	c.result = []sysabi.Value{sysabi.Address(hedera.Entity(a.Num).LongZero())}
	return okay
}

// hbarAllowance tells what a spender may spend of an owner's hbar. A stranger as owner reverts.
func (c *serviceCall) hbarAllowance(owner, spender *hapi.AccountID) hedera.Status {
	amount := int64(0)
	if c.x.o.EntityAccount(owner.GetAccountNum()).Exists && owner.GetAlias() == nil {
		if a := c.x.o.Allowances.Get(state.AllowanceKey{Owner: owner.GetAccountNum(), Spender: spender.GetAccountNum()}); a != nil {
			amount = a.Amount
		}
		c.result = []sysabi.Value{sysabi.Int(amount)}
		return okay
	}
	c.reverts = true
	return hapi.ResponseCodeEnum_INVALID_ALLOWANCE_OWNER_ID
}

// hbarApprove lets a spender spend an owner's hbar, where the owner's key agrees.
func (c *serviceCall) hbarApprove(owner, spender *hapi.AccountID, amount *sysabi.Value) hedera.Status {
	return c.do(&hapi.CryptoApproveAllowanceTransactionBody{CryptoAllowances: []*hapi.CryptoAllowance{{
		Owner: owner, Spender: spender, Amount: amount.Int64(),
	}}})
}

// setUnlimited has an account take any token without being asked, or none.
func (c *serviceCall) setUnlimited() hedera.Status {
	limit := int32(0)
	if c.args[0].Bool() {
		limit = -1
	}
	return c.do(&hapi.CryptoUpdateTransactionBody{
		AccountIDToUpdate: c.entity.AccountID(), MaxAutomaticTokenAssociations: wrapperspb.Int32(limit),
	})
}

// isEd25519 tells the two kinds of signature apart by their size: one for the EVM has at
// least one byte more, from which the key can be recovered.
func isEd25519(signature []byte) bool { return len(signature) == signatureSize }

func rawPrice(_ *execution, args []sysabi.Value) uint64 {
	if isEd25519(args[2].Data) {
		return Ed25519Gas
	}
	return EcdsaGas
}

// authorizedRaw checks a signature over a hash, or for Ed25519 over any bytes, against the
// one key of an account. What is malformed reverts.
func (c *serviceCall) authorizedRaw() hedera.Status {
	hash, signature, account := c.args[1].Data, c.args[2].Data, c.known()
	_, longZero := hedera.FromLongZero(c.args[0].Address())
	ed := isEd25519(signature)
	switch {
	case len(signature) < signatureSize || len(signature) > signatureSize+8, !ed && len(hash) != common.HashLength:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	case account == nil, !ed && longZero:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	key := account.Key()
	if !ed {
		c.result = []sysabi.Value{sysabi.Bool(signedHash(account, hash, signature))}
		return okay
	}
	switch {
	case key == nil, key.GetKeyList() != nil, key.GetThresholdKey() != nil:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	case key.GetEd25519() == nil:
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE_TYPE_MISMATCHING_KEY
	}
	c.result = []sysabi.Value{sysabi.Bool(hedera.Verify(key.GetEd25519(), hash, signature))}
	return okay
}

// signedHash tells whether the key behind an account's EVM address signed a hash.
func signedHash(account *state.Party, hash, signature []byte) bool {
	v := new(big.Int).SetBytes(signature[signatureSize:])
	var id byte
	switch {
	case v.Cmp(big.NewInt(35)) >= 0: // with a chain id in it
		id = byte(1 - v.Bit(0))
	case v.IsInt64() && (v.Int64() == 27 || v.Int64() == 28):
		id = byte(v.Int64() - 27)
	case v.IsInt64() && v.Int64() <= 1:
		id = byte(v.Int64())
	default:
		return false
	}
	public, err := crypto.SigToPub(hash, append(bytes.Clone(signature[:signatureSize]), id))
	if err != nil {
		return false
	}
	if key := account.Key().GetECDSASecp256K1(); key != nil {
		return bytes.Equal(crypto.CompressPubkey(public), key)
	}
	return core.IsHollow(account) && crypto.PubkeyToAddress(*public) == account.Address
}

// keyPrice is the price of checking every key of an account.
func keyPrice(x *execution, args []sysabi.Value) uint64 {
	var count func(key *hapi.Key, depth int) uint64
	count = func(key *hapi.Key, depth int) (gas uint64) {
		if depth > hapikey.MaxDepth {
			return 0
		}
		list := key.GetKeyList().GetKeys()
		if threshold := key.GetThresholdKey(); threshold != nil {
			list = threshold.GetKeys().GetKeys()
		}
		for _, one := range list {
			gas += count(one, depth+1)
		}
		switch {
		case key.GetEd25519() != nil:
			return Ed25519Gas
		case key.GetECDSASecp256K1() != nil:
			return EcdsaGas
		}
		return gas
	}
	return max(viewGas, count(x.o.Get(args[0].Address()).Key(), 0))
}

// authorized checks the signatures of a message against the whole key of an account.
func (c *serviceCall) authorized() hedera.Status {
	account, list := c.known(), new(hapi.SignatureMap)
	switch {
	case account == nil:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case account.Key() == nil, proto.Unmarshal(c.args[2].Data, list) != nil, len(list.GetSigPair()) > hapikey.Max:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	for _, pair := range list.GetSigPair() {
		if s := pair.GetECDSASecp256K1(); len(s) > signatureSize { // as the EVM writes it
			pair.Signature = &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: s[:signatureSize]}
		}
	}
	c.result = []sysabi.Value{sysabi.Bool(hapikey.NewSignatures(c.args[1].Data, list.GetSigPair()).Signed(account.Key()))}
	return okay
}
