package eth

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const hexDigits = "0123456789abcdef"

// hexPairs are the two digits of every byte, the first in the lower half.
var hexPairs = func() (pairs [256]uint16) {
	for i := range pairs {
		pairs[i] = uint16(hexDigits[i>>4]) | uint16(hexDigits[i&15])<<8
	}
	return pairs
}()

// appendHex appends the digits of data. Most bytes of a long answer are such digits, and
// four bytes at once take half the time of encoding/hex.
func appendHex(dst, data []byte) []byte {
	dst = slices.Grow(dst, 2*len(data))
	for ; len(data) >= 4; data = data[4:] {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(hexPairs[data[0]])|uint64(hexPairs[data[1]])<<16|uint64(hexPairs[data[2]])<<32|uint64(hexPairs[data[3]])<<48)
	}
	for _, c := range data {
		dst = binary.LittleEndian.AppendUint16(dst, hexPairs[c])
	}
	return dst
}

// appendDigits appends n in hex without leading zeros.
func appendDigits(dst []byte, n uint64) []byte {
	for shift := (bits.Len64(n|1) - 1) &^ 3; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[n>>shift&15])
	}
	return dst
}
