package ethapi

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/accounts/abi"
)

// What revert data begins with that Solidity itself has made.
const (
	errorSelector = "\x08\xc3\x79\xa0" // Error(string)
	panicSelector = "\x4e\x48\x7b\x71" // Panic(uint256)
)

// revertReason decodes revert data made by Solidity itself. The data of other errors has no reason.
func revertReason(data []byte) (reason string, ok bool) {
	if code, panicked := bytes.CutPrefix(data, []byte(panicSelector)); panicked && (len(code) != 32 || strings.Trim(string(code[:28]), "\x00") != "") {
		return "", false // no panic of Solidity's has such a code
	}
	reason, err := abi.UnpackRevert(data)
	if err != nil || !utf8.ValidString(reason) {
		return "", false
	}
	return reason, true
}

// revertText is revertReason of Error(string) alone.
func revertText(data []byte) (text string, ok bool) {
	if !bytes.HasPrefix(data, []byte(errorSelector)) {
		return "", false
	}
	return revertReason(data)
}
