package service

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// TestMembersOfTheDocument: the table of docs/TXM.md has every member of a chain's entry, and no other.
func TestMembersOfTheDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/TXM.md"))(t)
	_, table, _ := strings.Cut(string(text), "### The members of a chain")
	table, _, _ = strings.Cut(table, "**Pools.**")
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		if name, row := strings.CutPrefix(line, "| `"); row {
			name, _, _ = strings.Cut(name, "`")
			rows[name] = true
		}
	}
	spec := reflect.TypeFor[Spec]()
	for field := range spec.Fields() {
		if name := field.Tag.Get("json"); name != "-" && !rows[name] {
			t.Errorf("%s has no row", name)
		} else {
			delete(rows, name)
		}
	}
	if len(rows) > 0 {
		t.Errorf("rows of no member: %v", rows)
	}
}

// TestPricesOfAChain: what makes no sense is refused with the member's name.
func TestPricesOfAChain(t *testing.T) {
	for text, want := range map[string]string{
		`{"1":{"url":["http://127.0.0.1:1"],"minTip":"1000000000","gasAdded":0,"gasCap":1000000,"dev":true}}`: "",
		`{"1":{"url":["http://127.0.0.1:1"],"gasPrice":0}}`:                                                   "",
		`{"1":{"url":["http://127.0.0.1:1"],"gasPrice":1,"minTip":1}}`:                                        "minTip or gasPrice",
		`{"1":{"url":["http://127.0.0.1:1"],"minTip":-1}}`:                                                    "minTip: want a whole number",
		`{"near":{"driver":"near","url":["http://127.0.0.1:1"],"gasAdded":1}}`:                                "are for Ethereum",
	} {
		if _, err := (Chains{Chains: secret.String(text)}).Parse(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFeeCapRefused: what is no price is refused before anything starts.
func TestFeeCapRefused(t *testing.T) {
	for _, text := range []string{`-1`, `"-1"`, `1.5`, `1e9`, `"0x10"`, `"a"`, `true`, `{}`} {
		chains := Chains{Chains: secret.String(`{"1":{"url":["http://127.0.0.1:1"],"maxFeePerGas":` + text + `}}`)}
		if list, err := chains.Parse(); err == nil {
			t.Errorf("maxFeePerGas %s is taken: %v", text, list)
		}
	}
	for _, text := range []string{`0`, `"0"`, `1`, `"340282366920938463463374607431768211456"`} {
		chains := Chains{Chains: secret.String(`{"1":{"url":["http://127.0.0.1:1"],"maxFeePerGas":` + text + `}}`)}
		if _, err := chains.Parse(); err != nil {
			t.Errorf("maxFeePerGas %s: %v", text, err)
		}
	}
}
