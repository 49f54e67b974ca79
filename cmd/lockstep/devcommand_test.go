package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/must"
)

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
