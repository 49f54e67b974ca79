package upstream

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// The forms of values in the API.

// id is an entity's; null and the empty text are none.
type id struct{ hedera.ID }

func (v *id) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		v.ID, err = hedera.ParseID(string(text))
	}
	return err
}

type timestamp struct{ hedera.Timestamp }

func (v *timestamp) UnmarshalText(text []byte) (err error) {
	v.Timestamp, err = hedera.ParseTimestamp(string(text))
	return err
}

// hexBytes are digits with or without 0x.
type hexBytes []byte

func (v *hexBytes) UnmarshalText(text []byte) (err error) {
	*v, err = hex.DecodeString(strings.TrimPrefix(string(text), "0x"))
	return err
}

// address is zero for null.
type address common.Address

func (v *address) UnmarshalText(text []byte) error { return (*common.Address)(v).UnmarshalText(text) }

type alias []byte

func (v *alias) UnmarshalText(text []byte) (err error) {
	*v, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(string(text))
	return err
}

type base64Bytes []byte

func (v *base64Bytes) UnmarshalText(text []byte) (err error) {
	*v, err = base64.StdEncoding.DecodeString(string(text))
	return err
}

// number is an integer, which some endpoints write as text. Null is zero.
type number int64

func (v *number) UnmarshalJSON(text []byte) error {
	text = bytes.Trim(text, `"`)
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	*v = number(n)
	return err
}

type key struct {
	Type string   `json:"_type"`
	Key  hexBytes `json:"key"`
}

// value is nil for no key.
func (k *key) value() (*hapi.Key, error) {
	if k == nil || len(k.Key) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	switch k.Type {
	case "ED25519":
		return &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: k.Key}}, nil
	case "ECDSA_SECP256K1":
		return &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: k.Key}}, nil
	}
	out := new(hapi.Key)
	if err := proto.Unmarshal(k.Key, out); err != nil {
		return nil, fmt.Errorf("a key cannot be read: %w", err)
	}
	return out, nil
}

func accountOf(v id) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: v.Num}}
}

func tokenOf(v id) *hapi.TokenID {
	if v.IsZero() {
		return nil
	}
	return &hapi.TokenID{TokenNum: v.Num}
}
