package mirror

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/holiman/uint256"
	"github.com/klauspost/compress/s2"

	"lockstep/internal/hedera"
)

// form is how the mirror node writes values, and how records are written for other relays. What is null, or an empty string, is
// the zero value; hex may have an odd number of digits, and lack its 0x where only hex can be meant; integers may be strings.
var form = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), json.FormatNilSliceAsNull(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		scalar(readHash), scalar(readAddress), scalar(readBytes), scalar(readUint64), scalar(readBig),
		scalar(func(text []byte, n *int64) (err error) { *n, err = strconv.ParseInt(string(text), 10, 64); return err }),
		scalar(func(text []byte, n *uint256.Int) error {
			var whole *big.Int
			if err := readBig(text, &whole); err != nil || whole == nil {
				return err
			}
			n.SetFromBig(whole)
			return nil
		}),
		scalar(func(text []byte, n *hedera.Tinybar) error {
			amount, err := strconv.ParseInt(string(text), 10, 64)
			*n = hedera.Tinybar(amount)
			return err
		}),
		scalar(func(text []byte, id *hedera.ID) (err error) { *id, err = hedera.ParseID(string(text)); return err }),
		scalar(func(text []byte, t *hedera.Timestamp) (err error) {
			*t, err = hedera.ParseTimestamp(string(text))
			return err
		}),
		scalar(func(text []byte, a **common.Address) error {
			if len(digits(text)) == 0 {
				return nil
			}
			*a = new(common.Address)
			return readAddress(text, *a)
		}),
		json.UnmarshalFromFunc(readAccessList), json.UnmarshalFromFunc(readAuthorization), json.UnmarshalFromFunc(readWords),
	)),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalFunc(func(b []byte) ([]byte, error) {
			if b == nil {
				return []byte("null"), nil
			}
			return append(hex.AppendEncode([]byte(`"0x`), b), '"'), nil
		}),
		json.MarshalFunc(func(id hedera.ID) ([]byte, error) { return []byte(`"` + id.String() + `"`), nil }),
		json.MarshalFunc(func(t hedera.Timestamp) ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }),
	)),
)

// scalar reads what is a string or a number.
func scalar[T any](read func(text []byte, v *T) error) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *T) error {
		var none T
		*v = none
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		switch text.Kind() {
		case 'n':
			return nil
		case '0':
			return read(text, v)
		case '"':
			inner := []byte(text[1 : len(text)-1])
			if bytes.IndexByte(inner, '\\') >= 0 {
				if inner, err = jsontext.AppendUnquote(nil, text); err != nil {
					return err
				}
			}
			if len(inner) == 0 {
				return nil
			}
			return read(inner, v)
		}
		return fmt.Errorf("want a string or a number, is %v", text.Kind())
	})
}

// digits are those of hex.
func digits(text []byte) []byte {
	if len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:]
	}
	return text
}

// word decodes hex that is no longer than dst, aligned to the right.
func word(digits, dst []byte) error {
	n := (len(digits) + 1) / 2
	if n > len(dst) {
		return fmt.Errorf("want no more than %d bytes", len(dst))
	}
	dst = dst[len(dst)-n:]
	if len(digits)%2 == 1 {
		if _, err := hex.Decode(dst[:1], []byte{'0', digits[0]}); err != nil {
			return err
		}
		digits, dst = digits[1:], dst[1:]
	}
	_, err := hex.Decode(dst, digits)
	return err
}

// readHash reads the first 32 bytes of a hash that may be 48 bytes long, or a word.
func readHash(text []byte, h *common.Hash) error {
	hash := digits(text)
	return word(hash[:min(len(hash), 2*common.HashLength)], h[:])
}

func readAddress(text []byte, a *common.Address) error { return word(digits(text), a[:]) }

// readBytes reads data, which is not nil.
func readBytes(text []byte, b *[]byte) error {
	data := digits(text)
	*b = make([]byte, (len(data)+1)/2)
	return word(data, *b)
}

func readUint64(text []byte, n *uint64) (err error) {
	base, number := 10, digits(text)
	if len(number) < len(text) {
		base = 16
	}
	*n, err = strconv.ParseUint(string(number), base, 64)
	return err
}

// readBig reads a number in decimal digits, or in hex of up to 32 bytes. 0x is nil.
func readBig(text []byte, n **big.Int) error {
	const longest = 64
	base, number := 10, digits(text)
	if len(number) < len(text) {
		base = 16
	}
	if len(number) == 0 {
		return nil
	}
	read, ok := new(big.Int).SetString(string(number), base)
	if !ok || base == 16 && len(number) > longest {
		return errors.New("want an integer")
	}
	*n = read
	return nil
}

// readAccessList reads a list of objects. Older mirror nodes give hex text of the encoded list instead, which is
// not shown.
func readAccessList(d *jsontext.Decoder, list *types.AccessList) error {
	if d.PeekKind() == '"' {
		return d.SkipValue()
	}
	var entries []struct {
		Address     common.Address `json:"address"`
		StorageKeys []common.Hash  `json:"storage_keys,case:ignore"`
	}
	if err := json.UnmarshalDecode(d, &entries); err != nil {
		return err
	}
	for _, e := range entries {
		*list = append(*list, types.AccessTuple{Address: e.Address, StorageKeys: append([]common.Hash{}, e.StorageKeys...)})
	}
	return nil
}

// readAuthorization reads an authorization, whose members have names of several styles.
func readAuthorization(d *jsontext.Decoder, a *types.SetCodeAuthorization) error {
	var v struct {
		ChainID uint256.Int    `json:"chain_id,case:ignore"`
		Address common.Address `json:"address,case:ignore"`
		Nonce   uint64         `json:"nonce,case:ignore"`
		YParity uint64         `json:"y_parity,case:ignore"`
		R       uint256.Int    `json:"r,case:ignore"`
		S       uint256.Int    `json:"s,case:ignore"`
	}
	err := json.UnmarshalDecode(d, &v)
	*a = types.SetCodeAuthorization{ChainID: v.ChainID, Address: v.Address, Nonce: v.Nonce, V: uint8(v.YParity), R: v.R, S: v.S}
	return err
}

// readWords reads an object of words by slot; null is nil, {} is not.
func readWords(d *jsontext.Decoder, words *[]Word) error {
	var bySlot map[string]common.Hash
	if err := json.UnmarshalDecode(d, &bySlot); err != nil || bySlot == nil {
		return err
	}
	*words = []Word{}
	for slot, value := range bySlot {
		w := Word{Value: value}
		if err := readHash([]byte(slot), &w.Slot); err != nil {
			return err
		}
		*words = append(*words, w)
	}
	return nil
}

// A record is what is kept for other relays:
//
//	version (1 byte) JSON, compressed; checksum (4 bytes, CRC-32C of all before it)

// recordVersion changes with every change of the form. Records of another version are not read.
const recordVersion = 3

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeRecord(value any) ([]byte, error) {
	text, err := json.Marshal(value, form)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return withChecksum(append([]byte{recordVersion}, s2.Encode(nil, text)...)), nil
}

func withChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeRecord returns nil for anything but a whole record of this version.
func decodeRecord[T any](raw []byte) *T {
	const longest = 64 << 20 // of the text; far more than a store keeps
	end := len(raw) - checksumBytes
	if end < 1 || raw[0] != recordVersion || binary.BigEndian.Uint32(raw[end:]) != crc32.Checksum(raw[:end], castagnoli) {
		return nil
	}
	if n, err := s2.DecodedLen(raw[1:end]); err != nil || n > longest {
		return nil
	}
	text, err := s2.Decode(nil, raw[1:end])
	value := new(T)
	if err != nil || json.Unmarshal(text, value, form) != nil {
		return nil
	}
	return value
}

// lowerHex is the address without the capitals of its checksum, which cost a hash.
func lowerHex(a common.Address) string { return "0x" + hex.EncodeToString(a[:]) }

// decodeASCII reads text that may be written in hex.
func decodeASCII(text string) string {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return text
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return text
	}
	return string(raw)
}
