package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// TestWatchCheck: a file without mistakes may still have sinks that a start would refuse.
func TestWatchCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "watch.yaml")
	check := func(host string, env ...string) (int, string) {
		text := `chains: [{id: 1, urls: ["http://127.0.0.1:1"]}]
watches: [{name: w, chain: 1, addresses: ["0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"], events: [A()], sinks: ["webhook:https://` + host + `/hook"]}]
`
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		code, out, errs := lockstep(t, env, "watch", "check", file)
		return code, out + errs
	}
	const secret = "WATCH_WEBHOOK_SECRET=whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	for _, of := range []struct {
		host string
		env  []string
		says string
	}{
		{"hooks.example", nil, "WATCH_WEBHOOK_SECRET"},
		{"10.0.0.1", []string{secret}, "WATCH_WEBHOOK_ALLOW"},
		{"10.0.0.1", []string{secret, "WATCH_WEBHOOK_ALLOW=10.0.0.0/8"}, ""},
		{"hooks.example", []string{secret}, ""},
	} {
		code, said := check(of.host, of.env...)
		if of.says == "" && (code != 0 || !strings.Contains(said, "no mistakes")) || of.says != "" && (code != 1 || !strings.Contains(said, of.says)) {
			t.Errorf("%s %v: %d, %s", of.host, of.env, code, said)
		}
	}
}
