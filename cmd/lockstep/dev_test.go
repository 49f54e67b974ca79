package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/config"
	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A second network has its page at a free port; a port that somebody asked for is not exchanged for another.
func TestPageOfASecondNetwork(t *testing.T) {
	var taken string
	for range 2 {
		listener := must.Get(listenUI(t.Context(), devUI))(t)
		defer func() { _ = listener.Close() }()
		if taken == listener.Addr().String() {
			t.Errorf("both are at %s", taken)
		}
		taken = listener.Addr().String()
	}
	if _, err := listenUI(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "--ui") {
		t.Errorf("a taken port: %v", err)
	}
	if listener, err := listenUI(t.Context(), ""); listener != nil || err != nil {
		t.Errorf("no page: %v %v", listener, err)
	}
}

// All that "lockstep dev" opens is on loopback, unless a flag says otherwise.
func TestDevListensOnLoopback(t *testing.T) {
	_, _, help := lockstep(t, nil, "dev", "-h")
	addresses := regexp.MustCompile(`\(default "([^"]*:\d+)"\)`).FindAllStringSubmatch(help, -1)
	for _, a := range addresses {
		if !strings.HasPrefix(a[1], "127.0.0.1:") {
			t.Errorf("%s is open to others", a[1])
		}
	}
	if len(addresses) < 5 {
		t.Errorf("%d addresses in:\n%s", len(addresses), help)
	}
}

// freePorts are flags with which networks do not get in each other's way.
func freePorts() []string {
	return []string{"--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"}
}

// TestDevCommand: "lockstep dev -- CMD" ends as the command ends.
func TestDevCommand(t *testing.T) {
	tests := map[string]struct {
		command []string
		code    int
		out     string
	}{
		"success":          {[]string{"sh", "-c", "echo on $CHAIN_ID"}, 0, "on 298\n"},
		"failure":          {[]string{"sh", "-c", "exit 7"}, 7, ""},
		"no such thing":    {[]string{"/no/such/program"}, 1, ""},
		"flags of its own": {[]string{"sh", "-c", "echo $0 $1", "--http", "--json"}, 0, "--http --json\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := append(append(append([]string{"dev"}, freePorts()...), "--"), test.command...)
			code, out, errs := lockstep(t, os.Environ(), args...)
			if code != test.code || out != test.out {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, test.code, out, errs)
			}
		})
	}
	if code, _, errs := lockstep(t, nil, "dev", "--"); code != 2 || !strings.Contains(errs, "no command after --") {
		t.Errorf("nothing after --: exit code %d\n%s", code, errs)
	}
}

// The page of a network for development is where --ui says: an ADMIN_ADDRESS, which is for relays that serve others, does
// not matter.
func TestDevIgnoresTheConsoleOfOthers(t *testing.T) {
	args := append(append([]string{"dev", "--ui", "127.0.0.1:0"}, freePorts()...), "--", "sh", "-c", "echo on $CHAIN_ID")
	code, out, errs := lockstep(t, append(os.Environ(), "ADMIN_ADDRESS=0.0.0.0:7547"), args...)
	if code != 0 || out != "on 298\n" {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", code, out, errs)
	}
}

// TestDevCommandFindsTheNetwork has a command, this test's own binary, ask the relay.
func TestDevCommandFindsTheNetwork(t *testing.T) {
	if got := ask(t, nil, `["eth_chainId"]`); got != "\"0x12a\"\n" {
		t.Errorf("chain id %s", got)
	}
}

// TestDevKeepsState: --state lets a network go on, and what was dumped can be loaded.
func TestDevKeepsState(t *testing.T) {
	flags := []string{"--state", filepath.Join(t.TempDir(), "state")}
	const who = `"0x1111111111111111111111111111111111111111"`
	const balance = `["eth_getBalance",` + who + `,"latest"]`
	const one, none = "\"0xde0b6b3a7640000\"\n", "\"0x0\"\n"
	ask(t, flags, `["lockstep_faucet",`+who+`,1]`)
	if got := ask(t, flags, balance); got != one {
		t.Errorf("the next network knows of a balance of %s", got)
	}
	got := ask(t, flags, `["anvil_dumpState"]`, `["hardhat_reset"]`, balance, `["evm_mine"]`, `["anvil_loadState","$0"]`, balance, `["eth_blockNumber"]`, `["anvil_loadState","0x1234"]`)
	if _, got, _ = strings.Cut(got, "\n"); !strings.HasPrefix(got, "true\n"+none+"\"0x0\"\ntrue\n"+one+"\"0x1\"\n") || !strings.Contains(got, "it is no saved state") {
		t.Errorf("results %s", got)
	}
}

// TestDevBlocks: what tools set of blocks takes effect, or an error says that Hedera has no such thing.
func TestDevBlocks(t *testing.T) {
	const code = `"0x4460005260206000f3"` // returns PREVRANDAO
	const at, seed = `"0x2222222222222222222222222222222222222222"`, `"0x000000000000000000000000000000000000000000000000000000000000abcd"`
	const send = `["eth_sendTransaction",{"to":` + at + `,"gas":"0x186a0"}]`
	got := strings.Split(ask(t, nil, send, `["hardhat_setCode",`+at+`,`+code+`]`, `["hardhat_setPrevRandao",`+seed+`]`, send,
		`["eth_getBlockByNumber","latest",false]`, `["anvil_setBlockTimestampInterval",1000]`, `["evm_mine"]`, `["eth_getBlockByNumber","latest",false]`,
		`["anvil_removeBlockTimestampInterval"]`, `["hardhat_setNextBlockBaseFeePerGas","0x1"]`, `["hardhat_setCoinbase",`+at+`]`,
		`["anvil_dropTransaction",`+seed+`]`, `["hardhat_dropTransaction","$0"]`, `["anvil_dropAllTransactions"]`, `["anvil_nodeInfo"]`), "\n")
	second := func(line int) uint64 {
		var block struct{ Timestamp hexutil.Uint64 }
		must.Do(t, json.Unmarshal([]byte(got[line]), &block))
		return uint64(block.Timestamp)
	}
	if got[2] != "true" || second(7) != second(4)+1000 || got[8] != "true" || got[11] != "null" || got[13] != "null" {
		t.Errorf("answers %q", got)
	}
	for line, wants := range map[int]string{9: "no base fee", 10: "0.0.98", 12: "is executed already", 14: `"environment":{"baseFee":"0xa54f4c3c00","chainId":298,"gasLimit":"0x8f0d180","gasPrice":"0xa54f4c3c00"},"forkConfig":{}`} {
		if !strings.Contains(got[line], wants) {
			t.Errorf("answer %d: %s", line, got[line])
		}
	}
}

// TestDevDeterministic: two networks that get the same calls have the same blocks.
func TestDevDeterministic(t *testing.T) {
	const at = `"0x2222222222222222222222222222222222222222"`
	var answers [2]string
	for i := range answers {
		answers[i] = ask(t, []string{"--deterministic"}, `["eth_sendTransaction",{"to":`+at+`,"gas":"0xc3500","value":"0xde0b6b3a7640000"}]`, `["evm_mine"]`,
			`["lockstep_faucet",`+at+`,1]`, `["eth_sendTransaction",{"to":`+at+`,"gas":"0xc3500"}]`, `["eth_getBlockByNumber","0x1",true]`, `["eth_getBlockByNumber","latest",true]`)
	}
	if answers[0] != answers[1] || !strings.Contains(answers[0], `"number":"0x4"`) {
		t.Errorf("one network answered %s, the other one %s", answers[0], answers[1])
	}
}

// ask starts a network with a command that asks its relay, and returns a line for each answer.
func ask(t *testing.T, flags []string, requests ...string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	args := append(append(append([]string{"dev"}, freePorts()...), flags...), "--", self, "-test.run", "TestAskingCommand")
	code, out, errs := lockstep(t, append(os.Environ(), asking+"="+strings.Join(requests, "\n")), args...)
	if code != 0 {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", code, out, errs)
	}
	answers, _, _ := strings.Cut(out, "PASS")
	return answers
}

const asking = "LOCKSTEP_TEST_ASKING"

// TestAskingCommand is the command of ask. A request is a method and its parameters; "$0" stands
// for the result of the first one.
func TestAskingCommand(t *testing.T) {
	var results []string
	for request := range strings.Lines(os.Getenv(asking)) {
		var call []json.RawMessage
		must.Do(t, json.Unmarshal([]byte(request), &call))
		params := make([]json.RawMessage, 0, len(call))
		for _, p := range call[1:] {
			if string(p) == `"$0"` {
				p = json.RawMessage(results[0])
			}
			params = append(params, p)
		}
		body := must.Get(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": call[0], "params": params}))(t)
		results = append(results, post(t, body))
		fmt.Println(results[len(results)-1])
	}
}

// post returns the result of a request, or the error object.
func post(t *testing.T, body []byte) string {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, os.Getenv("RPC_URL"), bytes.NewReader(body)))(t)
	request.Header.Set("Content-Type", "application/json")
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	var answer struct{ Result, Error json.RawMessage }
	must.Do(t, json.NewDecoder(response.Body).Decode(&answer))
	return string(answer.Result) + string(answer.Error)
}

// TestDevForks: the relay of a fork shows what the first network has, and changes it for itself alone.
func TestDevForks(t *testing.T) {
	first := harness.Network(t, devnet.Config{})
	const contract, from = "0x3333333333333333333333333333333333333333", "0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"
	const code = "0x5f355f5401805f555f5260205ff3" // adds to slot 0 what it is called with, and returns the sum
	balance, nonce, runtime := 7*hedera.Hbar, uint64(41), common.FromHex(code)
	for _, e := range []ledger.Edit{
		{Address: common.HexToAddress(contract), Balance: &balance, Code: &runtime, Storage: map[common.Hash]common.Hash{{}: common.HexToHash("0x5")}},
		{Address: common.HexToAddress(from), Nonce: &nonce},
	} {
		must.Do(t, first.Ledger().Edit(e))
	}
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	call := `["eth_call",{"to":"` + contract + `","data":"0x` + word(0) + `"},"latest"]`
	send := `["eth_sendTransaction",{"from":"` + from + `","to":"` + contract + `","gas":"0x30d40","data":"0x` + word(2) + `"}]`
	got := strings.Split(ask(t, []string{"--fork-url", first.Mirror()},
		`["evm_snapshot"]`, `["eth_blockNumber"]`, `["eth_getCode","`+contract+`","latest"]`, `["eth_getBalance","`+contract+`","latest"]`,
		`["eth_getStorageAt","`+contract+`","0x0","latest"]`, call, `["eth_getTransactionCount","`+from+`","latest"]`,
		send, call, `["eth_getTransactionCount","`+from+`","latest"]`, `["eth_blockNumber"]`, `["eth_getBalance","`+contract+`","0x0"]`,
		`["evm_revert","$0"]`, call, `["anvil_nodeInfo"]`, `["hardhat_reset",{"forking":{"jsonRpcUrl":"http://127.0.0.1:1"}}]`, `["anvil_dumpState"]`), "\n")
	quoted := func(s string) string { return `"` + s + `"` }
	for line, want := range map[int]string{
		1: quoted("0x2"), 2: quoted(code), 3: quoted("0x6124fee993bc0000"), 4: quoted("0x" + word(5)), 5: quoted("0x" + word(5)), 6: quoted("0x29"),
		8: quoted("0x" + word(7)), 9: quoted("0x2a"), 10: quoted("0x3"), 11: quoted("0x0"), 12: "true", 13: quoted("0x" + word(5)),
	} {
		if got[line] != want {
			t.Errorf("answer %d: %s, not %s", line, got[line], want)
		}
	}
	for line, want := range map[int]string{14: `"forkBlockNumber":2`, 15: "a request cannot choose another network", 16: "a fork: its state is not saved"} {
		if !strings.Contains(got[line], want) {
			t.Errorf("answer %d: %s", line, got[line])
		}
	}
	if s := first.Ledger().View(); s.LatestBlock().Number != 2 {
		t.Errorf("the first network is at block %d", s.LatestBlock().Number)
	}
}

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
