package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

// What "keys new" prints second is a line of a file in which the key that it prints first is found.
func TestANewKeyFitsItsLine(t *testing.T) {
	code, out, errs := lockstep(t, nil, "keys", "new", "shop", "--calls", "600", "--weight", "1200", "--methods", "eth_*,net_version")
	token, line, ok := strings.Cut(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || !ok || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	name := filepath.Join(t.TempDir(), "keys.txt")
	must.Do(t, os.WriteFile(name, []byte(line+"\n"), 0o600))
	if code, out, errs := lockstep(t, nil, "keys", "check", name); code != 0 || out != "the file is good; it has keys of 1 holders\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	var f apikey.File
	must.Do(t, f.UnmarshalText([]byte(name)))
	h, ok := apikey.NewRing(f).Find(token)
	if !ok || h.Name != "shop" || h.Calls != 600 || h.Weight != 1200 || !h.May("eth_call") || h.May("debug_traceCall") {
		t.Errorf("%+v, %v", h, ok)
	}
	if strings.Contains(line, token[4:]) {
		t.Error("the line has the key")
	}
}
