package ledger

import (
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// PureCheck is what a node finds wrong with a body by itself, before it looks at
// any account: SUCCESS means nothing. NOT_SUPPORTED is a kind of transaction that
// this network does not have.
func (l *Ledger) PureCheck(body *hapi.TransactionBody) hedera.Status {
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
		return validMemo(data.FileCreate.GetMemo())
	case *hapi.TransactionBody_CryptoApproveAllowance:
		return pureApprove(data.CryptoApproveAllowance)
	case *hapi.TransactionBody_TokenCreation:
		return pureTokenCreate(data.TokenCreation)
	case *hapi.TransactionBody_TokenMint:
		return pureMint(data.TokenMint)
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
	case *hapi.TransactionBody_AtomicBatch:
		return l.pureBatch(data.AtomicBatch.GetTransactions())
	case *hapi.TransactionBody_ScheduleCreate:
		return l.pureSchedule(data.ScheduleCreate)
	case *hapi.TransactionBody_ScheduleSign, *hapi.TransactionBody_ScheduleDelete,
		*hapi.TransactionBody_ContractUpdateInstance, *hapi.TransactionBody_ContractDeleteInstance,
		*hapi.TransactionBody_ConsensusCreateTopic, *hapi.TransactionBody_ConsensusUpdateTopic,
		*hapi.TransactionBody_ConsensusDeleteTopic, *hapi.TransactionBody_UtilPrng:
		return okay
	case *hapi.TransactionBody_CryptoDeleteAllowance,
		*hapi.TransactionBody_TokenUpdate, *hapi.TransactionBody_TokenDeletion, *hapi.TransactionBody_TokenBurn,
		*hapi.TransactionBody_TokenWipe, *hapi.TransactionBody_TokenFeeScheduleUpdate, *hapi.TransactionBody_TokenUpdateNfts,
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
	sum := int64(0)
	for _, entry := range list {
		if entry.GetAccountID().GetAccount() == nil {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		}
		if entry.GetAmount() < -int64(totalSupply) || entry.GetAmount() > int64(totalSupply) {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
		}
		if sum += entry.GetAmount(); sum > int64(totalSupply) || sum < -int64(totalSupply) {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
		}
	}
	if sum != 0 {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS
	}
	return pureTokenTransfers(body.GetTokenTransfers())
}

func pureCreate(body *hapi.CryptoCreateTransactionBody) hedera.Status {
	switch {
	case body.GetInitialBalance() > uint64(totalSupply):
		return hapi.ResponseCodeEnum_INVALID_INITIAL_BALANCE
	case body.GetAutoRenewPeriod() == nil:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	case body.GetKey() == nil:
		return hapi.ResponseCodeEnum_KEY_REQUIRED
	case !validKey(body.GetKey()):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case body.GetMaxAutomaticTokenAssociations() < -1:
		return hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS
	}
	if status := validPeriod(body.GetAutoRenewPeriod()); status != okay {
		return status
	}
	return validMemo(body.GetMemo())
}

func pureUpdate(body *hapi.CryptoUpdateTransactionBody) hedera.Status {
	if key := body.GetKey(); key != nil && !validKey(key) {
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		if status := validPeriod(period); status != okay {
			return status
		}
	}
	return validMemo(body.GetMemo().GetValue())
}

func pureDelete(body *hapi.CryptoDeleteTransactionBody) hedera.Status {
	if body.GetDeleteAccountID() == nil || body.GetTransferAccountID() == nil {
		return hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST
	}
	return okay
}

func pureContractCreate(body *hapi.ContractCreateTransactionBody) hedera.Status {
	switch {
	case body.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	case body.GetInitialBalance() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE
	case body.GetInitialBalance() > int64(totalSupply):
		return hapi.ResponseCodeEnum_INVALID_INITIAL_BALANCE
	case body.GetGas() < int64(neededGas(body.GetInitcode(), true, 0)):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	case body.GetAutoRenewPeriod() == nil:
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	if status := validPeriod(body.GetAutoRenewPeriod()); status != okay {
		return status
	}
	return validMemo(body.GetMemo())
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

func validPeriod(d *hapi.Duration) hedera.Status {
	if d.GetSeconds() < minRenewPeriod || d.GetSeconds() > maxRenewPeriod {
		return hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE
	}
	return okay
}
