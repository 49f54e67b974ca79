package node

import (
	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func tokenID(id hedera.ID) *hapi.TokenID {
	return &hapi.TokenID{ShardNum: &id.Shard, RealmNum: &id.Realm, TokenNum: id.Num}
}

func tokenOf(id *hapi.TokenID) hedera.ID {
	return hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetTokenNum()}
}

func (q *asked) tokenInfo(query *hapi.TokenGetInfoQuery) *hapi.Response {
	answer := &hapi.TokenGetInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_TokenGetInfo{TokenGetInfo: answer}}
	if q.answered() {
		return response
	}
	t, known := q.view.Token(tokenOf(query.GetToken()))
	if !known {
		q.refuse(hapi.ResponseCodeEnum_INVALID_TOKEN_ID)
		return response
	}
	answer.TokenInfo = tokenInfo(&t)
	return response
}

func tokenInfo(t *ledger.Token) *hapi.TokenInfo {
	info := &hapi.TokenInfo{
		TokenId: tokenID(t.ID), Name: t.Name, Symbol: t.Symbol, Decimals: t.Decimals, TotalSupply: uint64(t.Supply),
		Treasury: accountID(t.Treasury), AdminKey: t.Keys.Admin, KycKey: t.Keys.KYC, FreezeKey: t.Keys.Freeze,
		WipeKey: t.Keys.Wipe, SupplyKey: t.Keys.Supply, FeeScheduleKey: t.Keys.FeeSchedule, PauseKey: t.Keys.Pause,
		MetadataKey: t.Keys.Metadata, Deleted: t.Deleted, Expiry: timestamp(t.Expires), Memo: t.Memo, Metadata: t.Metadata,
		MaxSupply: t.MaxSupply, CustomFees: t.Fees, LedgerId: []byte{ledgerID},
	}
	if t.NonFungible {
		info.TokenType = hapi.TokenType_NON_FUNGIBLE_UNIQUE
	}
	if t.MaxSupply > 0 {
		info.SupplyType = hapi.TokenSupplyType_FINITE
	}
	if !t.AutoRenewAccount.IsZero() {
		info.AutoRenewAccount = accountID(t.AutoRenewAccount)
	}
	if t.AutoRenewPeriod > 0 {
		info.AutoRenewPeriod = &hapi.Duration{Seconds: t.AutoRenewPeriod}
	}
	info.DefaultFreezeStatus = freezeStatus(t, t.FreezeDefault)
	info.DefaultKycStatus = kycStatus(t, false)
	if t.Keys.Pause != nil {
		info.PauseStatus = hapi.TokenPauseStatus_Unpaused
		if t.Paused {
			info.PauseStatus = hapi.TokenPauseStatus_Paused
		}
	}
	return info
}

func freezeStatus(t *ledger.Token, frozen bool) hapi.TokenFreezeStatus {
	switch {
	case t.Keys.Freeze == nil:
		return hapi.TokenFreezeStatus_FreezeNotApplicable
	case frozen:
		return hapi.TokenFreezeStatus_Frozen
	default:
		return hapi.TokenFreezeStatus_Unfrozen
	}
}

func kycStatus(t *ledger.Token, granted bool) hapi.TokenKycStatus {
	switch {
	case t.Keys.KYC == nil:
		return hapi.TokenKycStatus_KycNotApplicable
	case granted:
		return hapi.TokenKycStatus_Granted
	default:
		return hapi.TokenKycStatus_Revoked
	}
}

func (q *asked) nftInfo(query *hapi.TokenGetNftInfoQuery) *hapi.Response {
	answer := &hapi.TokenGetNftInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_TokenGetNftInfo{TokenGetNftInfo: answer}}
	if q.answered() {
		return response
	}
	id := query.GetNftID()
	if _, known := q.view.Token(tokenOf(id.GetToken_ID())); !known {
		q.refuse(hapi.ResponseCodeEnum_INVALID_TOKEN_ID)
		return response
	}
	nft, known := q.view.NFT(tokenOf(id.GetToken_ID()), id.GetSerialNumber())
	if !known || nft.Deleted {
		q.refuse(hapi.ResponseCodeEnum_INVALID_NFT_ID)
		return response
	}
	answer.Nft = &hapi.TokenNftInfo{
		NftID: &hapi.NftID{Token_ID: tokenID(nft.Token), SerialNumber: nft.Serial}, AccountID: accountID(nft.Owner),
		CreationTime: timestamp(nft.Created), Metadata: nft.Metadata, LedgerId: []byte{ledgerID},
	}
	if !nft.Spender.IsZero() {
		answer.Nft.SpenderId = accountID(nft.Spender)
	}
	return response
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
			TokenId: tokenID(r.Token), Symbol: t.Symbol, Balance: uint64(r.Balance), Decimals: t.Decimals,
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
func describeTokens(record *hapi.TransactionRecord, did *ledger.Effects) {
	lists := map[hedera.ID]*hapi.TokenTransferList{}
	of := func(token hedera.ID) *hapi.TokenTransferList {
		list := lists[token]
		if list == nil {
			list = &hapi.TokenTransferList{Token: tokenID(token)}
			lists[token] = list
			record.TokenTransferLists = append(record.TokenTransferLists, list)
		}
		return list
	}
	for _, t := range did.Tokens {
		list := of(t.Token)
		list.Transfers = append(list.Transfers, &hapi.AccountAmount{
			AccountID: accountID(t.Account), Amount: t.Amount, IsApproval: &t.Approval,
		})
	}
	for _, n := range did.NFTs {
		list := of(n.Token)
		list.NftTransfers = append(list.NftTransfers, &hapi.NftTransfer{
			SenderAccountID: accountID(n.Sender), ReceiverAccountID: accountID(n.Receiver),
			SerialNumber: n.Serial, IsApproval: n.Approval,
		})
	}
	for _, f := range did.Fees {
		fee := &hapi.AssessedCustomFee{Amount: f.Amount, FeeCollectorAccountId: accountID(f.Collector)}
		if !f.Token.IsZero() {
			fee.TokenId = tokenID(f.Token)
		}
		for _, payer := range f.Payers {
			fee.EffectivePayerAccountId = append(fee.EffectivePayerAccountId, accountID(payer))
		}
		record.AssessedCustomFees = append(record.AssessedCustomFees, fee)
	}
	for _, a := range did.Airdrops {
		record.NewPendingAirdrops = append(record.NewPendingAirdrops, pendingAirdrop(a))
	}
	for _, a := range did.Associations {
		record.AutomaticTokenAssociations = append(record.AutomaticTokenAssociations, &hapi.TokenAssociation{
			TokenId: tokenID(a.Token), AccountId: accountID(a.Account),
		})
	}
}

func pendingAirdrop(a ledger.Airdrop) *hapi.PendingAirdropRecord {
	id := &hapi.PendingAirdropId{SenderId: accountID(a.Sender), ReceiverId: accountID(a.Receiver)}
	if a.Serial != 0 {
		id.TokenReference = &hapi.PendingAirdropId_NonFungibleToken{
			NonFungibleToken: &hapi.NftID{Token_ID: tokenID(a.Token), SerialNumber: a.Serial},
		}
		return &hapi.PendingAirdropRecord{PendingAirdropId: id}
	}
	id.TokenReference = &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: tokenID(a.Token)}
	return &hapi.PendingAirdropRecord{PendingAirdropId: id, PendingAirdropValue: &hapi.PendingAirdropValue{Amount: uint64(a.Amount)}}
}

// details is account information with allowances.
func (q *asked) details(query *hapi.GetAccountDetailsQuery) *hapi.Response {
	answer := &hapi.GetAccountDetailsResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_AccountDetails{AccountDetails: answer}}
	if q.answered() {
		return response
	}
	a, known := q.account(query.GetAccountId())
	if !known {
		q.refuse(hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
		return response
	}
	relations, nfts := q.relationships(a.ID)
	d := &hapi.GetAccountDetailsResponse_AccountDetails{
		AccountId: accountID(a.ID), ContractAccountId: bareHex(a.Address), Deleted: a.Deleted, Key: a.Key,
		Balance: uint64(a.Balance), ReceiverSigRequired: a.ReceiverSigRequired, ExpirationTime: timestamp(a.Expires),
		AutoRenewPeriod: &hapi.Duration{Seconds: a.AutoRenewPeriod}, Memo: a.Memo, OwnedNfts: nfts,
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations, Alias: keyAlias(a.Alias), LedgerId: []byte{ledgerID},
		TokenRelationships: relations,
	}
	for granted := range q.view.Allowances(a.ID, false) {
		if granted.Token.IsZero() {
			d.GrantedCryptoAllowances = append(d.GrantedCryptoAllowances, &hapi.GrantedCryptoAllowance{
				Spender: accountID(granted.Spender), Amount: granted.Amount,
			})
			continue
		}
		d.GrantedTokenAllowances = append(d.GrantedTokenAllowances, &hapi.GrantedTokenAllowance{
			TokenId: tokenID(granted.Token), Spender: accountID(granted.Spender), Amount: granted.Amount,
		})
	}
	for granted := range q.view.NFTAllowances(a.ID, false) {
		if granted.Approved {
			d.GrantedNftAllowances = append(d.GrantedNftAllowances, &hapi.GrantedNftAllowance{
				TokenId: tokenID(granted.Token), Spender: accountID(granted.Spender),
			})
		}
	}
	answer.AccountDetails = d
	return response
}
