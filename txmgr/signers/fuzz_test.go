package signers

import (
	"strings"
	"testing"

	"lockstep/internal/secret"
)

// Whatever stands in a list of keys is read or refused, and an error never shows a key.
func FuzzKeyLists(f *testing.F) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for _, seed := range []string{key, "0x" + key, key + "," + key, key + "\n0x01", `["` + key + `"]`, `["` + key + `"`, `[1]`, key + "00", "", ";;", key[:40], "0x" + strings.Repeat("f", 64), strings.Repeat("0", 64)} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, onlyJSON bool) {
		list, err := keysOf("NAME", secret.String(text), onlyJSON)
		if err == nil {
			for _, s := range list {
				if s.Address() == [20]byte{} || s.Source() != "env" {
					t.Errorf("a key of %s from %s", s.Address(), s.Source())
				}
			}
			return
		}
		if len(list) > 0 || !strings.HasPrefix(err.Error(), "NAME") {
			t.Errorf("%d keys and %v", len(list), err)
		}
		for at := 0; at+16 <= len(key); at += 8 {
			if strings.Contains(text, key[at:at+16]) && strings.Contains(err.Error(), key[at:at+16]) {
				t.Errorf("the error shows a key: %v", err)
			}
		}
	})
}
