package accounts

import (
	"math"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/devnet/ledger/transfers"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

// cryptoCreate makes an account that the payer funds.
func cryptoCreate(h *core.Handling, body *hapi.CryptoCreateTransactionBody) hedera.Status {
	address, status := newAlias(h, body)
	if status != okay {
		return status
	}
	payer := h.Account(h.Sub.Payer)
	initial := hedera.Tinybar(body.GetInitialBalance())
	if body.GetReceiverSigRequired() && !h.Signed(body.GetKey()) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	if status := core.FirstFault(core.ValidMemo(body.GetMemo()), core.ValidPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	switch {
	case body.GetMaxAutomaticTokenAssociations() > core.MaxSlots:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	case !hapikey.Valid(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case payer.Tinybar() < initial:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	m := h.HollowMeta(common.Address{})
	m.Alias, m.Key, m.Memo = body.GetAlias(), body.GetKey(), body.GetMemo()
	m.AutoRenewPeriod = body.GetAutoRenewPeriod().GetSeconds()
	m.Expires = h.Expiry(m.AutoRenewPeriod)
	m.ReceiverSigRequired = body.GetReceiverSigRequired()
	m.MaxAutoAssociations = body.GetMaxAutomaticTokenAssociations()
	m.DeclineReward = body.GetDeclineReward()
	if status := h.FirstStake(m, body.GetStakedAccountId(), body.GetStakedId() != nil, body.GetStakedNodeId()); status != okay {
		return status
	}
	var at *state.Party
	if address != nil {
		at = h.State.Get(*address)
		h.Record.EVMAddress = address.Bytes()
	}
	a := h.Enter(m, at)
	h.State.Move(payer, a, initial)
	h.Record.Account, h.Record.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	if len(m.Alias) != common.AddressLength {
		h.Record.Alias = m.Alias
	}
	return okay
}

// newAlias checks the alias of an account that is to be created and returns the
// EVM address it gives, nil for none.
func newAlias(h *core.Handling, body *hapi.CryptoCreateTransactionBody) (*common.Address, hedera.Status) {
	alias := body.GetAlias()
	if len(alias) == 0 {
		return nil, okay
	}
	if len(alias) != common.AddressLength {
		key := core.AliasKey(alias)
		switch {
		case key == nil || !proto.Equal(key, body.GetKey()):
			return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
		case aliasTaken(h, alias):
			return nil, hapi.ResponseCodeEnum_ALIAS_ALREADY_ASSIGNED
		case key.GetEd25519() != nil:
			return nil, okay
		}
		address, _ := core.AliasAddress(alias)
		return freeAlias(h, address)
	}
	address := common.Address(alias)
	if _, longZero := hedera.FromLongZero(address); longZero {
		return nil, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY
	}
	if !ownsAddress(h, address, body.GetKey()) {
		return nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return freeAlias(h, address)
}

func aliasTaken(h *core.Handling, alias []byte) bool {
	_, taken := h.State.ByAlias(alias)
	return taken
}

func freeAlias(h *core.Handling, address common.Address) (*common.Address, hedera.Status) {
	if a := h.State.Get(address); a.Exists || a.Deleted() {
		return nil, hapi.ResponseCodeEnum_ALIAS_ALREADY_ASSIGNED
	}
	return &address, okay
}

// ownsAddress tells whether an EVM address may be the alias of an account with a key: that of the key itself, or
// of one that has signed.
func ownsAddress(h *core.Handling, address common.Address, key *hapi.Key) bool {
	if public := key.GetECDSASecp256K1(); public != nil {
		if owner, err := hedera.AddressOf(public); err == nil && owner == address {
			return true
		}
	}
	_, signed := h.Sub.Signatures.Completes(address)
	return signed
}

// cryptoUpdate changes what an account's owner may change.
func cryptoUpdate(h *core.Handling, body *hapi.CryptoUpdateTransactionBody) hedera.Status {
	a := h.Resolve(body.GetAccountIDToUpdate())
	switch {
	case a == nil || !a.Exists && !a.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case a.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case body.GetKey() != nil && !hapikey.Valid(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case !h.SignedBy(a), body.GetKey() != nil && !h.Signed(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case a.Contract:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	m := *a.CurrentMeta()
	if key := body.GetKey(); key != nil {
		m.Key = key
	}
	if memo := body.GetMemo(); memo != nil {
		m.Memo = memo.GetValue()
	}
	if status := core.FirstFault(core.ValidMemo(m.Memo), core.ValidPeriod(body.GetAutoRenewPeriod())); status != okay {
		return status
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		m.AutoRenewPeriod = period.GetSeconds()
	}
	if status := h.Extend(&m.Expires, body.GetExpirationTime()); status != okay {
		return status
	}
	if required := body.GetReceiverSigRequiredWrapper(); required != nil {
		m.ReceiverSigRequired = required.GetValue()
	}
	if n := body.GetMaxAutomaticTokenAssociations(); n != nil {
		if status := core.Slots(n.GetValue(), tokens.Automatic(h, a)); status != okay {
			return status
		}
		m.MaxAutoAssociations = n.GetValue()
	}
	if decline := body.GetDeclineReward(); decline != nil {
		m.DeclineReward = decline.GetValue()
		h.BeginPeriod(&m)
	}
	if body.GetStakedId() != nil {
		if status := h.Stake(&m, body.GetStakedAccountId(), true, body.GetStakedNodeId()); status != okay {
			return status
		}
	}
	h.State.PutMeta(a, &m)
	h.Record.Account, h.Record.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

// cryptoDelete deletes an account and hands its balance on.
func cryptoDelete(h *core.Handling, body *hapi.CryptoDeleteTransactionBody) hedera.Status {
	a, to := h.Resolve(body.GetDeleteAccountID()), h.Resolve(body.GetTransferAccountID())
	switch {
	case a == nil || a.Contract || !a.Exists && !a.Deleted():
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case a.Deleted() || to != nil && to.Deleted():
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	case to == nil || !to.Exists:
		return hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
	case a == to:
		return hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT
	case tokens.IsTreasury(h, a.Num):
		return hapi.ResponseCodeEnum_ACCOUNT_IS_TREASURY
	case tokens.HoldsTokens(h, a.Num):
		return hapi.ResponseCodeEnum_TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES
	case transfers.SendsAirdrops(h, a.Num):
		return hapi.ResponseCodeEnum_ACCOUNT_HAS_PENDING_AIRDROPS
	case a.Num <= state.LastSystemCode:
		return hapi.ResponseCodeEnum_ENTITY_NOT_ALLOWED_TO_DELETE
	case !h.SignedBy(a), to.WantsSignature() && !h.SignedBy(to):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	h.HandOn(a, to)
	h.Record.Account, h.Record.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

func pureCreate(body *hapi.CryptoCreateTransactionBody) hedera.Status {
	switch {
	case body.GetAutoRenewPeriod() == nil || body.GetAutoRenewPeriod().GetSeconds() < 0:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	case body.GetMaxAutomaticTokenAssociations() < -1:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	case body.GetInitialBalance() > math.MaxInt64:
		return hapi.ResponseCodeEnum_INVALID_INITIAL_BALANCE
	case body.GetKey() == nil:
		return hapi.ResponseCodeEnum_KEY_REQUIRED
	}
	return okay
}

func pureUpdate(body *hapi.CryptoUpdateTransactionBody) hedera.Status {
	if body.GetAccountIDToUpdate() == nil {
		return hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST
	}
	return okay
}

func pureDelete(body *hapi.CryptoDeleteTransactionBody) hedera.Status {
	if body.GetDeleteAccountID() == nil || body.GetTransferAccountID() == nil {
		return hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST
	}
	if core.SameAccount(body.GetDeleteAccountID(), body.GetTransferAccountID()) {
		return hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT
	}
	return okay
}

// Services are the transactions that are handled here.
func Services() core.Services {
	return core.Services{
		"cryptoCreateAccount":    core.ServiceOf(cryptoCreate, pureCreate),
		"cryptoUpdateAccount":    core.ServiceOf(cryptoUpdate, pureUpdate),
		"cryptoDelete":           core.ServiceOf(cryptoDelete, pureDelete),
		"cryptoApproveAllowance": core.ServiceOf(cryptoApprove, pureApprove),
		"cryptoDeleteAllowance":  core.ServiceOf(cryptoDeleteAllowance, nil),
	}
}
