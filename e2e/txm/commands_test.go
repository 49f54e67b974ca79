package txm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// TestCommands operates the signers of a running manager by `lockstep txm`: a signer whose nonces somebody else has used before the
// ledger knew it halts, and goes on after them with `reconcile --adopt`; `drain` keeps what is accepted later until `resume`.
func TestCommands(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t, "--no-mining")
	account := strings.ToLower(keyOf(devKeys[0]).Account())
	chain.call("eth_sendTransaction", nil, map[string]any{"from": account, "to": account, "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x2540be400"})
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
	dir := t.TempDir()
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(harness.Program(t), append([]string{"txm"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(harness.Environment(), "DATABASE_URL=sqlite:ledger.db", "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS="+devKeys[0],
			"INSTANCE_ID=one", "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"))
		return cmd
	}
	made := must.Get(program("key", "--role", "admin", "--label", "ops").Output())(t)
	token := strings.TrimSpace(string(made))
	harness.Run(t, program())
	until(t, "the manager is ready", func() bool { return ask("GET", url+"/health/readiness", "", "", nil) == 200 })
	// lockstep runs a command that asks the manager, and returns all that it wrote.
	lockstep := func(args ...string) (string, error) {
		cmd := program(append(args, "--url", url)...)
		cmd.Env = append(cmd.Env, "TXM_API_KEY="+token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(want string, args ...string) {
		t.Helper()
		if out, err := lockstep(args...); err != nil || !strings.Contains(out, want) || !strings.Contains(out, account) {
			t.Fatalf("%v: %v, and %q is not in:\n%s", args, err, want, out)
		}
	}
	if out, err := program("signers", "--url", url).CombinedOutput(); err == nil || bytes.Contains(out, []byte(account)) || !bytes.Contains(out, []byte("TXM_API_KEY")) {
		t.Errorf("without a key: %v\n%s", err, out)
	}
	until(t, "the signer is halted", func() bool {
		out, err := lockstep("signers")
		return err == nil && strings.Contains(out, "halted: ")
	})
	must("halted: ", "signers")
	must("ready", "reconcile", "--adopt", "31337", account)
	must("draining", "drain", "31337", account)

	client := func(method, path, body string, into any) int {
		return askWith(http.Header{"Authorization": {"Bearer " + token}}, method, url+path, body, into)
	}
	var accepted struct{ ID string }
	if status := client("POST", "/v1/transactions", `{"chain":31337,"to":"`+counter+`","data":"0x01","gas":60000,"simulate":"off"}`, &accepted); status != 202 {
		t.Fatalf("an intent while the signer is drained: %d", status)
	}
	var kept struct{ Status string }
	for range 3 { // the owner looks at its queue now and then
		must("draining", "signers")
		if status := client("GET", "/v1/transactions/"+accepted.ID, "", &kept); status != 200 || kept.Status != "accepted" {
			t.Errorf("while the signer is drained the intent is %q: %d", kept.Status, status)
		}
	}
	must("ready", "resume", "31337", account)
	until(t, "the intent is mined", func() bool {
		chain.mine(1)
		return client("GET", "/v1/transactions/"+accepted.ID, "", &kept) == 200 && kept.Status == "confirmed"
	})

	out, err := lockstep("signers", "--json")
	var list []struct {
		Address   string
		NextNonce uint64
	}
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 || list[0].Address != account || list[0].NextNonce != 2 {
		t.Errorf("signers --json: %v\n%s", err, out)
	}
	if out, err := lockstep("drain", "31337", "0xabc"); err == nil {
		t.Errorf("a signer that is none was drained:\n%s", out)
	}
}

// TestReload gives a running manager keys that its settings did not have, by SIGHUP, and takes one away by a call: the new signer serves, what the other
// has signed is followed, and what is broken in the settings changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t, "--no-mining")
	keys := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(keys, []byte(text), 0o600))
	}
	write(devKeys[0])
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
	cmd := exec.Command(harness.Program(t), "txm")
	cmd.Dir = t.TempDir()
	cmd.Env = append(harness.Environment(), "DATABASE_URL=memory:", "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS_FILE="+keys, "INSTANCE_ID=one",
		"TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"))
	harness.Run(t, cmd)
	states := func() (list []string) {
		var found struct {
			Signers []struct{ Address, PassedOver string }
		}
		if ask("GET", url+"/v1/signers", "", "", &found) != 200 {
			return nil
		}
		for _, s := range found.Signers {
			list = append(list, strings.ToLower(s.Address)+" "+s.PassedOver)
		}
		slices.Sort(list)
		return list
	}
	first, second := strings.ToLower(keyOf(devKeys[0]).Account()), strings.ToLower(keyOf(devKeys[1]).Account())
	are := func(what string, want ...string) {
		t.Helper()
		slices.Sort(want)
		until(t, what, func() bool { return slices.Equal(states(), want) })
	}
	send := func(pin, status string) (id string) {
		t.Helper()
		var got struct{ ID, Status, Signer string }
		body := fmt.Sprintf(`{"chain":31337,"to":%q,"data":"0x01","gas":60000,"simulate":"off","pin":%q}`, counter, pin)
		if code := ask("POST", url+"/v1/transactions", body, "", &got); code != 202 {
			t.Fatalf("an intent: %d", code)
		}
		until(t, "the intent is "+status, func() bool {
			return ask("GET", url+"/v1/transactions/"+got.ID, "", "", &got) == 200 && got.Status == status
		})
		return got.ID
	}
	are("one signer works", first+" ")
	followed := send(first, "broadcast")

	write(devKeys[0] + "," + devKeys[1])
	must.Do(t, cmd.Process.Signal(syscall.SIGHUP))
	are("both work", first+" ", second+" ")
	send(second, "broadcast")

	write("no key")
	if code := ask("POST", url+"/v1/reload", "", "", nil); code/100 == 2 {
		t.Errorf("broken settings were taken: %d", code)
	}
	are("nothing has changed", first+" ", second+" ")
	write(devKeys[1])
	if code := ask("POST", url+"/v1/reload", "", "", nil); code/100 != 2 {
		t.Errorf("good settings were not taken: %d", code)
	}
	are("one has left", first+" absent: no process that runs has its key", second+" ")
	var got struct{ Status string }
	until(t, "what the one that left has signed is confirmed", func() bool {
		chain.mine(1)
		return ask("GET", url+"/v1/transactions/"+followed, "", "", &got) == 200 && got.Status == "confirmed"
	})
}
