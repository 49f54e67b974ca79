package ledger

import (
	"math"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func (l *Ledger) pureEthereum(body *hapi.EthereumTransactionBody) hedera.Status {
	tx, ok := ParseEthereum(body.GetEthereumData())
	if !ok || !knownType(tx.Type(), len(tx.SetCodeAuthorizations()), l.cfg.SetCode) {
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	if to := tx.To(); to != nil && *to == (common.Address{}) && tx.Value().Sign() > 0 {
		return hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS
	}
	if tx.Gas() < neededGas(tx.Data(), tx.To() == nil, len(tx.SetCodeAuthorizations())) {
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	if !plausibleSignature(tx) {
		return hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION
	}
	return okay
}

func plausibleSignature(tx *types.Transaction) bool {
	_, r, s := tx.RawSignatureValues()
	return r.Sign() > 0 && s.Sign() > 0 && r.BitLen() <= 256 && s.BitLen() <= 256
}

func pureTransfer(body *hapi.CryptoTransferTransactionBody) hedera.Status {
	list := body.GetTransfers().GetAccountAmounts()
	if len(list) > maxTransfers {
		return hapi.ResponseCodeEnum_TRANSFER_LIST_SIZE_LIMIT_EXCEEDED
	}
	if !zeroSum(list) {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
	}
	for i, entry := range list {
		if entry.GetAccountID().GetAccount() == nil {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		}
		if names(list[:i], entry.GetAccountID()) {
			return hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS
		}
	}
	return pureTokenTransfers(body.GetTokenTransfers())
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
	if sameAccount(body.GetDeleteAccountID(), body.GetTransferAccountID()) {
		return hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT
	}
	return okay
}

func pureContractCreate(body *hapi.ContractCreateTransactionBody) hedera.Status {
	switch {
	case body.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	case body.GetInitialBalance() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE
	case body.GetGas() < int64(neededGas(body.GetInitcode(), true, 0)):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	return okay
}

func pureContractCall(body *hapi.ContractCallTransactionBody) hedera.Status {
	switch {
	case body.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	case body.GetAmount() > math.MaxInt64/2:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	case body.GetGas() < int64(neededGas(body.GetFunctionParameters(), false, 0)):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	return okay
}

// validPeriod checks for how long an entity is renewed. It is okay to say nothing.
func validPeriod(d *hapi.Duration) hedera.Status {
	switch {
	case d == nil:
		return okay
	case d.GetSeconds() <= 0:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	case d.GetSeconds() < minRenewPeriod || d.GetSeconds() > maxRenewPeriod:
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	return okay
}

// pureFeeLimits checks what a payer says about custom fees; only messages to topics have such limits.
func pureFeeLimits(body *hapi.TransactionBody) hedera.Status {
	limits := body.GetMaxCustomFees()
	if len(limits) > 0 && body.GetConsensusSubmitMessage() == nil {
		return hapi.ResponseCodeEnum_MAX_CUSTOM_FEES_IS_NOT_SUPPORTED
	}
	for i, limit := range limits {
		if limit.GetAccountId().GetAccount() == nil || len(limit.GetFees()) == 0 {
			return hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES
		}
		for _, other := range limits[:i] {
			if sameAccount(limit.GetAccountId(), other.GetAccountId()) {
				return hapi.ResponseCodeEnum_DUPLICATE_ACCOUNT_ID_IN_MAX_CUSTOM_FEE_LIST
			}
		}
		for j, fee := range limit.GetFees() {
			if fee.GetAmount() < 0 {
				return hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES
			}
			for _, other := range limit.GetFees()[:j] {
				if sameDenomination(fee, other) {
					return hapi.ResponseCodeEnum_DUPLICATE_DENOMINATION_IN_MAX_CUSTOM_FEE_LIST
				}
			}
		}
	}
	return okay
}

// sameDenomination tells whether two fees are paid in the same token, or both in hbar.
func sameDenomination(a, b *hapi.FixedFee) bool {
	return (a.GetDenominatingTokenId() == nil) == (b.GetDenominatingTokenId() == nil) &&
		a.GetDenominatingTokenId().GetTokenNum() == b.GetDenominatingTokenId().GetTokenNum()
}

func pureFileCreate(body *hapi.FileCreateTransactionBody) hedera.Status {
	if body.GetExpirationTime() == nil {
		return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
	}
	return okay
}

func pureMessage(body *hapi.ConsensusSubmitMessageTransactionBody) hedera.Status {
	if len(body.GetMessage()) == 0 {
		return hapi.ResponseCodeEnum_INVALID_TOPIC_MESSAGE
	}
	return okay
}

func pureTopicCreate(body *hapi.ConsensusCreateTopicTransactionBody) hedera.Status {
	return distinctKeys(body.GetFeeExemptKeyList())
}

func pureTopicUpdate(body *hapi.ConsensusUpdateTopicTransactionBody) hedera.Status {
	return distinctKeys(body.GetFeeExemptKeyList().GetKeys())
}

func distinctKeys(keys []*hapi.Key) hedera.Status {
	for i, key := range keys {
		if hapikey.Contains(keys[:i], key) {
			return hapi.ResponseCodeEnum_FEE_EXEMPT_KEY_LIST_CONTAINS_DUPLICATED_KEYS
		}
	}
	return okay
}

// zeroSum tells whether what is given and what is taken come to nothing.
func zeroSum(list []*hapi.AccountAmount) bool {
	var sum big.Int
	for _, entry := range list {
		sum.Add(&sum, big.NewInt(entry.GetAmount()))
	}
	return sum.Sign() == 0
}

func names(list []*hapi.AccountAmount, id *hapi.AccountID) bool {
	return slices.ContainsFunc(list, func(entry *hapi.AccountAmount) bool { return sameAccount(entry.GetAccountID(), id) })
}
