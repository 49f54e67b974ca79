package mirrorrest

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// The forms in which the API writes values.

// addressText writes an address in lower case, without a checksum.
func addressText(a common.Address) string { return hexutil.Encode(a[:]) }

// quantityText writes a number as hex without leading zeros, and nil as "0x".
func quantityText(n *big.Int) string {
	if n == nil {
		return "0x"
	}
	return hexutil.EncodeBig(n)
}

// idText writes an entity id, and null for the one that names nothing.
func idText(id hedera.ID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

// timeText writes a timestamp, and null for an unset one.
func timeText(t hedera.Timestamp) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.String())
}

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// aliasText writes an alias in base 32 without padding, and null for none.
func aliasText(alias []byte) *string {
	if len(alias) == 0 {
		return nil
	}
	return new(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(alias))
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// each writes each value of a list.
func each[T, U any](list []T, write func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = write(v)
	}
	return out
}

type keyJSON struct {
	Type string `json:"_type"`
	Key  string `json:"key"`
}

// keyOf writes a key: a single one by its algorithm, whatever is more than one as
// the bytes of its message, and none, which is also the empty list of a hollow
// account, as null.
func keyOf(k *hapi.Key) *keyJSON {
	for {
		inner, listed := onlyMember(k)
		if !listed {
			break
		}
		k = inner
	}
	switch {
	case k == nil:
		return nil
	case len(k.GetEd25519()) > 0:
		return &keyJSON{Type: "ED25519", Key: hex.EncodeToString(k.GetEd25519())}
	case len(k.GetECDSASecp256K1()) > 0:
		return &keyJSON{Type: "ECDSA_SECP256K1", Key: hex.EncodeToString(k.GetECDSASecp256K1())}
	}
	encoded, err := proto.Marshal(k)
	if err != nil || len(encoded) == 0 {
		return nil
	}
	return &keyJSON{Type: "ProtobufEncoded", Key: hex.EncodeToString(encoded)}
}

// onlyMember unwraps a list or threshold of one key; an empty list is no key.
func onlyMember(k *hapi.Key) (inner *hapi.Key, listed bool) {
	list := k.GetKeyList()
	if threshold := k.GetThresholdKey(); threshold != nil {
		list = threshold.GetKeys()
	}
	switch {
	case list == nil:
		return nil, false
	case len(list.GetKeys()) == 0:
		return nil, true
	case len(list.GetKeys()) == 1:
		return list.GetKeys()[0], true
	default:
		return nil, false
	}
}

// The forms in which it reads them.

// parseNanos reads seconds[.fraction], with a maximum of ten digits and nine, as
// nanoseconds. What lies beyond the range of int64 becomes its end: such a
// timestamp bounds nothing.
func parseNanos(text string) (int64, bool) {
	whole, _, _ := strings.Cut(text, ".")
	t, err := hedera.ParseTimestamp(text)
	if err != nil || len(whole) > 10 || !digits(whole) {
		return 0, false
	}
	if t.Seconds > math.MaxInt64/1_000_000_000-1 {
		return math.MaxInt64, true
	}
	return t.UnixNano(), true
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// parseEntity reads n, realm.n or shard.realm.n. Only shard and realm 0 exist
// here: an id of another one is well formed and names nothing.
func parseEntity(text string) (num int64, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 3 {
		return 0, false
	}
	foreign := false
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 63)
		if err != nil || !digits(part) {
			return 0, false
		}
		if i == len(parts)-1 {
			num = int64(v)
		} else if v != 0 {
			foreign = true
		}
	}
	if foreign {
		return absent, true
	}
	return num, true
}

// parseAddress reads 40 hex digits, with or without 0x, also behind "shard.realm.".
func parseAddress(text string) (common.Address, bool) {
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		for part := range strings.SplitSeq(text[:i], ".") {
			if !digits(part) {
				return common.Address{}, false
			}
		}
		text = text[i+1:]
	}
	b, ok := parseHex(text)
	if !ok || len(b) != common.AddressLength {
		return common.Address{}, false
	}
	return common.BytesToAddress(b), true
}

// parseHex reads whole bytes of hex, with or without 0x.
func parseHex(text string) ([]byte, bool) {
	b, err := hex.DecodeString(trimPrefix(text))
	return b, err == nil
}

func trimPrefix(text string) string {
	if len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return text[2:]
	}
	return text
}

// parseWord reads 1 to 64 hex digits as a 32-byte word, filled up on the left.
func parseWord(text string) (common.Hash, bool) {
	text = trimPrefix(text)
	if text == "" || len(text) > 64 {
		return common.Hash{}, false
	}
	b, err := hex.DecodeString(strings.Repeat("0", len(text)%2) + text)
	return common.BytesToHash(b), err == nil
}

// parseHash reads a hash of 32 or 48 bytes.
func parseHash(text string) ([]byte, bool) {
	b, ok := parseHex(text)
	return b, ok && (len(b) == 32 || len(b) == 48)
}

// parseBlockNumber reads a decimal number, or hex after 0x.
func parseBlockNumber(text string) (int64, bool) {
	base := 10
	if digits := trimPrefix(text); digits != text {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 63)
	return int64(n), err == nil && !strings.HasPrefix(text, "+")
}

func parseCount(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && digits(text)
}

// Checks for the parameters of endpoints.

func isTime(_ operator, v string) bool { _, ok := parseNanos(v); return ok }

func isEntity(_ operator, v string) bool { _, ok := parseEntity(v); return ok }

func isFlag(op operator, v string) bool {
	return op == eq && (strings.EqualFold(v, "true") || strings.EqualFold(v, "false"))
}

func isCount(_ operator, v string) bool { _, ok := parseCount(v); return ok }

func isBlockNumber(op operator, v string) bool {
	_, ok := parseBlockNumber(v)
	return ok && op != ne
}

func isExactBlockNumber(op operator, v string) bool { return op == eq && isBlockNumber(op, v) }

func isExactCount(op operator, v string) bool { return op == eq && isCount(op, v) }

func isHash(op operator, v string) bool { _, ok := parseHash(v); return ok && op == eq }

func isTopic(op operator, v string) bool { _, ok := parseWord(v); return ok && op == eq }

func isSlot(op operator, v string) bool { _, ok := parseWord(v); return ok && op != ne }

// isParty is an entity id in any form, or an address.
func isParty(op operator, v string) bool {
	if _, ok := parseAddress(v); ok {
		return op == eq
	}
	return isEntity(op, v)
}

func oneOf(words ...string) check {
	return func(op operator, v string) bool {
		for _, w := range words {
			if strings.EqualFold(v, w) {
				return op == eq
			}
		}
		return false
	}
}

func isPublicKey(op operator, v string) bool {
	b, ok := parseHex(v)
	return ok && op == eq && (len(b) == 32 || len(b) == 33 || len(b) == 44)
}
