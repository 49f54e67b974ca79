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
	phraseTopic   = "Expected " + phraseHash + " of a topic"
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
