package near

import (
	"fmt"
	"math/big"
	"strings"
)

// alphabet is that of Bitcoin: without 0, O, I and l. In their place are the digits that package big writes.
const alphabet, digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"

// maxBase58 bounds the work, which grows with the square of the length. The longest text in
// use is a secret key of secp256k1 with its public key, 96 bytes.
const maxBase58 = 140

// EncodeBase58 writes bytes in base 58; each leading zero byte is a 1.
func EncodeBase58(data []byte) string {
	text := strings.TrimPrefix(new(big.Int).SetBytes(data).Text(len(alphabet)), "0")
	for i := 0; i < len(data) && data[i] == 0; i++ {
		text = "0" + text
	}
	return translated(text, digits, alphabet)
}

// DecodeBase58 reads base 58. Its error does not show the text, which may be a secret.
func DecodeBase58(text string) ([]byte, error) {
	if len(text) > maxBase58 {
		return nil, fmt.Errorf("base58: more than %d characters", maxBase58)
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }); at >= 0 {
		return nil, fmt.Errorf("base58: character %d is none of the alphabet", at)
	}
	number, _ := new(big.Int).SetString("0"+translated(text, alphabet, digits), len(alphabet))
	zeros := len(text) - len(strings.TrimLeft(text, alphabet[:1]))
	return append(make([]byte, zeros), number.Bytes()...), nil
}

// translated writes each character of one alphabet as the one in its place in another.
func translated(text, from, to string) string {
	return strings.Map(func(r rune) rune { return rune(to[strings.IndexRune(from, r)]) }, text)
}
