package evm

import (
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// createCalls are the functions that create and update tokens, in the forms that came one
// after another.
func createCalls() []*serviceFunction {
	var list []*serviceFunction
	for _, form := range []struct{ token, amounts, fixed, part, royal string }{
		{"TOKENV1", "uint256,uint256", "FIXED1", "PART1", "ROYAL1"},
		{"TOKENV2", "uint64,uint32", "FIXED1", "PART1", "ROYAL1"},
		{"TOKEN", "int64,int32", "FIXED", "PART", "ROYAL"},
		{"TOKENM", "int64,int32", "FIXED", "PART", "ROYAL"},
	} {
		list = append(list,
			&serviceFunction{signature: "createFungibleToken(" + form.token + "," + form.amounts + ")", returns: "address", schedulable: true, run: (*serviceCall).create},
			&serviceFunction{signature: "createFungibleTokenWithCustomFees(" + form.token + "," + form.amounts + "," + form.fixed + "," + form.part + ")", returns: "address", schedulable: true, run: (*serviceCall).create},
			&serviceFunction{signature: "createNonFungibleToken(" + form.token + ")", returns: "address", schedulable: true, run: (*serviceCall).create},
			&serviceFunction{signature: "createNonFungibleTokenWithCustomFees(" + form.token + "," + form.fixed + "," + form.royal + ")", returns: "address", schedulable: true, run: (*serviceCall).create},
			&serviceFunction{signature: "updateTokenInfo(address," + form.token + ")", schedulable: true, run: (*serviceCall).update},
		)
	}
	return append(list,
		&serviceFunction{signature: "updateTokenKeys(address,KEYS)", run: (*serviceCall).updateKeys},
		&serviceFunction{signature: "updateTokenExpiryInfo(address,(uint32,address,uint32))", run: (*serviceCall).updateExpiry},
		&serviceFunction{signature: "updateTokenExpiryInfo(address,(int64,address,int64))", run: (*serviceCall).updateExpiry},
		&serviceFunction{signature: "updateFungibleTokenCustomFees(address,FIXED,PART)", run: (*serviceCall).updateFees},
		&serviceFunction{signature: "updateNonFungibleTokenCustomFees(address,FIXED,ROYAL)", run: (*serviceCall).updateFees},
	)
}

// create makes a token. The caller pays with the value that it sends along, which goes
// where fees go.
func (c *serviceCall) create() hedera.Status {
	if service := c.x.o.Get(hedera.Entity(NumTokenService).LongZero()); c.instead == nil {
		if c.value < CreateFee {
			c.x.o.Move(service, c.sender, c.value) // nothing is made of it
			return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
		}
		c.x.o.Move(service, c.x.o.EntityAccount(state.FeeCollector), c.value)
	}
	t := c.args[0].List
	keys, status := c.keys(t[7].List)
	if status != okay {
		return status
	}
	body := &hapi.TokenCreateTransactionBody{
		Name: t[0].Text(), Symbol: t[1].Text(), Treasury: c.accountAt(t[2].Address()), Memo: t[3].Text(), FreezeDefault: t[6].Bool(),
		AdminKey: keys[0], KycKey: keys[1], FreezeKey: keys[2], WipeKey: keys[3], SupplyKey: keys[4],
		FeeScheduleKey: keys[5], PauseKey: keys[6], MetadataKey: keys[7],
	}
	if t[4].Bool() {
		body.SupplyType, body.MaxSupply = hapi.TokenSupplyType_FINITE, t[5].Int64()
	}
	body.Expiry, body.AutoRenewAccount, body.AutoRenewPeriod = c.expiry(&t[8])
	if len(t) > 9 {
		body.Metadata = t[9].Data
	}
	rest := c.args[1:]
	if strings.HasPrefix(c.f.signature, "createNon") {
		body.TokenType = hapi.TokenType_NON_FUNGIBLE_UNIQUE
	} else {
		supply, decimals := rest[0].Int64(), rest[1].Int64()
		if supply < 0 {
			return hapi.ResponseCodeEnum_INVALID_TOKEN_INITIAL_SUPPLY
		}
		if decimals < 0 || decimals > 1<<31-1 {
			return hapi.ResponseCodeEnum_INVALID_TOKEN_DECIMALS
		}
		body.InitialSupply, body.Decimals = uint64(supply), uint32(decimals)
		rest = rest[2:]
	}
	if len(rest) == 2 {
		body.CustomFees = c.fees(rest[0].List, rest[1].List, body.GetTokenType() == hapi.TokenType_NON_FUNGIBLE_UNIQUE)
	}
	c.accepts(body.GetAdminKey())
	child, status := c.dispatch(body)
	if status == okay {
		c.result = []sysabi.Value{sysabi.Address(child.Did().Token.LongZero())}
	}
	return status
}

// expiry reads when a token ends, who renews it and for how long.
func (c *serviceCall) expiry(v *sysabi.Value) (*hapi.Timestamp, *hapi.AccountID, *hapi.Duration) {
	var (
		end    *hapi.Timestamp
		renew  *hapi.AccountID
		period *hapi.Duration
	)
	if second := v.List[0].Int64(); second != 0 {
		end = &hapi.Timestamp{Seconds: second}
	}
	if a := v.List[1].Address(); a != (common.Address{}) {
		renew = c.accountAt(a)
	}
	if seconds := v.List[2].Int64(); seconds != 0 {
		period = &hapi.Duration{Seconds: seconds}
	}
	return end, renew, period
}

// keys reads a token's keys. A bit of the first word stands for each key.
func (c *serviceCall) keys(list []sysabi.Value) (keys [8]*hapi.Key, _ hedera.Status) {
	for i := range list {
		mask := list[i].List[0].Int64()
		key, ok := c.key(list[i].List[1].List)
		if !ok {
			return keys, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
		}
		for bit := range keys {
			if mask&(1<<bit) != 0 {
				keys[bit] = key
			}
		}
	}
	return keys, okay
}

// key reads one key, of which one form must be given.
func (c *serviceCall) key(v []sysabi.Value) (key *hapi.Key, ok bool) {
	given := 0
	take := func(k *hapi.Key) { key, given = k, given+1 }
	if v[0].Bool() {
		if m := c.sender.CurrentMeta(); m != nil && m.Key != nil {
			take(m.Key)
		} else {
			take(hapikey.Contract(c.x.o.Number(c.sender)))
		}
	}
	if a := v[1].Address(); a != (common.Address{}) {
		take(&hapi.Key{Key: &hapi.Key_ContractID{ContractID: c.contractAt(a)}})
	}
	if len(v[2].Data) == hapikey.Ed25519Size {
		take(hapikey.Ed25519(v[2].Data))
	}
	if len(v[3].Data) == hapikey.Secp256k1Size {
		take(hapikey.Secp256k1(v[3].Data))
	}
	if a := v[4].Address(); a != (common.Address{}) {
		take(&hapi.Key{Key: &hapi.Key_DelegatableContractId{DelegatableContractId: c.contractAt(a)}})
	}
	return key, given == 1
}

func (c *serviceCall) contractAt(a common.Address) *hapi.ContractID {
	if acct := c.x.o.Get(a); acct.Exists {
		return hedera.Entity(c.x.o.Number(acct)).ContractID()
	}
	id, _ := hedera.FromLongZero(a)
	return id.ContractID()
}

// fees reads custom fees: fixed ones, and fractional ones or royalties.
func (c *serviceCall) fees(fixed, rest []sysabi.Value, royalties bool) (fees []*hapi.CustomFee) {
	for _, v := range fixed {
		fees = append(fees, &hapi.CustomFee{
			Fee:                   &hapi.CustomFee_FixedFee{FixedFee: fixedFee(v.List[0].Int64(), v.List[1].Address(), v.List[2].Bool(), v.List[3].Bool())},
			FeeCollectorAccountId: c.accountAt(v.List[4].Address()),
		})
	}
	for _, v := range rest {
		part := &hapi.Fraction{Numerator: v.List[0].Int64(), Denominator: v.List[1].Int64()}
		fee := &hapi.CustomFee{}
		if royalties {
			royalty := &hapi.RoyaltyFee{ExchangeValueFraction: part}
			if amount := v.List[2].Int64(); amount > 0 {
				royalty.FallbackFee = fixedFee(amount, v.List[3].Address(), v.List[4].Bool(), false)
			}
			fee.Fee, fee.FeeCollectorAccountId = &hapi.CustomFee_RoyaltyFee{RoyaltyFee: royalty}, c.accountAt(v.List[5].Address())
		} else {
			fee.Fee = &hapi.CustomFee_FractionalFee{FractionalFee: &hapi.FractionalFee{
				FractionalAmount: part, MinimumAmount: v.List[2].Int64(), MaximumAmount: v.List[3].Int64(), NetOfTransfers: v.List[4].Bool(),
			}}
			fee.FeeCollectorAccountId = c.accountAt(v.List[5].Address())
		}
		fees = append(fees, fee)
	}
	return fees
}

func fixedFee(amount int64, token common.Address, hbar, own bool) *hapi.FixedFee {
	fee := &hapi.FixedFee{Amount: amount}
	switch {
	case own:
		fee.DenominatingTokenId = hedera.Entity(0).TokenID()
	case !hbar && token != (common.Address{}):
		fee.DenominatingTokenId = tokenAt(token)
	}
	return fee
}

// update changes what is given: empty text, no address and no keys leave what is there.
func (c *serviceCall) update() hedera.Status {
	t := c.args[1].List
	keys, status := c.keys(t[7].List)
	if status != okay {
		return status
	}
	body := &hapi.TokenUpdateTransactionBody{Token: c.tokenArg(0), Name: t[0].Text(), Symbol: t[1].Text()}
	setKeys(body, keys)
	if a := t[2].Address(); a != (common.Address{}) {
		body.Treasury = c.accountAt(a)
	}
	if memo := t[3].Text(); memo != "" {
		body.Memo = wrapperspb.String(memo)
	}
	body.Expiry, body.AutoRenewAccount, body.AutoRenewPeriod = c.expiry(&t[8])
	if len(t) > 9 && len(t[9].Data) > 0 {
		body.Metadata = wrapperspb.Bytes(t[9].Data)
	}
	return c.updated(body)
}

func setKeys(body *hapi.TokenUpdateTransactionBody, keys [8]*hapi.Key) {
	body.AdminKey, body.KycKey, body.FreezeKey, body.WipeKey = keys[0], keys[1], keys[2], keys[3]
	body.SupplyKey, body.FeeScheduleKey, body.PauseKey, body.MetadataKey = keys[4], keys[5], keys[6], keys[7]
}

func (c *serviceCall) updated(body *hapi.TokenUpdateTransactionBody) hedera.Status {
	return c.do(body)
}

func (c *serviceCall) updateKeys() hedera.Status {
	keys, status := c.keys(c.args[1].List)
	if status != okay {
		return status
	}
	body := &hapi.TokenUpdateTransactionBody{Token: c.tokenArg(0)}
	setKeys(body, keys)
	return c.updated(body)
}

func (c *serviceCall) updateExpiry() hedera.Status {
	body := &hapi.TokenUpdateTransactionBody{Token: c.tokenArg(0)}
	body.Expiry, body.AutoRenewAccount, body.AutoRenewPeriod = c.expiry(&c.args[1])
	return c.updated(body)
}

func (c *serviceCall) updateFees() hedera.Status {
	royalties := strings.HasPrefix(c.f.signature, "updateNon")
	return c.do(&hapi.TokenFeeScheduleUpdateTransactionBody{
		TokenId: c.tokenArg(0), CustomFees: c.fees(c.args[1].List, c.args[2].List, royalties),
	})
}
