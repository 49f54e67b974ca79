package hedera

import (
	"strings"

	"lockstep/internal/hapi"
)

// Status is a response code of the network: a node's precheck answer or the
// status in a receipt.
type Status = hapi.ResponseCodeEnum

// ParseStatus finds a status by its name, for example "WRONG_NONCE".
func ParseStatus(name string) (Status, bool) {
	v, ok := hapi.ResponseCodeEnum_value[name]
	return Status(v), ok
}

// Succeeded tells whether a receipt status means that the transaction did what
// it was meant to do. Besides SUCCESS the network has two statuses for it.
func Succeeded(s Status) bool {
	switch s {
	case hapi.ResponseCodeEnum_SUCCESS,
		hapi.ResponseCodeEnum_FEE_SCHEDULE_FILE_PART_UPLOADED,
		hapi.ResponseCodeEnum_SUCCESS_BUT_MISSING_EXPECTED_OPERATION:
		return true
	default:
		return false
	}
}

// NonceSpent tells whether a receipt status proves that an Ethereum transaction was run, so
// that its sender's nonce is past it. Of others, such as INVALID_CONTRACT_ID, the status
// does not say whether they come from before the run or from within: see AlsoFromRun.
func NonceSpent(s Status) bool {
	switch s {
	case hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED,
		hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION,
		hapi.ResponseCodeEnum_INSUFFICIENT_GAS, // at consensus; too little to begin with is a precheck's
		hapi.ResponseCodeEnum_LOCAL_CALL_MODIFICATION_EXCEPTION,
		hapi.ResponseCodeEnum_MAX_CHILD_RECORDS_EXCEEDED,
		hapi.ResponseCodeEnum_MAX_CONTRACT_STORAGE_EXCEEDED,
		hapi.ResponseCodeEnum_MAX_STORAGE_IN_PRICE_REGIME_HAS_BEEN_USED,
		hapi.ResponseCodeEnum_MAX_ENTITIES_IN_PRICE_REGIME_HAVE_BEEN_CREATED,
		hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID:
		return true
	default:
		return Succeeded(s)
	}
}

// AlsoFromRun tells whether an Ethereum transaction may end with a receipt status before the
// EVM runs it, and also because of what the EVM met: a frame that halts, or that reverts with
// the name of the status as its data. The transaction's record knows which: what ran used gas.
// The network's node maps them in HederaEvmTransactionResult.
func AlsoFromRun(s Status) bool {
	switch s {
	case hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS,
		hapi.ResponseCodeEnum_INVALID_ALIAS_KEY,
		hapi.ResponseCodeEnum_INVALID_SIGNATURE,
		hapi.ResponseCodeEnum_INVALID_CONTRACT_ID,
		hapi.ResponseCodeEnum_INVALID_FEE_SUBMITTED,
		hapi.ResponseCodeEnum_INSUFFICIENT_GAS,
		hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE,
		hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE,
		hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS: // the limit of operations was met in the run
		return true
	default:
		return false
	}
}

// NeverExecuted lists the names of the receipt statuses that mean an Ethereum
// transaction reached consensus and was refused before its sender's nonce was
// spent, unless its record says otherwise. It is the default of
// HEDERA_SPECIFIC_REVERT_STATUSES.
func NeverExecuted() []string {
	return []string{
		"WRONG_NONCE",
		"INVALID_ACCOUNT_ID",
		"SCHEDULE_FUTURE_THROTTLE_EXCEEDED",
		"SCHEDULE_FUTURE_GAS_LIMIT_EXCEEDED",
		"THROTTLED_AT_CONSENSUS",
		"EVM_HOOK_GAS_THROTTLED",
		"BUSY",
		"CONSENSUS_GAS_EXHAUSTED",
		"INVALID_SOLIDITY_ADDRESS",
		"MAX_GAS_LIMIT_EXCEEDED",
		"INVALID_FILE_ID",
		"INVALID_ETHEREUM_TRANSACTION",
	}
}

// plainWords say what a status of the network means to whoever has never seen one.
var plainWords = map[string]string{
	"INSUFFICIENT_GAS":                  "out of gas",
	"INVALID_OPERATION":                 "invalid opcode",
	"INVALID_JUMP_DESTINATION":          "a jump to where no code is",
	"INSUFFICIENT_STACK_ITEMS":          "stack underflow",
	"TOO_MANY_STACK_ITEMS":              "stack overflow",
	"CODE_TOO_LARGE":                    "the contract is too large",
	"INVALID_CODE":                      "the code is no contract's",
	"ILLEGAL_STATE_CHANGE":              "a static call may not change anything",
	"INSUFFICIENT_PAYER_BALANCE":        "the balance is too small",
	"INVALID_RETURN_DATA_BUFFER_ACCESS": "more return data was read than there is",
	"INVALID_SOLIDITY_ADDRESS":          "nothing is at the address",
	"INVALID_ALIAS_KEY":                 "nothing is at the number, and nothing can be made there",
	"WRONG_NONCE":                       "the nonce is not the next one of its account",
	"MAX_CHILD_RECORDS_EXCEEDED":        "it creates too much at once",
	"PRECOMPILE_ERROR":                  "a precompile failed",
}

// PlainWords is the name of a status in plain words, and itself where there are none.
func PlainWords(status string) string {
	if words := plainWords[status]; words != "" {
		return words
	}
	return status
}

// Explain puts what a status means behind a text that ends with its name: "INVALID_SOLIDITY_ADDRESS (nothing is at the address)".
func Explain(text string) string {
	if words := plainWords[text[strings.LastIndexAny(text, " :")+1:]]; words != "" {
		return text + " (" + words + ")"
	}
	return text
}
