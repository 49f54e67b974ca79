package ethapi

import (
	"bytes"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/rpc"
)

// Texts of the type errors, as established clients and relays know them.
const (
	phraseAddress = "Expected 0x prefixed string representing the address (20 bytes)"
	phraseHash    = "Expected 0x prefixed string representing the hash (32 bytes)"
	phraseBlock   = `0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`
	phraseHex     = "Expected 0x prefixed hexadecimal value"
)

// hexRule accepts 0x and hex digits whose number fits accepts.
func hexRule(phrase string, fits func(digits int) bool) rpc.Rule {
	return rpc.Rule{Phrase: phrase, Check: func(v jsonx.Value) bool {
		digits, ok := lowerHexDigits(v)
		return ok && fits(len(digits))
	}}
}

// lowerHexDigits is jsonx.HexDigits for types that do not allow the prefix 0X.
func lowerHexDigits(v jsonx.Value) ([]byte, bool) {
	text := v.View()
	if len(text) > 1 && text[1] == 'X' {
		return nil, false
	}
	return jsonx.HexDigits(text)
}

// HexRule accepts 0x and any number of hex digits, also none.
func HexRule() rpc.Rule { return hexRule(phraseHex, func(int) bool { return true }) }

// countRule accepts what go-ethereum does as a count: 0x and hex digits, decimal digits in a string, or a number.
func countRule() rpc.Rule {
	return rpc.Rule{Phrase: phraseHex, Check: func(v jsonx.Value) bool {
		_, ok := countOf(v)
		return ok || HexRule().Matches(v)
	}}
}

// countOf reads a count.
func countOf(v jsonx.Value) (uint64, bool) {
	if n, ok := v.Uint64(); ok {
		return n, true
	}
	n, err := strconv.ParseUint(v.Text(), 10, 64)
	return n, err == nil && v.IsString()
}

// HexBytesRule accepts 0x and whole bytes in hex, also none.
func HexBytesRule() rpc.Rule {
	return hexRule(phraseHex+" with even length", func(digits int) bool { return digits%2 == 0 })
}

// numberRule accepts what HexRule does, up to a length that is cheap to compute with.
func numberRule() rpc.Rule {
	return hexRule(phraseHex, func(digits int) bool { return digits <= jsonx.MaxDigits })
}

// quantityRule accepts 0x and up to so many hex digits, of which the first is no zero but in 0x0.
func quantityRule(digits int) rpc.Rule {
	return rpc.Rule{Phrase: phraseHex + " without leading zeros", Check: func(v jsonx.Value) bool {
		got, ok := lowerHexDigits(v)
		return ok && len(got) > 0 && len(got) <= digits && (got[0] != '0' || len(got) == 1)
	}}
}

// wordRule accepts 0x and 1 to 64 hex digits.
func wordRule() rpc.Rule {
	return hexRule(phraseHash, func(digits int) bool { return digits >= 1 && digits <= 64 })
}

// parityRule accepts 0x and up to two hex digits.
func parityRule() rpc.Rule {
	return hexRule("Expected 0x-prefixed yParity value (0 for even, 1 for odd)", func(digits int) bool { return digits <= 2 })
}

// blockHashRule accepts 0x and 64 hex digits.
func blockHashRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected " + phraseHash + " of a block", Check: isHash}
}

// txHashRule accepts 0x and 64 hex digits.
func txHashRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected " + phraseHash + " of a transaction", Check: isHash}
}

func isHash(v jsonx.Value) bool {
	digits, ok := lowerHexDigits(v)
	return ok && len(digits) == 64
}

// AddressRule accepts 0x or 0X and 40 hex digits.
func AddressRule() rpc.Rule { return rpc.Rule{Phrase: phraseAddress, Check: isAddress} }

func isAddress(v jsonx.Value) bool {
	digits, ok := jsonx.HexDigits(v.View())
	return ok && len(digits) == 40
}

// rawTransactionRule accepts what HexRule does, and the prefix 0X.
func rawTransactionRule() rpc.Rule {
	return rpc.Rule{Phrase: phraseHex, Check: func(v jsonx.Value) bool {
		_, ok := jsonx.HexDigits(v.View())
		return ok
	}}
}

// addressFilterRule accepts an address or an array of addresses, which may be nested
// one level deep.
func addressFilterRule() rpc.Rule {
	return rpc.Rule{Phrase: phraseAddress + " or an array of addresses", Check: func(v jsonx.Value) bool {
		return isAddress(v) || v.IsArray() && everyFlat(v, isAddress)
	}}
}

// topicsRule accepts an array whose elements are hashes, null, or arrays of those.
func topicsRule() rpc.Rule {
	return rpc.Rule{
		Phrase: "Expected an array or array of arrays containing " + phraseHash + " of a topic",
		Check: func(v jsonx.Value) bool {
			return v.IsArray() && everyFlat(v, func(topic jsonx.Value) bool { return topic.Null() || isHash(topic) })
		},
	}
}

// percentilesRule accepts an array of up to 100 numbers from 0 to 100.
func percentilesRule() rpc.Rule {
	return rpc.Rule{
		Phrase: "Expected an array of up to 100 numbers, each between 0 and 100",
		Check: func(v jsonx.Value) bool {
			return v.IsArray() && v.Len() <= 100 && every(v, func(e jsonx.Value) bool {
				f := e.Float()
				return e.IsNumber() && f >= 0 && f <= 100
			})
		},
	}
}

// millisecondsRule accepts a whole number that is not negative, as a JSON number or as 0x
// and hex digits.
func millisecondsRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected a number of milliseconds", Check: func(v jsonx.Value) bool {
		_, hex := lowerHexDigits(v)
		_, ok := v.Uint64()
		return ok && (v.IsNumber() || hex)
	}}
}

// blockNumberRule accepts a tag (earliest, latest, pending, safe, finalized) or a
// number: 0x0, or 0x and up to 14 hex digits without a leading zero, up to
// 2^53-1.
func blockNumberRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected " + phraseBlock, Check: isBlockNumber}
}

func isBlockNumber(v jsonx.Value) bool {
	switch string(v.View()) {
	case "earliest", "latest", "pending", "safe", "finalized":
		return true
	}
	digits, ok := lowerHexDigits(v)
	if !ok || len(digits) == 0 || len(digits) > 14 || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	n, ok := v.Uint64()
	return ok && n <= 1<<53-1
}

// plainBlockRule accepts the number of a block as a JSON number, as many nodes do.
func plainBlockRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected " + phraseBlock, Check: func(v jsonx.Value) bool {
		n, ok := v.Uint64()
		return ok && v.IsNumber() && n <= 1<<53-1
	}}
}

// blockRule accepts what blockNumberRule does, and in profile ethereum a JSON number, too.
func (a *API) blockRule() rpc.Rule {
	if a.hiero() {
		return blockNumberRule()
	}
	return blockNumberRule().Also(plainBlockRule())
}

// blockParamsRule accepts what the rule of numbers accepts, a block hash, or an object that names a block:
// {"blockNumber": …} or {"blockHash": …, "requireCanonical": …}. The empty object passes here; the method refuses
// it with its own error.
func blockParamsRule(number rpc.Rule) rpc.Rule {
	return rpc.Rule{
		Phrase: "Expected " + phraseHash + " in object, " + phraseBlock,
		Check:  func(v jsonx.Value) bool { return v.IsObject() || number.Check(v) || isHash(v) },
		Inside: func(v jsonx.Value) *eth.Error { return verifyBlockObject(number, v) },
	}
}

// anyBlockRule is the rule of a parameter that names a block in any way. The TypeScript relay accepts no objects
// there, and their messages say so.
func anyBlockRule(number rpc.Rule) rpc.Rule {
	return rpc.AnyOf(number, blockHashRule()).Also(blockParamsRule(number))
}

func every(array jsonx.Value, ok func(jsonx.Value) bool) bool {
	for e := range array.Elements() {
		if !ok(e) {
			return false
		}
	}
	return true
}

// everyFlat is every for arrays whose elements may be arrays themselves.
func everyFlat(array jsonx.Value, ok func(jsonx.Value) bool) bool {
	return every(array, func(e jsonx.Value) bool {
		if e.IsArray() {
			return every(e, ok)
		}
		return ok(e)
	})
}

// trimHex returns the digits without leading zeros.
func trimHex(digits []byte) []byte { return bytes.TrimLeft(digits, "0") }

// addressOf returns the 20 bytes of a hex string that isAddress accepts.
func addressOf(v jsonx.Value) common.Address { return common.BytesToAddress(v.Bytes()) }

// hashOf returns the 32 bytes of a hex string; a shorter one is padded on the left.
func hashOf(v jsonx.Value) common.Hash { return common.BytesToHash(v.Bytes()) }

// blockRef reads a block parameter that its rule has accepted: a tag, a number, a
// hash, or an object that holds one of the latter two. An absent one is the newest
// block.
func blockRef(v jsonx.Value) (eth.BlockRef, error) {
	switch {
	case !v.Given():
		return eth.BlockRef{}, nil
	case v.IsObject():
		return blockObject(v)
	}
	text := v.Text()
	if ref, ok := eth.ParseBlockTag(text); ok {
		return ref, nil
	}
	const hashLength = 2 + 64
	if len(text) == hashLength {
		return eth.HashRef(hashOf(v)), nil
	}
	number, ok := v.Uint64()
	if !ok {
		return eth.BlockRef{}, eth.ErrInvalidArguments("block %q", text)
	}
	return eth.NumberRef(number), nil
}

// blockObject reads {"blockHash": …} or {"blockNumber": …}. All blocks are canonical, so requireCanonical changes
// nothing.
func blockObject(v jsonx.Value) (eth.BlockRef, error) {
	if hash := v.Field("blockHash"); hash.Given() {
		return eth.HashRef(hashOf(hash)), nil
	}
	if number := v.Field("blockNumber"); number.Given() {
		return blockRef(number)
	}
	return eth.BlockRef{}, eth.ErrInvalidArguments("neither block nor hash specified")
}

// index reads a position in a block.
func index(v jsonx.Value, parameter int) (uint64, error) {
	n, ok := v.Uint64()
	if !ok {
		return 0, eth.ErrInvalidParam(parameter, "%s, value: %s", HexRule().Phrase, v.Text())
	}
	return n, nil
}

// Rules for parameters that are objects.

// transactionRule accepts a call object: from, to, gas, gasPrice,
// maxPriorityFeePerGas, maxFeePerGas, value, type, chainId, nonce, data, input,
// accessList, authorizationList. Other members are ignored; null counts as
// absent.
func transactionRule() rpc.Rule {
	tx := rpc.Object{Name: "TransactionObject"}
	add := func(rule rpc.Rule, names ...string) {
		for _, name := range names {
			tx.Fields = append(tx.Fields, rpc.Field{Name: name, Rule: rule, Nullable: true})
		}
	}
	add(AddressRule(), "from", "to")
	add(numberRule(), "gas", "gasPrice", "maxPriorityFeePerGas", "maxFeePerGas", "value")
	add(HexBytesRule(), "data", "input")
	add(rpc.Array(), "accessList")
	add(arrayRule(authorizationRule(), "'authorizationList' for TransactionObject"), "authorizationList")
	add(numberRule(), "type", "chainId", "nonce")
	return tx.Rule("Expected TransactionObject", verifyTxType)
}

// arrayRule accepts an array of objects that element accepts. In an error about an element that is no object,
// where names the array.
func arrayRule(element rpc.Rule, where string) rpc.Rule {
	return rpc.Rule{Phrase: rpc.Array().Phrase, Check: jsonx.Value.IsArray, Inside: func(list jsonx.Value) *eth.Error {
		for v := range list.Elements() {
			if !v.IsObject() {
				return eth.ErrInvalidParam(where, "%s, value: %s", element.Phrase, v.Display())
			}
			if err := element.Inside(v); err != nil {
				return err
			}
		}
		return nil
	}}
}

// authorizationRule accepts a signed authorization: address, chainId, nonce,
// r, s and yParity, all required.
func authorizationRule() rpc.Rule {
	return rpc.Object{Name: "AuthorizationListEntry", Fields: []rpc.Field{
		{Name: "address", Rule: AddressRule(), Required: true},
		{Name: "chainId", Rule: HexRule(), Required: true},
		{Name: "nonce", Rule: HexRule(), Required: true},
		{Name: "r", Rule: wordRule(), Required: true},
		{Name: "s", Rule: wordRule(), Required: true},
		{Name: "yParity", Rule: parityRule(), Required: true},
	}}.Rule("Expected valid AuthorizationListEntry object", nil)
}

// verifyTxType checks the declared type against the authorization list.
func verifyTxType(tx jsonx.Value) *eth.Error {
	typ := tx.Field("type")
	if !typ.Given() {
		return nil
	}
	number, _ := typ.Uint64()
	list := tx.Field("authorizationList")
	switch {
	case number != 4 && list.Given():
		return invalidAuthorizations("not supported for non-EIP-7702 transaction")
	case number != 4:
		return nil
	case !list.Given():
		return invalidAuthorizations("EIP-7702 transaction with missing auth list")
	case list.Len() == 0:
		return invalidAuthorizations("EIP-7702 transaction with empty auth list")
	}
	for e := range list.Elements() {
		if err := verifyAuthorizationRange(e); err != nil {
			return err
		}
	}
	return nil
}

func verifyAuthorizationRange(entry jsonx.Value) *eth.Error {
	nonce, chainID := entry.Field("nonce"), entry.Field("chainId")
	if digits, _ := jsonx.HexDigits(nonce.View()); len(trimHex(digits)) > 16 {
		return invalidAuthorizations("authorization nonce '%s' exceeds uint64 maximum of 18446744073709551615", clip(nonce.Text()))
	}
	if digits, _ := jsonx.HexDigits(chainID.View()); len(trimHex(digits)) > 64 {
		const maximum = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
		return invalidAuthorizations("authorization chainId '%s' exceeds uint256 maximum of %s", clip(chainID.Text()), maximum)
	}
	return nil
}

func invalidAuthorizations(format string, args ...any) *eth.Error {
	return eth.ErrInvalidParam("authorizationList", format, args...)
}

// clip shortens text that a message repeats.
func clip(text string) string {
	const longest = 256
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}

// filterRule accepts a log filter: blockHash, or fromBlock and toBlock; address;
// topics. Other members are an error; null counts as absent if nullable says so.
func filterRule(block rpc.Rule, nullable bool) rpc.Rule {
	return rpc.Object{Name: "FilterObject", Closed: true, Fields: []rpc.Field{
		{Name: "blockHash", Rule: blockHashRule(), Nullable: nullable},
		{Name: "fromBlock", Rule: block, Nullable: nullable},
		{Name: "toBlock", Rule: block, Nullable: nullable},
		{Name: "address", Rule: addressFilterRule(), Nullable: nullable},
		{Name: "topics", Rule: topicsRule(), Nullable: nullable},
	}}.Rule("Expected FilterObject", func(v jsonx.Value) *eth.Error {
		if v.Field("blockHash").Given() && (v.Field("fromBlock").Given() || v.Field("toBlock").Given()) {
			return eth.ErrInvalidParam(0, "Can't use both blockHash and toBlock/fromBlock")
		}
		return nil
	})
}

// logsSubscriptionRule accepts the filter of a subscription to logs: address, topics. Other members are ignored;
// null counts as absent if nullable says so.
func logsSubscriptionRule(nullable bool) rpc.Rule {
	return rpc.Object{Name: "EthSubscribeLogsParamsObject", Fields: []rpc.Field{
		{Name: "address", Rule: addressFilterRule(), Nullable: nullable},
		{Name: "topics", Rule: topicsRule(), Nullable: nullable},
	}}.Rule("Expected EthSubscribeLogsParamsObject", nil)
}

// stateOverrideRule accepts any object.
func stateOverrideRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected StateOverride object (currently accepting any object structure)", Check: jsonx.Value.IsObject}
}

// blockOverridesRule accepts any object.
func blockOverridesRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected BlockOverrides object", Check: jsonx.Value.IsObject}
}

// simulateRule accepts the first parameter of eth_simulateV1: blockStateCalls, an array of objects with calls,
// stateOverrides and blockOverrides; traceTransfers, validation and returnFullTransactions. Other members are
// ignored; null counts as absent.
func simulateRule() rpc.Rule {
	block := rpc.Object{Name: "BlockStateCall", Fields: []rpc.Field{
		{Name: "blockOverrides", Rule: blockOverridesRule(), Nullable: true},
		{Name: "stateOverrides", Rule: stateOverrideRule(), Nullable: true},
		{Name: "calls", Rule: arrayRule(transactionRule(), "'calls' for BlockStateCall"), Nullable: true},
	}}.Rule("Expected Object", nil)
	return rpc.Object{Name: "SimulatePayload", Fields: []rpc.Field{
		{Name: "blockStateCalls", Required: true, Rule: arrayRule(block, "'blockStateCalls' for SimulatePayload")},
		{Name: "traceTransfers", Rule: rpc.Boolean(), Nullable: true},
		{Name: "validation", Rule: rpc.Boolean(), Nullable: true},
		{Name: "returnFullTransactions", Rule: rpc.Boolean(), Nullable: true},
	}}.Rule("Expected SimulatePayload", nil)
}

func verifyBlockObject(number rpc.Rule, v jsonx.Value) *eth.Error {
	if !v.IsObject() {
		return nil
	}
	if v.Field("blockHash").Present() {
		return rpc.Object{Name: "BlockHashObject", Closed: true, Fields: []rpc.Field{
			{Name: "blockHash", Rule: blockHashRule(), Required: true},
			{Name: "requireCanonical", Rule: rpc.Boolean(), Nullable: true},
		}}.Verify(v)
	}
	return rpc.Object{Name: "BlockNumberObject", Closed: true, Fields: []rpc.Field{
		{Name: "blockNumber", Rule: number},
	}}.Verify(v)
}

// tracerConfigRule accepts an object whose known members (onlyTopCall, withLog,
// diffMode, and the switches of the opcode logger) are booleans. Unknown members are ignored.
func tracerConfigRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected TracerConfig", Check: func(v jsonx.Value) bool { return v.IsObject() && wrongSwitch(v) == "" }}
}

// wrongSwitch returns the name of a member that should be a boolean and is not; "" for
// none.
func wrongSwitch(v jsonx.Value) string {
	for name, value := range v.Fields() {
		if (isOpcodeSwitch(name) || name == "onlyTopCall" || name == "withLog" || name == "diffMode") && !value.IsBool() {
			return name
		}
	}
	return ""
}

// isOpcodeSwitch tells whether a name is that of a switch of the opcode logger.
func isOpcodeSwitch(name string) bool {
	switch name {
	case "disableMemory", "enableMemory", "disableStack", "disableStorage", "fullStorage":
		return true
	}
	return false
}

func hasOpcodeSwitch(v jsonx.Value) bool {
	for name, value := range v.Fields() {
		if isOpcodeSwitch(name) && !value.Null() {
			return true
		}
	}
	return false
}

// tracerRule accepts the names of the tracers.
func tracerRule() rpc.Rule {
	return rpc.Rule{Phrase: "Expected TracerType", Check: func(v jsonx.Value) bool {
		switch string(v.View()) {
		case "callTracer", "opcodeLogger", "prestateTracer":
			return true
		}
		return false
	}}
}

// tracerOptionsRule accepts the options of a trace method: tracer, tracerConfig,
// and the opcode logger's switches either at top level or in tracerConfig, not in
// both. Unknown members are ignored.
func tracerOptionsRule() rpc.Rule {
	options := rpc.Object{Name: "TracerConfigWrapper", Fields: []rpc.Field{
		{Name: "tracer", Rule: tracerRule(), Nullable: true},
		{Name: "tracerConfig", Rule: tracerConfigRule(), Nullable: true},
	}}
	return options.Rule("Expected TracerConfigWrapper which contains a valid TracerType and/or TracerConfig", func(v jsonx.Value) *eth.Error {
		if name := wrongSwitch(v); name != "" {
			return options.VerifyField(rpc.Field{Name: name, Rule: rpc.Boolean()}, v.Field(name))
		}
		return verifyTracerConflicts(v)
	})
}

func verifyTracerConflicts(v jsonx.Value) *eth.Error {
	const name = "TracerConfigWrapper"
	tracer := v.Field("tracer").Text()
	config := v.Field("tracerConfig")
	topLevel := hasOpcodeSwitch(v)
	switch {
	case topLevel && config.Given():
		return eth.ErrInvalidParam(1, "Cannot specify tracer config properties both at top level and in 'tracerConfig' for %s", name)
	case topLevel && tracer != "":
		return eth.ErrInvalidParam(1, "Cannot specify tracer config properties at top level when 'tracer' is explicitly set for %s", name)
	case tracer == "opcodeLogger" && config.Field("onlyTopCall").Given():
		return eth.ErrInvalidParam(1, "callTracer config properties for %s are only valid when tracer=callTracer", name)
	case tracer != "opcodeLogger" && hasOpcodeSwitch(config):
		return eth.ErrInvalidParam(1, "opcodeLogger config properties for %s are only valid when tracer=opcodeLogger", name)
	}
	return nil
}
