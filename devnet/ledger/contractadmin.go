package ledger

import (
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// contractOf returns a contract, nil for none; deleted is for one that there was.
func (h *handling) contractOf(id *hapi.ContractID) (_ *ovAccount, deleted bool) {
	address, ok := contractAddress(id)
	if !ok {
		return nil, false
	}
	a := h.o.get(address)
	switch {
	case a.deleted():
		return nil, a.base.meta.contract != nil
	case !a.exists || !a.contract:
		return nil, false
	}
	return a, false
}

// administrated checks that the admin key signed. A contract that is its own admin cannot
// be changed from outside.
func (h *handling) administrated(a *ovAccount) hedera.Status {
	key := a.key()
	switch {
	case key == nil || proto.Equal(key, hapikey.Contract(a.num)):
		return hapi.ResponseCodeEnum_MODIFYING_IMMUTABLE_CONTRACT
	case !h.signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return okay
}

func (h *handling) contractUpdate(body *hapi.ContractUpdateTransactionBody) hedera.Status {
	a, _ := h.contractOf(body.GetContractID())
	if a == nil {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	m := *a.currentMeta()
	if status := h.extend(&m.expires, body.GetExpirationTime()); status != okay {
		return status
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
	case hapikey.Empty(key):
		m.key = hapikey.Contract(a.num)
	case !hapikey.Valid(key):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case !hapikey.IsContract(key) && !h.signed(key):
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
		// The network holds the new limit against the old one rather than against what is used.
		if status := slots(n.GetValue(), m.maxAutoAssociations); status != okay {
			return status
		}
		m.maxAutoAssociations = n.GetValue()
	}
	switch renew := body.GetAutoRenewAccountId(); {
	case renew == nil:
	case isNobody(renew):
		m.autoRenewAccount = hedera.ID{}
	default:
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
		h.beginPeriod(m)
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
	a, deleted := h.contractOf(body.GetContractID())
	switch {
	case body.GetObtainers() == nil:
		return hapi.ResponseCodeEnum_OBTAINER_REQUIRED
	case deleted:
		return hapi.ResponseCodeEnum_CONTRACT_DELETED
	case a == nil:
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	to, status := h.obtainer(body)
	if status != okay && status != hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST {
		return status
	}
	switch admin := h.administrated(a); {
	case admin != okay:
		return admin
	case status != okay:
		return status
	case to == a:
		return hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID
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

// obtainer finds who gets what a contract had.
func (h *handling) obtainer(body *hapi.ContractDeleteTransactionBody) (*ovAccount, hedera.Status) {
	if id := body.GetTransferContractID(); id != nil {
		to, _ := h.contractOf(id)
		if to == nil {
			return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
		}
		return to, okay
	}
	to := h.resolve(body.GetTransferAccountID())
	switch {
	case body.GetTransferAccountID().GetAccount() == nil:
		return nil, hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST
	case to == nil || !to.exists && !to.deleted():
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
	case to.deleted() && to.base.meta.contract != nil:
		return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	case to.deleted():
		return nil, hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST
	}
	return to, okay
}
