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
	for n := range spec.NumField() {
		if name := spec.Field(n).Tag.Get("json"); name != "-" && !rows[name] {
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
