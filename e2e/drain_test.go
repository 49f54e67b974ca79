package e2e

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// TestSecondSignalEndsAtOnce: after the first signal a relay is not ready and serves on, for as
// long as the setting says; the second one does not wait for that.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	n := startServe(t, devnet, devnet.Accounts[0], "SHUTDOWN_DRAIN_DELAY_MS=600000")
	if status, page := get(t, n.RPC+"/health/readiness"); status != http.StatusOK || string(page) != "OK" {
		t.Fatalf("readiness: %d %s", status, page)
	}
	n.process.Signal(syscall.SIGTERM)
	harness.Until(t, harness.StartLimit, "the relay says that it is not ready", func() bool {
		status, page := get(t, n.RPC+"/health/readiness")
		return status == http.StatusServiceUnavailable && strings.Contains(string(page), "the relay is stopping")
	})
	if answer := call(t, n.RPC, "eth_chainId", "[]"); string(answer.Result) != `"0x12a"` {
		t.Errorf("a relay that is stopping does not serve: %+v", answer)
	}
	if out, log, code := command(t, nil, "health", "--url", n.RPC); code != 1 || !strings.Contains(log, "the relay is stopping") {
		t.Errorf("health: exit code %d\n%s%s", code, out, log)
	}
	// The delay is longer than the test waits: a process that ignores the signal is still there.
	n.process.Signal(syscall.SIGTERM)
	select {
	case <-n.process.Ended:
	case <-time.After(4 * time.Minute):
		t.Error("the process goes on after the second signal")
	}
}

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
