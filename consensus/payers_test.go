package consensus

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// The wording of what is wrong with PAYMASTER_ACCOUNTS is established.
func TestPaymasterAccountsAreChecked(t *testing.T) {
	const key = "0x0000000000000000000000000000000000000000000000000000000000000001"
	entry := func(items ...any) string {
		text := must.Get(json.Marshal([][]any{{"0.0.5", "HEX_ECDSA", key, "80"}, items}))(t)
		return string(text)
	}
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"[]", ""},
		{entry("0.0.6", "HEX_ECDSA", key, "80"), ""},
		{entry("0.0.6", "HEX_ED25519", key, 80), ""},
		{entry("0.0.6", "HEX_ED25519", "302e020100300506032b657004220420"+devEd25519, "1"), ""},
		{entry("0.0.6", "HEX_ECDSA", "3030020100300706052b8104000a04220420"+devECDSA[2:], "1"), ""},
		{"{}", "PAYMASTER_ACCOUNTS: want a JSON array of arrays"},
		{`["0.0.6"]`, "PAYMASTER_ACCOUNTS: Entry 0 must be an array of 4 elements"},
		{entry("0.0.6", "HEX_ECDSA", key), "PAYMASTER_ACCOUNTS: Entry 1 must be an array of 4 elements"},
		{entry("0.6", "HEX_ECDSA", key, "80"), "PAYMASTER_ACCOUNTS: Entry 1: invalid account id format, required format is realm.shard.num"},
		{entry("0.0.6", "DER", key, "80"), "PAYMASTER_ACCOUNTS: Entry 1: key type must be HEX_ECDSA or HEX_ED25519"},
		{entry("0.0.6", "HEX_ECDSA", key[2:], "80"), "PAYMASTER_ACCOUNTS: Entry 1: invalid private key format, it must be 0x prefixed hex or der encoded (48 or 50 bytes)"},
		{entry("0.0.6", "HEX_ECDSA", key, "0"), "PAYMASTER_ACCOUNTS: Entry 1: allowanceInHBAR must be an integer >= 1"},
		{entry("0.0.6", "HEX_ECDSA", key, "1.5"), "PAYMASTER_ACCOUNTS: Entry 1: allowanceInHBAR must be an integer >= 1"},
	} {
		c := PayerConfig{Paymasters: secret.String(test.text)}
		_, err := c.paymasters(nil)
		if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), key[2:]) {
			t.Error("the error shows a key")
		}
	}
}

func TestPayerSettingsAreChecked(t *testing.T) {
	main := Config{OperatorID: "0.0.2", OperatorKey: devECDSA, OperatorKeyFormat: "HEX_ECDSA", Network: `{"127.0.0.1:1":"0.0.3"}`, MaxAttempts: 1, AttemptTimeout: 1, RequestTimeout: 1}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // empty: fine
	}{
		"nothing more": {func(*Config) {}, ""},
		"two more": {func(c *Config) {
			c.Payers.Operators = `[["0.0.3","HEX_ECDSA","` + devECDSA + `"],["0.0.4","HEX_ED25519","` + devEd25519 + `"]]`
		}, ""},
		"the main one again": {func(c *Config) { c.Payers.Operators = `[["0.0.2","HEX_ECDSA","` + devECDSA + `"]]` }, "0.0.2 is there already"},
		"no key":             {func(c *Config) { c.Payers.Operators = `[["0.0.3","HEX_ECDSA"]]` }, "OPERATOR_ACCOUNTS: Entry 0 must be an array of 3 elements"},
		"a bad key":          {func(c *Config) { c.Payers.Operators = `[["0.0.3","HEX_ECDSA","0x12"]]` }, "OPERATOR_ACCOUNTS: Entry 0"},
		"no main one": {func(c *Config) {
			c.OperatorID, c.OperatorKey, c.Payers.Operators = "", "", `[["0.0.3","HEX_ECDSA","`+devECDSA+`"]]`
		}, "OPERATOR_ID_MAIN is not"},
		"value and file":      {func(c *Config) { c.Payers.Operators, c.Payers.OperatorsFile = "[]", "[]" }, "OPERATOR_ACCOUNTS and OPERATOR_ACCOUNTS_FILE are both set"},
		"unknown choice":      {func(c *Config) { c.Payers.Choice = "dice" }, `OPERATOR_CHOICE "dice"`},
		"negative allowance":  {func(c *Config) { c.Payers.MaxGasAllowance = -1 }, "MAX_GAS_ALLOWANCE_HBAR"},
		"no address":          {func(c *Config) { c.Payers.Paymaster, c.Payers.PaymasterWhitelist = true, envx.Strings{"0x12"} }, "PAYMASTER_WHITELIST"},
		"list without shape":  {func(c *Config) { c.Payers.PaymasterWhitelists = `[["0.0.3"]]` }, "PAYMASTER_ACCOUNTS_WHITELISTS: Entry 0"},
		"list of no address":  {func(c *Config) { c.Payers.PaymasterWhitelists = `[["0.0.3",["0x1"]]]` }, "is not an address"},
		"list of a non-entry": {func(c *Config) { c.Payers.PaymasterWhitelists = `{"0.0.3":[]}` }, "want a JSON array of arrays"},
	} {
		t.Run(name, func(t *testing.T) {
			c := main
			test.change(&c)
			err := c.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			shown := fmt.Sprintf("%v %+v %#v", c, c, err)
			if strings.Contains(shown, devECDSA[2:]) || strings.Contains(shown, devEd25519) {
				t.Error("a key shows")
			}
		})
	}
}

// Of several lists the last one that names an address counts; what its account does not
// provide falls to the main operator.
func TestWhoSubsidises(t *testing.T) {
	a, b, c := common.Address{1}, common.Address{2}, common.Address{3}
	account := func(num int) string { return fmt.Sprintf(`["0.0.%d","HEX_ECDSA","%s",%d]`, num, devECDSA, num) }
	list := func(num int, of ...common.Address) string {
		text, _ := json.Marshal(of)
		return fmt.Sprintf(`["0.0.%d",%s]`, num, text)
	}
	config := PayerConfig{
		Paymasters:          secret.String("[" + account(5) + "," + account(6) + "]"),
		PaymasterWhitelists: "[" + list(5, a, b, c) + "," + list(6, b) + "," + list(7, c) + "]",
		Paymaster:           true, PaymasterWhitelist: envx.Strings{c.Hex(), a.Hex()}, MaxGasAllowance: 9,
	}
	main := &Operator{ID: hedera.Entity(2)}
	p := must.Get(config.paymasters(main))(t)
	for address, want := range map[common.Address]int64{a: 5, b: 6, c: 2} {
		got, ok := p.find(&address)
		allowance := want
		if want == 2 {
			allowance = 9
		}
		if !ok || got.Payer.ID.Num != want || got.Allowance != hedera.Tinybar(allowance)*hedera.Hbar {
			t.Errorf("%s: %+v, want 0.0.%d", address, got, want)
		}
	}
	if got, ok := p.find(nil); ok {
		t.Errorf("a creation is paid for by %s", got.Payer.ID)
	}
}

// An operator that joins takes over some senders and changes nothing for the others.
func TestOperatorsOfSendersStay(t *testing.T) {
	set := &operators{}
	for num := int64(2); num < 6; num++ {
		set.all = append(set.all, &Operator{ID: hedera.Entity(num)})
	}
	more := &operators{all: append(set.all[:len(set.all):len(set.all)], &Operator{ID: hedera.Entity(9)})}
	moved, counts := 0, map[hedera.ID]int{}
	for i := range 2000 {
		sender := common.Address{byte(i), byte(i >> 8), 5}
		before, after := set.pick(sender), more.pick(sender)
		counts[after.ID]++
		if before != after {
			moved++
			if after.ID != hedera.Entity(9) {
				t.Fatalf("sender %s moved from %s to %s", sender, before.ID, after.ID)
			}
		}
	}
	if moved == 0 || moved > 600 {
		t.Errorf("%d of 2000 senders moved", moved)
	}
	for id, n := range counts {
		if n < 250 {
			t.Errorf("operator %s has %d of 2000 senders", id, n)
		}
	}
}
