package near

import (
	"fmt"
	"slices"
	"strings"
)

// alphabet is that of Bitcoin: without 0, O, I and l.
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// maxBase58 bounds the work, which grows with the square of the length. The longest text in
// use is a secret key of secp256k1 with its public key, 96 bytes.
const maxBase58 = 140

// EncodeBase58 writes bytes in base 58; each leading zero byte is a 1.
func EncodeBase58(data []byte) string {
	zeros := 0
	for zeros < len(data) && data[zeros] == 0 {
		zeros++
	}
	var digits []byte // the lowest first
	for _, b := range data[zeros:] {
		carry := int(b)
		for i := range digits {
			carry += int(digits[i]) << 8
			digits[i] = byte(carry % 58)
			carry /= 58
		}
		for ; carry > 0; carry /= 58 {
			digits = append(digits, byte(carry%58))
		}
	}
	out := make([]byte, 0, zeros+len(digits))
	for range zeros {
		out = append(out, '1')
	}
	for _, digit := range slices.Backward(digits) {
		out = append(out, alphabet[digit])
	}
	return string(out)
}

// DecodeBase58 reads base 58. Its error does not show the text, which may be a secret.
func DecodeBase58(text string) ([]byte, error) {
	if len(text) > maxBase58 {
		return nil, fmt.Errorf("base58: more than %d characters", maxBase58)
	}
	zeros := 0
	for zeros < len(text) && text[zeros] == '1' {
		zeros++
	}
	var number []byte // the lowest byte first
	for i := zeros; i < len(text); i++ {
		carry := strings.IndexByte(alphabet, text[i])
		if carry < 0 {
			return nil, fmt.Errorf("base58: character %d is none of the alphabet", i)
		}
		for j := range number {
			carry += int(number[j]) * 58
			number[j] = byte(carry)
			carry >>= 8
		}
		if carry > 0 {
			number = append(number, byte(carry))
		}
	}
	out := make([]byte, zeros, zeros+len(number))
	for _, n := range slices.Backward(number) {
		out = append(out, n)
	}
	return out, nil
}
