package rpc

import (
	"strings"
)

// Phrases of the type errors, as established clients and relays know them.
const (
	textAddress = "Expected 0x prefixed string representing the address (20 bytes)"
	textHash    = "Expected 0x prefixed string representing the hash (32 bytes)"
	textTopic   = "Expected " + textHash + " of a topic"
	textBlock   = `0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`
)

// Address accepts 0x and 40 hex digits.
func Address() Rule {
	return Rule{text: textAddress, check: func(v Value) bool {
		digits, ok := hexDigits(v.text())
		return ok && len(digits) == 40
	}}
}

// AddressFilter accepts an address or an array of addresses, which may be nested
// one level deep.
func AddressFilter() Rule {
	return Rule{text: textAddress + " or an array of addresses", check: func(v Value) bool {
		if v.IsArray() {
			return everyFlat(v, Address().check)
		}
		return Address().check(v)
	}}
}

// Array accepts any array.
func Array() Rule {
	return Rule{text: "Expected Array", check: Value.IsArray}
}

// ArrayOf accepts an array whose elements all satisfy the rule.
func ArrayOf(element Rule) Rule {
	return Rule{text: "Expected Array", check: func(v Value) bool {
		return v.IsArray() && every(v, element.Matches)
	}}
}

// BlockHash accepts 0x and 64 hex digits.
func BlockHash() Rule {
	return Rule{text: "Expected " + textHash + " of a block", check: isHash}
}

// TransactionHash accepts 0x and 64 hex digits.
func TransactionHash() Rule {
	return Rule{text: "Expected " + textHash + " of a transaction", check: isHash}
}

func isHash(v Value) bool {
	digits, ok := lowerHexDigits(v)
	return ok && len(digits) == 64
}

// lowerHexDigits is hexDigits for types that do not allow the prefix 0X.
func lowerHexDigits(v Value) ([]byte, bool) {
	text := v.text()
	if len(text) > 1 && text[1] == 'X' {
		return nil, false
	}
	return hexDigits(text)
}

// BlockNumber accepts a tag (earliest, latest, pending, safe, finalized) or a
// number: 0x0, or 0x and at most 14 hex digits without a leading zero, up to
// 2^53-1.
func BlockNumber() Rule {
	return Rule{text: "Expected " + textBlock, check: isBlockNumber}
}

func isBlockNumber(v Value) bool {
	text := v.text()
	switch string(text) {
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

// BlockParams accepts what BlockNumber accepts, a block hash, or an object that
// names a block: {"blockNumber": …} or {"blockHash": …, "requireCanonical": …}.
// The empty object passes, to be refused by the method with its own error.
func BlockParams() Rule {
	return Rule{
		text: "Expected " + textHash + " in object, " + textBlock,
		check: func(v Value) bool {
			return v.IsObject() || isBlockNumber(v) || isHash(v)
		},
		fields: verifyBlockObject,
	}
}

// Boolean accepts true and false.
func Boolean() Rule {
	return Rule{text: "Expected boolean type", check: Value.IsBool}
}

// Hex accepts 0x and any number of hex digits, also none.
func Hex() Rule {
	return Rule{text: "Expected 0x prefixed hexadecimal value", check: isHex}
}

func isHex(v Value) bool {
	_, ok := lowerHexDigits(v)
	return ok
}

// RawTransaction accepts what Hex does, and the prefix 0X.
func RawTransaction() Rule {
	return Rule{text: Hex().text, check: func(v Value) bool {
		_, ok := hexDigits(v.text())
		return ok
	}}
}

// HexEvenLength accepts 0x and whole bytes in hex, also none.
func HexEvenLength() Rule {
	return Rule{text: "Expected 0x prefixed hexadecimal value with even length", check: func(v Value) bool {
		digits, ok := lowerHexDigits(v)
		return ok && len(digits)%2 == 0
	}}
}

// Hex64 accepts 0x and 1 to 64 hex digits.
func Hex64() Rule {
	return Rule{text: textHash, check: func(v Value) bool {
		digits, ok := lowerHexDigits(v)
		return ok && len(digits) >= 1 && len(digits) <= 64
	}}
}

// TopicHash accepts 0x and 64 hex digits, or null.
func TopicHash() Rule {
	return Rule{text: textTopic, check: func(v Value) bool { return v.Null() || isHash(v) }}
}

// Topics accepts an array whose elements are topic hashes, null, or arrays of
// those.
func Topics() Rule {
	return Rule{
		text:  "Expected an array or array of arrays containing " + textHash + " of a topic",
		check: func(v Value) bool { return v.IsArray() && everyFlat(v, TopicHash().check) },
	}
}

// RewardPercentiles accepts an array of at most 100 numbers from 0 to 100.
func RewardPercentiles() Rule {
	return Rule{
		text: "Expected an array of up to 100 numbers, each between 0 and 100",
		check: func(v Value) bool {
			return v.IsArray() && v.Len() <= 100 && every(v, func(e Value) bool {
				f := e.Float()
				return e.IsNumber() && f >= 0 && f <= 100
			})
		},
	}
}

// YParityHex accepts 0x and at most two hex digits.
func YParityHex() Rule {
	return Rule{text: "Expected 0x-prefixed yParity value (0 for even, 1 for odd)", check: func(v Value) bool {
		digits, ok := lowerHexDigits(v)
		return ok && len(digits) <= 2
	}}
}

// TracerType accepts the names of the tracers.
func TracerType() Rule {
	return Rule{text: "Expected TracerType", check: func(v Value) bool {
		switch string(v.text()) {
		case "callTracer", "opcodeLogger", "prestateTracer":
			return true
		}
		return false
	}}
}

// Milliseconds accepts a whole number that is not negative, as a JSON number or as 0x
// and hex digits.
func Milliseconds() Rule {
	return Rule{text: "Expected a number of milliseconds", check: func(v Value) bool {
		_, ok := v.Uint64()
		return ok && (v.IsNumber() || isHex(v) && v.IsString())
	}}
}

// Text accepts any string, for methods whose parameters are not hex.
func Text() Rule {
	return Rule{text: "Expected string type", check: Value.IsString}
}

func every(array Value, ok func(Value) bool) bool {
	for e := range array.Elements() {
		if !ok(e) {
			return false
		}
	}
	return true
}

// everyFlat is every for arrays whose elements may be arrays themselves.
func everyFlat(array Value, ok func(Value) bool) bool {
	return every(array, func(e Value) bool {
		if e.IsArray() {
			return every(e, ok)
		}
		return ok(e)
	})
}

// trimHex returns the digits without leading zeros.
func trimHex(digits []byte) string { return strings.TrimLeft(string(digits), "0") }
