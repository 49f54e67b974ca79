package fees

import (
	"testing"

	"lockstep/internal/hapi"
)

// customs are the tokens and topics that have fees of their own.
type customs struct{ token, topic int64 }

func (c customs) TokenHasFees(num int64) bool { return num == c.token }
func (c customs) TopicHasFees(num int64) bool { return num == c.topic }

// TestEveryKindHasAPrice: names are those of bodies, and no two kinds are one function's.
func TestEveryKindHasAPrice(t *testing.T) {
	kinds := new(hapi.TransactionBody).ProtoReflect().Descriptor().Oneofs().ByName("data").Fields()
	functions := map[hapi.HederaFunctionality]bool{}
	for i := range kinds.Len() {
		price, ok := prices[kinds.Get(i).Name()]
		if !ok || functions[price.function] {
			t.Errorf("%s: %v, %s", kinds.Get(i).Name(), ok, price.function)
		}
		functions[price.function] = true
		if Service(price.function) != price.base {
			t.Errorf("%s: %d, not %d", price.function, Service(price.function), price.base)
		}
	}
	if len(prices) != kinds.Len() || Service(hapi.HederaFunctionality_ContractCallLocal) != 0 {
		t.Errorf("%d prices of %d kinds; a query costs %d", len(prices), kinds.Len(), Service(hapi.HederaFunctionality_ContractCallLocal))
	}
}

// TestExtras: what a transaction does beyond what its price includes costs more, and by how much.
func TestExtras(t *testing.T) {
	key := &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: make([]byte, 32)}}
	list := &hapi.KeyList{Keys: []*hapi.Key{key, {Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{Keys: &hapi.KeyList{Keys: []*hapi.Key{key, key}}}}}}}
	three := &hapi.Key{Key: &hapi.Key_KeyList{KeyList: list}}
	account := func(n int64) *hapi.AccountID {
		return &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: n}}
	}
	moves := func(accounts ...int64) []*hapi.AccountAmount {
		var list []*hapi.AccountAmount
		for _, n := range accounts {
			list = append(list, &hapi.AccountAmount{AccountID: account(n), Amount: 1})
		}
		return list
	}
	tokens := func(nums ...int64) (list []*hapi.TokenTransferList) {
		for _, n := range nums {
			list = append(list, &hapi.TokenTransferList{Token: &hapi.TokenID{TokenNum: n}, Transfers: moves(1, 2)})
		}
		return list
	}
	fee := []*hapi.CustomFee{{}}
	const dear = 7
	for name, c := range map[string]struct {
		body  *hapi.TransactionBody
		extra int64
	}{
		"an account": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoCreateAccount{CryptoCreateAccount: &hapi.CryptoCreateTransactionBody{Key: key}}}, 0},
		"of three":   {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoCreateAccount{CryptoCreateAccount: &hapi.CryptoCreateTransactionBody{Key: three}}}, 2 * signerPrice},
		"to three":   {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoUpdateAccount{CryptoUpdateAccount: &hapi.CryptoUpdateTransactionBody{Key: three}}}, 2 * signerPrice},
		"among four": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			Transfers: &hapi.TransferList{AccountAmounts: moves(1, 2, 3, 4, 4)},
		}}}, 2 * accountPrice},
		"of tokens": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			TokenTransfers: tokens(5, 6),
		}}}, tokenTypePrice + tokenTransfer},
		"of a dear one": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{
			TokenTransfers: append(tokens(dear), &hapi.TokenTransferList{NftTransfers: []*hapi.NftTransfer{{SenderAccountID: account(1), ReceiverAccountID: account(3)}}}),
		}}}, tokenTypePrice + accountPrice + customTransfer},
		"allowances": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoApproveAllowance{CryptoApproveAllowance: &hapi.CryptoApproveAllowanceTransactionBody{
			CryptoAllowances: []*hapi.CryptoAllowance{{}}, TokenAllowances: []*hapi.TokenAllowance{{}}, NftAllowances: []*hapi.NftAllowance{{}},
		}}}, 2 * allowancePrice},
		"none of these left": {&hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoDeleteAllowance{CryptoDeleteAllowance: &hapi.CryptoDeleteAllowanceTransactionBody{
			NftAllowances: []*hapi.NftRemoveAllowance{{}, {}},
		}}}, allowancePrice},
		"a contract":  {&hapi.TransactionBody{Data: &hapi.TransactionBody_ContractCreateInstance{ContractCreateInstance: &hapi.ContractCreateTransactionBody{AdminKey: three}}}, 2 * signerPrice},
		"its keys":    {&hapi.TransactionBody{Data: &hapi.TransactionBody_ContractUpdateInstance{ContractUpdateInstance: &hapi.ContractUpdateTransactionBody{AdminKey: three}}}, 2 * signerPrice},
		"a file":      {&hapi.TransactionBody{Data: &hapi.TransactionBody_FileCreate{FileCreate: &hapi.FileCreateTransactionBody{Keys: list, Contents: make([]byte, 1002)}}}, signerPrice + 2*stateBytePrice},
		"another":     {&hapi.TransactionBody{Data: &hapi.TransactionBody_FileUpdate{FileUpdate: &hapi.FileUpdateTransactionBody{Contents: make([]byte, 1001)}}}, stateBytePrice},
		"more of it":  {&hapi.TransactionBody{Data: &hapi.TransactionBody_FileAppend{FileAppend: &hapi.FileAppendTransactionBody{Contents: make([]byte, 1003)}}}, 3 * stateBytePrice},
		"a topic":     {&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusCreateTopic{ConsensusCreateTopic: &hapi.ConsensusCreateTopicTransactionBody{AdminKey: key, CustomFees: []*hapi.FixedCustomFee{{}}}}}, signerPrice + customTopic},
		"its key":     {&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusUpdateTopic{ConsensusUpdateTopic: &hapi.ConsensusUpdateTopicTransactionBody{AdminKey: key, SubmitKey: key}}}, signerPrice},
		"a message":   {&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusSubmitMessage{ConsensusSubmitMessage: &hapi.ConsensusSubmitMessageTransactionBody{TopicID: &hapi.TopicID{TopicNum: 5}, Message: make([]byte, 1025)}}}, stateBytePrice},
		"a dear one":  {&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusSubmitMessage{ConsensusSubmitMessage: &hapi.ConsensusSubmitMessageTransactionBody{TopicID: &hapi.TopicID{TopicNum: dear}}}}, customMessage},
		"a schedule":  {&hapi.TransactionBody{Data: &hapi.TransactionBody_ScheduleCreate{ScheduleCreate: &hapi.ScheduleCreateTransactionBody{AdminKey: key}}}, 0},
		"of a call":   {&hapi.TransactionBody{Data: &hapi.TransactionBody_ScheduleCreate{ScheduleCreate: &hapi.ScheduleCreateTransactionBody{ScheduledTransactionBody: &hapi.SchedulableTransactionBody{Data: &hapi.SchedulableTransactionBody_ContractCall{ContractCall: &hapi.ContractCallTransactionBody{}}}}}}, scheduledCall},
		"a token":     {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenCreation{TokenCreation: &hapi.TokenCreateTransactionBody{AdminKey: key, SupplyKey: key, CustomFees: fee}}}, signerPrice + customToken},
		"its keys as": {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenUpdate{TokenUpdate: &hapi.TokenUpdateTransactionBody{KycKey: three}}}, 2 * signerPrice},
		"a mint":      {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenMint{TokenMint: &hapi.TokenMintTransactionBody{Amount: 9}}}, 0},
		"of NFTs":     {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenMint{TokenMint: &hapi.TokenMintTransactionBody{Metadata: [][]byte{{}, {}, {}}}}}, nftMintBase + 2*nftMintPrice},
		"their data":  {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenUpdateNfts{TokenUpdateNfts: &hapi.TokenUpdateNftsTransactionBody{SerialNumbers: []int64{1, 2}}}}, nftUpdatePrice},
		"two at once": {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenAssociate{TokenAssociate: &hapi.TokenAssociateTransactionBody{Tokens: []*hapi.TokenID{{}, {}}}}}, associationPrice},
		"an airdrop": {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenAirdrop{TokenAirdrop: &hapi.TokenAirdropTransactionBody{
			TokenTransfers: append(tokens(5), &hapi.TokenTransferList{NftTransfers: []*hapi.NftTransfer{{}}}),
		}}}, 2 * airdropPrice},
		"a deletion": {&hapi.TransactionBody{Data: &hapi.TransactionBody_TokenDeletion{TokenDeletion: &hapi.TokenDeleteTransactionBody{}}}, 0},
	} {
		m := c.body.ProtoReflect()
		base := prices[m.WhichOneof(m.Descriptor().Oneofs().ByName("data")).Name()].base
		if got := Of(c.body, includedBytes, 1, customs{dear, dear}); got != 10*NodePrice+base+c.extra {
			t.Errorf("%s: %d beyond its price, not %d", name, got-10*NodePrice-base, c.extra)
		}
		if got := Of(c.body, includedBytes+2, 4, customs{dear, dear}); got != 10*(NodePrice+2*bytePrice+3*SignaturePrice)+base+c.extra {
			t.Errorf("%s: larger, and signed by more: %d", name, got)
		}
	}
}
