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

// PureCheck is what a node finds wrong with a body by itself, before it looks at
// any account: SUCCESS means nothing. NOT_SUPPORTED is a kind of transaction that
// this network does not have.
func (l *Ledger) PureCheck(body *hapi.TransactionBody) hedera.Status {
	if status := pureFeeLimits(body); status != okay {
		return status
	}
	switch data := body.GetData().(type) {
	case *hapi.TransactionBody_EthereumTransaction:
		return pureEthereum(data.EthereumTransaction, l.cfg.SetCode)
	case *hapi.TransactionBody_CryptoTransfer:
		return pureTransfer(data.CryptoTransfer)
	case *hapi.TransactionBody_CryptoCreateAccount:
		return pureCreate(data.CryptoCreateAccount)
	case *hapi.TransactionBody_CryptoUpdateAccount:
		return pureUpdate(data.CryptoUpdateAccount)
	case *hapi.TransactionBody_CryptoDelete:
		return pureDelete(data.CryptoDelete)
	case *hapi.TransactionBody_ContractCreateInstance:
		return pureContractCreate(data.ContractCreateInstance)
	case *hapi.TransactionBody_ContractCall:
		return pureContractCall(data.ContractCall)
	case *hapi.TransactionBody_FileCreate:
		if data.FileCreate.GetExpirationTime() == nil {
			return hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME
		}
		return okay
	case *hapi.TransactionBody_CryptoApproveAllowance:
		return pureApprove(data.CryptoApproveAllowance)
	case *hapi.TransactionBody_TokenCreation:
		return pureTokenCreate(data.TokenCreation)
	case *hapi.TransactionBody_TokenUpdate:
		return pureTokenUpdate(data.TokenUpdate)
	case *hapi.TransactionBody_TokenMint:
		return pureMint(data.TokenMint)
	case *hapi.TransactionBody_TokenBurn:
		return pureSupply(data.TokenBurn, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT)
	case *hapi.TransactionBody_TokenWipe:
		if data.TokenWipe.GetAccount() == nil {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		}
		return pureSupply(data.TokenWipe, hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT)
	case *hapi.TransactionBody_TokenAssociate:
		return pureAssociate(data.TokenAssociate.GetAccount(), data.TokenAssociate.GetTokens())
	case *hapi.TransactionBody_TokenAirdrop:
		return pureAirdrop(data.TokenAirdrop.GetTokenTransfers())
	case *hapi.TransactionBody_TokenClaimAirdrop:
		return pureAirdropIDs(data.TokenClaimAirdrop.GetPendingAirdrops())
	case *hapi.TransactionBody_TokenCancelAirdrop:
		return pureAirdropIDs(data.TokenCancelAirdrop.GetPendingAirdrops())
	case *hapi.TransactionBody_TokenReject:
		return pureReject(data.TokenReject.GetRejections())
	case *hapi.TransactionBody_TokenDissociate:
		return pureAssociate(data.TokenDissociate.GetAccount(), data.TokenDissociate.GetTokens())
	case *hapi.TransactionBody_ConsensusSubmitMessage:
		if len(data.ConsensusSubmitMessage.GetMessage()) == 0 {
			return hapi.ResponseCodeEnum_INVALID_TOPIC_MESSAGE
		}
		return okay
	case *hapi.TransactionBody_ConsensusCreateTopic:
		return distinctKeys(data.ConsensusCreateTopic.GetFeeExemptKeyList())
	case *hapi.TransactionBody_ConsensusUpdateTopic:
		return distinctKeys(data.ConsensusUpdateTopic.GetFeeExemptKeyList().GetKeys())
	case *hapi.TransactionBody_AtomicBatch:
		return l.pureBatch(data.AtomicBatch.GetTransactions())
	case *hapi.TransactionBody_ScheduleCreate:
		return l.pureSchedule(data.ScheduleCreate)
	case *hapi.TransactionBody_ScheduleSign, *hapi.TransactionBody_ScheduleDelete,
		*hapi.TransactionBody_ContractUpdateInstance, *hapi.TransactionBody_ContractDeleteInstance,
		*hapi.TransactionBody_ConsensusDeleteTopic, *hapi.TransactionBody_UtilPrng:
		return okay
	case *hapi.TransactionBody_CryptoDeleteAllowance,
		*hapi.TransactionBody_TokenDeletion, *hapi.TransactionBody_TokenFeeScheduleUpdate, *hapi.TransactionBody_TokenUpdateNfts,
		*hapi.TransactionBody_TokenPause, *hapi.TransactionBody_TokenUnpause, *hapi.TransactionBody_TokenFreeze,
		*hapi.TransactionBody_TokenUnfreeze, *hapi.TransactionBody_TokenGrantKyc, *hapi.TransactionBody_TokenRevokeKyc:
		return okay
	case *hapi.TransactionBody_FileAppend, *hapi.TransactionBody_FileUpdate, *hapi.TransactionBody_FileDelete:
		return okay
	default:
		return hapi.ResponseCodeEnum_NOT_SUPPORTED
	}
}

func pureEthereum(body *hapi.EthereumTransactionBody, setCode bool) hedera.Status {
	tx, ok := ParseEthereum(body.GetEthereumData())
	if !ok || !knownType(tx.Type(), len(tx.SetCodeAuthorizations()), setCode) {
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
