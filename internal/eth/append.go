package eth

import (
	"encoding/hex"
	"math/big"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
)

// Writing JSON objects by hand costs a fraction of encoding/json's reflection, and
// full blocks are what a busy relay writes most. A member is written with a comma
// before it; object puts the brace in the first comma's place.

func object(dst []byte, members func([]byte) []byte) []byte {
	start := len(dst)
	dst = members(dst)
	if len(dst) == start {
		return append(dst, '{', '}')
	}
	dst[start] = '{'
	return append(dst, '}')
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendNull(dst []byte, name string) []byte {
	return append(appendName(dst, name), "null"...)
}

// hexData appends data as a string of all its bytes.
func hexData(dst []byte, data []byte) []byte {
	dst = append(dst, '"', '0', 'x')
	dst = hex.AppendEncode(dst, data)
	return append(dst, '"')
}

func appendData(dst []byte, name string, data []byte) []byte {
	return hexData(appendName(dst, name), data)
}

func appendUint(dst []byte, name string, n uint64) []byte {
	dst = append(appendName(dst, name), '"', '0', 'x')
	dst = strconv.AppendUint(dst, n, 16)
	return append(dst, '"')
}

// appendBig appends a quantity; nil is zero.
func appendBig(dst []byte, name string, n *big.Int) []byte {
	if n == nil {
		return appendUint(dst, name, 0)
	}
	dst = append(appendName(dst, name), '"', '0', 'x')
	dst = n.Append(dst, 16)
	return append(dst, '"')
}

// appendMaybeUint appends a quantity that may be unknown.
func appendMaybeUint(dst []byte, name string, n *uint64) []byte {
	if n == nil {
		return appendNull(dst, name)
	}
	return appendUint(dst, name, *n)
}

func appendMaybeAddress(dst []byte, name string, a *common.Address) []byte {
	if a == nil {
		return appendNull(dst, name)
	}
	return appendData(dst, name, a[:])
}

func appendMaybeHash(dst []byte, name string, h *common.Hash) []byte {
	if h == nil {
		return appendNull(dst, name)
	}
	return appendData(dst, name, h[:])
}

// appendList appends an array; item appends one element.
func appendList[T any](dst []byte, name string, items []T, item func([]byte, T) []byte) []byte {
	return array(appendName(dst, name), items, item)
}

func array[T any](dst []byte, items []T, item func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	start := len(dst)
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i >= 16 && i&(i-1) == 0 {
			// As much again as there is: append alone would grow a long text in many small steps.
			dst = slices.Grow(dst, (len(dst)-start)/i*min(i, len(items)-i))
		}
		dst = item(dst, items[i])
	}
	return append(dst, ']')
}

func appendHash(dst []byte, h common.Hash) []byte { return hexData(dst, h[:]) }
