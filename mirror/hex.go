package mirror

import (
	"encoding/binary"
	"encoding/hex"
)

// unhex decodes pairs of hex digits into dst, which is half as long, and tells whether
// they are that. Much of what a mirror node answers is such digits, and eight at once take
// a third of the time of encoding/hex.
func unhex(dst, digits []byte) bool {
	for ; len(digits) >= 8 && len(dst) >= 4; digits, dst = digits[8:], dst[4:] {
		n, ok := unhexEight(binary.LittleEndian.Uint64(digits))
		if !ok {
			return false
		}
		binary.LittleEndian.PutUint32(dst, n)
	}
	_, err := hex.Decode(dst, digits)
	return err == nil
}

// unhexEight decodes eight digits, one in each byte of text, the first in the lowest, into
// four bytes in the same order. No byte carries into the next on the way.
func unhexEight(text uint64) (bytes uint32, ok bool) {
	const each = 0x0101010101010101
	letters := text >> 6 & each // 1 for a letter, or for what is no digit
	values := text&(0x0f*each) + 9*letters
	large := (values + 6*each) >> 4 & each // 1 for ten or more
	// What the values are written as must be what was there, but for the case of letters.
	written := values + '0'*each + ('a'-'0'-10)*large
	ok = values&(0xf0*each) == 0 && written == text|letters<<5
	pairs := (values<<4 | values>>8) & 0x00ff00ff00ff00ff
	pairs = (pairs | pairs>>8) & 0x0000ffff0000ffff
	return uint32(pairs | pairs>>16), ok
}
