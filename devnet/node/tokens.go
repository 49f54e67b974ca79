package node

import (
	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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
		MaxSupply: t.MaxSupply, CustomFees: t.Fees, LedgerId: []byte{ledgerID},
	}
	if t.NonFungible {
		info.TokenType = hapi.TokenType_NON_FUNGIBLE_UNIQUE
	}
	if t.MaxSupply > 0 {
		info.SupplyType = hapi.TokenSupplyType_FINITE
	}
	if !t.AutoRenewAccount.IsZero() {
		info.AutoRenewAccount = t.AutoRenewAccount.AccountID()
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
		CreationTime: nft.Created.Message(), Metadata: nft.Metadata, LedgerId: []byte{ledgerID},
	}
	if !nft.Spender.IsZero() {
		answer.Nft.SpenderId = nft.Spender.AccountID()
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
func describeTokens(record *hapi.TransactionRecord, did *ledger.Effects) {
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
		fee := &hapi.AssessedCustomFee{Amount: f.Amount, FeeCollectorAccountId: f.Collector.AccountID()}
		if !f.Token.IsZero() {
			fee.TokenId = f.Token.TokenID()
		}
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
