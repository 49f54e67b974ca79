package service

import (
	"strings"
	"testing"

	"lockstep/internal/secret"
)

// Whatever TXM_CHAINS and TXM_POOLS say is read or refused; what is read is whole, and what is
// refused shows no URL, which may hold a secret.
func FuzzChains(f *testing.F) {
	for _, seed := range []string{
		"31337=http://127.0.0.1:8545", "1=https://a,https://b;10=https://c", `{"298":{"driver":"hedera"}}`, `{"1":{"url":["https://user:hunter2@a"],"depth":3,"inFlight":0}}`,
		`{"1":{"url":["https://hunter2"]},"1":{}}`, "1==", "=x", `{"295":{"url":["https://a"],"mempool":false}}`, `{"295":{"driver":"hedera","mempool":true}}`, `{"1":{"url":["https://a"],"maxFeePerGas":"-1"}}`, `{"1":{"url":["https://a"],"maxFeePerGas":1e9}}`, `{"1":{"url":["https://a"],"maxFeePerGas":"30000000000"}}`, `{"":{}}`, `{"1":{"url":[]}} {`, `{"1":{"urls":["https://hunter2"]}}`, `["0x1"]`, `{"fast":["0x1"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Chains{Chains: secret.String(text)}.Parse()
		seen := map[string]bool{}
		for _, spec := range list {
			if spec.ID == "" || seen[spec.ID] || spec.Driver == "" && len(spec.URL) == 0 || spec.InFlight != nil && *spec.InFlight < 1 {
				t.Errorf("%q gave %#v", text, spec)
			}
			seen[spec.ID] = true
			for _, url := range spec.URL {
				if len(url) > 8 && strings.Contains(spec.String(), url) {
					t.Errorf("%s shows a URL", spec)
				}
			}
		}
		if err != nil && (len(list) > 0 || strings.Contains(text, "hunter2") && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q gave %d chains and %v", text, len(list), err)
		}
		_, _ = Chains{Pools: text}.pools() // it does not panic
	})
}
