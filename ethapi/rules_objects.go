package ethapi

import (
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/rpc"
)

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
