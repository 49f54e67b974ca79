package evm

import (
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// airdropGas is for one that leaves pending airdrops, whether this one does or not.
const airdropGas = 1_408_450

// airdropCalls are the functions of the token service about airdrops and rejections.
func airdropCalls() []*serviceFunction {
	return []*serviceFunction{
		{signature: "airdropTokens((address,(address,int64,bool)[],(address,address,int64,bool)[])[])", gas: airdropGas, run: (*serviceCall).airdrop},
		{signature: "claimAirdrops((address,address,address,int64)[])", run: (*serviceCall).claimMany},
		{signature: "cancelAirdrops((address,address,address,int64)[])", run: (*serviceCall).cancelMany},
		{signature: "rejectTokens(address,address[],(address,int64)[])", run: (*serviceCall).rejectMany},
	}
}

// airdropFaces are those at a token's own address, for whoever calls.
func airdropFaces() []*serviceFunction {
	return []*serviceFunction{
		{signature: "claimAirdropFT(address)", returns: "int64", run: (*serviceCall).claimOwn},
		{signature: "claimAirdropNFT(address,int64)", returns: "int64", run: (*serviceCall).claimOwn},
		{signature: "cancelAirdropFT(address)", returns: "int64", run: (*serviceCall).cancelOwn},
		{signature: "cancelAirdropNFT(address,int64)", returns: "int64", run: (*serviceCall).cancelOwn},
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

func (c *serviceCall) claim(list ...*hapi.PendingAirdropId) hedera.Status {
	return c.moved(&hapi.TokenClaimAirdropTransactionBody{PendingAirdrops: list})
}

func (c *serviceCall) cancel(list ...*hapi.PendingAirdropId) hedera.Status {
	return c.moved(&hapi.TokenCancelAirdropTransactionBody{PendingAirdrops: list})
}

func (c *serviceCall) claimMany() hedera.Status  { return c.claim(c.pendingArgs()...) }
func (c *serviceCall) cancelMany() hedera.Status { return c.cancel(c.pendingArgs()...) }

// pendingArgs reads the names of pending airdrops: sender, receiver, token and serial number.
func (c *serviceCall) pendingArgs() (list []*hapi.PendingAirdropId) {
	for _, v := range c.args[0].List {
		list = append(list, pendingID(
			c.accountAt(v.List[0].Address()), c.accountAt(v.List[1].Address()), tokenAt(v.List[2].Address()), v.List[3].Int64(),
		))
	}
	return list
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

// serialArg is the serial number in the second argument, 0 where there is none.
func (c *serviceCall) serialArg() int64 {
	if len(c.args) < 2 {
		return 0
	}
	return c.args[1].Int64()
}

func (c *serviceCall) claimOwn() hedera.Status {
	return c.claim(pendingID(c.account(0), c.me(), c.entity.TokenID(), c.serialArg()))
}

func (c *serviceCall) cancelOwn() hedera.Status {
	return c.cancel(pendingID(c.me(), c.account(0), c.entity.TokenID(), c.serialArg()))
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
