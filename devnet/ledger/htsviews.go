package ledger

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// view makes a function of what is said about a token that exists.
func view(say func(c *serviceCall, t *Token, args []abiValue) hedera.Status) func(*serviceCall) hedera.Status {
	return func(c *serviceCall) hedera.Status {
		id, args := c.self()
		t := c.x.o.tokens.get(tokenNum(id))
		if t == nil {
			return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
		}
		return say(c, t, args)
	}
}

// saying is a view that cannot fail.
func saying(say func(c *serviceCall, t *Token) abiValue) func(*serviceCall) hedera.Status {
	return view(func(c *serviceCall, t *Token, _ []abiValue) hedera.Status {
		c.result = []abiValue{say(c, t)}
		return okay
	})
}

func directViews() []*serviceFunction {
	return []*serviceFunction{
		{signature: "isToken(address)", returns: "bool", view: true, run: func(c *serviceCall) hedera.Status {
			c.result = []abiValue{abiBool(c.x.o.tokens.get(tokenNum(c.tokenArg(0))) != nil)}
			return okay
		}},
		{signature: "getTokenType(address)", returns: "int32", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiBool(t.NonFungible) })},
		{signature: "isFrozen(address,address)", returns: "bool", view: true, run: view(func(c *serviceCall, t *Token, args []abiValue) hedera.Status {
			return c.sayRelation(t, args[0].address(), func(r *Relation) bool { return r.Frozen && t.Keys.Freeze != nil })
		})},
		{signature: "isKyc(address,address)", returns: "bool", view: true, run: view(func(c *serviceCall, t *Token, args []abiValue) hedera.Status {
			return c.sayRelation(t, args[0].address(), func(r *Relation) bool { return r.KYC })
		})},
		{signature: "getTokenDefaultFreezeStatus(address)", returns: "bool", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiBool(t.FreezeDefault) })},
		{signature: "getTokenDefaultKycStatus(address)", returns: "bool", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiBool(t.Keys.KYC == nil) })},
		{signature: "allowance(address,address,address)", returns: "uint256", view: true, run: view((*serviceCall).sayAllowance)},
		{signature: "getApproved(address,uint256)", returns: "address", view: true, run: view((*serviceCall).sayApproved)},
		{signature: "isApprovedForAll(address,address,address)", returns: "bool", view: true, run: view((*serviceCall).sayApprovedForAll)},
		{signature: "getTokenInfo(address)", returns: "INFO", view: true, run: saying((*serviceCall).info)},
		{signature: "getFungibleTokenInfo(address)", returns: "(INFO,int32)", view: true, run: saying(func(c *serviceCall, t *Token) abiValue {
			return abiList(c.info(t), abiInt(int64(t.Decimals)))
		})},
		{signature: "getNonFungibleTokenInfo(address,int64)", returns: "(INFO,int64,address,int64,bytes,address)", view: true, run: view((*serviceCall).sayNFT)},
		{signature: "getTokenCustomFees(address)", returns: "FIXED,PART,ROYAL", view: true, run: view(func(c *serviceCall, t *Token, _ []abiValue) hedera.Status {
			c.result = c.customFees(t)
			return okay
		})},
		{signature: "getTokenKey(address,uint256)", returns: "(bool,address,bytes,bytes,address)", view: true, run: view((*serviceCall).sayKey)},
		{signature: "getTokenExpiryInfo(address)", returns: "(int64,address,int64)", view: true, run: saying((*serviceCall).expiryOf)},
	}
}

func facadeViews() []*serviceFunction {
	return []*serviceFunction{
		{signature: "name()", returns: "string", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiText(t.Name) })},
		{signature: "symbol()", returns: "string", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiText(t.Symbol) })},
		{signature: "decimals()", returns: "uint8", view: true, run: view(func(c *serviceCall, t *Token, _ []abiValue) hedera.Status {
			if t.NonFungible {
				return hapi.ResponseCodeEnum_INVALID_TOKEN_ID
			}
			c.result = []abiValue{abiInt(int64(t.Decimals))}
			return okay
		})},
		{signature: "totalSupply()", returns: "uint256", view: true, run: saying(func(_ *serviceCall, t *Token) abiValue { return abiInt(t.Supply) })},
		{signature: "balanceOf(address)", returns: "uint256", view: true, run: view(func(c *serviceCall, t *Token, args []abiValue) hedera.Status {
			balance := int64(0)
			if r := c.relation(t, args[0].address()); r != nil {
				balance = r.Balance
			}
			c.result = []abiValue{abiInt(balance)}
			return okay
		})},
		{signature: "allowance(address,address)", returns: "uint256", view: true, run: view((*serviceCall).sayAllowance)},
		{signature: "ownerOf(uint256)", returns: "address", view: true, run: view(func(c *serviceCall, t *Token, args []abiValue) hedera.Status {
			nft := c.nft(t, &args[0])
			if nft == nil {
				return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
			}
			c.result = []abiValue{c.addressOf(nft.Owner)}
			return okay
		})},
		{signature: "getApproved(uint256)", returns: "address", view: true, run: view((*serviceCall).sayApproved)},
		{signature: "isApprovedForAll(address,address)", returns: "bool", view: true, run: view((*serviceCall).sayApprovedForAll)},
		{signature: "tokenURI(uint256)", returns: "string", view: true, run: view(func(c *serviceCall, t *Token, args []abiValue) hedera.Status {
			text := "ERC721Metadata: URI query for nonexistent token"
			if nft := c.nft(t, &args[0]); nft != nil {
				text = string(nft.Metadata)
			}
			c.result = []abiValue{abiText(text)}
			return okay
		})},
		{signature: "isAssociated()", returns: "bool", view: true, run: saying(func(c *serviceCall, t *Token) abiValue {
			return abiBool(c.relation(t, c.sender.address) != nil)
		})},
	}
}

func (c *serviceCall) relation(t *Token, a common.Address) *Relation {
	acct := c.x.o.get(a)
	if !acct.exists || acct.num == 0 {
		return nil
	}
	return c.x.o.relations.get(relationKey{acct.num, t.ID.Num})
}

func (c *serviceCall) sayRelation(t *Token, a common.Address, is func(*Relation) bool) hedera.Status {
	if !c.x.o.get(a).exists {
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	}
	r := c.relation(t, a)
	c.result = []abiValue{abiBool(r != nil && is(r))}
	return okay
}

func (c *serviceCall) sayAllowance(t *Token, args []abiValue) hedera.Status {
	owner, spender := c.x.o.get(args[0].address()), c.x.o.get(args[1].address())
	left := int64(0)
	if a := c.x.o.allowances.get(allowanceKey{owner: owner.num, token: t.ID.Num, spender: spender.num}); a != nil {
		left = a.Amount
	}
	c.result = []abiValue{abiInt(left)}
	return okay
}

// nft returns an NFT that exists.
func (c *serviceCall) nft(t *Token, serial *abiValue) *NFT {
	if !t.NonFungible || !serial.uint256().IsUint64() {
		return nil
	}
	nft := c.x.o.nfts.get(nftKey{t.ID.Num, serial.int64()})
	if nft == nil || nft.Deleted {
		return nil
	}
	return nft
}

func (c *serviceCall) sayApproved(t *Token, args []abiValue) hedera.Status {
	nft := c.nft(t, &args[0])
	if nft == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	}
	c.result = []abiValue{c.addressOf(nft.Spender)}
	return okay
}

func (c *serviceCall) sayApprovedForAll(t *Token, args []abiValue) hedera.Status {
	owner, spender := c.x.o.get(args[0].address()), c.x.o.get(args[1].address())
	all := c.x.o.nftAllowances.get(allowanceKey{owner: owner.num, token: t.ID.Num, spender: spender.num})
	c.result = []abiValue{abiBool(all != nil && all.Approved)}
	return okay
}

// addressOf is the address by which the EVM knows an entity; zero for none.
func (c *serviceCall) addressOf(id hedera.ID) abiValue {
	if id.IsZero() {
		return abiValue{}
	}
	return abiAddress(c.x.o.entityAccount(id.Num).address)
}

func (c *serviceCall) sayNFT(t *Token, args []abiValue) hedera.Status {
	nft := c.nft(t, &args[0])
	if nft == nil {
		return hapi.ResponseCodeEnum_INVALID_TOKEN_NFT_SERIAL_NUMBER
	}
	c.result = []abiValue{abiList(c.info(t), abiInt(nft.Serial), c.addressOf(nft.Owner), abiInt(nft.Created.Seconds),
		abiData(nft.Metadata), c.addressOf(nft.Spender))}
	return okay
}

// sayKey tells the key of the role that a bit stands for.
func (c *serviceCall) sayKey(t *Token, args []abiValue) hedera.Status {
	for bit, key := range t.Keys.all() {
		if args[0].int64() == 1<<bit && key != nil {
			c.result = []abiValue{c.keyValue(key)}
			return okay
		}
	}
	return hapi.ResponseCodeEnum_KEY_NOT_PROVIDED
}

// all returns the keys in the order of their bits.
func (k *TokenKeys) all() []*hapi.Key {
	return []*hapi.Key{k.Admin, k.KYC, k.Freeze, k.Wipe, k.Supply, k.FeeSchedule, k.Pause, k.Metadata}
}

func (c *serviceCall) keyValue(key *hapi.Key) abiValue {
	at := func(id *hapi.ContractID) abiValue {
		address, _ := contractAddress(id)
		if id == nil {
			address = common.Address{}
		}
		return abiAddress(c.x.o.canonical(address))
	}
	return abiList(abiBool(false), at(key.GetContractID()), abiData(key.GetEd25519()), abiData(key.GetECDSASecp256K1()),
		at(key.GetDelegatableContractId()))
}

func (c *serviceCall) expiryOf(t *Token) abiValue {
	return abiList(abiInt(t.Expires.Seconds), c.addressOf(t.AutoRenewAccount), abiInt(t.AutoRenewPeriod))
}

// ledgerName is the id of local networks as the token service writes it.
const ledgerName = "0x03"

// info is what the service tells of every kind of token.
func (c *serviceCall) info(t *Token) abiValue {
	var keys abiValue
	for bit, key := range t.Keys.all()[:7] {
		keys.list = append(keys.list, abiList(abiInt(1<<bit), c.keyValue(key)))
	}
	basics := abiList(abiText(t.Name), abiText(t.Symbol), c.addressOf(t.Treasury), abiText(t.Memo), abiBool(t.MaxSupply > 0),
		abiInt(t.MaxSupply), abiBool(t.FreezeDefault), keys, c.expiryOf(t))
	fees := c.customFees(t)
	return abiList(basics, abiInt(t.Supply), abiBool(t.Deleted), abiBool(t.Keys.KYC == nil), abiBool(t.Paused),
		fees[0], fees[1], fees[2], abiText(ledgerName))
}

// customFees are the fixed and fractional fees and the royalties of a token.
func (c *serviceCall) customFees(t *Token) []abiValue {
	lists := make([]abiValue, 3)
	denomination := func(f *hapi.FixedFee) (token, hbar abiValue) {
		if f.GetDenominatingTokenId() == nil {
			return abiValue{}, abiBool(f != nil)
		}
		return abiAddress(hedera.Entity(f.GetDenominatingTokenId().GetTokenNum()).LongZero()), abiBool(false)
	}
	for _, fee := range t.Fees {
		collector := c.addressOf(hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()))
		switch kind := fee.GetFee().(type) {
		case *hapi.CustomFee_FixedFee:
			token, hbar := denomination(kind.FixedFee)
			own := kind.FixedFee.GetDenominatingTokenId().GetTokenNum() == t.ID.Num
			lists[0].list = append(lists[0].list, abiList(abiInt(kind.FixedFee.GetAmount()), token, hbar, abiBool(own), collector))
		case *hapi.CustomFee_FractionalFee:
			f := kind.FractionalFee
			lists[1].list = append(lists[1].list, abiList(abiInt(f.GetFractionalAmount().GetNumerator()), abiInt(f.GetFractionalAmount().GetDenominator()),
				abiInt(f.GetMinimumAmount()), abiInt(f.GetMaximumAmount()), abiBool(f.GetNetOfTransfers()), collector))
		case *hapi.CustomFee_RoyaltyFee:
			f := kind.RoyaltyFee
			token, hbar := denomination(f.GetFallbackFee())
			lists[2].list = append(lists[2].list, abiList(abiInt(f.GetExchangeValueFraction().GetNumerator()), abiInt(f.GetExchangeValueFraction().GetDenominator()),
				abiInt(f.GetFallbackFee().GetAmount()), token, hbar, collector))
		}
	}
	return lists
}
