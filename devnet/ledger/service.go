package ledger

import (
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// service finds what handles a body, and the kind of transaction it is.
func (h *handling) service(body *hapi.TransactionBody) (func() hedera.Status, Kind) {
	switch data := body.GetData().(type) {
	case *hapi.TransactionBody_EthereumTransaction:
		return func() hedera.Status { return h.ethereum(data.EthereumTransaction) }, KindEthereum
	case *hapi.TransactionBody_CryptoTransfer:
		return func() hedera.Status { return h.cryptoTransfer(data.CryptoTransfer) }, KindCryptoTransfer
	case *hapi.TransactionBody_CryptoCreateAccount:
		return func() hedera.Status { return h.cryptoCreate(data.CryptoCreateAccount) }, KindCryptoCreate
	case *hapi.TransactionBody_CryptoUpdateAccount:
		return func() hedera.Status { return h.cryptoUpdate(data.CryptoUpdateAccount) }, KindCryptoUpdate
	case *hapi.TransactionBody_CryptoDelete:
		return func() hedera.Status { return h.cryptoDelete(data.CryptoDelete) }, KindCryptoDelete
	case *hapi.TransactionBody_CryptoApproveAllowance:
		return func() hedera.Status { return h.cryptoApprove(data.CryptoApproveAllowance) }, KindCryptoApprove
	case *hapi.TransactionBody_CryptoDeleteAllowance:
		return func() hedera.Status { return h.cryptoDeleteAllowance(data.CryptoDeleteAllowance) }, KindCryptoDeleteAllowance
	case *hapi.TransactionBody_FileCreate:
		return func() hedera.Status { return h.fileCreate(data.FileCreate) }, KindFileCreate
	case *hapi.TransactionBody_FileAppend:
		return func() hedera.Status { return h.fileAppend(data.FileAppend) }, KindFileAppend
	case *hapi.TransactionBody_FileUpdate:
		return func() hedera.Status { return h.fileUpdate(data.FileUpdate) }, KindFileUpdate
	case *hapi.TransactionBody_FileDelete:
		return func() hedera.Status { return h.fileDelete(data.FileDelete) }, KindFileDelete
	case *hapi.TransactionBody_ContractCreateInstance:
		return func() hedera.Status { return h.contractCreate(data.ContractCreateInstance) }, KindContractCreate
	case *hapi.TransactionBody_ContractCall:
		return func() hedera.Status { return h.contractCall(data.ContractCall) }, KindContractCall
	case *hapi.TransactionBody_TokenCreation:
		return func() hedera.Status { return h.tokenCreate(data.TokenCreation) }, KindTokenCreate
	case *hapi.TransactionBody_TokenUpdate:
		return func() hedera.Status { return h.tokenUpdate(data.TokenUpdate) }, KindTokenUpdate
	case *hapi.TransactionBody_TokenDeletion:
		return func() hedera.Status { return h.tokenDelete(data.TokenDeletion) }, KindTokenDelete
	case *hapi.TransactionBody_TokenMint:
		return func() hedera.Status { return h.tokenMint(data.TokenMint) }, KindTokenMint
	case *hapi.TransactionBody_TokenBurn:
		return func() hedera.Status { return h.tokenBurn(data.TokenBurn) }, KindTokenBurn
	case *hapi.TransactionBody_TokenWipe:
		return func() hedera.Status { return h.tokenWipe(data.TokenWipe) }, KindTokenWipe
	case *hapi.TransactionBody_TokenAssociate:
		return func() hedera.Status { return h.tokenAssociate(data.TokenAssociate) }, KindTokenAssociate
	case *hapi.TransactionBody_TokenDissociate:
		return func() hedera.Status { return h.tokenDissociate(data.TokenDissociate) }, KindTokenDissociate
	case *hapi.TransactionBody_TokenFeeScheduleUpdate:
		return func() hedera.Status { return h.tokenFeeSchedule(data.TokenFeeScheduleUpdate) }, KindTokenFees
	case *hapi.TransactionBody_TokenAirdrop:
		return func() hedera.Status { return h.tokenAirdrop(data.TokenAirdrop) }, KindTokenAirdrop
	case *hapi.TransactionBody_TokenClaimAirdrop:
		return func() hedera.Status { return h.tokenClaim(data.TokenClaimAirdrop.GetPendingAirdrops()) }, KindTokenClaim
	case *hapi.TransactionBody_TokenCancelAirdrop:
		return func() hedera.Status { return h.tokenCancel(data.TokenCancelAirdrop.GetPendingAirdrops()) }, KindTokenCancel
	case *hapi.TransactionBody_TokenReject:
		return func() hedera.Status { return h.tokenReject(data.TokenReject) }, KindTokenReject
	case *hapi.TransactionBody_TokenUpdateNfts:
		return func() hedera.Status { return h.tokenUpdateNFTs(data.TokenUpdateNfts) }, KindTokenUpdateNFTs
	case *hapi.TransactionBody_ContractUpdateInstance:
		return func() hedera.Status { return h.contractUpdate(data.ContractUpdateInstance) }, KindContractUpdate
	case *hapi.TransactionBody_ContractDeleteInstance:
		return func() hedera.Status { return h.contractDelete(data.ContractDeleteInstance) }, KindContractDelete
	case *hapi.TransactionBody_ConsensusCreateTopic:
		return func() hedera.Status { return h.topicCreate(data.ConsensusCreateTopic) }, KindTopicCreate
	case *hapi.TransactionBody_ConsensusUpdateTopic:
		return func() hedera.Status { return h.topicUpdate(data.ConsensusUpdateTopic) }, KindTopicUpdate
	case *hapi.TransactionBody_ConsensusDeleteTopic:
		return func() hedera.Status { return h.topicDelete(data.ConsensusDeleteTopic) }, KindTopicDelete
	case *hapi.TransactionBody_ConsensusSubmitMessage:
		return func() hedera.Status { return h.topicSubmit(data.ConsensusSubmitMessage) }, KindTopicSubmit
	case *hapi.TransactionBody_ScheduleCreate:
		return func() hedera.Status { return h.scheduleCreate(data.ScheduleCreate) }, KindScheduleCreate
	case *hapi.TransactionBody_ScheduleSign:
		return func() hedera.Status { return h.scheduleSign(data.ScheduleSign) }, KindScheduleSign
	case *hapi.TransactionBody_ScheduleDelete:
		return func() hedera.Status { return h.scheduleDelete(data.ScheduleDelete) }, KindScheduleDelete
	case *hapi.TransactionBody_AtomicBatch:
		return func() hedera.Status { return h.atomicBatch(data.AtomicBatch) }, KindBatch
	case *hapi.TransactionBody_UtilPrng:
		return func() hedera.Status { return h.utilPrng(data.UtilPrng) }, KindPrng
	case *hapi.TransactionBody_TokenPause:
		return func() hedera.Status { return h.tokenPause(data.TokenPause.GetToken(), true) }, KindTokenPause
	case *hapi.TransactionBody_TokenUnpause:
		return func() hedera.Status { return h.tokenPause(data.TokenUnpause.GetToken(), false) }, KindTokenUnpause
	case *hapi.TransactionBody_TokenFreeze:
		return func() hedera.Status {
			return h.tokenFreeze(data.TokenFreeze.GetToken(), data.TokenFreeze.GetAccount(), true)
		}, KindTokenFreeze
	case *hapi.TransactionBody_TokenUnfreeze:
		return func() hedera.Status {
			return h.tokenFreeze(data.TokenUnfreeze.GetToken(), data.TokenUnfreeze.GetAccount(), false)
		}, KindTokenUnfreeze
	case *hapi.TransactionBody_TokenGrantKyc:
		return func() hedera.Status {
			return h.tokenKYC(data.TokenGrantKyc.GetToken(), data.TokenGrantKyc.GetAccount(), true)
		}, KindTokenGrantKYC
	case *hapi.TransactionBody_TokenRevokeKyc:
		return func() hedera.Status {
			return h.tokenKYC(data.TokenRevokeKyc.GetToken(), data.TokenRevokeKyc.GetAccount(), false)
		}, KindTokenRevokeKYC
	default:
		return func() hedera.Status { return hapi.ResponseCodeEnum_NOT_SUPPORTED }, KindUnknown
	}
}
