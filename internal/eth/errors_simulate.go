package eth

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
)

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
