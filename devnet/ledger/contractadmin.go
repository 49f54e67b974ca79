package ledger

import (
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// contractOf returns a contract that exists and that its admin key may change.
func (h *handling) contractOf(id *hapi.ContractID) (*ovAccount, hedera.Status) {
	address, ok := contractAddress(id)
	if !ok {
		return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	a := h.o.get(address)
	switch {
	case a.deleted():
		return nil, hapi.ResponseCodeEnum_CONTRACT_DELETED
	case !a.exists || !a.contract:
		return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	return a, okay
}

// administrated checks that the admin key signed. A contract that is its own admin cannot
// be changed from outside.
func (h *handling) administrated(a *ovAccount) hedera.Status {
	key := a.key()
	switch {
	case key == nil || proto.Equal(key, contractKey(a.num)):
		return hapi.ResponseCodeEnum_MODIFYING_IMMUTABLE_CONTRACT
	case !h.signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return okay
}

func (h *handling) contractUpdate(body *hapi.ContractUpdateTransactionBody) hedera.Status {
	a, status := h.contractOf(body.GetContractID())
	if status != okay {
		return status
	}
	m := *a.currentMeta()
	if until := body.GetExpirationTime(); until != nil {
		if timestamp(until).Compare(m.expires) < 0 {
			return hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED
		}
		m.expires = timestamp(until)
	}
	// Anybody may give a contract more time, and only that.
	bare := proto.CloneOf(body)
	bare.ContractID, bare.ExpirationTime = nil, nil
	if !proto.Equal(bare, &hapi.ContractUpdateTransactionBody{}) {
		if status := h.administrated(a); status != okay {
			return status
		}
		if status := h.changeContract(&m, a, body); status != okay {
			return status
		}
	}
	h.o.setMeta(a, &m)
	h.r.ContractID, h.r.Entity = hedera.Entity(a.num), hedera.Entity(a.num)
	return okay
}

func (h *handling) changeContract(m *meta, a *ovAccount, body *hapi.ContractUpdateTransactionBody) hedera.Status {
	switch key := body.GetAdminKey(); {
	case key == nil:
	case isEmptyKey(key):
		m.key = contractKey(a.num)
	case !validKey(key):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case !isContractKey(key) && !h.signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	default:
		m.key = key
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		if status := validPeriod(period); status != okay {
			return status
		}
		m.autoRenewPeriod = period.GetSeconds()
	}
	switch memo := body.GetMemoField().(type) {
	case *hapi.ContractUpdateTransactionBody_MemoWrapper:
		m.memo = memo.MemoWrapper.GetValue()
	case *hapi.ContractUpdateTransactionBody_Memo:
		m.memo = memo.Memo
	}
	if n := body.GetMaxAutomaticTokenAssociations(); n != nil {
		switch {
		case n.GetValue() < -1:
			return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
		case n.GetValue() >= 0 && n.GetValue() < h.automatic(a):
			return hapi.ResponseCodeEnum_EXISTING_AUTOMATIC_ASSOCIATIONS_EXCEED_GIVEN_LIMIT
		}
		m.maxAutoAssociations = n.GetValue()
	}
	if renew := body.GetAutoRenewAccountId(); renew != nil {
		by, status := h.party(renew)
		switch {
		case status != okay:
			return hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT
		case !h.signedBy(by):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		m.autoRenewAccount = hedera.Entity(by.num)
	}
	if decline := body.GetDeclineReward(); decline != nil {
		m.declineReward = decline.GetValue()
	}
	if body.GetStakedId() != nil {
		if status := h.stake(m, body.GetStakedAccountId(), true, body.GetStakedNodeId()); status != okay {
			return status
		}
	}
	return validMemo(m.memo)
}

// contractDelete deletes a contract and hands its balance on.
func (h *handling) contractDelete(body *hapi.ContractDeleteTransactionBody) hedera.Status {
	if body.GetPermanentRemoval() {
		return hapi.ResponseCodeEnum_PERMANENT_REMOVAL_REQUIRES_SYSTEM_INITIATION
	}
	a, status := h.contractOf(body.GetContractID())
	if status != okay {
		return status
	}
	var to *ovAccount
	switch by := body.GetObtainers().(type) {
	case *hapi.ContractDeleteTransactionBody_TransferAccountID:
		to = h.resolve(by.TransferAccountID)
	case *hapi.ContractDeleteTransactionBody_TransferContractID:
		if address, ok := contractAddress(by.TransferContractID); ok {
			to = h.o.get(address)
		}
	default:
		return hapi.ResponseCodeEnum_OBTAINER_REQUIRED
	}
	switch status := h.administrated(a); {
	case to == nil || !to.exists:
		return hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST
	case to == a:
		return hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID
	case status != okay:
		return status
	case to.wantsSignature() && !h.signedBy(to):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case h.isTreasury(a.num):
		return hapi.ResponseCodeEnum_CONTRACT_IS_TOKEN_TREASURY
	case h.holdsTokens(a.num):
		return hapi.ResponseCodeEnum_CONTRACT_HAS_NON_ZERO_TOKEN_BALANCES
	}
	h.o.move(a, to, a.tinybar())
	m := *a.currentMeta()
	m.deleted, m.obtainer = true, hedera.Entity(to.num)
	h.o.setMeta(a, &m)
	h.r.ContractID, h.r.Entity = hedera.Entity(a.num), hedera.Entity(a.num)
	return okay
}
