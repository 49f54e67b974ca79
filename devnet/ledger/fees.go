package ledger

import (
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// The network's prices (HIP-1261) are in tinycents, of which a US dollar has 10^10. A node asks the same of every transaction, the network
// nine times as much, and a service what its kind costs. What goes beyond what these include is an extra.
const (
	nodePrice      = 100_000
	networkTimes   = 9
	signaturePrice = 100_000 // beyond the first one
	bytePrice      = 100_000 // of the transaction, beyond 1,024

	signerPrice      = 100_000_000
	stateBytePrice   = 1_000_000
	accountPrice     = 1_000_000
	tokenTypePrice   = 1_000_000
	tokenTransfer    = 9_000_000
	customTransfer   = 19_000_000 // of tokens with fees of their own
	allowancePrice   = 500_000_000
	associationPrice = 500_000_000
	airdropPrice     = 500_000_000
	nftMintBase      = 190_000_000
	nftMintPrice     = 200_000_000
	nftUpdatePrice   = 10_000_000
	customToken      = 10_000_000_000
	customTopic      = 19_900_000_000
	customMessage    = 492_000_000
	scheduledCall    = 900_000_000

	includedSignatures = 1
	includedBytes      = 1024
	includedFileBytes  = 1000
	includedAccounts   = 2
)

// servicePrice is what a service asks of a kind of transaction.
type servicePrice struct {
	function hapi.HederaFunctionality
	base     int64 // tinycents
}

var prices = map[Kind]servicePrice{
	KindEthereum:       {hapi.HederaFunctionality_EthereumTransaction, 0},
	KindContractCall:   {hapi.HederaFunctionality_ContractCall, 0},
	KindContractCreate: {hapi.HederaFunctionality_ContractCreate, 9_999_000_000},
	KindContractUpdate: {hapi.HederaFunctionality_ContractUpdate, 259_000_000},
	KindContractDelete: {hapi.HederaFunctionality_ContractDelete, 69_000_000},

	KindCryptoCreate:          {hapi.HederaFunctionality_CryptoCreate, 499_000_000},
	KindCryptoUpdate:          {hapi.HederaFunctionality_CryptoUpdate, 1_200_000},
	KindCryptoTransfer:        {hapi.HederaFunctionality_CryptoTransfer, 0},
	KindCryptoDelete:          {hapi.HederaFunctionality_CryptoDelete, 49_000_000},
	KindCryptoApprove:         {hapi.HederaFunctionality_CryptoApproveAllowance, 499_000_000},
	KindCryptoDeleteAllowance: {hapi.HederaFunctionality_CryptoDeleteAllowance, 499_000_000},

	KindFileCreate: {hapi.HederaFunctionality_FileCreate, 499_000_000},
	KindFileAppend: {hapi.HederaFunctionality_FileAppend, 499_000_000},
	KindFileUpdate: {hapi.HederaFunctionality_FileUpdate, 499_000_000},
	KindFileDelete: {hapi.HederaFunctionality_FileDelete, 69_000_000},

	KindTokenCreate:     {hapi.HederaFunctionality_TokenCreate, 9_999_000_000},
	KindTokenUpdate:     {hapi.HederaFunctionality_TokenUpdate, 9_000_000},
	KindTokenDelete:     {hapi.HederaFunctionality_TokenDelete, 9_000_000},
	KindTokenMint:       {hapi.HederaFunctionality_TokenMint, 9_000_000},
	KindTokenBurn:       {hapi.HederaFunctionality_TokenBurn, 9_000_000},
	KindTokenWipe:       {hapi.HederaFunctionality_TokenAccountWipe, 9_000_000},
	KindTokenAssociate:  {hapi.HederaFunctionality_TokenAssociateToAccount, 499_000_000},
	KindTokenDissociate: {hapi.HederaFunctionality_TokenDissociateFromAccount, 499_000_000},
	KindTokenFees:       {hapi.HederaFunctionality_TokenFeeScheduleUpdate, 9_000_000},
	KindTokenUpdateNFTs: {hapi.HederaFunctionality_TokenUpdateNfts, 9_000_000},
	KindTokenPause:      {hapi.HederaFunctionality_TokenPause, 9_000_000},
	KindTokenUnpause:    {hapi.HederaFunctionality_TokenUnpause, 9_000_000},
	KindTokenFreeze:     {hapi.HederaFunctionality_TokenFreezeAccount, 9_000_000},
	KindTokenUnfreeze:   {hapi.HederaFunctionality_TokenUnfreezeAccount, 9_000_000},
	KindTokenGrantKYC:   {hapi.HederaFunctionality_TokenGrantKycToAccount, 9_000_000},
	KindTokenRevokeKYC:  {hapi.HederaFunctionality_TokenRevokeKycFromAccount, 9_000_000},
	KindTokenAirdrop:    {hapi.HederaFunctionality_TokenAirdrop, 1_000_000_000},
	KindTokenClaim:      {hapi.HederaFunctionality_TokenClaimAirdrop, 9_000_000},
	KindTokenCancel:     {hapi.HederaFunctionality_TokenCancelAirdrop, 9_000_000},
	KindTokenReject:     {hapi.HederaFunctionality_TokenReject, 9_000_000},

	KindTopicCreate: {hapi.HederaFunctionality_ConsensusCreateTopic, 99_000_000},
	KindTopicUpdate: {hapi.HederaFunctionality_ConsensusUpdateTopic, 1_200_000},
	KindTopicDelete: {hapi.HederaFunctionality_ConsensusDeleteTopic, 49_000_000},
	KindTopicSubmit: {hapi.HederaFunctionality_ConsensusSubmitMessage, 7_000_000},

	KindScheduleCreate: {hapi.HederaFunctionality_ScheduleCreate, 99_000_000},
	KindScheduleSign:   {hapi.HederaFunctionality_ScheduleSign, 9_000_000},
	KindScheduleDelete: {hapi.HederaFunctionality_ScheduleDelete, 9_000_000},

	KindPrng:  {hapi.HederaFunctionality_UtilPrng, 9_000_000},
	KindBatch: {hapi.HederaFunctionality_AtomicBatch, 9_000_000},
}

// priceOf is what a service asks of a function.
func priceOf(f hapi.HederaFunctionality) int64 {
	for _, p := range prices {
		if p.function == f {
			return p.base
		}
	}
	return 0
}

// Fee is what the network asks of a transaction besides gas, and what must be offered for it. Without Config.Fees
// it is the same for all, and is not charged.
func (l *Ledger) Fee(sub *Submission) hedera.Tinybar {
	if !l.cfg.Fees || waived(sub.Payer) {
		return Required
	}
	h := &handling{l: l, sub: sub, o: newOverlay(l, l.Handled().asOf, true)}
	return h.fee()
}

// waived tells whether an account pays nothing: the network's own do not.
func waived(payer hedera.ID) bool { return payer.Num <= 100 }

func (h *handling) fee() hedera.Tinybar {
	_, kind := h.service(h.sub.Body)
	rate := h.l.rate()
	node := int64(nodePrice)
	node += signaturePrice * beyond(h.sub.Signatures.Count(), includedSignatures)
	node += bytePrice * beyond(h.sub.Size, includedBytes)
	tinycents := node*(1+networkTimes) + prices[kind].base + h.extras()
	return hedera.Tinybar(tinycents * int64(rate.Hbar) / int64(rate.Cents))
}

// beyond is how much of a count is not included.
func beyond(n, included int) int64 { return int64(max(n-included, 0)) }

// extras are the services', for what a transaction does beyond what its price includes.
func (h *handling) extras() int64 {
	switch data := h.sub.Body.GetData().(type) {
	case *hapi.TransactionBody_CryptoCreateAccount:
		return signerPrice * beyond(keysOf(data.CryptoCreateAccount.GetKey()), 1)
	case *hapi.TransactionBody_CryptoUpdateAccount:
		return signerPrice * beyond(keysOf(data.CryptoUpdateAccount.GetKey()), 1)
	case *hapi.TransactionBody_CryptoTransfer:
		return h.transferExtras(data.CryptoTransfer)
	case *hapi.TransactionBody_CryptoApproveAllowance:
		d := data.CryptoApproveAllowance
		return allowancePrice * beyond(len(d.GetCryptoAllowances())+len(d.GetTokenAllowances())+len(d.GetNftAllowances()), 1)
	case *hapi.TransactionBody_CryptoDeleteAllowance:
		return allowancePrice * beyond(len(data.CryptoDeleteAllowance.GetNftAllowances()), 1)
	case *hapi.TransactionBody_ContractCreateInstance:
		return signerPrice * beyond(keysOf(data.ContractCreateInstance.GetAdminKey()), 1)
	case *hapi.TransactionBody_ContractUpdateInstance:
		return signerPrice * beyond(keysOf(data.ContractUpdateInstance.GetAdminKey()), 1)
	case *hapi.TransactionBody_FileCreate:
		return signerPrice*beyond(len(data.FileCreate.GetKeys().GetKeys()), 1) + stateBytePrice*beyond(len(data.FileCreate.GetContents()), includedFileBytes)
	case *hapi.TransactionBody_FileUpdate:
		return signerPrice*beyond(len(data.FileUpdate.GetKeys().GetKeys()), 1) + stateBytePrice*beyond(len(data.FileUpdate.GetContents()), includedFileBytes)
	case *hapi.TransactionBody_FileAppend:
		return stateBytePrice * beyond(len(data.FileAppend.GetContents()), includedFileBytes)
	case *hapi.TransactionBody_ConsensusCreateTopic:
		d := data.ConsensusCreateTopic
		return signerPrice*beyond(keysOf(d.GetAdminKey(), d.GetSubmitKey(), d.GetFeeScheduleKey()), 0) + times(len(d.GetCustomFees()) > 0, customTopic)
	case *hapi.TransactionBody_ConsensusUpdateTopic:
		d := data.ConsensusUpdateTopic
		return signerPrice * beyond(keysOf(d.GetAdminKey(), d.GetSubmitKey(), d.GetFeeScheduleKey()), 1)
	case *hapi.TransactionBody_ConsensusSubmitMessage:
		d := data.ConsensusSubmitMessage
		topic := h.o.topics.get(d.GetTopicID().GetTopicNum())
		return stateBytePrice*beyond(len(d.GetMessage()), includedBytes) + times(topic != nil && len(topic.Fees) > 0, customMessage)
	case *hapi.TransactionBody_ScheduleCreate:
		d := data.ScheduleCreate
		return signerPrice*beyond(keysOf(d.GetAdminKey()), 1) + times(d.GetScheduledTransactionBody().GetContractCall() != nil, scheduledCall)
	default:
		return h.tokenExtras()
	}
}

func (h *handling) tokenExtras() int64 {
	switch data := h.sub.Body.GetData().(type) {
	case *hapi.TransactionBody_TokenCreation:
		d := data.TokenCreation
		keys := keysOf(d.GetAdminKey(), d.GetKycKey(), d.GetFreezeKey(), d.GetWipeKey(), d.GetSupplyKey(), d.GetFeeScheduleKey(), d.GetPauseKey(), d.GetMetadataKey())
		return signerPrice*beyond(keys, 1) + times(len(d.GetCustomFees()) > 0, customToken)
	case *hapi.TransactionBody_TokenUpdate:
		d := data.TokenUpdate
		keys := keysOf(d.GetAdminKey(), d.GetKycKey(), d.GetFreezeKey(), d.GetWipeKey(), d.GetSupplyKey(), d.GetFeeScheduleKey(), d.GetPauseKey(), d.GetMetadataKey())
		return signerPrice * beyond(keys, 1)
	case *hapi.TransactionBody_TokenMint:
		n := len(data.TokenMint.GetMetadata())
		return times(n > 0, nftMintBase) + nftMintPrice*beyond(n, 1)
	case *hapi.TransactionBody_TokenAssociate:
		return associationPrice * beyond(len(data.TokenAssociate.GetTokens()), 1)
	case *hapi.TransactionBody_TokenUpdateNfts:
		return nftUpdatePrice * beyond(len(data.TokenUpdateNfts.GetSerialNumbers()), 1)
	case *hapi.TransactionBody_TokenAirdrop:
		n := 0
		for _, list := range data.TokenAirdrop.GetTokenTransfers() {
			n += len(list.GetNftTransfers())
			for _, t := range list.GetTransfers() {
				n += int(times(t.GetAmount() > 0, 1))
			}
		}
		return airdropPrice * beyond(n, 1)
	default:
		return 0
	}
}

func (h *handling) transferExtras(d *hapi.CryptoTransferTransactionBody) int64 {
	accounts := map[string]bool{}
	seen := func(id *hapi.AccountID) { accounts[id.String()] = true }
	for _, t := range d.GetTransfers().GetAccountAmounts() {
		seen(t.GetAccountID())
	}
	tokens := d.GetTokenTransfers()
	custom := false
	for _, list := range tokens {
		for _, t := range list.GetTransfers() {
			seen(t.GetAccountID())
		}
		for _, t := range list.GetNftTransfers() {
			seen(t.GetSenderAccountID())
			seen(t.GetReceiverAccountID())
		}
		token := h.o.tokens.get(list.GetToken().GetTokenNum())
		custom = custom || token != nil && len(token.Fees) > 0
	}
	extra := accountPrice*beyond(len(accounts), includedAccounts) + tokenTypePrice*beyond(len(tokens), 1)
	switch {
	case custom:
		extra += customTransfer
	case len(tokens) > 0:
		extra += tokenTransfer
	}
	return extra
}

// times is the amount where something is so, and nothing where it is not.
func times(so bool, amount int64) int64 {
	if so {
		return amount
	}
	return 0
}

// keysOf counts the keys in keys, those in lists one by one.
func keysOf(keys ...*hapi.Key) (n int) {
	for _, key := range keys {
		switch {
		case key == nil:
		case key.GetKeyList() != nil:
			n += keysOf(key.GetKeyList().GetKeys()...)
		case key.GetThresholdKey() != nil:
			n += keysOf(key.GetThresholdKey().GetKeys().GetKeys()...)
		default:
			n++
		}
	}
	return n
}

// charge takes the fee from the payer, whatever becomes of the transaction.
func (h *handling) charge() hedera.Status {
	if !h.l.cfg.Fees || h.child || waived(h.sub.Payer) {
		return okay
	}
	fee, payer := h.fee(), h.account(h.sub.Payer)
	switch {
	case h.r.MaxFee > 0 && h.r.MaxFee < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case payer.tinybar() < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	h.o.move(payer, h.o.entityAccount(feeCollector), fee)
	h.r.Fee = fee
	return okay
}
