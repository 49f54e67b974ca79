package evm

import (
	"math"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// directCalls are the functions of the token service itself.
func directCalls() []*serviceFunction {
	list := []*serviceFunction{
		{signature: "transferToken(address,address,address,int64)", run: (*serviceCall).transferToken},
		{signature: "transferTokens(address,address[],int64[])", run: (*serviceCall).transferTokens},
		{signature: "transferNFT(address,address,address,int64)", run: (*serviceCall).transferNFT},
		{signature: "transferNFTs(address,address[],address[],int64[])", run: (*serviceCall).transferNFTs},
		{signature: "transferFrom(address,address,address,uint256)", run: (*serviceCall).transferFrom},
		{signature: "transferFromNFT(address,address,address,uint256)", run: (*serviceCall).transferFrom},
		{signature: "cryptoTransfer((address,(address,int64)[],(address,address,int64)[])[])", run: (*serviceCall).cryptoTransferV1},
		{signature: "cryptoTransfer(((address,int64,bool)[]),(address,(address,int64,bool)[],(address,address,int64,bool)[])[])", run: (*serviceCall).cryptoTransferV2},
		{signature: "mintToken(address,int64,bytes[])", returns: "int64,int64[]", price: mintPrice, run: (*serviceCall).mint},
		{signature: "mintToken(address,uint64,bytes[])", returns: "uint64,int64[]", price: mintPrice, run: (*serviceCall).mint},
		{signature: "burnToken(address,int64,int64[])", returns: "int64", run: (*serviceCall).burn},
		{signature: "burnToken(address,uint64,int64[])", returns: "uint64", run: (*serviceCall).burn},
		{signature: "wipeTokenAccount(address,address,uint32)", run: (*serviceCall).wipe},
		{signature: "wipeTokenAccount(address,address,int64)", run: (*serviceCall).wipe},
		{signature: "wipeTokenAccountNFT(address,address,int64[])", run: (*serviceCall).wipe},
		{signature: "associateToken(address,address)", gas: associateGas, run: (*serviceCall).associate},
		{signature: "associateTokens(address,address[])", gas: associateGas, run: (*serviceCall).associate},
		{signature: "dissociateToken(address,address)", gas: associateGas, run: (*serviceCall).dissociate},
		{signature: "dissociateTokens(address,address[])", gas: associateGas, run: (*serviceCall).dissociate},
		{signature: "approve(address,address,uint256)", returns: "bool", gas: approveGas, run: (*serviceCall).approve},
		{signature: "approveNFT(address,address,uint256)", gas: approveGas, run: (*serviceCall).approveNFT},
		{signature: "setApprovalForAll(address,address,bool)", gas: approveGas, run: (*serviceCall).approveAll},
		{signature: "deleteToken(address)", run: tokenDo(func(id *hapi.TokenID) proto.Message { return &hapi.TokenDeleteTransactionBody{Token: id} })},
		{signature: "pauseToken(address)", run: tokenDo(func(id *hapi.TokenID) proto.Message { return &hapi.TokenPauseTransactionBody{Token: id} })},
		{signature: "unpauseToken(address)", run: tokenDo(func(id *hapi.TokenID) proto.Message { return &hapi.TokenUnpauseTransactionBody{Token: id} })},
		{signature: "freezeToken(address,address)", run: relationDo(func(id *hapi.TokenID, a *hapi.AccountID) proto.Message {
			return &hapi.TokenFreezeAccountTransactionBody{Token: id, Account: a}
		})},
		{signature: "unfreezeToken(address,address)", run: relationDo(func(id *hapi.TokenID, a *hapi.AccountID) proto.Message {
			return &hapi.TokenUnfreezeAccountTransactionBody{Token: id, Account: a}
		})},
		{signature: "grantTokenKyc(address,address)", run: relationDo(func(id *hapi.TokenID, a *hapi.AccountID) proto.Message {
			return &hapi.TokenGrantKycTransactionBody{Token: id, Account: a}
		})},
		{signature: "revokeTokenKyc(address,address)", run: relationDo(func(id *hapi.TokenID, a *hapi.AccountID) proto.Message {
			return &hapi.TokenRevokeKycTransactionBody{Token: id, Account: a}
		})},
		{signature: "updateNFTsMetadata(address,int64[],bytes)", run: (*serviceCall).updateMetadata},
		{signature: "redirectForToken(address,bytes)", returns: "bytes", run: func(*serviceCall) hedera.Status { return hapi.ResponseCodeEnum_INVALID_TOKEN_ID }},
	}
	list = append(append(list, createCalls()...), airdropCalls()...)
	return append(list, directViews()...)
}

// facadeCalls are the functions of a token's own address.
func facadeCalls() []*serviceFunction {
	list := []*serviceFunction{
		{signature: "transfer(address,uint256)", returns: "bool", run: (*serviceCall).erc20Transfer},
		{signature: "transferFrom(address,address,uint256)", returns: "bool", run: (*serviceCall).ercTransferFrom},
		{signature: "approve(address,uint256)", returns: "bool", gas: approveGas, run: (*serviceCall).ercApprove},
		{signature: "setApprovalForAll(address,bool)", gas: approveGas, run: (*serviceCall).approveAll},
		{signature: "associate()", returns: "int64", gas: associateGas, run: (*serviceCall).associate},
		{signature: "dissociate()", returns: "int64", gas: associateGas, run: (*serviceCall).dissociate},
	}
	return append(append(list, airdropFaces()...), facadeViews()...)
}

// accountAt is the account id of an address. The zero address is nobody.
func (c *serviceCall) accountAt(a common.Address) *hapi.AccountID {
	if acct := c.x.o.Get(a); acct.Exists {
		return hedera.Entity(c.x.o.Number(acct)).AccountID()
	}
	if id, longZero := hedera.FromLongZero(a); longZero {
		return id.AccountID()
	}
	return &hapi.AccountID{Account: &hapi.AccountID_Alias{Alias: a.Bytes()}}
}

func (c *serviceCall) account(i int) *hapi.AccountID { return c.accountAt(c.args[i].Address()) }

func (c *serviceCall) me() *hapi.AccountID { return c.accountAt(c.sender.Address) }

// tokenAt is the token id of an address; what is no token's address is that of no token.
func tokenAt(a common.Address) *hapi.TokenID {
	id, _ := hedera.FromLongZero(a)
	return id.TokenID()
}

func (c *serviceCall) tokenArg(i int) *hapi.TokenID { return tokenAt(c.args[i].Address()) }

// self is the token whose proxy is called, or the first argument, with the arguments after it.
func (c *serviceCall) self() (*hapi.TokenID, []sysabi.Value) {
	if c.facade {
		return c.entity.TokenID(), c.args
	}
	return c.tokenArg(0), c.args[1:]
}

func tokenDo(body func(*hapi.TokenID) proto.Message) func(*serviceCall) hedera.Status {
	return func(c *serviceCall) hedera.Status {
		return c.do(body(c.tokenArg(0)))
	}
}

func relationDo(body func(*hapi.TokenID, *hapi.AccountID) proto.Message) func(*serviceCall) hedera.Status {
	return func(c *serviceCall) hedera.Status {
		return c.do(body(c.tokenArg(0), c.account(1)))
	}
}

// transfer dispatches a transfer and makes the events of it.
func (c *serviceCall) transfer(body *hapi.CryptoTransferTransactionBody) hedera.Status {
	if c.creditsSystem(body) {
		return hapi.ResponseCodeEnum_INVALID_RECEIVING_NODE_ACCOUNT
	}
	return c.moved(body)
}

// creditsSystem tells whether anything goes to the system's accounts, which contracts may not do.
func (c *serviceCall) creditsSystem(body *hapi.CryptoTransferTransactionBody) bool {
	system := func(id *hapi.AccountID) bool {
		return id.GetAlias() == nil && id.GetAccountNum() > 0 && id.GetAccountNum() <= state.LastSystemNumber
	}
	for _, list := range body.GetTokenTransfers() {
		for _, e := range list.GetTransfers() {
			if e.GetAmount() > 0 && system(e.GetAccountID()) {
				return true
			}
		}
		for _, m := range list.GetNftTransfers() {
			if system(m.GetReceiverAccountID()) {
				return true
			}
		}
	}
	return false
}

// debit is an entry that takes from an account. What is not the caller's own is taken
// from an allowance where the call does not say how.
func (c *serviceCall) debit(a *hapi.AccountID, amount int64, approval bool) *hapi.AccountAmount {
	if amount < 0 && !approval {
		approval = c.needsApproval(a)
	}
	return &hapi.AccountAmount{AccountID: a, Amount: amount, IsApproval: &approval}
}

func (c *serviceCall) needsApproval(a *hapi.AccountID) bool {
	if a.GetAccountNum() == c.sender.Num {
		return false
	}
	owner := c.x.o.EntityAccount(a.GetAccountNum())
	return !owner.Exists || !c.authorizes(owner.Key())
}

func oneToken(list *hapi.TokenTransferList) *hapi.CryptoTransferTransactionBody {
	return &hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{list}}
}

func (c *serviceCall) transferToken() hedera.Status {
	amount := c.args[3].Int64()
	if amount < 0 {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	return c.transfer(oneToken(&hapi.TokenTransferList{Token: c.tokenArg(0), Transfers: []*hapi.AccountAmount{
		c.debit(c.account(1), -amount, false), {AccountID: c.account(2), Amount: amount},
	}}))
}

func (c *serviceCall) transferTokens() hedera.Status {
	list := &hapi.TokenTransferList{Token: c.tokenArg(0)}
	if len(c.args[1].List) != len(c.args[2].List) {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	for i := range c.args[1].List {
		list.Transfers = append(list.Transfers, c.debit(c.accountAt(c.args[1].List[i].Address()), c.args[2].List[i].Int64(), false))
	}
	return c.transfer(oneToken(list))
}

func (c *serviceCall) nftMove(from, to common.Address, serial int64, approval bool) *hapi.NftTransfer {
	owner := c.accountAt(from)
	return &hapi.NftTransfer{
		SenderAccountID: owner, ReceiverAccountID: c.accountAt(to), SerialNumber: serial,
		IsApproval: approval || c.needsApproval(owner),
	}
}

func (c *serviceCall) transferNFT() hedera.Status {
	return c.transfer(oneToken(&hapi.TokenTransferList{Token: c.tokenArg(0), NftTransfers: []*hapi.NftTransfer{
		c.nftMove(c.args[1].Address(), c.args[2].Address(), c.args[3].Int64(), false),
	}}))
}

func (c *serviceCall) transferNFTs() hedera.Status {
	from, to, serials := c.args[1].List, c.args[2].List, c.args[3].List
	if len(from) != len(to) || len(from) != len(serials) {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	list := &hapi.TokenTransferList{Token: c.tokenArg(0)}
	for i := range from {
		list.NftTransfers = append(list.NftTransfers, c.nftMove(from[i].Address(), to[i].Address(), serials[i].Int64(), false))
	}
	return c.transfer(oneToken(list))
}

// transferFrom is a transfer by a spender: of an allowance unless the owner calls.
func (c *serviceCall) transferFrom() hedera.Status {
	id, args := c.self()
	from, to, amount := args[0].Address(), args[1].Address(), args[2].Int64()
	own := c.x.o.Get(from) == c.sender
	if t := c.x.o.Tokens.Get(id.GetTokenNum()); t != nil && t.NonFungible {
		return c.transfer(oneToken(&hapi.TokenTransferList{Token: id, NftTransfers: []*hapi.NftTransfer{{
			SenderAccountID: c.accountAt(from), ReceiverAccountID: c.accountAt(to), SerialNumber: amount, IsApproval: !own,
		}}}))
	}
	approval := !own
	return c.transfer(oneToken(&hapi.TokenTransferList{Token: id, Transfers: []*hapi.AccountAmount{
		{AccountID: c.accountAt(from), Amount: -amount, IsApproval: &approval}, {AccountID: c.accountAt(to), Amount: amount},
	}}))
}

func (c *serviceCall) erc20Transfer() hedera.Status {
	id, args := c.self()
	amount := args[1].Int64()
	c.result = []sysabi.Value{sysabi.Bool(true)}
	return c.transfer(oneToken(&hapi.TokenTransferList{Token: id, Transfers: []*hapi.AccountAmount{
		{AccountID: c.me(), Amount: -amount}, {AccountID: c.accountAt(args[0].Address()), Amount: amount},
	}}))
}

// ercTransferFrom returns true for fungible tokens, and nothing for NFTs, whose interface
// has no result; what is returned beyond it, nobody reads.
func (c *serviceCall) ercTransferFrom() hedera.Status {
	c.result = []sysabi.Value{sysabi.Bool(true)}
	return c.transferFrom()
}

func (c *serviceCall) cryptoTransferV1() hedera.Status {
	return c.transfer(&hapi.CryptoTransferTransactionBody{TokenTransfers: c.lists(c.args[0].List, false)})
}

func (c *serviceCall) cryptoTransferV2() hedera.Status {
	body := &hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{}, TokenTransfers: c.lists(c.args[1].List, true)}
	for _, e := range c.args[0].List[0].List {
		body.Transfers.AccountAmounts = append(body.Transfers.AccountAmounts, c.debit(c.accountAt(e.List[0].Address()), e.List[1].Int64(), e.List[2].Bool()))
	}
	return c.transfer(body)
}

// lists reads transfers of tokens. Their newer form also says what comes of an allowance though the
// caller could do without.
func (c *serviceCall) lists(values []sysabi.Value, explicit bool) (lists []*hapi.TokenTransferList) {
	for _, v := range values {
		list := &hapi.TokenTransferList{Token: tokenAt(v.List[0].Address())}
		for _, e := range v.List[1].List {
			a, amount := c.accountAt(e.List[0].Address()), e.List[1].Int64()
			list.Transfers = append(list.Transfers, c.debit(a, amount, explicit && e.List[2].Bool()))
		}
		for _, m := range v.List[2].List {
			list.NftTransfers = append(list.NftTransfers, c.nftMove(m.List[0].Address(), m.List[1].Address(), m.List[2].Int64(), explicit && m.List[3].Bool()))
		}
		lists = append(lists, list)
	}
	return lists
}

func (c *serviceCall) mint() hedera.Status {
	body := &hapi.TokenMintTransactionBody{Token: c.tokenArg(0)}
	if amount := c.args[1].Int64(); amount >= 0 {
		body.Amount = uint64(amount)
	} else {
		body.Amount = math.MaxUint64
	}
	for _, m := range c.args[2].List {
		body.Metadata = append(body.Metadata, m.Data)
	}
	if len(body.GetMetadata()) > 0 {
		body.Amount = 0 // of NFTs the metadata alone counts
	}
	child, status := c.dispatch(body)
	var serials sysabi.Value
	for _, serial := range child.Did().Serials {
		serials.List = append(serials.List, sysabi.Int(serial))
	}
	c.result = []sysabi.Value{sysabi.Int(child.Did().TokenSupply), serials}
	return status
}

func (c *serviceCall) burn() hedera.Status {
	amount := c.args[1].Int64()
	if amount < 0 {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT
	}
	child, status := c.dispatch(&hapi.TokenBurnTransactionBody{
		Token: c.tokenArg(0), Amount: uint64(amount), SerialNumbers: c.args[2].Int64s(),
	})
	c.result = []sysabi.Value{sysabi.Int(child.Did().TokenSupply)}
	return status
}

func (c *serviceCall) wipe() hedera.Status {
	body := &hapi.TokenWipeAccountTransactionBody{Token: c.tokenArg(0), Account: c.account(1)}
	if strings.Contains(c.f.signature, "NFT") {
		body.SerialNumbers = c.args[2].Int64s()
	} else if amount := c.args[2].Int64(); amount >= 0 {
		body.Amount = uint64(amount)
	} else {
		return hapi.ResponseCodeEnum_INVALID_WIPING_AMOUNT
	}
	return c.do(body)
}

func (c *serviceCall) updateMetadata() hedera.Status {
	return c.do(&hapi.TokenUpdateNftsTransactionBody{
		Token: c.tokenArg(0), SerialNumbers: c.args[1].Int64s(), Metadata: wrapperspb.Bytes(c.args[2].Data),
	})
}

func (c *serviceCall) tokensArg(i int) []*hapi.TokenID {
	if !strings.Contains(c.f.signature, "[]") {
		return []*hapi.TokenID{c.tokenArg(i)}
	}
	var list []*hapi.TokenID
	for _, v := range c.args[i].List {
		list = append(list, tokenAt(v.Address()))
	}
	return list
}

// holding is who is to hold which tokens: the caller and the token whose proxy is called, or as the arguments say.
func (c *serviceCall) holding() (*hapi.AccountID, []*hapi.TokenID) {
	if c.facade {
		return c.me(), []*hapi.TokenID{c.entity.TokenID()}
	}
	return c.account(0), c.tokensArg(1)
}

func (c *serviceCall) associate() hedera.Status {
	a, list := c.holding()
	return c.do(&hapi.TokenAssociateTransactionBody{Account: a, Tokens: list})
}

func (c *serviceCall) dissociate() hedera.Status {
	a, list := c.holding()
	return c.do(&hapi.TokenDissociateTransactionBody{Account: a, Tokens: list})
}

// approve is the approval of an amount by its owner, the caller.
func (c *serviceCall) approve() hedera.Status {
	id, args := c.self()
	spender, amount := args[0].Address(), args[1].Int64()
	c.result = []sysabi.Value{sysabi.Bool(true)}
	status := c.do(&hapi.CryptoApproveAllowanceTransactionBody{TokenAllowances: []*hapi.TokenAllowance{{
		TokenId: id, Owner: c.me(), Spender: c.accountAt(spender), Amount: amount,
	}}})
	c.logApproval(status, id, c.sender.Address, spender, sysabi.Word(amount), false)
	return status
}

// approveNFT approves a spender for one NFT; the zero address ends an approval. Who may
// transfer all of an owner's NFTs may hand single ones on.
func (c *serviceCall) approveNFT() hedera.Status {
	id, args := c.self()
	spender, serial := args[0].Address(), args[1].Int64()
	nft := c.x.o.NFTs.Get(state.NFTKey{Token: id.GetTokenNum(), Serial: serial})
	if nft == nil || nft.Deleted {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	}
	owner := nft.Owner.AccountID()
	var status hedera.Status
	if spender == (common.Address{}) {
		status = c.do(&hapi.CryptoDeleteAllowanceTransactionBody{NftAllowances: []*hapi.NftRemoveAllowance{{
			TokenId: id, Owner: owner, SerialNumbers: []int64{serial},
		}}})
	} else {
		allowance := &hapi.NftAllowance{TokenId: id, Owner: owner, Spender: c.accountAt(spender), SerialNumbers: []int64{serial}}
		if nft.Owner.Num != c.sender.Num {
			allowance.DelegatingSpender = c.me()
		}
		status = c.do(&hapi.CryptoApproveAllowanceTransactionBody{NftAllowances: []*hapi.NftAllowance{allowance}})
	}
	c.logApproval(status, id, c.x.o.EntityAccount(nft.Owner.Num).Address, spender, sysabi.Word(serial), true)
	return status
}

// ercApprove is the approve of both interfaces.
func (c *serviceCall) ercApprove() hedera.Status {
	if t := c.x.o.Tokens.Get(c.entity.Num); t != nil && t.NonFungible {
		c.result = []sysabi.Value{sysabi.Bool(true)}
		return c.approveNFT()
	}
	return c.approve()
}

func (c *serviceCall) approveAll() hedera.Status {
	id, args := c.self()
	approved := args[1].Bool()
	status := c.do(&hapi.CryptoApproveAllowanceTransactionBody{NftAllowances: []*hapi.NftAllowance{{
		TokenId: id, Owner: c.me(), Spender: c.accountAt(args[0].Address()), ApprovedForAll: wrapperspb.Bool(approved),
	}}})
	if status == okay {
		c.logs = append(c.logs, approvalForAllLog(id, c.sender.Address, args[0].Address(), approved))
	}
	return status
}

// airdropGas is for one that leaves pending airdrops, whether this one does or not.
const airdropGas = 1_408_450

// airdropCalls are the functions of the token service about airdrops and rejections.
func airdropCalls() []*serviceFunction {
	return []*serviceFunction{
		{signature: "airdropTokens((address,(address,int64,bool)[],(address,address,int64,bool)[])[])", gas: airdropGas, run: (*serviceCall).airdrop},
		{signature: "claimAirdrops((address,address,address,int64)[])", run: (*serviceCall).claim},
		{signature: "cancelAirdrops((address,address,address,int64)[])", run: (*serviceCall).cancel},
		{signature: "rejectTokens(address,address[],(address,int64)[])", run: (*serviceCall).rejectMany},
	}
}

// airdropFaces are those at a token's own address, for whoever calls.
func airdropFaces() []*serviceFunction {
	return []*serviceFunction{
		{signature: "claimAirdropFT(address)", returns: "int64", run: (*serviceCall).claim},
		{signature: "claimAirdropNFT(address,int64)", returns: "int64", run: (*serviceCall).claim},
		{signature: "cancelAirdropFT(address)", returns: "int64", run: (*serviceCall).cancel},
		{signature: "cancelAirdropNFT(address,int64)", returns: "int64", run: (*serviceCall).cancel},
		{signature: "rejectTokenFT()", returns: "int64", run: (*serviceCall).rejectOwn},
		{signature: "rejectTokenNFTs(int64[])", returns: "int64", run: (*serviceCall).rejectOwn},
	}
}

func (c *serviceCall) airdrop() hedera.Status {
	return c.moved(&hapi.TokenAirdropTransactionBody{TokenTransfers: c.lists(c.args[0].List, true)})
}

// moved dispatches what may change owners, and makes the events of it.
func (c *serviceCall) moved(body proto.Message) hedera.Status {
	child, status := c.dispatch(body)
	if status == okay {
		c.logs = append(c.logs, transferLogs(c.x.o.Work, child.Did())...)
	}
	return status
}

func (c *serviceCall) claim() hedera.Status {
	return c.moved(&hapi.TokenClaimAirdropTransactionBody{PendingAirdrops: c.pending(false)})
}

func (c *serviceCall) cancel() hedera.Status {
	return c.moved(&hapi.TokenCancelAirdropTransactionBody{PendingAirdrops: c.pending(true)})
}

// pending reads the names of pending airdrops: sender, receiver, token and serial number. At a token's own address
// there is one, which the caller sent or is to receive.
func (c *serviceCall) pending(sent bool) (list []*hapi.PendingAirdropId) {
	if !c.facade {
		for _, v := range c.args[0].List {
			list = append(list, pendingID(
				c.accountAt(v.List[0].Address()), c.accountAt(v.List[1].Address()), tokenAt(v.List[2].Address()), v.List[3].Int64(),
			))
		}
		return list
	}
	serial := int64(0)
	if len(c.args) > 1 {
		serial = c.args[1].Int64()
	}
	sender, receiver := c.account(0), c.me()
	if sent {
		sender, receiver = receiver, sender
	}
	return append(list, pendingID(sender, receiver, c.entity.TokenID(), serial))
}

// pendingID names a pending airdrop; serial 0 is of a fungible token.
func pendingID(sender, receiver *hapi.AccountID, token *hapi.TokenID, serial int64) *hapi.PendingAirdropId {
	id := &hapi.PendingAirdropId{SenderId: sender, ReceiverId: receiver}
	if serial == 0 {
		id.TokenReference = &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: token}
	} else {
		id.TokenReference = &hapi.PendingAirdropId_NonFungibleToken{NonFungibleToken: &hapi.NftID{Token_ID: token, SerialNumber: serial}}
	}
	return id
}

func (c *serviceCall) reject(owner *hapi.AccountID, list []*hapi.TokenReference) hedera.Status {
	return c.moved(&hapi.TokenRejectTransactionBody{Owner: owner, Rejections: list})
}

func rejectedNFT(token *hapi.TokenID, serial int64) *hapi.TokenReference {
	return &hapi.TokenReference{TokenIdentifier: &hapi.TokenReference_Nft{Nft: &hapi.NftID{Token_ID: token, SerialNumber: serial}}}
}

func rejectedToken(token *hapi.TokenID) *hapi.TokenReference {
	return &hapi.TokenReference{TokenIdentifier: &hapi.TokenReference_FungibleToken{FungibleToken: token}}
}

func (c *serviceCall) rejectMany() hedera.Status {
	var list []*hapi.TokenReference
	for _, v := range c.args[1].List {
		list = append(list, rejectedToken(tokenAt(v.Address())))
	}
	for _, v := range c.args[2].List {
		list = append(list, rejectedNFT(tokenAt(v.List[0].Address()), v.List[1].Int64()))
	}
	return c.reject(c.account(0), list)
}

func (c *serviceCall) rejectOwn() hedera.Status {
	if len(c.args) == 0 {
		return c.reject(c.me(), []*hapi.TokenReference{rejectedToken(c.entity.TokenID())})
	}
	var list []*hapi.TokenReference
	for _, serial := range c.args[0].Int64s() {
		list = append(list, rejectedNFT(c.entity.TokenID(), serial))
	}
	return c.reject(c.me(), list)
}
