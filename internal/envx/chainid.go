package envx

import (
	"fmt"
	"strconv"
	"strings"
)

// ChainID is a chain id setting, decimal or 0x-hexadecimal.
type ChainID uint64

// UnmarshalText reads either form.
func (c *ChainID) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a chain id: want a positive number, decimal or 0x-hexadecimal", s)
	}
	*c = ChainID(n)
	return nil
}

// MarshalText writes 0x-hexadecimal.
func (c ChainID) MarshalText() ([]byte, error) { return []byte(c.Hex()), nil }

// Hex returns the 0x form that JSON-RPC uses.
func (c ChainID) Hex() string { return "0x" + strconv.FormatUint(uint64(c), 16) }
