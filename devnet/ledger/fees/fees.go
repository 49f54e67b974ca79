// Package fees is what the network asks of a transaction besides gas (HIP-1261). Prices are in tinycents, of which a
// US dollar has 10^10: a node asks the same of every transaction, the network nine times as much, and a service what its
// kind costs. What goes beyond what these include is an extra. Queries, hooks and high volumes have no price here.
package fees

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/internal/hapi"
)

// What is asked of every transaction.
const (
	NodePrice          = 100_000 // the network asks NetworkTimes as much
	NetworkTimes       = 9
	SignaturePrice     = 100_000 // beyond IncludedSignatures
	IncludedSignatures = 1
	bytePrice          = 100_000 // of the transaction, beyond includedBytes
)

// Extras of services, and what their prices include.
const (
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

	includedBytes     = 1024
	includedFileBytes = 1000
	includedAccounts  = 2
)

// servicePrice is what a service asks of a kind of transaction.
type servicePrice struct {
	function hapi.HederaFunctionality
	base     int64 // tinycents
}

// prices has every kind of transaction, by the name that it has in a body.
var prices = map[protoreflect.Name]servicePrice{
	"ethereumTransaction":    {hapi.HederaFunctionality_EthereumTransaction, 0},
	"contractCall":           {hapi.HederaFunctionality_ContractCall, 0},
	"contractCreateInstance": {hapi.HederaFunctionality_ContractCreate, 9_999_000_000},
	"contractUpdateInstance": {hapi.HederaFunctionality_ContractUpdate, 259_000_000},
	"contractDeleteInstance": {hapi.HederaFunctionality_ContractDelete, 69_000_000},

	"cryptoCreateAccount":    {hapi.HederaFunctionality_CryptoCreate, 499_000_000},
	"cryptoUpdateAccount":    {hapi.HederaFunctionality_CryptoUpdate, 1_200_000},
	"cryptoTransfer":         {hapi.HederaFunctionality_CryptoTransfer, 0},
	"cryptoDelete":           {hapi.HederaFunctionality_CryptoDelete, 49_000_000},
	"cryptoApproveAllowance": {hapi.HederaFunctionality_CryptoApproveAllowance, 499_000_000},
	"cryptoDeleteAllowance":  {hapi.HederaFunctionality_CryptoDeleteAllowance, 499_000_000},

	"fileCreate": {hapi.HederaFunctionality_FileCreate, 499_000_000},
	"fileAppend": {hapi.HederaFunctionality_FileAppend, 499_000_000},
	"fileUpdate": {hapi.HederaFunctionality_FileUpdate, 499_000_000},
	"fileDelete": {hapi.HederaFunctionality_FileDelete, 69_000_000},

	"tokenCreation":             {hapi.HederaFunctionality_TokenCreate, 9_999_000_000},
	"tokenUpdate":               {hapi.HederaFunctionality_TokenUpdate, 9_000_000},
	"tokenDeletion":             {hapi.HederaFunctionality_TokenDelete, 9_000_000},
	"tokenMint":                 {hapi.HederaFunctionality_TokenMint, 9_000_000},
	"tokenBurn":                 {hapi.HederaFunctionality_TokenBurn, 9_000_000},
	"tokenWipe":                 {hapi.HederaFunctionality_TokenAccountWipe, 9_000_000},
	"tokenAssociate":            {hapi.HederaFunctionality_TokenAssociateToAccount, 499_000_000},
	"tokenDissociate":           {hapi.HederaFunctionality_TokenDissociateFromAccount, 499_000_000},
	"token_fee_schedule_update": {hapi.HederaFunctionality_TokenFeeScheduleUpdate, 9_000_000},
	"token_update_nfts":         {hapi.HederaFunctionality_TokenUpdateNfts, 9_000_000},
	"token_pause":               {hapi.HederaFunctionality_TokenPause, 9_000_000},
	"token_unpause":             {hapi.HederaFunctionality_TokenUnpause, 9_000_000},
	"tokenFreeze":               {hapi.HederaFunctionality_TokenFreezeAccount, 9_000_000},
	"tokenUnfreeze":             {hapi.HederaFunctionality_TokenUnfreezeAccount, 9_000_000},
	"tokenGrantKyc":             {hapi.HederaFunctionality_TokenGrantKycToAccount, 9_000_000},
	"tokenRevokeKyc":            {hapi.HederaFunctionality_TokenRevokeKycFromAccount, 9_000_000},
	"tokenAirdrop":              {hapi.HederaFunctionality_TokenAirdrop, 1_000_000_000},
	"tokenClaimAirdrop":         {hapi.HederaFunctionality_TokenClaimAirdrop, 9_000_000},
	"tokenCancelAirdrop":        {hapi.HederaFunctionality_TokenCancelAirdrop, 9_000_000},
	"tokenReject":               {hapi.HederaFunctionality_TokenReject, 9_000_000},

	"consensusCreateTopic":   {hapi.HederaFunctionality_ConsensusCreateTopic, 99_000_000},
	"consensusUpdateTopic":   {hapi.HederaFunctionality_ConsensusUpdateTopic, 1_200_000},
	"consensusDeleteTopic":   {hapi.HederaFunctionality_ConsensusDeleteTopic, 49_000_000},
	"consensusSubmitMessage": {hapi.HederaFunctionality_ConsensusSubmitMessage, 7_000_000},

	"scheduleCreate": {hapi.HederaFunctionality_ScheduleCreate, 99_000_000},
	"scheduleSign":   {hapi.HederaFunctionality_ScheduleSign, 9_000_000},
	"scheduleDelete": {hapi.HederaFunctionality_ScheduleDelete, 9_000_000},

	"util_prng":    {hapi.HederaFunctionality_UtilPrng, 9_000_000},
	"atomic_batch": {hapi.HederaFunctionality_AtomicBatch, 9_000_000},
}

// Functions are the kinds of transactions, by number.
func Functions() (all []hapi.HederaFunctionality) {
	for _, p := range prices {
		all = append(all, p.function)
	}
	slices.Sort(all)
	return all
}

// Service is what a service asks of a function.
func Service(f hapi.HederaFunctionality) int64 {
	for _, p := range prices {
		if p.function == f {
			return p.base
		}
	}
	return 0
}

// Custom tells of tokens and topics whether they have fees of their own, which make what is done with them dearer.
type Custom interface {
	TokenHasFees(num int64) bool
	TopicHasFees(num int64) bool
}

// Of is what is asked of a transaction of so many bytes and signatures, in tinycents.
func Of(body *hapi.TransactionBody, size, signatures int, custom Custom) int64 {
	node := NodePrice + SignaturePrice*beyond(signatures, IncludedSignatures) + bytePrice*beyond(size, includedBytes)
	service := extras(body, custom)
	m := body.ProtoReflect()
	if data := m.WhichOneof(m.Descriptor().Oneofs().ByName("data")); data != nil {
		service += prices[data.Name()].base
	}
	return node*(1+NetworkTimes) + service
}

// beyond is how much of a count is not included.
func beyond(n, included int) int64 { return int64(max(n-included, 0)) }

// extras are the services', for what a transaction does beyond what its price includes.
func extras(body *hapi.TransactionBody, custom Custom) int64 {
	switch data := body.GetData().(type) {
	case *hapi.TransactionBody_CryptoCreateAccount:
		return signerPrice * beyond(keysOf(data.CryptoCreateAccount.GetKey()), 1)
	case *hapi.TransactionBody_CryptoUpdateAccount:
		return signerPrice * beyond(keysOf(data.CryptoUpdateAccount.GetKey()), 1)
	case *hapi.TransactionBody_CryptoTransfer:
		return transferExtras(data.CryptoTransfer, custom)
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
		return stateBytePrice*beyond(len(d.GetMessage()), includedBytes) + times(custom.TopicHasFees(d.GetTopicID().GetTopicNum()), customMessage)
	case *hapi.TransactionBody_ScheduleCreate:
		d := data.ScheduleCreate
		return signerPrice*beyond(keysOf(d.GetAdminKey()), 1) + times(d.GetScheduledTransactionBody().GetContractCall() != nil, scheduledCall)
	default:
		return tokenExtras(body)
	}
}

func tokenExtras(body *hapi.TransactionBody) int64 {
	switch data := body.GetData().(type) {
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

func transferExtras(d *hapi.CryptoTransferTransactionBody, custom Custom) int64 {
	accounts := map[string]bool{}
	seen := func(id *hapi.AccountID) { accounts[id.String()] = true }
	for _, t := range d.GetTransfers().GetAccountAmounts() {
		seen(t.GetAccountID())
	}
	tokens := d.GetTokenTransfers()
	dear := false
	for _, list := range tokens {
		for _, t := range list.GetTransfers() {
			seen(t.GetAccountID())
		}
		for _, t := range list.GetNftTransfers() {
			seen(t.GetSenderAccountID())
			seen(t.GetReceiverAccountID())
		}
		dear = dear || custom.TokenHasFees(list.GetToken().GetTokenNum())
	}
	extra := accountPrice*beyond(len(accounts), includedAccounts) + tokenTypePrice*beyond(len(tokens), 1)
	switch {
	case dear:
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
