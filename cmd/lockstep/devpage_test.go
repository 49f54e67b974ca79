package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/config"
	"lockstep/devnet"
)

// The page of a network alone names every node, and gives a relay the settings that it needs, to be put into a file.
func TestPageOfANetworkHasTheSettingsOfARelay(t *testing.T) {
	r := ready{
		Mirror: "http://127.0.0.1:15551", ChainID: 298, Accounts: []devnet.Account{{ID: "0.0.1002"}},
		Nodes: map[string]string{"127.0.0.1:18221": "0.0.4", "127.0.0.1:18211": "0.0.3", "127.0.0.1:18291": "0.0.11"},
	}
	page := r.page()
	for _, line := range []string{
		"  consensus node  127.0.0.1:18211  0.0.3\n  consensus node  127.0.0.1:18221  0.0.4\n  consensus node  127.0.0.1:18291  0.0.11\n",
		"\nready at ",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no %q in\n%s", line, page)
		}
	}
	var settings []string
	for line := range strings.Lines(page) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.Contains(name, " ") {
			settings = append(settings, line)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(strings.Join(settings, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	environ, _, err := config.Environ(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(environ)
	const network = `{"127.0.0.1:18211":"0.0.3","127.0.0.1:18221":"0.0.4","127.0.0.1:18291":"0.0.11"}`
	if err != nil || c.Consensus.Network != network || c.Consensus.OperatorID != devnet.OperatorID() || uint64(c.Server.ChainID) != 298 {
		t.Errorf("%v: %+v\n%s", err, c.Consensus, page)
	}
	if r.RPC = "http://127.0.0.1:7546"; strings.Contains(r.page(), "HEDERA_NETWORK=") {
		t.Error("a network with a relay gives the settings of another")
	}
}
