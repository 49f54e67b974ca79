package eth

import (
	"cmp"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// Error is an error that a client may see: a JSON-RPC code, a message and,
// for some, data. Only the files errors*.go of this package make them.
type Error struct {
	Code    int
	Message string // as the TypeScript relay words it
	// Ethereum is what Ethereum's nodes say in such a case, where that is known and
	// another text; it is for clients that were made for those.
	Ethereum string
	Data     any // nil: the data member is left out
}

func (e *Error) Error() string { return e.Message }

// ethereum adds what Ethereum's nodes say.
func (e *Error) ethereum(format string, args ...any) *Error {
	e.Ethereum = fmt.Sprintf(format, args...)
	return e
}

// ErrorCode returns the JSON-RPC error code.
func (e *Error) ErrorCode() int { return e.Code }

// ErrorData returns the data member, or nil for none.
func (e *Error) ErrorData() any { return e.Data }

func newError(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The codes of the catalogue. Several errors share a code; the message tells
// them apart, as established clients expect.
const (
	CodeReverted            = 3
	CodeSyncTimeout         = 4
	CodeServerError         = -32000
	CodeNotFound            = -32001
	CodeRejected            = -32003
	CodeTimestampRange      = -32004
	CodeGasLimitTooHigh     = -32005
	CodeNotInBatch          = -32007
	CodeGasPriceTooLow      = -32009
	CodeRequestTimeout      = -32010
	CodeRangeOrPages        = -32011
	CodeImmatureRecords     = -32015
	CodeUpstream            = -32020
	CodeOversized           = -32201
	CodeBatchDisabled       = -32202
	CodeBatchTooLarge       = -32203
	CodeWSBatchDisabled     = -32205
	CodeWSSubscriptionsOff  = -32207
	CodeInvalidRequest      = -32600
	CodeMethodNotFound      = -32601
	CodeInvalidParams       = -32602
	CodeInternal            = -32603
	CodeRateLimited         = -32605
	CodeHbarLimited         = -32606
	CodeUnauthorized        = -32609
	CodeNoLatestBlock       = -32607
	CodeTooManySubscription = -32608
	CodeUnsupportedAction   = -32610
	CodeUnsupportedTxType   = -32611
	CodeParse               = -32700
	CodeVMError             = -32015
	CodeSimNonceTooLow      = -38010
	CodeSimNonceTooHigh     = -38011
	CodeSimFeeTooLow        = -38012
	CodeSimIntrinsicGas     = -38013
	CodeSimFunds            = -38014
	CodeSimBlockGas         = -38015
	CodeSimBlockNumber      = -38020
	CodeSimBlockTime        = -38021
	CodeSimLimit            = -38026
	CodeUnknownBlock        = -39012
	CodeInvalidBlockRange   = -39013
)

// ErrPassedOn is an error that was a client's already: a method that calls another answers with
// what that one did.
func ErrPassedOn(code int, message string, data any) *Error {
	return &Error{Code: code, Message: message, Data: data}
}

// Requests and parameters.

var (
	// ErrParse says: the body is not JSON, or is over the size limit.
	ErrParse = newError(CodeParse, "Parse error").ethereum("parse error")
	// ErrInvalidRequest says: JSON, but not a JSON-RPC 2.0 call.
	ErrInvalidRequest = newError(CodeInvalidRequest, "Invalid Request").ethereum("invalid request")
)

// ErrMethodNotFound says: no such method here.
func ErrMethodNotFound(method string) *Error {
	return newError(CodeMethodNotFound, "Method %s not found", method).ethereum("the method %s does not exist/is not available", method)
}

var (
	// ErrUnsupportedMethod says: known to Ethereum, impossible or switched off here.
	ErrUnsupportedMethod = newError(CodeMethodNotFound, "Unsupported JSON-RPC method")
	// ErrNotYetImplemented says: a tracing method without a counterpart here.
	ErrNotYetImplemented = newError(CodeMethodNotFound, "Not yet implemented")
	// ErrInvalidParams says: the parameters are no array.
	ErrInvalidParams = newError(CodeInvalidParams, "Invalid params").ethereum("non-array args")
)

// ErrTooManyParams says: more parameters than the method has.
func ErrTooManyParams(most int) *Error {
	return newError(CodeInvalidParams, "Invalid params").ethereum("too many arguments, want at most %d", most)
}

// ErrMissingParam says: the parameter at index (a number, or a quoted field name) is required and absent.
func ErrMissingParam(index any) *Error {
	return newError(CodeInvalidParams, "Missing value for required parameter %v", index).ethereum("missing value for required argument %v", index)
}

// ErrInvalidParam says: the parameter at index (a number, or a quoted field name) is wrong.
func ErrInvalidParam(index any, format string, args ...any) *Error {
	wrong := fmt.Sprintf(format, args...)
	return newError(CodeInvalidParams, "Invalid parameter %v: %s", index, wrong).ethereum("invalid argument %v: %s", index, wrong)
}

// ErrInvalidArguments says: well-formed parameters that make no sense together or do not decode.
func ErrInvalidArguments(format string, args ...any) *Error {
	return newError(CodeServerError, "Invalid arguments: %s", fmt.Sprintf(format, args...))
}

// ErrInternal says: something failed that is not the client's doing.
func ErrInternal(format string, args ...any) *Error {
	return newError(CodeInternal, "Error invoking RPC: %s", fmt.Sprintf(format, args...))
}

// ErrRateLimited says: this address called the method too often.
func ErrRateLimited(method string) *Error {
	return newError(CodeRateLimited, "IP Rate limit exceeded on %s", method)
}

// ErrHbarLimited says: what the operator is willing to pay for is spent for now.
var ErrHbarLimited = newError(CodeHbarLimited, "HBAR Rate limit exceeded")

// ErrManaged refuses a transaction of an account whose nonces the transaction manager gives out.
func ErrManaged(a common.Address) *Error {
	return newError(CodeRejected, "The transaction manager sends from %s: hand it an intent (POST /v1/transactions), or use another account", a.Hex())
}

// ErrReadOnly says: the relay takes no transactions.
var ErrReadOnly = newError(CodeUnsupportedAction, "Unsupported operation. Relay is in read-only mode")

// Prechecks of a raw transaction.

// ErrCallDataSize says: more call data than the limit, both in bytes.
func ErrCallDataSize(size, limit int) *Error {
	return newError(CodeOversized, "Oversized data: call data size %d, call data size limit %d", size, limit).
		ethereum("oversized data: call data size %d, limit %d", size, limit)
}

// ErrInitcodeSize says: more init code than the limit, both in bytes.
func ErrInitcodeSize(size, limit int) *Error {
	return newError(CodeOversized, "Oversized data: initcode size %d, initcode size limit %d", size, limit).
		ethereum("max initcode size exceeded: code size %d, limit %d", size, limit)
}

// ErrTransactionSize says: a longer transaction than the limit, both in bytes.
func ErrTransactionSize(size, limit int) *Error {
	return newError(CodeOversized, "Oversized data: transaction size %d, transaction limit %d", size, limit).
		ethereum("oversized data: transaction size %d, limit %d", size, limit)
}

// ErrTransactionType says: a transaction type that the network or the settings refuse.
func ErrTransactionType(txType uint8) *Error {
	return newError(CodeUnsupportedTxType, "Unsupported transaction type: txType=%d", txType).
		ethereum("transaction type not supported: type %d", txType)
}

// ErrGasLimitTooHigh says: more gas than one transaction may use.
func ErrGasLimitTooHigh(limit, maximum uint64) *Error {
	return newError(CodeGasLimitTooHigh, "Transaction gas limit '%d' exceeds max gas per sec limit '%d'", limit, maximum).
		ethereum("exceeds block gas limit: gas %d, maximum %d", limit, maximum)
}

// ErrGasLimitTooLow says: less gas than the transaction needs before it runs.
func ErrGasLimitTooLow(limit, intrinsic uint64) *Error {
	return newError(CodeRejected, "Transaction gas limit provided '%d' is insufficient of intrinsic gas required '%d'", limit, intrinsic).
		ethereum("intrinsic gas too low: gas %d, minimum needed %d", limit, intrinsic)
}

// ErrChainID says: signed for another chain.
func ErrChainID(got *big.Int, want uint64) *Error {
	return newError(CodeServerError, "ChainId (0x%x) not supported. The correct chainId is 0x%x", got, want).
		ethereum("invalid chain id for signer: have %d want %d", got, want)
}

// ErrValueTooLow says: a value that the network would round down to nothing.
var ErrValueTooLow = newError(CodeInvalidParams, "Value can't be non-zero and less than 10_000_000_000 wei which is 1 tinybar")

// ErrNonceTooLow says: the nonce is spent.
func ErrNonceTooLow(got, want uint64) *Error {
	return newError(CodeServerError, "Nonce too low. Provided nonce: %d, current nonce: %d", got, want).
		ethereum("nonce too low: next nonce %d, tx nonce %d", want, got)
}

// ErrNonceTooHigh says: a nonce before this one is missing.
func ErrNonceTooHigh(got, want uint64) *Error {
	return newError(CodeServerError, "Nonce too high. Provided nonce: %d, current nonce: %d", got, want).
		ethereum("nonce too high: next nonce %d, tx nonce %d", want, got)
}

// ErrInsufficientFunds says: the balance does not cover value plus the gas limit's cost.
var ErrInsufficientFunds = newError(CodeServerError, "Insufficient funds for transfer").ethereum("insufficient funds for gas * price + value")

// ErrGasPriceTooLow says: the offered price is below the network's, both in weibar.
func ErrGasPriceTooLow(offered, minimum *big.Int) *Error {
	return newError(CodeGasPriceTooLow, "Gas price '%d' is below configured minimum gas price '%d'", offered, minimum).
		ethereum("max fee per gas less than block base fee: maxFeePerGas: %d, baseFee: %d", offered, minimum)
}

var (
	// ErrNoGasPrice says: the mirror node does not tell what gas costs.
	ErrNoGasPrice = ErrInternal("Failed to retrieve gas price from network fees")
	// ErrReceiverSignature says: the receiver must sign, which an Ethereum transaction cannot give.
	ErrReceiverSignature = newError(CodeServerError, "Operation is not supported when receiver's signature is enabled.")
)

// ErrBalanceUnknown says: the mirror node knows the sender and not what it has.
func ErrBalanceUnknown(a common.Address) *Error {
	return ErrNotFound("Account balance unavailable for address: %s.", a.Hex())
}

// ErrSenderNotFound says: the network has no account for the sender.
func ErrSenderNotFound(a common.Address) *Error { return ErrNotFound("address '%s'.", a.Hex()) }

// Outcomes of a submission.

// ErrRejected says: the network refused the transaction before executing it. The
// status is its response code.
func ErrRejected(status, detail string) *Error {
	message := "Transaction rejected: " + status
	if detail != "" {
		message += " - " + detail
	}
	return &Error{Code: CodeRejected, Message: message, Data: map[string]any{"hederaStatus": status}}
}

// NoReceipt is what is known of a transaction that has no receipt. What is not known
// is empty.
type NoReceipt struct {
	Hash          common.Hash
	Status        string // the network's response code
	Detail        string
	TransactionID string // of the network
}

// ErrNeverExecuted says: the transaction was refused before it ran, so that it is in no
// block and has no receipt.
func ErrNeverExecuted(n NoReceipt) *Error {
	return n.error(
		"Transaction rejected: "+cmp.Or(n.Status, n.Detail, "unknown reason"),
		"The transaction was rejected before execution and will never be included in a block.",
	)
}

// ErrNotKnownYet says: the transaction was sent, and nobody knows whether it reached
// consensus.
func ErrNotKnownYet(n NoReceipt) *Error {
	e := n.error(
		"Transaction submission timed out and has not yet reached consensus; it may still be confirmed within the network validity window",
		"The transaction timed out during submission and may still reach consensus.",
	)
	e.Data.(map[string]any)["provisional"] = true
	return e
}

func (n NoReceipt) error(message, detail string) *Error {
	data := map[string]any{"txHash": n.Hash.Hex(), "detail": cmp.Or(n.Detail, detail)}
	if n.Status != "" {
		data["hederaStatus"] = n.Status
	}
	if n.TransactionID != "" {
		data["transactionId"] = n.TransactionID
	}
	return &Error{Code: CodeRejected, Message: message, Data: data}
}

// ErrConsensusNode says: the consensus node answered with a status that is neither
// acceptance nor a rejection of this transaction.
func ErrConsensusNode(status string, code int, detail string) *Error {
	return &Error{
		Code:    CodeServerError,
		Message: fmt.Sprintf("Consensus node error: %s (%d): %s", status, code, detail),
		Data:    map[string]any{"hederaStatus": status},
	}
}

// ErrUnknownOutcome says: the transaction left for the network and no verdict is
// known. It may still be executed. transactionID is the HAPI id to ask for.
func ErrUnknownOutcome(hash common.Hash, transactionID string) *Error {
	return &Error{
		Code:    CodeRequestTimeout,
		Message: "Request timeout. The transaction was submitted and its outcome is not known yet; look for its receipt before sending it again.",
		Data:    map[string]any{"txHash": hash.Hex(), "transactionId": transactionID, "provisional": true},
	}
}

// ErrSyncTimeout says: the network has accepted the transaction, and it was in no
// block when the time to wait for its receipt was up (EIP-7966). It may still be
// executed.
func ErrSyncTimeout(hash common.Hash, waited time.Duration) *Error {
	return &Error{
		Code:    CodeSyncTimeout,
		Message: fmt.Sprintf("The transaction was submitted but has no receipt after %v", waited),
		Data:    hash.Hex(),
	}
}

var (
	// ErrRequestTimeout says: time ran out and nothing was sent.
	ErrRequestTimeout = newError(CodeRequestTimeout, "Request timeout. Please try again.")
	// ErrNoNode says: no consensus node could be reached, and nothing was sent.
	ErrNoNode = newError(CodeServerError, "No consensus node could be reached. Nothing was submitted; send it again.")
	// ErrTurnLost says: the sender's turn ended before the transaction was handed over.
	ErrTurnLost = newError(CodeServerError, "The transaction was not submitted in its turn and was given up. Nothing was submitted; send it again.")
	// ErrShuttingDown says: the relay stops and took nothing.
	ErrShuttingDown = newError(CodeServerError, "The relay is shutting down. Nothing was submitted; send it again.")
)

// Reading.

// ErrReverted says: the simulated call reverted. data is what it reverted with, as the
// client is to see it.
func ErrReverted(reason, data string) *Error {
	message := "execution reverted"
	if reason != "" {
		message += ": " + reason
	}
	return &Error{Code: CodeReverted, Message: message, Data: data}
}

// ErrSimulation says: the call could not be simulated.
func ErrSimulation(reason string) *Error {
	return newError(CodeServerError, "Error occurred during transaction simulation: %s", reason)
}

// ErrSimulationFunds says: the simulated call's sender does not have what it would send
// and pay.
func ErrSimulationFunds(reason string) *Error {
	return ErrSimulation(reason).ethereum("insufficient funds for gas * price + value")
}

// ErrSimulationGas says: the simulated call ran out of gas.
func ErrSimulationGas(reason string) *Error { return ErrSimulation(reason).ethereum("out of gas") }

// ErrNotFound says: the named thing does not exist.
func ErrNotFound(format string, args ...any) *Error {
	return newError(CodeNotFound, "Requested resource not found. %s", fmt.Sprintf(format, args...))
}

// ErrUnknownBlock says: no block by that number or hash.
var ErrUnknownBlock = newError(CodeUnknownBlock, "Unknown block").ethereum("header not found")

// ErrNoBlockOfStorage says: no block by that number or hash, to one who asks for storage.
func ErrNoBlockOfStorage(block string) *Error {
	return ErrNotFound("block '%s'.", block).ethereum("header not found")
}

// ErrNoLatestBlock says: the mirror node has no block at all.
var ErrNoLatestBlock = newError(CodeNoLatestBlock, "Error encountered retrieving latest block")

// ErrBeyondHead says: a block number past the newest block.
func ErrBeyondHead(requested, head uint64) *Error {
	return newError(CodeServerError, "Request beyond head block: requested %d, head %d", requested, head).
		ethereum("request beyond head block: requested %d, head %d", requested, head)
}

// ErrPercentileOrder says: the reward percentile at index is not above the one before.
func ErrPercentileOrder(index int, before, percentile float64) *Error {
	return newError(CodeServerError, "invalid reward percentile: #%d:%f >= #%d:%f", index-1, before, index, percentile)
}

// ErrImmatureRecords says: the mirror node's records did not become complete in time.
var ErrImmatureRecords = newError(CodeImmatureRecords, "Dependent service returned immature records")

// ErrUpstream says: the mirror node failed. The message names no address.
func ErrUpstream(status int, message string) *Error {
	return &Error{
		Code:    CodeUpstream,
		Message: fmt.Sprintf("Mirror node upstream failure: statusCode=%d, message=%s", status, message),
		Data:    status,
	}
}

// ErrPages says: an answer has more pages than may be read.
func ErrPages(limit int) *Error {
	return newError(CodeRangeOrPages, "Exceeded maximum mirror node pagination count: %d", limit)
}

var (
	// ErrMissingFromBlock says: toBlock without fromBlock.
	ErrMissingFromBlock = newError(CodeRangeOrPages, "Provided toBlock parameter without specifying fromBlock")
	// ErrBlockRange says: from is after to, as the TypeScript relay has it.
	ErrBlockRange = newError(CodeInvalidBlockRange, "Invalid block range")
	// ErrReversedRange says the same as execution-apis has it.
	ErrReversedRange = newError(CodeInvalidParams, "invalid block range params")
)

// ErrRangeBeyondHead says: a range of logs that is not all on the chain yet.
func ErrRangeBeyondHead(requested, head uint64) *Error {
	return newError(CodeInvalidParams, "block range extends beyond current head block: requested %d, head %d", requested, head)
}

// ErrRangeTooLarge says: more blocks than one query may span.
func ErrRangeTooLarge(limit int) *Error {
	return newError(CodeServerError, "Exceeded maximum block range: %d", limit)
}

// ErrTimestampRange says: the blocks of a log query are more than seven days apart.
func ErrTimestampRange(from, fromTime, to, toTime string) *Error {
	return newError(CodeTimestampRange, "The provided fromBlock and toBlock contain timestamps that exceed the maximum allowed duration of 7 days (604800 seconds): fromBlock: %s (%s), toBlock: %s (%s)", from, fromTime, to, toTime)
}

// ErrBlockTooLarge says: more transactions than a full block answer may hold.
func ErrBlockTooLarge(count int) *Error {
	return newError(CodeServerError, "Exceeded max transactions that can be returned in a block: %d", count)
}

// ErrTraceTooLarge says: a trace is longer than the limit, in bytes.
func ErrTraceTooLarge(limit int64) *Error {
	return newError(CodeServerError, "The trace exceeds the limit of %d bytes: leave out stack, storage and memory, or use callTracer", limit)
}

var (
	// ErrFilterNotFound says: no such filter, or it expired.
	ErrFilterNotFound = newError(CodeNotFound, "Filter not found").ethereum("filter not found")
	// ErrFiltersUnavailable says: filters are kept for a fleet, and the store of them does
	// not answer.
	ErrFiltersUnavailable = newError(CodeServerError, "Filters cannot be reached at the moment. Try again.")
)

// Subscriptions.

var (
	// ErrSubscriptionsOff says: the settings offer no subscriptions.
	ErrSubscriptionsOff = newError(CodeWSSubscriptionsOff, "WS Subscriptions are disabled")
	// ErrTooManySubscriptions says: the connection has as many as it may.
	ErrTooManySubscriptions = newError(CodeTooManySubscription, "Exceeded maximum allowed subscriptions")
	// ErrNoSubscriptionName says: the first parameter does not name an event.
	ErrNoSubscriptionName = newError(CodeInvalidParams, "expected subscription name as first argument")
)

// ErrNoSuchSubscription says: there is no event of that name.
func ErrNoSuchSubscription(name string) *Error {
	return newError(CodeMethodNotFound, "no %q subscription in eth namespace", name)
}

var (
	// ErrSubscriptionNotFound says: the connection has no subscription of that id.
	ErrSubscriptionNotFound = newError(CodeServerError, "subscription not found")
	// ErrWrongNonces says: the network refused so many of the sender's transactions, or may refuse
	// them, that only its next one is taken.
	ErrWrongNonces = newError(CodeServerError, "The network refused too many transactions of this sender, or may refuse them. Send the one with the next nonce, or wait a minute.")
)

// ErrKeyLimited says: the holder of the API key called too often, or too much.
func ErrKeyLimited(method string) *Error {
	return newError(CodeRateLimited, "API key rate limit exceeded on %s", method)
}

var (
	// ErrKeyMissing says: the request has no API key and needs one.
	ErrKeyMissing = newError(CodeUnauthorized, "An API key is needed: Authorization: Bearer, or X-API-Key")
	// ErrKeyUnknown says: there is no such API key, or not any more.
	ErrKeyUnknown = newError(CodeUnauthorized, "Unknown API key")
)

// ErrKeyMethod says: the API key is not for this method.
func ErrKeyMethod(method string) *Error {
	return newError(CodeUnauthorized, "The API key does not allow %s", method)
}

// CodeLimitExceeded is EIP-1474's code for a request that exceeds a limit of the server.
const CodeLimitExceeded = -32005

// ErrRequestMemory says: one request, a batch being one, needs more memory than it may have, in bytes.
func ErrRequestMemory(limit int64) *Error {
	return newError(CodeLimitExceeded, "The request and its answer take more than %d bytes of memory: ask for less at a time", limit)
}

// ErrClientMemory says: all requests of one client together hold as much memory as they may, in bytes.
func ErrClientMemory(limit int64) *Error {
	return newError(CodeLimitExceeded, "Your requests in progress hold %d bytes of memory: wait for their answers", limit)
}

// ErrProcessMemory says: the requests of all clients together hold as much memory as there is for them.
var ErrProcessMemory = newError(CodeLimitExceeded, "The relay is busy with large requests: try again")

// ErrRequestTime says: one request, a batch being one, has had as much of the processor as it may, in milliseconds.
func ErrRequestTime(limit int64) *Error {
	return newError(CodeLimitExceeded, "The request takes more than %d milliseconds of processor time: ask for less at a time", limit)
}

// ErrCallsWaiting says: too much work waits already.
var ErrCallsWaiting = newError(CodeLimitExceeded, "Too many calls wait to be run: try again")

// ErrConnections says: too many connections, of all clients or of one address.
func ErrConnections(limit int) *Error {
	return newError(CodeLimitExceeded, "Too many connections: the limit is %d", limit)
}

// What a transaction is told that waited in its sender's line.

// ErrPredecessorMissing says: the transaction before this one was not executed in time, and this
// one certainly was not executed.
func ErrPredecessorMissing(nonce uint64) *Error {
	return newError(CodeServerError, "The transaction before nonce %d was not executed in time. This one was not executed; send it again.", nonce)
}

// ErrTurnTooLate says: others of the sender were before it for as long as it may wait, and it certainly was
// not executed.
func ErrTurnTooLate(nonce uint64) *Error {
	return newError(CodeServerError, "The turn of nonce %d did not come in time, behind others of this sender. Nothing was submitted; send it again.", nonce)
}

// ErrTooManyInProgress says: this process has as many transactions in progress, of all senders, as it may.
func ErrTooManyInProgress(inProgress int) *Error {
	return &Error{
		Code:    CodeServerError,
		Message: fmt.Sprintf("This relay has too many transactions in progress: %d. Nothing was submitted; try again later.", inProgress),
		Data:    map[string]any{"inProgress": inProgress},
	}
}

// ErrQueueFull says: the sender has as many transactions waiting here as it may.
func ErrQueueFull(waiting int) *Error {
	return &Error{
		Code:    CodeServerError,
		Message: fmt.Sprintf("Too many transactions of this sender are waiting: %d. Nothing was submitted; try again later.", waiting),
		Data:    map[string]any{"queueLength": waiting},
	}
}

// Calls of eth_simulateV1 that could not be in a block; codes and texts are those of
// go-ethereum.

// ErrSimNonce says: the nonce is not the account's next one.
func ErrSimNonce(from common.Address, got, want uint64) *Error {
	code, text := CodeSimNonceTooLow, "low"
	if got > want {
		code, text = CodeSimNonceTooHigh, "high"
	}
	return newError(code, "nonce too %s: address %s, tx: %d state: %d", text, from.Hex(), got, want)
}

// ErrSimFee says: less is offered for gas than it costs, both in weibar.
func ErrSimFee(from common.Address, offered, price *big.Int) *Error {
	return newError(CodeSimFeeTooLow, "max fee per gas less than block base fee: address %s, maxFeePerGas: %d, baseFee: %d", from.Hex(), offered, price)
}

// ErrSimIntrinsicGas says: the gas does not cover what the call costs before it runs.
func ErrSimIntrinsicGas(have, want uint64) *Error {
	return newError(CodeSimIntrinsicGas, "intrinsic gas too low: have %d, want %d", have, want)
}

// ErrSimFunds says: the sender cannot pay.
func ErrSimFunds(from common.Address) *Error {
	return newError(CodeSimFunds, "insufficient funds for gas * price + value: address %s", from.Hex())
}

// ErrSimBlockGas says: the block has not so much gas left.
func ErrSimBlockGas(remaining, required uint64) *Error {
	return newError(CodeSimBlockGas, "block gas limit reached: remaining: %d, required: %d", remaining, required)
}

// ErrSimBlockNumber says: the number is not after that of the block before.
func ErrSimBlockNumber(number, previous uint64) *Error {
	return newError(CodeSimBlockNumber, "block numbers must be in order: %d <= %d", number, previous)
}

// ErrSimBlockTime says: the time is not after that of the block before.
func ErrSimBlockTime(time, previous uint64) *Error {
	return newError(CodeSimBlockTime, "block timestamps must be in order: %d <= %d", time, previous)
}

// ErrSimLimit says: more than one request may have simulated.
func ErrSimLimit(format string, args ...any) *Error { return newError(CodeSimLimit, format, args...) }
