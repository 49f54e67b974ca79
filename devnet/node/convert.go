package node

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/history"
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

// given is an id as a message; nil for none.
func given[M any](id hedera.ID, message func(hedera.ID) *M) *M {
	if id.IsZero() {
		return nil
	}
	return message(id)
}

func (q *asked) receiptOf(r *history.Record) *hapi.TransactionReceipt {
	did := r.Did()
	receipt := &hapi.TransactionReceipt{
		Status: r.Status, ExchangeRate: q.rates(), AccountID: given(r.Account, hedera.ID.AccountID), FileID: given(r.File, hedera.ID.FileID),
		ContractID: given(r.ContractID, hedera.ID.ContractID), TokenID: given(did.Token, hedera.ID.TokenID), TopicID: given(did.Topic, hedera.ID.TopicID),
		ScheduleID: given(did.Schedule, hedera.ID.ScheduleID), NewTotalSupply: uint64(did.TokenSupply), SerialNumbers: did.Serials,
	}
	if !did.Scheduled.IsZero() {
		receipt.ScheduledTransactionID = transactionIDOf(did.Scheduled)
	}
	if m := did.Message; m != nil {
		receipt.TopicSequenceNumber, receipt.TopicRunningHash, receipt.TopicRunningHashVersion = uint64(m.Sequence), m.RunningHash[:], 3
	}
	return receipt
}

func (q *asked) recordOf(r *history.Record) *hapi.TransactionRecord {
	record := &hapi.TransactionRecord{
		Receipt: q.receiptOf(r), TransactionHash: r.Hash[:], ConsensusTimestamp: r.Consensus.Message(),
		TransactionID: transactionIDOf(r.ID),
		Memo:          r.Memo, TransactionFee: uint64(r.Fee), TransferList: &hapi.TransferList{},
		Alias: r.Alias, EvmAddress: r.EVMAddress, ScheduleRef: given(r.Did().ScheduleRef, hedera.ID.ScheduleID),
	}
	for _, t := range r.Transfers {
		record.TransferList.AccountAmounts = append(record.TransferList.AccountAmounts, &hapi.AccountAmount{
			AccountID: t.Account.AccountID(), Amount: int64(t.Amount), IsApproval: &t.Approval,
		})
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
		if r.Kind == history.KindContractCreate {
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

func functionResult(r *history.Record) *hapi.ContractFunctionResult {
	e := r.Result
	result := &hapi.ContractFunctionResult{
		ContractCallResult: e.Output, ErrorMessage: e.ErrorMessage, GasUsed: e.GasUsed,
		Gas: int64(e.GasLimit), Amount: int64(e.Amount), FunctionParameters: e.Input,
		ContractID: given(e.Target, hedera.ID.ContractID), SenderId: given(e.From, hedera.ID.AccountID),
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

func logInfo(l *history.Log) *hapi.ContractLoginfo {
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
	return &hapi.ContractGetInfoResponse_ContractInfo{
		ContractID: a.ID.ContractID(), AccountID: a.ID.AccountID(), ContractAccountID: bareHex(a.Address),
		AdminKey: a.Key, ExpirationTime: a.Expires.Message(),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Storage: int64(slots) * 64,
		Memo: a.Memo, Balance: uint64(a.Balance), Deleted: a.Deleted, LedgerId: []byte{ledgerID},
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, StakingInfo: staking(a), AutoRenewAccountId: given(a.AutoRenewAccount, hedera.ID.AccountID),
	}
}

func tokenOf(id *hapi.TokenID) hedera.ID { return hedera.IDOf(id, id.GetTokenNum()) }

func (q *asked) tokenInfo(query *hapi.TokenGetInfoQuery, answer *hapi.TokenGetInfoResponse) hedera.Status {
	t, known := q.view.Token(tokenOf(query.GetToken()))
	if !known {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	answer.TokenInfo = tokenInfo(&t)
	return done
}

func tokenInfo(t *state.Token) *hapi.TokenInfo {
	info := &hapi.TokenInfo{
		TokenId: t.ID.TokenID(), Name: t.Name, Symbol: t.Symbol, Decimals: t.Decimals, TotalSupply: uint64(t.Supply),
		Treasury: t.Treasury.AccountID(), AdminKey: t.Keys.Admin, KycKey: t.Keys.KYC, FreezeKey: t.Keys.Freeze,
		WipeKey: t.Keys.Wipe, SupplyKey: t.Keys.Supply, FeeScheduleKey: t.Keys.FeeSchedule, PauseKey: t.Keys.Pause,
		MetadataKey: t.Keys.Metadata, Deleted: t.Deleted, Expiry: t.Expires.Message(), Memo: t.Memo, Metadata: t.Metadata,
		MaxSupply: t.MaxSupply, CustomFees: t.Fees, LedgerId: []byte{ledgerID}, AutoRenewAccount: given(t.AutoRenewAccount, hedera.ID.AccountID),
		DefaultFreezeStatus: freezeStatus(t, t.FreezeDefault), DefaultKycStatus: kycStatus(t, false),
	}
	if t.NonFungible {
		info.TokenType = hapi.TokenType_NON_FUNGIBLE_UNIQUE
	}
	if t.MaxSupply > 0 {
		info.SupplyType = hapi.TokenSupplyType_FINITE
	}
	if t.AutoRenewPeriod > 0 {
		info.AutoRenewPeriod = &hapi.Duration{Seconds: t.AutoRenewPeriod}
	}
	if t.Keys.Pause != nil {
		info.PauseStatus = hapi.TokenPauseStatus_Unpaused
		if t.Paused {
			info.PauseStatus = hapi.TokenPauseStatus_Paused
		}
	}
	return info
}

func freezeStatus(t *state.Token, frozen bool) hapi.TokenFreezeStatus {
	switch {
	case t.Keys.Freeze == nil:
		return hapi.TokenFreezeStatus_FreezeNotApplicable
	case frozen:
		return hapi.TokenFreezeStatus_Frozen
	default:
		return hapi.TokenFreezeStatus_Unfrozen
	}
}

func kycStatus(t *state.Token, granted bool) hapi.TokenKycStatus {
	switch {
	case t.Keys.KYC == nil:
		return hapi.TokenKycStatus_KycNotApplicable
	case granted:
		return hapi.TokenKycStatus_Granted
	default:
		return hapi.TokenKycStatus_Revoked
	}
}

func (q *asked) nftInfo(query *hapi.TokenGetNftInfoQuery, answer *hapi.TokenGetNftInfoResponse) hedera.Status {
	id := query.GetNftID()
	if _, known := q.view.Token(tokenOf(id.GetToken_ID())); !known {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
	}
	nft, known := q.view.NFT(tokenOf(id.GetToken_ID()), id.GetSerialNumber())
	if !known || nft.Deleted {
		return hapi.ResponseCodeEnum_INVALID_NFT_ID
	}
	answer.Nft = &hapi.TokenNftInfo{
		NftID: &hapi.NftID{Token_ID: nft.Token.TokenID(), SerialNumber: nft.Serial}, AccountID: nft.Owner.AccountID(),
		CreationTime: nft.Created.Message(), Metadata: nft.Metadata, LedgerId: []byte{ledgerID}, SpenderId: given(nft.Spender, hedera.ID.AccountID),
	}
	return done
}

// relationships lists an account's relations with tokens, and its NFTs.
func (q *asked) relationships(id hedera.ID) (list []*hapi.TokenRelationship, nfts int64) {
	for r := range q.view.Relations(id, false) {
		t, known := q.view.Token(r.Token)
		if !known {
			continue
		}
		if t.NonFungible {
			nfts += r.Balance
		}
		list = append(list, &hapi.TokenRelationship{
			TokenId: r.Token.TokenID(), Symbol: t.Symbol, Balance: uint64(r.Balance), Decimals: t.Decimals,
			KycStatus: kycStatus(&t, r.KYC), FreezeStatus: freezeStatus(&t, r.Frozen), AutomaticAssociation: r.Automatic,
		})
	}
	return list, nfts
}

func (q *asked) balances(id hedera.ID) (list []*hapi.TokenBalance) {
	relations, _ := q.relationships(id)
	for _, r := range relations {
		list = append(list, &hapi.TokenBalance{TokenId: r.GetTokenId(), Balance: r.GetBalance(), Decimals: r.GetDecimals()})
	}
	return list
}

// describeTokens adds what a transaction did to tokens to its record.
func describeTokens(record *hapi.TransactionRecord, did *history.Effects) {
	lists := map[hedera.ID]*hapi.TokenTransferList{}
	of := func(token hedera.ID) *hapi.TokenTransferList {
		list := lists[token]
		if list == nil {
			list = &hapi.TokenTransferList{Token: token.TokenID()}
			lists[token] = list
			record.TokenTransferLists = append(record.TokenTransferLists, list)
		}
		return list
	}
	for _, t := range did.Tokens {
		list := of(t.Token)
		list.Transfers = append(list.Transfers, &hapi.AccountAmount{
			AccountID: t.Account.AccountID(), Amount: t.Amount, IsApproval: &t.Approval,
		})
	}
	for _, n := range did.NFTs {
		list := of(n.Token)
		list.NftTransfers = append(list.NftTransfers, &hapi.NftTransfer{
			SenderAccountID: n.Sender.AccountID(), ReceiverAccountID: n.Receiver.AccountID(),
			SerialNumber: n.Serial, IsApproval: n.Approval,
		})
	}
	for _, f := range did.Fees {
		fee := &hapi.AssessedCustomFee{Amount: f.Amount, FeeCollectorAccountId: f.Collector.AccountID(), TokenId: given(f.Token, hedera.ID.TokenID)}
		for _, payer := range f.Payers {
			fee.EffectivePayerAccountId = append(fee.EffectivePayerAccountId, payer.AccountID())
		}
		record.AssessedCustomFees = append(record.AssessedCustomFees, fee)
	}
	for _, a := range did.Airdrops {
		record.NewPendingAirdrops = append(record.NewPendingAirdrops, pendingAirdrop(a))
	}
	for _, a := range did.Associations {
		record.AutomaticTokenAssociations = append(record.AutomaticTokenAssociations, &hapi.TokenAssociation{
			TokenId: a.Token.TokenID(), AccountId: a.Account.AccountID(),
		})
	}
}

func pendingAirdrop(a state.Airdrop) *hapi.PendingAirdropRecord {
	id := &hapi.PendingAirdropId{SenderId: a.Sender.AccountID(), ReceiverId: a.Receiver.AccountID()}
	if a.Serial != 0 {
		id.TokenReference = &hapi.PendingAirdropId_NonFungibleToken{
			NonFungibleToken: &hapi.NftID{Token_ID: a.Token.TokenID(), SerialNumber: a.Serial},
		}
		return &hapi.PendingAirdropRecord{PendingAirdropId: id}
	}
	id.TokenReference = &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: a.Token.TokenID()}
	return &hapi.PendingAirdropRecord{PendingAirdropId: id, PendingAirdropValue: &hapi.PendingAirdropValue{Amount: uint64(a.Amount)}}
}

// details is account information with allowances.
func (q *asked) details(query *hapi.GetAccountDetailsQuery, answer *hapi.GetAccountDetailsResponse) hedera.Status {
	a, known := q.account(query.GetAccountId())
	if !known {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	relations, nfts := q.relationships(a.ID)
	d := &hapi.GetAccountDetailsResponse_AccountDetails{
		AccountId: a.ID.AccountID(), ContractAccountId: bareHex(a.Address), Deleted: a.Deleted, Key: a.Key,
		Balance: uint64(a.Balance), ReceiverSigRequired: a.ReceiverSigRequired, ExpirationTime: a.Expires.Message(),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Memo: a.Memo, OwnedNfts: nfts,
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, Alias: keyAlias(a.Alias), LedgerId: []byte{ledgerID},
		TokenRelationships: relations,
	}
	for granted := range q.view.Allowances(a.ID, false) {
		if granted.Token.IsZero() {
			d.GrantedCryptoAllowances = append(d.GrantedCryptoAllowances, &hapi.GrantedCryptoAllowance{
				Spender: granted.Spender.AccountID(), Amount: granted.Amount,
			})
			continue
		}
		d.GrantedTokenAllowances = append(d.GrantedTokenAllowances, &hapi.GrantedTokenAllowance{
			TokenId: granted.Token.TokenID(), Spender: granted.Spender.AccountID(), Amount: granted.Amount,
		})
	}
	for granted := range q.view.NFTAllowances(a.ID, false) {
		if granted.Approved {
			d.GrantedNftAllowances = append(d.GrantedNftAllowances, &hapi.GrantedNftAllowance{
				TokenId: granted.Token.TokenID(), Spender: granted.Spender.AccountID(),
			})
		}
	}
	answer.AccountDetails = d
	return done
}
