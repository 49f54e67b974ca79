package node

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// ledgerID is what local networks call themselves.
const ledgerID = 3

func transactionIDOf(id hedera.TransactionID) *hapi.TransactionID {
	out := &hapi.TransactionID{TransactionValidStart: id.ValidStart.Message(), AccountID: id.Payer.AccountID(), Nonce: id.Nonce}
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
		receipt.AccountID = r.Account.AccountID()
	}
	if !r.File.IsZero() {
		receipt.FileID = r.File.FileID()
	}
	if !r.ContractID.IsZero() {
		receipt.ContractID = r.ContractID.ContractID()
	}
	did := r.Did()
	if !did.Token.IsZero() {
		receipt.TokenID = did.Token.TokenID()
	}
	if !did.Topic.IsZero() {
		receipt.TopicID = did.Topic.TopicID()
	}
	if !did.Schedule.IsZero() {
		receipt.ScheduleID = did.Schedule.ScheduleID()
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
		Receipt: q.receiptOf(r), TransactionHash: r.Hash[:], ConsensusTimestamp: r.Consensus.Message(),
		TransactionID: transactionIDOf(r.ID),
		Memo:          r.Memo, TransactionFee: uint64(r.Fee), TransferList: &hapi.TransferList{},
		Alias: r.Alias, EvmAddress: r.EVMAddress,
	}
	for _, t := range r.Transfers {
		record.TransferList.AccountAmounts = append(record.TransferList.AccountAmounts, &hapi.AccountAmount{
			AccountID: t.Account.AccountID(), Amount: int64(t.Amount), IsApproval: &t.Approval,
		})
	}
	if ref := r.Did().ScheduleRef; !ref.IsZero() {
		record.ScheduleRef = ref.ScheduleID()
	}
	describeTokens(record, r.Did())
	switch n := r.Did().Number; {
	case len(r.PRNG) > 0:
		record.Entropy = &hapi.TransactionRecord_PrngBytes{PrngBytes: r.PRNG}
	case n != nil:
		record.Entropy = &hapi.TransactionRecord_PrngNumber{PrngNumber: *n}
	}
	if !r.Batch.IsZero() {
		record.ParentConsensusTimestamp = r.Batch.Message()
	}
	if r.IsChild() {
		record.ParentConsensusTimestamp = r.Parent.Message()
		if r.Kind == ledger.KindContractCreate {
			record.Body = &hapi.TransactionRecord_ContractCreateResult{ContractCreateResult: &hapi.ContractFunctionResult{
				ContractID: r.ContractID.ContractID(), EvmAddress: wrapperspb.Bytes(r.EVMAddress),
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
		result.ContractID = e.Target.ContractID()
	}
	if !e.From.IsZero() {
		result.SenderId = e.From.AccountID()
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
		result.CreatedContractIDs = append(result.CreatedContractIDs, id.ContractID())
	}
	for _, n := range e.Nonces {
		result.ContractNonces = append(result.ContractNonces, &hapi.ContractNonceInfo{
			ContractId: n.Contract.ContractID(), Nonce: n.Nonce,
		})
	}
	for _, l := range e.Logs {
		result.LogInfo = append(result.LogInfo, logInfo(l))
	}
	return result
}

func logInfo(l *ledger.Log) *hapi.ContractLoginfo {
	info := &hapi.ContractLoginfo{ContractID: l.Contract.ContractID(), Bloom: l.Bloom().Bytes(), Data: l.Data}
	for _, topic := range l.Topics {
		info.Topic = append(info.Topic, topic.Bytes())
	}
	return info
}

func staking(a state.Account) *hapi.StakingInfo {
	info := &hapi.StakingInfo{DeclineReward: a.DeclineReward}
	switch {
	case !a.StakedAccount.IsZero():
		info.StakedId = &hapi.StakingInfo_StakedAccountId{StakedAccountId: a.StakedAccount.AccountID()}
	case a.StakedNode >= 0:
		info.StakedId = &hapi.StakingInfo_StakedNodeId{StakedNodeId: a.StakedNode}
		info.StakePeriodStart = a.StakePeriodStart.Message()
	}
	return info
}

func accountInfo(a state.Account) *hapi.CryptoGetInfoResponse_AccountInfo {
	return &hapi.CryptoGetInfoResponse_AccountInfo{
		AccountID: a.ID.AccountID(), ContractAccountID: bareHex(a.Address), Key: a.Key, Balance: uint64(a.Balance),
		ReceiverSigRequired: a.ReceiverSigRequired, ExpirationTime: a.Expires.Message(),
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

func contractInfo(a state.Account, slots int) *hapi.ContractGetInfoResponse_ContractInfo {
	info := &hapi.ContractGetInfoResponse_ContractInfo{
		ContractID: a.ID.ContractID(), AccountID: a.ID.AccountID(), ContractAccountID: bareHex(a.Address),
		AdminKey: a.Key, ExpirationTime: a.Expires.Message(),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Storage: int64(slots) * 64,
		Memo: a.Memo, Balance: uint64(a.Balance), Deleted: a.Deleted, LedgerId: []byte{ledgerID},
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, StakingInfo: staking(a),
	}
	if !a.AutoRenewAccount.IsZero() {
		info.AutoRenewAccountId = a.AutoRenewAccount.AccountID()
	}
	return info
}
