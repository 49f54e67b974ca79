package evm

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// view makes a function of what is said about a token that exists.
func view(say func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status) func(*serviceCall) hedera.Status {
	return func(c *serviceCall) hedera.Status {
		id, args := c.self()
		t := c.x.o.Tokens.Get(tokens.TokenNum(id))
		if t == nil {
			return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		}
		return say(c, t, args)
	}
}

// saying is a view that cannot fail.
func saying(say func(c *serviceCall, t *state.Token) sysabi.Value) func(*serviceCall) hedera.Status {
	return view(func(c *serviceCall, t *state.Token, _ []sysabi.Value) hedera.Status {
		c.result = []sysabi.Value{say(c, t)}
		return okay
	})
}

func directViews() []*serviceFunction {
	return []*serviceFunction{
		{signature: "isToken(address)", returns: "bool", view: true, run: func(c *serviceCall) hedera.Status {
			c.result = []sysabi.Value{sysabi.Bool(c.x.o.Tokens.Get(tokens.TokenNum(c.tokenArg(0))) != nil)}
			return okay
		}},
		{signature: "getTokenType(address)", returns: "int32", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Bool(t.NonFungible) })},
		{signature: "isFrozen(address,address)", returns: "bool", view: true, run: view(func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status {
			return c.sayRelation(t, args[0].Address(), func(r *state.Relation) bool { return r.Frozen && t.Keys.Freeze != nil })
		})},
		{signature: "isKyc(address,address)", returns: "bool", view: true, run: view(func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status {
			return c.sayRelation(t, args[0].Address(), func(r *state.Relation) bool { return r.KYC })
		})},
		{signature: "getTokenDefaultFreezeStatus(address)", returns: "bool", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Bool(t.FreezeDefault) })},
		{signature: "getTokenDefaultKycStatus(address)", returns: "bool", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Bool(t.Keys.KYC == nil) })},
		{signature: "allowance(address,address,address)", returns: "uint256", view: true, run: view((*serviceCall).sayAllowance)},
		{signature: "getApproved(address,uint256)", returns: "address", view: true, run: view((*serviceCall).sayApproved)},
		{signature: "isApprovedForAll(address,address,address)", returns: "bool", view: true, run: view((*serviceCall).sayApprovedForAll)},
		{signature: "getTokenInfo(address)", returns: "INFO", view: true, run: saying((*serviceCall).info)},
		{signature: "getFungibleTokenInfo(address)", returns: "(INFO,int32)", view: true, run: saying(func(c *serviceCall, t *state.Token) sysabi.Value {
			return sysabi.List(c.info(t), sysabi.Int(int64(t.Decimals)))
		})},
		{signature: "getNonFungibleTokenInfo(address,int64)", returns: "(INFO,int64,address,int64,bytes,address)", view: true, run: view((*serviceCall).sayNFT)},
		{signature: "getTokenCustomFees(address)", returns: "FIXED,PART,ROYAL", view: true, run: view(func(c *serviceCall, t *state.Token, _ []sysabi.Value) hedera.Status {
			c.result = c.customFees(t)
			return okay
		})},
		{signature: "getTokenKey(address,uint256)", returns: "(bool,address,bytes,bytes,address)", view: true, run: view((*serviceCall).sayKey)},
		{signature: "getTokenExpiryInfo(address)", returns: "(int64,address,int64)", view: true, run: saying((*serviceCall).expiryOf)},
	}
}

func facadeViews() []*serviceFunction {
	return []*serviceFunction{
		{signature: "name()", returns: "string", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Text(t.Name) })},
		{signature: "symbol()", returns: "string", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Text(t.Symbol) })},
		{signature: "decimals()", returns: "uint8", view: true, run: view(func(c *serviceCall, t *state.Token, _ []sysabi.Value) hedera.Status {
			if t.NonFungible {
				return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
			}
			c.result = []sysabi.Value{sysabi.Int(int64(t.Decimals))}
			return okay
		})},
		{signature: "totalSupply()", returns: "uint256", view: true, run: saying(func(_ *serviceCall, t *state.Token) sysabi.Value { return sysabi.Int(t.Supply) })},
		{signature: "balanceOf(address)", returns: "uint256", view: true, run: view(func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status {
			balance := int64(0)
			if r := c.relation(t, args[0].Address()); r != nil {
				balance = r.Balance
			}
			c.result = []sysabi.Value{sysabi.Int(balance)}
			return okay
		})},
		{signature: "allowance(address,address)", returns: "uint256", view: true, run: view((*serviceCall).sayAllowance)},
		{signature: "ownerOf(uint256)", returns: "address", view: true, run: view(func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status {
			nft := c.nft(t, &args[0])
			if nft == nil {
				return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
			}
			c.result = []sysabi.Value{c.addressOf(nft.Owner)}
			return okay
		})},
		{signature: "getApproved(uint256)", returns: "address", view: true, run: view((*serviceCall).sayApproved)},
		{signature: "isApprovedForAll(address,address)", returns: "bool", view: true, run: view((*serviceCall).sayApprovedForAll)},
		{signature: "tokenURI(uint256)", returns: "string", view: true, run: view(func(c *serviceCall, t *state.Token, args []sysabi.Value) hedera.Status {
			text := "ERC721Metadata: URI query for nonexistent token"
			if nft := c.nft(t, &args[0]); nft != nil {
				text = string(nft.Metadata)
			}
			c.result = []sysabi.Value{sysabi.Text(text)}
			return okay
		})},
		{signature: "isAssociated()", returns: "bool", view: true, run: saying(func(c *serviceCall, t *state.Token) sysabi.Value {
			return sysabi.Bool(c.relation(t, c.sender.Address) != nil)
		})},
	}
}

func (c *serviceCall) relation(t *state.Token, a common.Address) *state.Relation {
	acct := c.x.o.Get(a)
	if !acct.Exists || acct.Num == 0 {
		return nil
	}
	return c.x.o.Relations.Get(state.RelationKey{Account: acct.Num, Token: t.ID.Num})
}

func (c *serviceCall) sayRelation(t *state.Token, a common.Address, is func(*state.Relation) bool) hedera.Status {
	if !c.x.o.Get(a).Exists {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	r := c.relation(t, a)
	c.result = []sysabi.Value{sysabi.Bool(r != nil && is(r))}
	return okay
}

func (c *serviceCall) sayAllowance(t *state.Token, args []sysabi.Value) hedera.Status {
	owner, spender := c.x.o.Get(args[0].Address()), c.x.o.Get(args[1].Address())
	left := int64(0)
	if a := c.x.o.Allowances.Get(state.AllowanceKey{Owner: owner.Num, Token: t.ID.Num, Spender: spender.Num}); a != nil {
		left = a.Amount
	}
	c.result = []sysabi.Value{sysabi.Int(left)}
	return okay
}

// nft returns an NFT that exists.
func (c *serviceCall) nft(t *state.Token, serial *sysabi.Value) *state.NFT {
	if !t.NonFungible || !serial.Uint256().IsUint64() {
		return nil
	}
	nft := c.x.o.NFTs.Get(state.NFTKey{Token: t.ID.Num, Serial: serial.Int64()})
	if nft == nil || nft.Deleted {
		return nil
	}
	return nft
}

func (c *serviceCall) sayApproved(t *state.Token, args []sysabi.Value) hedera.Status {
	nft := c.nft(t, &args[0])
	if nft == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	}
	c.result = []sysabi.Value{c.addressOf(nft.Spender)}
	return okay
}

func (c *serviceCall) sayApprovedForAll(t *state.Token, args []sysabi.Value) hedera.Status {
	owner, spender := c.x.o.Get(args[0].Address()), c.x.o.Get(args[1].Address())
	all := c.x.o.NFTAllowances.Get(state.AllowanceKey{Owner: owner.Num, Token: t.ID.Num, Spender: spender.Num})
	c.result = []sysabi.Value{sysabi.Bool(all != nil && all.Approved)}
	return okay
}

// addressOf is the address by which the EVM knows an entity; zero for none.
func (c *serviceCall) addressOf(id hedera.ID) sysabi.Value {
	if id.IsZero() {
		return sysabi.Value{}
	}
	return sysabi.Address(c.x.o.EntityAccount(id.Num).Address)
}

func (c *serviceCall) sayNFT(t *state.Token, args []sysabi.Value) hedera.Status {
	nft := c.nft(t, &args[0])
	if nft == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	}
	c.result = []sysabi.Value{sysabi.List(c.info(t), sysabi.Int(nft.Serial), c.addressOf(nft.Owner), sysabi.Int(nft.Created.Seconds),
		sysabi.Bytes(nft.Metadata), c.addressOf(nft.Spender))}
	return okay
}

// sayKey tells the key of the role that a bit stands for.
func (c *serviceCall) sayKey(t *state.Token, args []sysabi.Value) hedera.Status {
	for bit, key := range t.Keys.All() {
		if args[0].Int64() == 1<<bit && key != nil {
			c.result = []sysabi.Value{c.keyValue(key)}
			return okay
		}
	}
	return hapi.ResponseCodeEnum_KEY_NOT_PROVIDED
}

func (c *serviceCall) keyValue(key *hapi.Key) sysabi.Value {
	at := func(id *hapi.ContractID) sysabi.Value {
		address, _ := contractAddress(id)
		if id == nil {
			address = common.Address{}
		}
		return sysabi.Address(c.x.o.Canonical(address))
	}
	return sysabi.List(sysabi.Bool(false), at(key.GetContractID()), sysabi.Bytes(key.GetEd25519()), sysabi.Bytes(key.GetECDSASecp256K1()),
		at(key.GetDelegatableContractId()))
}

func (c *serviceCall) expiryOf(t *state.Token) sysabi.Value {
	return sysabi.List(sysabi.Int(t.Expires.Seconds), c.addressOf(t.AutoRenewAccount), sysabi.Int(t.AutoRenewPeriod))
}

// ledgerName is the id of local networks as the token service writes it.
const ledgerName = "0x03"

// info is what the service tells of every kind of token.
func (c *serviceCall) info(t *state.Token) sysabi.Value {
	var keys sysabi.Value
	for bit, key := range t.Keys.All()[:7] {
		keys.List = append(keys.List, sysabi.List(sysabi.Int(1<<bit), c.keyValue(key)))
	}
	basics := sysabi.List(sysabi.Text(t.Name), sysabi.Text(t.Symbol), c.addressOf(t.Treasury), sysabi.Text(t.Memo), sysabi.Bool(t.MaxSupply > 0),
		sysabi.Int(t.MaxSupply), sysabi.Bool(t.FreezeDefault), keys, c.expiryOf(t))
	fees := c.customFees(t)
	return sysabi.List(basics, sysabi.Int(t.Supply), sysabi.Bool(t.Deleted), sysabi.Bool(t.Keys.KYC == nil), sysabi.Bool(t.Paused),
		fees[0], fees[1], fees[2], sysabi.Text(ledgerName))
}

// customFees are the fixed and fractional fees and the royalties of a token.
func (c *serviceCall) customFees(t *state.Token) []sysabi.Value {
	lists := make([]sysabi.Value, 3)
	denomination := func(f *hapi.FixedFee) (token, hbar sysabi.Value) {
		if f.GetDenominatingTokenId() == nil {
			return sysabi.Value{}, sysabi.Bool(f != nil)
		}
		return sysabi.Address(hedera.Entity(f.GetDenominatingTokenId().GetTokenNum()).LongZero()), sysabi.Bool(false)
	}
	for _, fee := range t.Fees {
		collector := c.addressOf(hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()))
		switch kind := fee.GetFee().(type) {
		case *hapi.CustomFee_FixedFee:
			token, hbar := denomination(kind.FixedFee)
			own := kind.FixedFee.GetDenominatingTokenId().GetTokenNum() == t.ID.Num
			lists[0].List = append(lists[0].List, sysabi.List(sysabi.Int(kind.FixedFee.GetAmount()), token, hbar, sysabi.Bool(own), collector))
		case *hapi.CustomFee_FractionalFee:
			f := kind.FractionalFee
			lists[1].List = append(lists[1].List, sysabi.List(sysabi.Int(f.GetFractionalAmount().GetNumerator()), sysabi.Int(f.GetFractionalAmount().GetDenominator()),
				sysabi.Int(f.GetMinimumAmount()), sysabi.Int(f.GetMaximumAmount()), sysabi.Bool(f.GetNetOfTransfers()), collector))
		case *hapi.CustomFee_RoyaltyFee:
			f := kind.RoyaltyFee
			token, hbar := denomination(f.GetFallbackFee())
			lists[2].List = append(lists[2].List, sysabi.List(sysabi.Int(f.GetExchangeValueFraction().GetNumerator()), sysabi.Int(f.GetExchangeValueFraction().GetDenominator()),
				sysabi.Int(f.GetFallbackFee().GetAmount()), token, hbar, collector))
		}
	}
	return lists
}
