package ledger

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"

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
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// genesis makes the system accounts, the configured accounts and block 0.
func (l *Ledger) genesis(now time.Time) error {
	at := now.UnixNano()
	if l.fork != nil {
		at = l.fork.Block.To.UnixNano()
		l.startAfter(at)
		now = l.Now()
	}
	system := systemKeys(hapikey.Ed25519(devaccounts.OperatorPublicKey()))
	for _, id := range l.cfg.Nodes {
		if id.Num > state.LastSystemCode {
			system[id.Num] = system[state.Treasury]
		}
	}
	o := state.NewOverlay(l.store, at, false)
	rest, err := l.genesisAccounts(o, system)
	if err != nil {
		return err
	}
	for num, key := range system {
		e := &state.Entity{Description: genesisDescription(at, hedera.Entity(num).LongZero(), nil, key)}
		if l.fork != nil {
			e.Balance = l.fork.System[num]
		}
		if num == state.Treasury {
			e.Balance = rest
		}
		o.SetEntity(num, e)
	}
	o.Tables.Commit(at, new([]versions.Ref))
	l.systemFiles(at)

	l.lastTime, l.closedAt = at, now
	if l.fork != nil {
		l.published = l.chain.Adopt(l.fork.genesisBlock()).To.UnixNano()
	} else {
		l.chain.Begin(hedera.FromNanos(at))
		l.published = l.chain.CloseOpen().To.UnixNano()
	}
	l.newest.Store(l.viewAt(l.published))
	return nil
}

// systemKeys returns the keys of the accounts that belong to the network. All have the operator's, but for those that
// only collect: they have none. There are none where the system's files (101 to 199) and contracts (350 to 399) have
// their numbers, and none from 751 to 899 but those that collect.
func systemKeys(operator *hapi.Key) map[int64]*hapi.Key {
	keys := make(map[int64]*hapi.Key, state.LastSystemCode)
	for _, exist := range [][2]int64{{1, 100}, {200, 349}, {400, state.LastSystemNumber}, {900, state.LastSystemCode}} {
		for num := exist[0]; num <= exist[1]; num++ {
			keys[num] = operator
		}
	}
	for _, num := range []int64{state.Coinbase, 800, 801, state.FeeCollector} {
		keys[num] = nil
	}
	return keys
}

// genesisAccounts makes the configured accounts and returns what is left of the supply.
func (l *Ledger) genesisAccounts(o *state.Overlay, system map[int64]*hapi.Key) (hedera.Tinybar, error) {
	rest := state.TotalSupply
	l.store.NextNum = state.FirstUserNumber
	if l.fork != nil {
		rest, l.store.NextNum = l.fork.System[state.Treasury], l.fork.First
	}
	known := map[int64]bool{}
	for _, a := range l.cfg.Accounts {
		if _, taken := system[a.ID.Num]; a.ID.Num < state.FirstUserNumber || taken || known[a.ID.Num] {
			return 0, fmt.Errorf("account %s: below 0.0.%d or twice", a.ID, state.FirstUserNumber)
		}
		known[a.ID.Num] = true
		if a.Balance < 0 || a.Balance > rest {
			return 0, errors.New("the balances exceed the supply")
		}
		if l.fork != nil {
			if own, ok := l.fork.Accounts[a.ID.Num]; ok {
				o.SetEntity(a.ID.Num, state.EntityOf(&own))
				continue
			}
		}
		key, err := hapikey.FromPublic(a.PublicKey)
		if err != nil {
			return 0, fmt.Errorf("account %s: %w", a.ID, err)
		}
		var alias []byte
		if a.Address != (common.Address{}) {
			alias = a.Address.Bytes()
		}
		rest -= a.Balance
		e := &state.Entity{Balance: a.Balance, Description: genesisDescription(o.AsOf, a.EVMAddress(), alias, key)}
		if l.fork != nil {
			e.Nonce = l.fork.Nonces[a.ID.Num]
		}
		o.SetEntity(a.ID.Num, e)
		l.store.NextNum = max(l.store.NextNum, a.ID.Num+1)
	}
	return rest, nil
}

func genesisDescription(at int64, address common.Address, alias []byte, key *hapi.Key) *state.Description {
	created := hedera.FromNanos(at)
	return &state.Description{
		Address: address, Alias: alias, Key: key, Created: created,
		Expires:         hedera.Timestamp{Seconds: created.Seconds + core.GenesisRenewal, Nanos: created.Nanos},
		AutoRenewPeriod: core.GenesisRenewal, StakedNode: -1,
	}
}

// NodeInfo is a consensus node as the address book shows it.
type NodeInfo struct {
	NodeID  int64
	Account hedera.ID
	Host    string // IPv4 address
	Port    int

	TLSPort  int    // of the same services in TLS; 0: none
	CertHash string // hexadecimal SHA-384 of the certificate in PEM form; empty without TLS
}

// addressBook lists the consensus nodes. Their endpoints are entered by SetNodes,
// once the servers listen.
func (l *Ledger) addressBook() []byte {
	book := &hapi.NodeAddressBook{}
	for _, n := range l.nodes {
		book.NodeAddress = append(book.NodeAddress, nodeAddress(n))
	}
	return core.Marshal(book)
}

// rateSet is the exchange rate in the form of receipts and of file 0.0.112.
func (l *Ledger) rateSet() *hapi.ExchangeRateSet {
	r := l.net.Rate
	rate := func() *hapi.ExchangeRate {
		return &hapi.ExchangeRate{
			HbarEquiv: r.Hbar, CentEquiv: r.Cents,
			ExpirationTime: &hapi.TimestampSeconds{Seconds: r.Expires},
		}
	}
	return &hapi.ExchangeRateSet{CurrentRate: rate(), NextRate: rate()}
}

func nodeAddress(n NodeInfo) *hapi.NodeAddress {
	at := func(port int) *hapi.ServiceEndpoint {
		return &hapi.ServiceEndpoint{IpAddressV4: net.ParseIP(n.Host).To4(), Port: int32(port)}
	}
	address := &hapi.NodeAddress{
		NodeId: n.NodeID, NodeAccountId: n.Account.AccountID(),
		Description:     fmt.Sprintf("node %d of the development network", n.NodeID),
		ServiceEndpoint: []*hapi.ServiceEndpoint{at(n.Port)},
	}
	if n.TLSPort != 0 {
		address.ServiceEndpoint = append(address.ServiceEndpoint, at(n.TLSPort))
		address.NodeCertHash = []byte(n.CertHash) // the text, as on the real network
	}
	return address
}

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
