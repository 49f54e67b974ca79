package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// command runs the program to its end and gives its output and exit code.
func command(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Program(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(harness.Environment(), env...)
	cmd.WaitDelay = time.Minute
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// TestSecretsStayInside: neither the settings page, nor the start-up errors, nor
// the most talkative log shows the operator's key or a signed transaction.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	operator, sender := devnet.Accounts[0], devnet.Accounts[1]
	secret := strings.TrimPrefix(operator.PrivateKey, "0x")
	settings := append(serveSettings(t, devnet, operator), "REDIS_URL=redis://:hush-hush@127.0.0.1:1")

	out, log, code := command(t, settings, "config")
	expect(t, code, 0)
	if !strings.Contains(out, "OPERATOR_ID_MAIN="+operator.ID) {
		t.Errorf("config does not show the settings in effect:\n%s", out)
	}
	checkSilent(t, "config", out+log, secret, "hush-hush")

	_, log, code = command(t, append(settings, "OPERATOR_KEY_FORMAT=DER", "OPERATOR_KEY_MAIN="+secret+"ff"), "serve")
	if code == 0 {
		t.Error("serve accepted a malformed key")
	}
	checkSilent(t, "the error about a malformed key", log, secret)

	n := startServe(t, devnet, operator, "LOG_LEVEL=trace")
	raw := castRun(t, n, "mktx", sender.Address, "--value", "1ether", "--private-key", sender.PrivateKey)
	hash := castRun(t, n, "publish", "--async", raw)
	for _, path := range []string{"/config", "/metrics"} {
		_, page := get(t, n.RPC+path)
		checkSilent(t, path, string(page), secret, "hush-hush")
	}
	n.process.Stop()
	log = n.process.Log.String()
	if !strings.Contains(log, hash) {
		t.Errorf("the log does not tell of transaction %s:\n%s", hash, log)
	}
	checkSilent(t, "the log", log, secret, raw[len(raw)-64:])
}

func checkSilent(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
			t.Errorf("%s shows a secret", what) // without showing it once more
		}
	}
}

// TestBenchSend: the load generator counts on the chain, and finds nothing wrong
// with the relay beside it.
func TestBenchSend(t *testing.T) {
	t.Parallel()
	n := startDev(t, []string{holding}, "--consensus-latency", "5ms")
	out, log, code := command(t, []string{"LOCKSTEP_BENCH_KEY=" + n.Accounts[0].PrivateKey}, "bench", "send", "--json",
		"--rpc", n.RPC, "--consensus-log", n.Mirror, "--senders", "5", "--count", "20", "--timeout", "20m")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	var report struct {
		Planned, Accepted, Refused, Unanswered int
		Chain                                  struct {
			Executed   int
			OutOfOrder int `json:"out_of_order"`
			WrongNonce int `json:"wrong_nonce_at_consensus"`
			Lost       int
			Duplicated int
			OrderFrom  string `json:"order_from"`
		}
	}
	must.Do(t, json.Unmarshal([]byte(out), &report))
	chain := report.Chain
	if report.Planned != 100 || report.Accepted != 100 || chain.Executed != 100 || chain.OrderFrom != "consensus log" ||
		chain.OutOfOrder+chain.WrongNonce+chain.Lost+chain.Duplicated+report.Refused+report.Unanswered != 0 {
		t.Errorf("of 100 transactions: %+v", report)
	}
}
