package api

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Quantity is an amount: decimal text, 0x-hexadecimal text, or a JSON integer of any
// length. It is written as decimal text.
type Quantity struct{ Int *big.Int }

var errQuantity = errors.New("want a number that is not negative and has a maximum of 256 bits: decimal or 0x text, or an integer")

// maxDigits is the length of the largest 256-bit number in decimal.
const maxDigits = 78

func parseQuantity(text string) (*big.Int, error) {
	if len(text) == 0 || len(text) > maxDigits {
		return nil, errQuantity
	}
	base, digits := 10, text
	if rest, ok := strings.CutPrefix(text, "0x"); ok {
		base, digits = 16, rest
	}
	if digits == "" || strings.TrimLeft(digits, "0123456789abcdefABCDEF") != "" {
		return nil, errQuantity
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok || n.BitLen() > 256 {
		return nil, errQuantity
	}
	return n, nil
}

// UnmarshalJSON reads any of the three forms.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil {
		return errQuantity
	}
	q.Int, err = parseQuantity(text)
	return err
}

// MarshalJSON writes decimal text.
func (q Quantity) MarshalJSON() ([]byte, error) {
	if q.Int == nil {
		return []byte("null"), nil
	}
	return []byte(`"` + q.Int.String() + `"`), nil
}

// textOf returns the characters of a JSON string or number.
func textOf(raw []byte) (string, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	}
	return string(raw), nil
}

func quantity(n *big.Int) *Quantity {
	if n == nil {
		return nil
	}
	return &Quantity{n}
}

func (q *Quantity) value() *big.Int {
	if q == nil {
		return nil
	}
	return q.Int
}

// Schema describes what is read.
func (Quantity) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Pattern: "^([0-9]{1,78}|0x[0-9a-fA-F]{1,64})$"}, {Type: huma.TypeInteger, Minimum: new(float64)}},
		Description: "An amount in the chain's smallest unit: decimal text, 0x text or an integer.", Examples: []any{"1000000000000000000"},
	}
}

// Number is a 64-bit number, read in the same forms and written as a JSON integer.
type Number uint64

// UnmarshalJSON reads any of the three forms.
func (n *Number) UnmarshalJSON(raw []byte) error {
	var q Quantity
	if err := q.UnmarshalJSON(raw); err != nil {
		return err
	}
	if !q.Int.IsUint64() {
		return errors.New("want no more than 64 bits")
	}
	*n = Number(q.Int.Uint64())
	return nil
}

// Schema describes what is read.
func (Number) Schema(r huma.Registry) *huma.Schema {
	s := Quantity{}.Schema(r)
	s.Description, s.Examples = "A number with a maximum of 64 bits.", []any{21000}
	return s
}

// ChainID names a chain: for Ethereum its number, which may be written as decimal text, 0x
// text or an integer; other chains have names.
type ChainID string

// UnmarshalJSON spells numbers in decimal.
func (c *ChainID) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil || text == "" || len(text) > 64 || text == "null" || raw[0] != '"' && strings.TrimLeft(text, "0123456789") != "" {
		return errors.New("want the id of a chain")
	}
	name := chainName(text)
	if name == text && strings.HasPrefix(strings.ToLower(text), "0x") {
		return errors.New("want the id of a chain")
	}
	*c = ChainID(name)
	return nil
}

// chainName spells the name of a chain of a path or a query as ChainID does that of a body.
func chainName(text string) string {
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X") {
		if n, err := parseQuantity("0x" + text[2:]); err == nil {
			return n.String()
		}
	}
	return text
}

// ChainQuery names a chain in a query.
type ChainQuery struct {
	Chain string `query:"chain" maxLength:"64" doc:"A chain: its number in decimal or as 0x text, or its name."`
}

func (q ChainQuery) chain() string { return chainName(q.Chain) }

// hashName spells the hash of a transaction as the ledger does. Hashes that are not in hexadecimal tell cases apart.
func hashName(text string) string {
	digits, _ := strings.CutPrefix(strings.ToLower(text), "0x")
	if raw, err := hex.DecodeString(digits); err == nil && (len(raw) == 32 || len(raw) == 48) {
		return "0x" + digits
	}
	return text
}

// Schema describes what is read.
func (ChainID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeInteger}},
		Description: "A chain: its number as decimal text, 0x text or an integer.", Examples: []any{"31337"},
	}
}

// Bytes are bytes as 0x text.
type Bytes []byte

// UnmarshalJSON reads 0x text; the 0x may be left out.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errors.New("want bytes as 0x text")
	}
	decoded, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return errors.New("want bytes as 0x text")
	}
	*b = decoded
	return nil
}

// MarshalJSON writes 0x text.
func (b Bytes) MarshalJSON() ([]byte, error) { return []byte(`"0x` + hex.EncodeToString(b) + `"`), nil }

// Schema describes what is read.
func (Bytes) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^(0x)?([0-9a-fA-F]{2})*$", Description: "Bytes as 0x text.", Examples: []any{"0xd09de08a"}}
}

// Moment is a time: RFC 3339 text, or seconds since 1970. It is written as text.
type Moment int64 // microseconds since 1970

// UnmarshalJSON reads either form.
func (m *Moment) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && seconds < 1<<40 {
		*m = Moment(seconds * 1_000_000)
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() > 9999 || at.Year() < 1970 {
		return errors.New("want a time such as 2026-01-31T12:00:00Z, or seconds since 1970")
	}
	*m = Moment(at.UnixMicro())
	return nil
}

// MarshalJSON writes RFC 3339.
func (m Moment) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%q", time.UnixMicro(int64(m)).UTC().Format(time.RFC3339Nano)), nil
}

// Schema describes what is read.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Format: "date-time"}, {Type: huma.TypeInteger}},
		Description: "A time: RFC 3339, or seconds since 1970.", Examples: []any{"2026-01-31T12:00:00Z"},
	}
}

func moment(at int64) *Moment {
	if at == 0 {
		return nil
	}
	m := Moment(at)
	return &m
}
