package node

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// ledgerID is what local networks call themselves.
const ledgerID = 3

func accountID(id hedera.ID) *hapi.AccountID {
	return &hapi.AccountID{
		ShardNum: &id.Shard, RealmNum: &id.Realm, Account: &hapi.AccountID_AccountNum{AccountNum: id.Num},
	}
}

func contractID(id hedera.ID) *hapi.ContractID {
	return &hapi.ContractID{
		ShardNum: &id.Shard, RealmNum: &id.Realm, Contract: &hapi.ContractID_ContractNum{ContractNum: id.Num},
	}
}

func fileID(id hedera.ID) *hapi.FileID {
	return &hapi.FileID{ShardNum: &id.Shard, RealmNum: &id.Realm, FileNum: id.Num}
}

func timestamp(t hedera.Timestamp) *hapi.Timestamp {
	return &hapi.Timestamp{Seconds: t.Seconds, Nanos: t.Nanos}
}

func transactionIDOf(id hedera.TransactionID) *hapi.TransactionID {
	out := &hapi.TransactionID{TransactionValidStart: timestamp(id.ValidStart), AccountID: accountID(id.Payer), Nonce: id.Nonce}
	if id.Scheduled {
		out.Scheduled = &id.Scheduled
	}
	return out
}

func (q *asked) rates() *hapi.ExchangeRateSet {
	r := q.view.ExchangeRate()
	rate := &hapi.ExchangeRate{
		HbarEquiv: r.Hbar, CentEquiv: r.Cents, ExpirationTime: &hapi.TimestampSeconds{Seconds: r.Expires},
	}
	return &hapi.ExchangeRateSet{CurrentRate: rate, NextRate: rate}
}

func (q *asked) receiptOf(r *ledger.Record) *hapi.TransactionReceipt {
	receipt := &hapi.TransactionReceipt{Status: r.Status, ExchangeRate: q.rates()}
	if !r.Account.IsZero() {
		receipt.AccountID = accountID(r.Account)
	}
	if !r.File.IsZero() {
		receipt.FileID = fileID(r.File)
	}
	if !r.ContractID.IsZero() {
		receipt.ContractID = contractID(r.ContractID)
	}
	did := r.Did()
	if !did.Token.IsZero() {
		receipt.TokenID = tokenID(did.Token)
	}
	if !did.Topic.IsZero() {
		receipt.TopicID = topicID(did.Topic)
	}
	if !did.Schedule.IsZero() {
		receipt.ScheduleID = scheduleID(did.Schedule)
	}
	if !did.Scheduled.IsZero() {
		receipt.ScheduledTransactionID = transactionIDOf(did.Scheduled)
	}
	if m := did.Message; m != nil {
		receipt.TopicSequenceNumber, receipt.TopicRunningHash, receipt.TopicRunningHashVersion = uint64(m.Sequence), m.RunningHash[:], 3
	}
	receipt.NewTotalSupply, receipt.SerialNumbers = uint64(did.TokenSupply), did.Serials
	return receipt
}

func (q *asked) recordOf(r *ledger.Record) *hapi.TransactionRecord {
	record := &hapi.TransactionRecord{
		Receipt: q.receiptOf(r), TransactionHash: r.Hash[:], ConsensusTimestamp: timestamp(r.Consensus),
		TransactionID: transactionIDOf(r.ID),
		Memo:          r.Memo, TransactionFee: uint64(r.Fee), TransferList: &hapi.TransferList{},
		Alias: r.Alias, EvmAddress: r.EVMAddress,
	}
	for _, t := range r.Transfers {
		record.TransferList.AccountAmounts = append(record.TransferList.AccountAmounts, &hapi.AccountAmount{
			AccountID: accountID(t.Account), Amount: int64(t.Amount), IsApproval: &t.Approval,
		})
	}
	if ref := r.Did().ScheduleRef; !ref.IsZero() {
		record.ScheduleRef = scheduleID(ref)
	}
	describeTokens(record, r.Did())
	switch n := r.Did().Number; {
	case len(r.PRNG) > 0:
		record.Entropy = &hapi.TransactionRecord_PrngBytes{PrngBytes: r.PRNG}
	case n != nil:
		record.Entropy = &hapi.TransactionRecord_PrngNumber{PrngNumber: *n}
	}
	if !r.Batch.IsZero() {
		record.ParentConsensusTimestamp = timestamp(r.Batch)
	}
	if r.IsChild() {
		record.ParentConsensusTimestamp = timestamp(r.Parent)
		if r.Kind == ledger.KindContractCreate {
			record.Body = &hapi.TransactionRecord_ContractCreateResult{ContractCreateResult: &hapi.ContractFunctionResult{
				ContractID: contractID(r.ContractID), EvmAddress: wrapperspb.Bytes(r.EVMAddress),
			}}
		}
	}
	if r.Result == nil || !r.Result.HasResult {
		return record
	}
	if r.EthereumHash != (common.Hash{}) {
		record.EthereumHash = r.EthereumHash[:]
	}
	if result := functionResult(r); r.Result.Create {
		record.Body = &hapi.TransactionRecord_ContractCreateResult{ContractCreateResult: result}
	} else {
		record.Body = &hapi.TransactionRecord_ContractCallResult{ContractCallResult: result}
	}
	return record
}

func functionResult(r *ledger.Record) *hapi.ContractFunctionResult {
	e := r.Result
	result := &hapi.ContractFunctionResult{
		ContractCallResult: e.Output, ErrorMessage: e.ErrorMessage, GasUsed: e.GasUsed,
		Gas: int64(e.GasLimit), Amount: int64(e.Amount), FunctionParameters: e.Input,
	}
	if !e.Target.IsZero() {
		result.ContractID = contractID(e.Target)
	}
	if !e.From.IsZero() {
		result.SenderId = accountID(e.From)
	}
	if e.SignerNonce >= 0 {
		result.SignerNonce = wrapperspb.Int64(e.SignerNonce)
	}
	if r.Status != hapi.ResponseCodeEnum_SUCCESS {
		return result
	}
	bloom := new(types.Bloom)
	if e.Bloom != nil {
		bloom = e.Bloom
	}
	result.Bloom = bloom.Bytes()
	if e.Create {
		result.EvmAddress = wrapperspb.Bytes(e.Address.Bytes())
	}
	for _, id := range e.Created {
		result.CreatedContractIDs = append(result.CreatedContractIDs, contractID(id))
	}
	for _, n := range e.Nonces {
		result.ContractNonces = append(result.ContractNonces, &hapi.ContractNonceInfo{
			ContractId: contractID(n.Contract), Nonce: n.Nonce,
		})
	}
	for _, l := range e.Logs {
		result.LogInfo = append(result.LogInfo, logInfo(l))
	}
	return result
}

func logInfo(l *ledger.Log) *hapi.ContractLoginfo {
	info := &hapi.ContractLoginfo{ContractID: contractID(l.Contract), Bloom: l.Bloom().Bytes(), Data: l.Data}
	for _, topic := range l.Topics {
		info.Topic = append(info.Topic, topic.Bytes())
	}
	return info
}

func staking(a ledger.Account) *hapi.StakingInfo {
	info := &hapi.StakingInfo{DeclineReward: a.DeclineReward}
	switch {
	case !a.StakedAccount.IsZero():
		info.StakedId = &hapi.StakingInfo_StakedAccountId{StakedAccountId: accountID(a.StakedAccount)}
	case a.StakedNode >= 0:
		info.StakedId = &hapi.StakingInfo_StakedNodeId{StakedNodeId: a.StakedNode}
		info.StakePeriodStart = timestamp(a.StakePeriodStart)
	}
	return info
}

func accountInfo(a ledger.Account) *hapi.CryptoGetInfoResponse_AccountInfo {
	return &hapi.CryptoGetInfoResponse_AccountInfo{
		AccountID: accountID(a.ID), ContractAccountID: bareHex(a.Address), Key: a.Key, Balance: uint64(a.Balance),
		ReceiverSigRequired: a.ReceiverSigRequired, ExpirationTime: timestamp(a.Expires),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Memo: a.Memo,
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, Alias: keyAlias(a.Alias), LedgerId: []byte{ledgerID},
		EthereumNonce: a.Nonce, StakingInfo: staking(a),
	}
}

// keyAlias leaves out an alias that is an EVM address: SDKs read the field as a key.
func keyAlias(alias []byte) []byte {
	if len(alias) == common.AddressLength {
		return nil
	}
	return alias
}

func contractInfo(a ledger.Account, slots int) *hapi.ContractGetInfoResponse_ContractInfo {
	info := &hapi.ContractGetInfoResponse_ContractInfo{
		ContractID: contractID(a.ID), AccountID: accountID(a.ID), ContractAccountID: bareHex(a.Address),
		AdminKey: a.Key, ExpirationTime: timestamp(a.Expires),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Storage: int64(slots) * 64,
		Memo: a.Memo, Balance: uint64(a.Balance), Deleted: a.Deleted, LedgerId: []byte{ledgerID},
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, StakingInfo: staking(a),
	}
	if !a.AutoRenewAccount.IsZero() {
		info.AutoRenewAccountId = accountID(a.AutoRenewAccount)
	}
	return info
}

func fileInfo(f ledger.File) *hapi.FileGetInfoResponse_FileInfo {
	return &hapi.FileGetInfoResponse_FileInfo{
		FileID: fileID(f.ID), Size: int64(len(f.Contents)), ExpirationTime: timestamp(f.Expires),
		Deleted: f.Deleted, Keys: &hapi.KeyList{Keys: f.Keys}, Memo: f.Memo, LedgerId: []byte{ledgerID},
	}
}
