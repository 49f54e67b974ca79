package evm

import (
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/accounts"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Gas of the token service: the price of the transaction that a call stands for at the
// default fee schedule, in gas, and a fifth more.
const (
	tokenGas     = 14_084  // what costs a tenth of a cent
	nftMintGas   = 281_690 // for each NFT
	associateGas = 704_225
	approveGas   = 704_225

	// CreateFee is what the creation of a token costs, a dollar, in tinybar at the rate
	// of genesis. Contracts send it along; it goes where fees go.
	CreateFee = 100 * hedera.Hbar / 12
)

// Expand replaces the names of structures in a signature by what they are.
func Expand(signature string) string {
	const (
		key     = "(uint256,(bool,address,bytes,bytes,address))[]"
		token   = "(string,string,address,string,bool,int64,bool," + key + ",(int64,address,int64))"
		tokenV1 = "(string,string,address,string,bool,uint32,bool," + key + ",(uint32,address,uint32))"
		tokenV2 = "(string,string,address,string,bool,int64,bool," + key + ",(uint32,address,uint32))"
		tokenM  = "(string,string,address,string,bool,int64,bool," + key + ",(int64,address,int64),bytes)"
		fixed   = "(int64,address,bool,bool,address)[]"
		fixed1  = "(uint32,address,bool,bool,address)[]"
		part    = "(int64,int64,int64,int64,bool,address)[]"
		part1   = "(uint32,uint32,uint32,uint32,bool,address)[]"
		royal   = "(int64,int64,int64,address,bool,address)[]"
		royal1  = "(uint32,uint32,uint32,address,bool,address)[]"
		info    = "(" + token + ",int64,bool,bool,bool," + fixed + "," + part + "," + royal + ",string)"
	)
	return strings.NewReplacer(
		"TOKENV1", tokenV1, "TOKENV2", tokenV2, "TOKENM", tokenM, "TOKEN", token, "KEYS", key, "FIXED1", fixed1, "FIXED", fixed,
		"PART1", part1, "PART", part, "ROYAL1", royal1, "ROYAL", royal, "INFO", info,
	).Replace(signature)
}

// NewTokenFunctions are the functions of the token service.
func NewTokenFunctions() *serviceFunctions {
	const redirectForToken = 0x618dc65e
	return newServiceFunctions("token service", redirectForToken, directCalls, facadeCalls)
}

// mintPrice is that of a mint: each NFT has its own.
func mintPrice(_ *execution, args []sysabi.Value) uint64 {
	if n := len(args[2].List); n > 0 {
		return nftMintGas * uint64(min(n, tokens.MaxTokenBatch+1))
	}
	return tokenGas
}

// The events of ERC-20 and ERC-721, which tokens leave although no contract emits them.
var (
	topicTransfer       = common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
	topicApproval       = common.HexToHash("0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925")
	topicApprovalForAll = common.HexToHash("0x17307eab39ab6107e8899845ad3d59bd9653f200f220920489ca2b5937696c31")
)

// event is one of a token between two accounts. What it is about is data, or of an NFT a topic.
func event(token hedera.ID, topic common.Hash, from, to common.Address, what common.Hash, nft bool) *types.Log {
	log := &types.Log{Address: token.LongZero(), Topics: []common.Hash{topic, common.BytesToHash(from[:]), common.BytesToHash(to[:])}}
	if nft {
		log.Topics = append(log.Topics, what)
	} else {
		log.Data = what.Bytes()
	}
	return log
}

// transferLogs are the events of what changed hands: one for each NFT, and for fungible
// tokens one for each receiver where there is one sender.
func transferLogs(o *core.Work, did *history.Effects) (logs []*types.Log) {
	at := func(id hedera.ID) common.Address {
		if id.IsZero() {
			return common.Address{}
		}
		return o.EntityAccount(id.Num).Address
	}
	for i := 0; i < len(did.Tokens); {
		end := i
		var from []history.TokenTransfer
		for end < len(did.Tokens) && did.Tokens[end].Token == did.Tokens[i].Token {
			if did.Tokens[end].Amount < 0 {
				from = append(from, did.Tokens[end])
			}
			end++
		}
		if len(from) == 1 {
			for _, t := range did.Tokens[i:end] {
				if t.Amount > 0 {
					logs = append(logs, event(t.Token, topicTransfer, at(from[0].Account), at(t.Account), sysabi.Word(t.Amount), false))
				}
			}
		}
		i = end
	}
	for _, n := range did.NFTs {
		logs = append(logs, event(n.Token, topicTransfer, at(n.Sender), at(n.Receiver), sysabi.Word(n.Serial), true))
	}
	return logs
}

// logApproval makes the event of an approval that succeeded.
func (c *serviceCall) logApproval(status hedera.Status, id *hapi.TokenID, owner, spender common.Address, what common.Hash, nft bool) {
	if status == okay {
		c.logs = append(c.logs, event(hedera.Entity(id.GetTokenNum()), topicApproval, owner, c.x.o.Canonical(spender), what, nft))
	}
}

func approvalForAllLog(id *hapi.TokenID, owner, spender common.Address, approved bool) *types.Log {
	return event(hedera.Entity(id.GetTokenNum()), topicApprovalForAll, owner, spender, sysabi.Bool(approved).Word, false)
}

// SyntheticLogs are the events that the mirror node makes of a transaction on tokens
// without a contract.
func SyntheticLogs(h *core.Handling) []*history.Log {
	if h.Record.Status != okay || h.Record.Result != nil {
		return nil
	}
	raw := transferLogs(h.State, supplied(h))
	if approve := h.Sub.Body.GetCryptoApproveAllowance(); approve != nil {
		raw = append(raw, approvalLogs(h, approve)...)
	}
	logs, _ := logs(h, raw)
	return logs
}

// supplied is what a transaction did with a partner for what came into being or ceased to
// exist: the zero address.
func supplied(h *core.Handling) *history.Effects {
	switch h.Record.Kind {
	case history.KindTokenCreate, history.KindTokenMint, history.KindTokenBurn, history.KindTokenWipe:
	default:
		return h.Record.Did()
	}
	did := *h.Record.Did()
	did.Tokens = append([]history.TokenTransfer(nil), did.Tokens...)
	for _, t := range h.Record.Did().Tokens {
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.Token, Amount: -t.Amount})
	}
	return &did
}

func approvalLogs(h *core.Handling, body *hapi.CryptoApproveAllowanceTransactionBody) (logs []*types.Log) {
	parties := func(owner, spender *hapi.AccountID) (common.Address, common.Address) {
		from, to, _ := accounts.Grantor(h, owner, spender, true)
		return from.Address, to.Address
	}
	for _, a := range body.GetTokenAllowances() {
		from, to := parties(a.GetOwner(), a.GetSpender())
		logs = append(logs, event(hedera.Entity(a.GetTokenId().GetTokenNum()), topicApproval, from, to, sysabi.Word(a.GetAmount()), false))
	}
	for _, a := range body.GetNftAllowances() {
		from, to := parties(a.GetOwner(), a.GetSpender())
		if all := a.GetApprovedForAll(); all != nil {
			logs = append(logs, approvalForAllLog(a.GetTokenId(), from, to, all.GetValue()))
		}
		for _, serial := range a.GetSerialNumbers() {
			logs = append(logs, event(hedera.Entity(a.GetTokenId().GetTokenNum()), topicApproval, from, to, sysabi.Word(serial), true))
		}
	}
	return logs
}

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
	return c.do(body)
}

func setKeys(body *hapi.TokenUpdateTransactionBody, keys [8]*hapi.Key) {
	body.AdminKey, body.KycKey, body.FreezeKey, body.WipeKey = keys[0], keys[1], keys[2], keys[3]
	body.SupplyKey, body.FeeScheduleKey, body.PauseKey, body.MetadataKey = keys[4], keys[5], keys[6], keys[7]
}

func (c *serviceCall) updateKeys() hedera.Status {
	keys, status := c.keys(c.args[1].List)
	if status != okay {
		return status
	}
	body := &hapi.TokenUpdateTransactionBody{Token: c.tokenArg(0)}
	setKeys(body, keys)
	return c.do(body)
}

func (c *serviceCall) updateExpiry() hedera.Status {
	body := &hapi.TokenUpdateTransactionBody{Token: c.tokenArg(0)}
	body.Expiry, body.AutoRenewAccount, body.AutoRenewPeriod = c.expiry(&c.args[1])
	return c.do(body)
}

func (c *serviceCall) updateFees() hedera.Status {
	royalties := strings.HasPrefix(c.f.signature, "updateNon")
	return c.do(&hapi.TokenFeeScheduleUpdateTransactionBody{
		TokenId: c.tokenArg(0), CustomFees: c.fees(c.args[1].List, c.args[2].List, royalties),
	})
}

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
