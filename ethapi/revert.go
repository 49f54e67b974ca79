package ethapi

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Selectors of the errors that Solidity itself reverts with.
const (
	errorSelector = 0x08c379a0 // Error(string)
	panicSelector = 0x4e487b71 // Panic(uint256)
)

// revertReason decodes revert data made by Solidity itself. The data of other errors has no reason.
func revertReason(data []byte) (reason string, ok bool) {
	if len(data) < 4 {
		return "", false
	}
	switch selector, rest := binary.BigEndian.Uint32(data), data[4:]; selector {
	case errorSelector:
		return errorText(rest)
	case panicSelector:
		code, ok := smallWord(rest)
		if !ok || len(rest) != 32 {
			return "", false
		}
		return panicText(code), true
	}
	return "", false
}

// revertText is revertReason of Error(string) alone.
func revertText(data []byte) (text string, ok bool) {
	if len(data) < 4 || binary.BigEndian.Uint32(data) != errorSelector {
		return "", false
	}
	return errorText(data[4:])
}

// errorText reads an ABI-encoded string: where it is, how long it is, its bytes.
func errorText(args []byte) (string, bool) {
	offset, ok := smallWord(args)
	if !ok || offset > uint64(len(args)) {
		return "", false
	}
	length, ok := smallWord(args[offset:])
	if !ok || length > uint64(len(args))-offset-32 {
		return "", false
	}
	text := args[offset+32:][:length]
	return string(text), utf8.Valid(text)
}

// smallWord reads 32 bytes that hold a number of 32 bits or fewer.
func smallWord(b []byte) (uint64, bool) {
	if len(b) < 32 {
		return 0, false
	}
	for _, c := range b[:24] {
		if c != 0 {
			return 0, false
		}
	}
	n := binary.BigEndian.Uint64(b[24:32])
	return n, n <= math.MaxUint32
}

// panicText says what Solidity's panic codes mean.
func panicText(code uint64) string {
	switch code {
	case 0x00:
		return "generic panic"
	case 0x01:
		return "assert(false)"
	case 0x11:
		return "arithmetic underflow or overflow"
	case 0x12:
		return "division or modulo by zero"
	case 0x21:
		return "enum overflow"
	case 0x22:
		return "invalid encoded storage byte array accessed"
	case 0x31:
		return "out-of-bounds array access; popping on an empty array"
	case 0x32:
		return "out-of-bounds access of an array or bytesN"
	case 0x41:
		return "out of memory"
	case 0x51:
		return "uninitialized function"
	}
	return fmt.Sprintf("unknown panic code: %#x", code)
}
