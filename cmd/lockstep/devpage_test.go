package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"lockstep/config"
	"lockstep/devnet"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/must"
)

// The page of a network alone names every node, and gives a relay the settings that it needs, to be put into a file.
func TestPageOfANetworkHasTheSettingsOfARelay(t *testing.T) {
	r := ready{
		Mirror: "http://127.0.0.1:15551", ChainID: 298, Accounts: []devnet.Account{{ID: "0.0.1002"}},
		Nodes: map[string]string{"127.0.0.1:18221": "0.0.4", "127.0.0.1:18211": "0.0.3", "127.0.0.1:18291": "0.0.11"},
	}
	page := r.page(terminal{}, true)
	for _, line := range []string{
		"  consensus node  127.0.0.1:18211  0.0.3\n  consensus node  127.0.0.1:18221  0.0.4\n  consensus node  127.0.0.1:18291  0.0.11\n",
		"\nReady at ",
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
	must.Do(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(strings.Join(settings, "")), 0o600))
	environ, _ := must.Get2(config.Environ(nil, dir))(t)
	c, err := config.Load(environ)
	const network = `{"127.0.0.1:18211":"0.0.3","127.0.0.1:18221":"0.0.4","127.0.0.1:18291":"0.0.11"}`
	if err != nil || c.Consensus.Network != network || c.Consensus.OperatorID != devnet.OperatorID() || uint64(c.Server.ChainID) != 298 {
		t.Errorf("%v: %+v\n%s", err, c.Consensus, page)
	}
	if r.RPC = "http://127.0.0.1:7546"; strings.Contains(r.page(terminal{}, true), "HEDERA_NETWORK=") {
		t.Error("a network with a relay gives the settings of another")
	}
}

// The page of `lockstep dev` fits the smallest terminal that is still common, with its keys whole; where there is room,
// addresses are whole, too.
func TestPageFitsATerminal(t *testing.T) {
	r := ready{
		RPC: "http://127.0.0.1:7546", WS: "ws://127.0.0.1:8546", UI: "http://127.0.0.1:7547/ui/", Mirror: "http://127.0.0.1:5551",
		ChainID: 298, Nodes: map[string]string{"127.0.0.1:50211": "0.0.3"}, Topics: "127.0.0.1:5600",
	}
	for _, a := range devaccounts.All() {
		r.Accounts = append(r.Accounts, devnet.Account{
			ID: a.ID.String(), Address: a.EVMAddress().Hex(), Balance: 1_000_000,
			PrivateKey: "0x" + strings.Repeat("5", 64),
		})
	}
	count := func(text string) (lines, widest int) {
		for line := range strings.Lines(text) {
			lines, widest = lines+1, max(widest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		return lines, widest
	}
	narrow := r.page(terminal{columns: 80}, false)
	if lines, widest := count(narrow); lines > 25 || widest > 80 {
		t.Errorf("%d lines, %d columns:\n%s", lines, widest, narrow)
	}
	if got := strings.Count(narrow, r.Accounts[0].PrivateKey); got != 10 {
		t.Errorf("%d keys, want 10", got)
	}
	for _, wide := range []string{r.page(terminal{columns: 140}, false), r.page(terminal{}, false)} {
		if !strings.Contains(wide, r.Accounts[0].Address) || strings.Contains(wide, "\x1b") {
			t.Errorf("an address is cut, or a pipe is painted:\n%s", wide)
		}
	}
	whole := r.page(terminal{columns: 80}, true)
	if _, widest := count(whole); widest > 80 || !strings.Contains(whole, r.Accounts[0].Address) || strings.Count(whole, r.Accounts[0].PrivateKey) != len(r.Accounts) {
		t.Errorf("all accounts in 80 columns have neither address nor key cut:\n%s", whole)
	}
	if all := r.page(terminal{}, true); strings.Count(all, r.Accounts[0].PrivateKey) != len(r.Accounts) {
		t.Errorf("not all accounts:\n%s", all)
	}
}

// --env makes the file that a relay is started with, and never replaces one.
func TestSettingsOfANetworkAsAFile(t *testing.T) {
	r := ready{Mirror: "http://127.0.0.1:15551", ChainID: 298, Nodes: map[string]string{"127.0.0.1:18211": "0.0.3"}}
	dir := t.TempDir()
	name := filepath.Join(dir, ".env")
	must.Do(t, r.writeSettings(name))
	environ, _ := must.Get2(config.Environ(nil, dir))(t)
	if c, err := config.Load(environ); err != nil || c.Consensus.OperatorID != devnet.OperatorID() {
		t.Errorf("%v", err)
	}
	if err := r.writeSettings(name); err == nil || !strings.Contains(err.Error(), "not replaced") {
		t.Errorf("the file that was there: %v", err)
	}
}
