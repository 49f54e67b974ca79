package hedera

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
)

func TestIDTextAndLongZero(t *testing.T) {
	id, err := ParseID("0.0.1002")
	if err != nil || id != Entity(1002) || id.String() != "0.0.1002" {
		t.Fatalf("ParseID = %v, %v", id, err)
	}
	address := id.LongZero()
	if want := common.HexToAddress("0x00000000000000000000000000000000000003ea"); address != want {
		t.Errorf("LongZero = %s, want %s", address, want)
	}
	if back, ok := FromLongZero(address); !ok || back != id {
		t.Errorf("FromLongZero = %v, %v", back, ok)
	}
	if _, ok := FromLongZero(common.HexToAddress("0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69")); ok {
		t.Error("an alias address passed for a long-zero one")
	}
	for _, bad := range []string{"", "1002", "0.0", "0.0.x", "0.0.-1", "0.0.1.2", "0.0.99999999999999999999"} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) succeeded", bad)
		}
	}
}

func TestTimestamp(t *testing.T) {
	for text, want := range map[string]Timestamp{
		"1700000000.123456789": {Seconds: 1700000000, Nanos: 123456789},
		"1700000000.000000001": {Seconds: 1700000000, Nanos: 1},
		"1.5":                  {Seconds: 1, Nanos: 500000000},
		"7":                    {Seconds: 7},
	} {
		got, err := ParseTimestamp(text)
		if err != nil || got != want {
			t.Errorf("ParseTimestamp(%q) = %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseTimestamp(got.String()); err != nil || again != want {
			t.Errorf("ParseTimestamp(%q) = %v, %v, want %v", got, again, err, want)
		}
		if FromNanos(want.UnixNano()) != want || TimestampOf(want.Time()) != want {
			t.Errorf("%v does not survive its conversions", want)
		}
	}
	for _, bad := range []string{"", ".", "1.", "a.b", "1.1234567890", "-1.0", "1.-1"} {
		if _, err := ParseTimestamp(bad); err == nil {
			t.Errorf("ParseTimestamp(%q) succeeded", bad)
		}
	}
	a, b := Timestamp{Seconds: 1, Nanos: 2}, Timestamp{Seconds: 1, Nanos: 3}
	if a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 || a.Compare(Timestamp{Seconds: 2}) != -1 {
		t.Error("Compare does not order timestamps")
	}
	if TimestampOf(time.Unix(5, 6)) != (Timestamp{Seconds: 5, Nanos: 6}) {
		t.Error("TimestampOf")
	}
}

func TestTransactionID(t *testing.T) {
	id := TransactionID{Payer: Entity(1002), ValidStart: Timestamp{Seconds: 1700000000, Nanos: 56789}}
	if got, want := id.String(), "0.0.1002@1700000000.000056789"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if got, want := id.Mirror(), "0.0.1002-1700000000-000056789"; got != want {
		t.Errorf("Mirror = %q, want %q", got, want)
	}
	for _, text := range []string{id.String(), id.Mirror(), "0.0.1002-1700000000-56789"} {
		if got, err := ParseTransactionID(text); err != nil || got != id {
			t.Errorf("ParseTransactionID(%q) = %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0.0.2", "0.0.2@", "0.0.2-5", "0.0.2-5-", "0.0.2-5-1234567890", "x@1.1"} {
		if _, err := ParseTransactionID(bad); err == nil {
			t.Errorf("ParseTransactionID(%q) succeeded", bad)
		}
	}
}

func TestUnits(t *testing.T) {
	if got := Tinybar(71).Weibar().String(); got != "710000000000" {
		t.Errorf("71 tinybar = %s weibar", got)
	}
	tests := []struct {
		weibar string
		want   Tinybar
		ok     bool
	}{
		{"0", 0, true},
		{"9999999999", 0, true},
		{"10000000000", 1, true},
		{"19999999999", 1, true},
		{"92233720368547758070000000000", 9223372036854775807, true},
		{"92233720368547758080000000000", 0, false},
		{"-1", 0, false},
	}
	for _, test := range tests {
		weibar, _ := new(big.Int).SetString(test.weibar, 10)
		if got, ok := TinybarOf(weibar); got != test.want || ok != test.ok {
			t.Errorf("TinybarOf(%s) = %d, %v, want %d, %v", test.weibar, got, ok, test.want, test.ok)
		}
	}
}

func TestStatusGroups(t *testing.T) {
	for _, name := range NeverExecuted() {
		status, ok := ParseStatus(name)
		if !ok {
			t.Errorf("%s is not a status", name)
		}
		if Succeeded(status) || NonceSpent(status) {
			t.Errorf("%s counts as executed", name)
		}
	}
	for name, want := range map[string]bool{
		"SUCCESS": true, "CONTRACT_REVERT_EXECUTED": true, "INSUFFICIENT_GAS": true,
		"INVALID_CONTRACT_ID": false, "INSUFFICIENT_PAYER_BALANCE": false, // from before the run or from within
	} {
		if status, ok := ParseStatus(name); !ok || NonceSpent(status) != want {
			t.Errorf("NonceSpent(%s) = %v", name, !want)
		}
	}
	if _, ok := ParseStatus("NO_SUCH_STATUS"); ok {
		t.Error("an unknown name was found")
	}
}

// The keys are the public development keys of local Hedera networks.
const (
	devECDSA   = "105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"
	devEd25519 = "91132178e72057a1d7528025956fe39b0b847f200ab59b2fdd367017f3087137"
)

func TestPrivateKeyFormats(t *testing.T) {
	const (
		ecdsaPublic = "02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2"
		edPublic    = "0aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92"
	)
	sec1Tail := "a00706052b8104000aa144034200" + strings.Repeat("00", 65)
	tests := []struct {
		text   string
		format KeyFormat
		public string
	}{
		{"0x" + devECDSA, FormatHexECDSA, ecdsaPublic},
		{devECDSA, FormatHexECDSA, ecdsaPublic},
		{"3030020100300706052b8104000a04220420" + devECDSA, FormatDER, ecdsaPublic},
		{"30540201010420" + devECDSA + sec1Tail, "", ecdsaPublic},
		{devEd25519, FormatHexEd25519, edPublic},
		{" 302e020100300506032b657004220420" + devEd25519 + "\n", "", edPublic},
	}
	for _, test := range tests {
		key, err := ParsePrivateKey(test.text, test.format)
		if err != nil {
			t.Errorf("ParsePrivateKey(%s): %v", test.format, err)
			continue
		}
		if got := hex.EncodeToString(key.Public()); got != test.public {
			t.Errorf("public key %s, want %s", got, test.public)
		}
		body := []byte("some body")
		signature, err := key.Sign(body)
		if err != nil || !Verify(key.Public(), body, signature) {
			t.Errorf("%s: own signature does not verify (%v)", test.format, err)
		}
		if Verify(key.Public(), []byte("another body"), signature) {
			t.Errorf("%s: signature verifies for another body", test.format)
		}
	}
	if key, _ := ParsePrivateKey(devECDSA, FormatHexECDSA); key != nil {
		want := common.HexToAddress("0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69")
		if got, ok := key.Address(); !ok || got != want {
			t.Errorf("Address = %s, %v", got, ok)
		}
		if got, err := AddressOf(key.Public()); err != nil || got != want {
			t.Errorf("AddressOf = %s, %v", got, err)
		}
	}
}

func TestPrivateKeyErrorsAndPrintsHideTheSecret(t *testing.T) {
	key := must.Get(ParsePrivateKey(devECDSA, FormatHexECDSA))(t)
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key)} {
		if strings.Contains(text, devECDSA) {
			t.Errorf("the secret is in %q", text)
		}
	}
	for _, bad := range []struct {
		text   string
		format KeyFormat
	}{
		{devECDSA, FormatDER},
		{devECDSA[:62], FormatHexECDSA},
		{"zz", FormatDER},
		{devECDSA, "PEM"},
		{strings.Repeat("00", 32), FormatHexECDSA},
		{strings.Repeat("ff", 32), FormatHexECDSA},
		{"", ""},
	} {
		_, err := ParsePrivateKey(bad.text, bad.format)
		if err == nil {
			t.Errorf("ParsePrivateKey(%q, %q) succeeded", bad.text, bad.format)
		} else if len(bad.text) > 8 && strings.Contains(err.Error(), bad.text[:8]) {
			t.Errorf("the key is in the error %q", err)
		}
	}
}
