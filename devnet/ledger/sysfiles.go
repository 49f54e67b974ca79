package ledger

import (
	"math"
	"strconv"

	"lockstep/devnet/ledger/accounts"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/fees"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/devnet/ledger/transfers"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Numbers of system files.
const (
	fileAddressBook  = 101
	fileNodeDetails  = 102
	fileFeeSchedule  = 111
	fileSimpleFees   = 113
	fileExchangeRate = 112
	fileProperties   = 121
	filePermissions  = 122
	fileThrottles    = 123
)

// systemFiles makes the files that clients read: the address books, the fee schedules, the
// exchange rate, the properties, the permissions and the throttles.
func (l *Ledger) systemFiles(at int64) {
	created := hedera.FromNanos(at)
	add := func(num int64, contents []byte) {
		l.store.World.Files[num] = &state.File{
			ID: hedera.Entity(num), Contents: contents, Keys: []*hapi.Key{hapikey.Ed25519(devaccounts.OperatorPublicKey())},
			Created: created, Modified: created,
			Expires: hedera.Timestamp{Seconds: created.Seconds + core.GenesisRenewal, Nanos: created.Nanos},
		}
	}
	book := l.addressBook()
	add(fileAddressBook, book)
	add(fileNodeDetails, book)
	add(fileFeeSchedule, core.Marshal(l.feeSchedule()))
	add(fileExchangeRate, core.Marshal(l.rateSet()))
	add(fileSimpleFees, core.Marshal(l.simpleFees()))
	add(filePermissions, core.Marshal(permissions()))
	add(fileProperties, core.Marshal(l.properties()))
	add(fileThrottles, core.Marshal(throttles()))
}

// asked is what is asked here of a function, in tinycents: by the node, by the network and by the service. Without Config.Fees that is
// the same offer for every transaction.
func (l *Ledger) asked(f hapi.HederaFunctionality) (node, network, service int64) {
	if l.cfg.Fees {
		return fees.NodePrice, fees.NetworkTimes * fees.NodePrice, fees.Service(f)
	}
	rate := l.net.Rate
	return 0, int64(core.Required) * int64(rate.Cents) / int64(rate.Hbar), 0
}

// feeSchedule says what is asked here, and the price of gas for what runs in the EVM. Amounts are thousandths of a tinycent.
func (l *Ledger) feeSchedule() *hapi.CurrentAndNextFeeSchedule {
	rate := l.net.Rate
	thousandths := func(t hedera.Tinybar) int64 { return int64(t) * int64(rate.Cents) / int64(rate.Hbar) * 1000 }
	schedule := func() *hapi.FeeSchedule {
		s := &hapi.FeeSchedule{ExpiryTime: &hapi.TimestampSeconds{Seconds: rate.Expires}}
		for _, f := range fees.Functions() {
			price := func(constant, gas int64) *hapi.FeeComponents {
				return &hapi.FeeComponents{Max: math.MaxInt64, Constant: constant, Gas: gas}
			}
			gas := int64(0)
			if runsCode(f) {
				gas = thousandths(l.net.GasPrice())
			}
			node, network, service := l.asked(f)
			s.TransactionFeeSchedule = append(s.TransactionFeeSchedule, &hapi.TransactionFeeSchedule{
				HederaFunctionality: f,
				Fees: []*hapi.FeeData{{
					Nodedata: price(1000*node, 0), Networkdata: price(1000*network, 0), Servicedata: price(1000*service, gas),
				}},
			})
		}
		return s
	}
	return &hapi.CurrentAndNextFeeSchedule{CurrentFeeSchedule: schedule(), NextFeeSchedule: schedule()}
}

// simpleFees is feeSchedule in the form that came later, in tinycents: an offer that is the same for all is the part
// of the service, and each unit of gas is an extra.
func (l *Ledger) simpleFees() *hapi.SimpleFeeSchedule {
	rate := l.net.Rate
	tinycents := func(t hedera.Tinybar) uint64 { return uint64(int64(t) * int64(rate.Cents) / int64(rate.Hbar)) }
	s := &hapi.SimpleFeeSchedule{
		Node: &hapi.SimpleNodeFee{}, Network: &hapi.SimpleNetworkFee{Multiplier: 1}, Unreadable: &hapi.SimpleUnreadableFee{},
		Extras: []*hapi.SimpleExtra{{Name: hapi.SimpleExtraKind_GAS, Fee: tinycents(l.cfg.GasPrice)}},
	}
	if l.cfg.Fees {
		s.Node.BaseFee, s.Network.Multiplier = fees.NodePrice, fees.NetworkTimes
		s.Node.Extras = []*hapi.SimpleExtraReference{{Name: hapi.SimpleExtraKind_SIGNATURES, IncludedCount: fees.IncludedSignatures}}
		s.Extras = append(s.Extras, &hapi.SimpleExtra{Name: hapi.SimpleExtraKind_SIGNATURES, Fee: fees.SignaturePrice})
	}
	byName := map[string]*hapi.SimpleService{}
	for _, f := range fees.Functions() {
		name := serviceName(f)
		if byName[name] == nil {
			byName[name] = &hapi.SimpleService{Name: name}
			s.Services = append(s.Services, byName[name])
		}
		_, network, service := l.asked(f)
		if !l.cfg.Fees {
			service = network
		}
		fee := &hapi.SimpleServiceFee{Name: f, BaseFee: uint64(service)}
		if runsCode(f) {
			fee.Extras = []*hapi.SimpleExtraReference{{Name: hapi.SimpleExtraKind_GAS}}
		}
		byName[name].Schedule = append(byName[name].Schedule, fee)
	}
	return s
}

// serviceName is the service that a function belongs to, as the first word of its name says.
func serviceName(f hapi.HederaFunctionality) string {
	name := f.String()
	if f == hapi.HederaFunctionality_EthereumTransaction {
		return "Contract"
	}
	for i, c := range name[1:] {
		if c >= 'A' && c <= 'Z' {
			return name[:i+1]
		}
	}
	return name
}

// permissions say that every account may send every transaction that there is. The names are those
// of the network's methods.
func permissions() *hapi.ServicesConfigurationList {
	list := &hapi.ServicesConfigurationList{}
	for _, name := range []string{
		"createAccount", "cryptoTransfer", "updateAccount", "cryptoGetBalance", "getAccountInfo", "getAccountDetails", "cryptoDelete",
		"approveAllowances", "deleteAllowances", "getTransactionReceipts", "getTxRecordByTxID", "getVersionInfo",
		"createFile", "updateFile", "deleteFile", "appendContent", "getFileContent", "getFileInfo",
		"createContract", "updateContract", "contractCallMethod", "getContractInfo", "contractCallLocalMethod", "contractGetBytecode", "deleteContract", "ethereumTransaction",
		"createTopic", "updateTopic", "deleteTopic", "submitMessage", "getTopicInfo",
		"tokenCreate", "tokenFreezeAccount", "tokenUnfreezeAccount", "tokenGrantKycToAccount", "tokenRevokeKycFromAccount", "tokenDelete", "tokenMint",
		"tokenBurn", "tokenAccountWipe", "tokenUpdate", "tokenGetInfo", "tokenAssociateToAccount", "tokenDissociateFromAccount", "tokenGetNftInfo",
		"tokenFeeScheduleUpdate", "tokenPause", "tokenUnpause", "tokenUpdateNfts", "tokenReject", "tokenAirdrop", "tokenClaimAirdrop", "tokenCancelAirdrop",
		"scheduleCreate", "scheduleSign", "scheduleDelete", "scheduleGetInfo", "utilPrng", "atomicBatch",
	} {
		list.NameValue = append(list.NameValue, &hapi.Setting{Name: name, Value: "0-*"})
	}
	return list
}

func runsCode(f hapi.HederaFunctionality) bool {
	return f == hapi.HederaFunctionality_ContractCall || f == hapi.HederaFunctionality_ContractCreate || f == hapi.HederaFunctionality_EthereumTransaction
}

// properties are the network's settings under the names that they have there, with the
// values that hold here.
func (l *Ledger) properties() *hapi.ServicesConfigurationList {
	list := &hapi.ServicesConfigurationList{}
	add := func(name string, value int64) {
		list.NameValue = append(list.NameValue, &hapi.Setting{Name: name, Value: strconv.FormatInt(value, 10)})
	}
	add("atomicBatch.maxNumberOfTransactions", maxBatch)
	add("contracts.chainId", int64(l.cfg.ChainID))
	add("contracts.maxGasPerTransaction", evm.MaxGas)
	add("entities.maxLifetime", core.MaxRenewPeriod)
	add("files.maxSizeKb", files.MaxFileSize/1024)
	add("hedera.allowances.maxTransactionLimit", accounts.MaxAllowances)
	add("hedera.transaction.maxMemoUtf8Bytes", core.MaxMemo)
	add("ledger.autoRenewPeriod.maxDuration", core.MaxRenewPeriod)
	add("ledger.autoRenewPeriod.minDuration", core.MinRenewPeriod)
	add("ledger.nftTransfers.maxLen", core.MaxTransfers)
	add("ledger.numSystemAccounts", state.LastSystemNumber)
	add("ledger.tokenTransfers.maxLen", core.MaxTransfers)
	add("ledger.totalTinyBarFloat", int64(state.TotalSupply))
	add("ledger.transfers.maxLen", core.MaxTransfers)
	add("scheduling.maxExpirationFutureSeconds", schedules.MaxScheduleLife)
	add("tokens.maxAllowedPendingAirdropsToCancel", transfers.MaxAirdrops)
	add("tokens.maxAllowedPendingAirdropsToClaim", transfers.MaxAirdrops)
	add("tokens.maxCustomFeeDepth", tokens.MaxFeeDepth)
	add("tokens.maxCustomFeesAllowed", tokens.MaxCustomFees)
	add("tokens.maxMetadataBytes", tokens.MaxTokenMetadata)
	add("tokens.maxSymbolUtf8Bytes", tokens.MaxTokenText)
	add("tokens.maxTokenNameUtf8Bytes", tokens.MaxTokenText)
	add("tokens.nfts.maxBatchSizeBurn", tokens.MaxTokenBatch)
	add("tokens.nfts.maxBatchSizeMint", tokens.MaxTokenBatch)
	add("tokens.nfts.maxBatchSizeWipe", tokens.MaxTokenBatch)
	add("tokens.reject.maxLen", transfers.MaxRejections)
	return list
}

// throttles say that nothing is held back here: one bucket for everything, without a bound that
// anybody reaches.
func throttles() *hapi.ThrottleDefinitions {
	const none = 1_000_000_000_000 // thousandths of an operation per second
	return &hapi.ThrottleDefinitions{ThrottleBuckets: []*hapi.ThrottleBucket{{
		Name: "NoLimit", BurstPeriodMs: 1000,
		ThrottleGroups: []*hapi.ThrottleGroup{{Operations: fees.Functions(), MilliOpsPerSec: none}},
	}}}
}
