package rpc

import (
	"bytes"

	"lockstep/eth"
)

// Rules for parameters that are objects.

func object(text string, s schema, more func(Value) *eth.Error) Rule {
	return Rule{text: text, check: Value.IsObject, fields: func(v Value) *eth.Error {
		if err := s.verify(v); err != nil {
			return err
		}
		if more != nil {
			return more(v)
		}
		return nil
	}}
}

// Transaction accepts a call object: from, to, gas, gasPrice,
// maxPriorityFeePerGas, maxFeePerGas, value, type, chainId, nonce, data, input,
// accessList, authorizationList. Other members are ignored; null counts as
// absent.
func Transaction() Rule {
	fields := []field{{name: "from", rule: Address()}, {name: "to", rule: Address()}}
	for _, name := range []string{"gas", "gasPrice", "maxPriorityFeePerGas", "maxFeePerGas", "value"} {
		fields = append(fields, field{name: name, rule: Hex()})
	}
	fields = append(fields,
		field{name: "data", rule: HexEvenLength()},
		field{name: "input", rule: HexEvenLength()},
		field{name: "accessList", rule: Array()},
		field{name: "authorizationList", rule: Rule{
			text: "Expected Array", check: Value.IsArray, fields: verifyAuthorizations,
		}},
	)
	for _, name := range []string{"type", "chainId", "nonce"} {
		fields = append(fields, field{name: name, rule: Hex()})
	}
	for i := range fields {
		fields[i].nullable = true
	}
	return object("Expected TransactionObject", schema{name: "TransactionObject", fields: fields}, verifyTxType)
}

// AuthorizationListEntry accepts a signed authorization: address, chainId, nonce,
// r, s and yParity, all required.
func AuthorizationListEntry() Rule {
	return object("Expected valid AuthorizationListEntry object", authorizationSchema(), nil)
}

func authorizationSchema() schema {
	return schema{name: "AuthorizationListEntry", fields: []field{
		{name: "address", rule: Address(), required: true},
		{name: "chainId", rule: Hex(), required: true},
		{name: "nonce", rule: Hex(), required: true},
		{name: "r", rule: Hex64(), required: true},
		{name: "s", rule: Hex64(), required: true},
		{name: "yParity", rule: YParityHex(), required: true},
	}}
}

func verifyAuthorizations(list Value) *eth.Error {
	entry := AuthorizationListEntry()
	for e := range list.Elements() {
		if !e.IsObject() {
			return eth.ErrInvalidParam("'authorizationList' for TransactionObject", "%s, value: %s", entry.text, e.display())
		}
		if err := entry.fields(e); err != nil {
			return err
		}
	}
	return nil
}

// verifyTxType checks what the declared type says about the authorization list.
func verifyTxType(tx Value) *eth.Error {
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

func verifyAuthorizationRange(entry Value) *eth.Error {
	if digits, _ := hexDigits(entry.Field("nonce").text()); len(trimHex(digits)) > 16 {
		return invalidAuthorizations("authorization nonce '%s' exceeds uint64 maximum of 18446744073709551615",
			clip(entry.Field("nonce").Text()))
	}
	if digits, _ := hexDigits(entry.Field("chainId").text()); len(trimHex(digits)) > 64 {
		const maximum = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
		return invalidAuthorizations("authorization chainId '%s' exceeds uint256 maximum of %s",
			clip(entry.Field("chainId").Text()), maximum)
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

// Filter accepts a log filter: blockHash, or fromBlock and toBlock; address;
// topics. Other members are an error; null counts as absent.
func Filter() Rule {
	s := schema{name: "FilterObject", closed: true, fields: []field{
		{name: "blockHash", rule: BlockHash(), nullable: true},
		{name: "fromBlock", rule: BlockNumber(), nullable: true},
		{name: "toBlock", rule: BlockNumber(), nullable: true},
		{name: "address", rule: AddressFilter(), nullable: true},
		{name: "topics", rule: Topics(), nullable: true},
	}}
	return object("Expected FilterObject", s, func(v Value) *eth.Error {
		if v.Field("blockHash").Given() && (v.Field("fromBlock").Given() || v.Field("toBlock").Given()) {
			return eth.ErrInvalidParam(0, "Can't use both blockHash and toBlock/fromBlock")
		}
		return nil
	})
}

// LogsSubscription accepts what a subscription to logs is for: address, topics.
// Other members are ignored; null counts as absent.
func LogsSubscription() Rule {
	return object("Expected EthSubscribeLogsParamsObject", schema{name: "EthSubscribeLogsParamsObject", fields: []field{
		{name: "address", rule: AddressFilter(), nullable: true},
		{name: "topics", rule: Topics(), nullable: true},
	}}, nil)
}

// StateOverride accepts any object.
func StateOverride() Rule {
	return Rule{
		text:  "Expected StateOverride object (currently accepting any object structure)",
		check: Value.IsObject,
	}
}

// BlockOverrides accepts any object.
func BlockOverrides() Rule {
	return Rule{text: "Expected BlockOverrides object", check: Value.IsObject}
}

// SimulatePayload accepts what eth_simulateV1 is to simulate: blockStateCalls, an array
// of objects with calls, stateOverrides and blockOverrides; traceTransfers, validation
// and returnFullTransactions. Other members are ignored; null counts as absent.
func SimulatePayload() Rule {
	block := schema{name: "BlockStateCall", fields: []field{
		{name: "blockOverrides", rule: BlockOverrides(), nullable: true},
		{name: "stateOverrides", rule: StateOverride(), nullable: true},
		{name: "calls", rule: Rule{text: "Expected Array", check: Value.IsArray, fields: verifyCalls}, nullable: true},
	}}
	return object("Expected SimulatePayload", schema{name: "SimulatePayload", fields: []field{
		{name: "blockStateCalls", required: true, rule: Rule{text: "Expected Array", check: Value.IsArray, fields: func(list Value) *eth.Error {
			for v := range list.Elements() {
				if !v.IsObject() {
					return eth.ErrInvalidParam("'blockStateCalls' for SimulatePayload", "Expected Object, value: %s", v.display())
				}
				if err := block.verify(v); err != nil {
					return err
				}
			}
			return nil
		}}},
		{name: "traceTransfers", rule: Boolean(), nullable: true},
		{name: "validation", rule: Boolean(), nullable: true},
		{name: "returnFullTransactions", rule: Boolean(), nullable: true},
	}}, nil)
}

func verifyCalls(list Value) *eth.Error {
	call := Transaction()
	for v := range list.Elements() {
		if !v.IsObject() {
			return eth.ErrInvalidParam("'calls' for BlockStateCall", "%s, value: %s", call.text, v.display())
		}
		if err := call.fields(v); err != nil {
			return err
		}
	}
	return nil
}

func verifyBlockObject(v Value) *eth.Error {
	if !v.IsObject() {
		return nil
	}
	if v.Field("blockHash").Present() {
		return schema{name: "BlockHashObject", closed: true, fields: []field{
			{name: "blockHash", rule: BlockHash(), required: true},
			{name: "requireCanonical", rule: Boolean(), nullable: true},
		}}.verify(v)
	}
	return schema{name: "BlockNumberObject", closed: true, fields: []field{
		{name: "blockNumber", rule: BlockNumber()},
	}}.verify(v)
}

// TracerConfig accepts an object whose known members (onlyTopCall, withLog,
// diffMode, disableMemory, enableMemory, disableStack, disableStorage,
// fullStorage) are booleans. Unknown members are ignored.
func TracerConfig() Rule {
	return Rule{text: "Expected TracerConfig", check: isTracerConfig}
}

func isTracerConfig(v Value) bool {
	if !v.IsObject() {
		return false
	}
	for name, value := range v.Fields() {
		switch name {
		case "onlyTopCall", "withLog", "diffMode",
			"disableMemory", "enableMemory", "disableStack", "disableStorage", "fullStorage":
			if !value.IsBool() {
				return false
			}
		}
	}
	return true
}

// TracerConfigWrapper accepts the options of a trace method: tracer, tracerConfig,
// and the opcode logger's switches either at top level or in tracerConfig, not in
// both. Unknown members are ignored.
func TracerConfigWrapper() Rule {
	return Rule{
		text: "Expected TracerConfigWrapper which contains a valid TracerType and/or TracerConfig",
		check: func(v Value) bool {
			tracer, config := v.Field("tracer"), v.Field("tracerConfig")
			return isTracerConfig(v) &&
				(!tracer.Given() || TracerType().check(tracer)) &&
				(!config.Given() || isTracerConfig(config))
		},
		fields: verifyTracerConflicts,
	}
}

func verifyTracerConflicts(v Value) *eth.Error {
	const name = "TracerConfigWrapper"
	tracer := string(v.Field("tracer").text())
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

func hasOpcodeSwitch(v Value) bool {
	for name, value := range v.Fields() {
		switch name {
		case "disableMemory", "enableMemory", "disableStack", "disableStorage", "fullStorage":
			if !bytes.Equal(value, []byte("null")) {
				return true
			}
		}
	}
	return false
}
