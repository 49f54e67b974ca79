package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// TestStop: an operator's signal ends the program cleanly, with exit code 0.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, nil)
			if got := call(t, n.RPC, "eth_chainId", `[]`); string(got.Result) != `"0x12a"` {
				t.Fatalf("eth_chainId gave %s, %v", got.Result, got.Error)
			}
			n.process.Signal(signal)
			if code := n.process.Exit(); code != 0 {
				t.Errorf("exit code %d\n%s", code, n.process.Log)
			}
		})
	}
}

// TestTakenPort: a port in use is an error that names the port and the flag.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { taken.Close() })
	address := taken.Addr().String()
	_, port := must.Get2(net.SplitHostPort(address))(t)
	flags := []string{"--http", "--ws", "--mirror", "--consensus"}
	for _, flag := range flags {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			args := []string{"dev", "--json"}
			for _, other := range flags {
				if other != flag {
					args = append(args, other, "127.0.0.1:0")
				}
			}
			p := start(t, nil, append(args, flag, address)...)
			checkTaken(t, p, port, flag)
		})
	}
}

// checkTaken fails unless the program ended with a short message that names the
// port and the flag or setting that chose it.
func checkTaken(t *testing.T, p *harness.Process, port, setting string) {
	t.Helper()
	if code := p.Exit(); code == 0 {
		t.Error("exit code 0")
	}
	text := p.Log.String()
	if !strings.Contains(text, port) || !strings.Contains(text, setting) {
		t.Errorf("the error names not both %s and %s:\n%s", port, setting, text)
	}
	if lines := strings.Count(strings.TrimSpace(text), "\n") + 1; lines > 20 || strings.Contains(text, "goroutine ") {
		t.Errorf("the error is not a short message:\n%s", text)
	}
}

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

// A relay reads its settings again on SIGHUP and by a call of its admin server. What may change while it
// runs changes; the rest is named; wrong settings change nothing.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	n := startServe(t, devnet, devnet.Accounts[0], "RATE_LIMIT_DISABLED=false", "TRUSTED_PROXIES=127.0.0.0/8", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false", "LIMIT_DURATION=86400000")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(n.process.Dir, ".env"), []byte(text), 0o600))
	}
	// limited tells whether a client that nobody has heard of yet is refused its second call.
	client := 0
	limited := func() bool {
		t.Helper()
		client++
		var status int
		for range 2 {
			request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, n.RPC, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`)))(t)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("X-Forwarded-For", "198.51.100."+string(rune('0'+client%10)))
			response := must.Get(http.DefaultClient.Do(request))(t)
			response.Body.Close()
			status = response.StatusCode
		}
		return status == http.StatusTooManyRequests
	}
	if limited() {
		t.Fatal("two calls are too many before anything has changed")
	}
	again := `"msg":"the settings were read again",`
	write("TIER_1_RATE_LIMIT=1\nTIER_2_RATE_LIMIT=1\nTIER_3_RATE_LIMIT=1\nDEFAULT_RATE_LIMIT=1\nLOG_LEVEL=debug\nNONCE_ORDERING_PERCENT=50\nENABLE_TX_POOL=false\n")
	n.process.Signal(syscall.SIGHUP)
	// Its log gets here by itself, and not before its answers.
	until(t, "the relay has read its settings", func() bool { return strings.HasSuffix(after(n.process.Log.String(), again), "}") })
	if !limited() {
		t.Error("the second of two calls is allowed after the limit became one")
	}
	if line := after(n.process.Log.String(), again); !strings.Contains(line, "LOG_LEVEL") || !strings.Contains(line, "NONCE_ORDERING_PERCENT") || !strings.Contains(line, `"need_a_restart":["ENABLE_TX_POOL"]`) {
		t.Errorf("the log says: %s", line)
	}
	until(t, "a line of level debug, which the level is now", func() bool { return n.process.Log.Has(`"level":"DEBUG"`) })

	write("TIER_2_RATE_LIMIT=many\nLOG_LEVEL=error\n")
	n.process.Signal(syscall.SIGHUP)
	harness.Until(t, harness.StartLimit, "the relay says that the settings are wrong", func() bool { return n.process.Log.Has("are wrong: nothing was changed") })
	if !limited() {
		t.Error("wrong settings changed a limit")
	}

	write("LOG_LEVEL=debug\n")
	_, _, admin := n.process.Addresses()
	response := must.Get(http.Post("http://"+admin+"/reload", "", nil))(t)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s (%v)", response.StatusCode, answer, err)
	}
	if want := `"changed":["TIER_1_RATE_LIMIT","TIER_2_RATE_LIMIT","TIER_3_RATE_LIMIT","DEFAULT_RATE_LIMIT","NONCE_ORDERING_PERCENT"],"restart":[]`; !strings.Contains(string(answer), want) {
		t.Errorf("the admin server says %s", answer)
	}
	if limited() {
		t.Error("two calls are too many after the limits are the old ones")
	}
}

// after returns the rest of the line after a text.
func after(log, text string) string {
	_, rest, _ := strings.Cut(log, text)
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// TestDevnetAndServe runs the network and the relay as two programs that know
// each other by their addresses alone, as a relay and a real network do.
func TestDevnetAndServe(t *testing.T) {
	t.Parallel()
	devnet := startDevnet(t)
	operator, sender, recipient := devnet.Accounts[0], devnet.Accounts[1], devnet.Accounts[2]

	n := startServe(t, devnet, operator)
	receipt := castFields(t, n, "send", recipient.Address, "--value", "2ether", "--private-key", sender.PrivateKey)
	expect(t, receipt["status"], "0x1")
	expect(t, castRun(t, n, "nonce", sender.Address), "1")

	t.Run("WebSocket", func(t *testing.T) {
		nonce, err := dial(t, n.WS).NonceAt(t.Context(), sender.address(), nil)
		if err != nil || nonce != 1 {
			t.Errorf("nonce %d, %v", nonce, err)
		}
	})
	t.Run("taken port", func(t *testing.T) {
		_, port := must.Get2(net.SplitHostPort(strings.TrimPrefix(n.RPC, "http://")))(t)
		second := start(t, append(serveSettings(t, devnet, operator), "SERVER_PORT="+port), "serve")
		checkTaken(t, second, port, "SERVER_PORT")
	})
	t.Run("restart", func(t *testing.T) {
		n.process.Signal(syscall.SIGTERM)
		expect(t, n.process.Exit(), 0)
		again := startServe(t, devnet, operator)
		expect(t, castRun(t, again, "nonce", sender.Address), "1")
		receipt := castFields(t, again, "send", recipient.Address, "--value", "1ether", "--private-key", sender.PrivateKey)
		expect(t, receipt["status"], "0x1")
	})
}

// startDevnet runs the network alone.
func startDevnet(t *testing.T) *network {
	t.Helper()
	devnet := &network{process: start(t, nil, "devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")}
	devnet.process.ReadReady(devnet)
	devnet.Accounts = evmAccounts(devnet.Accounts)
	return devnet
}

// startServe runs a relay in front of the devnet, configured by environment alone.
func startServe(t *testing.T, devnet *network, operator account, env ...string) *network {
	t.Helper()
	settings := append(serveSettings(t, devnet, operator), "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0")
	p := start(t, append(settings, env...), "serve")
	address, ws, _ := p.Addresses()
	n := &network{RPC: "http://" + address, WS: "ws://" + ws, Mirror: devnet.Mirror, Accounts: devnet.Accounts, process: p}
	until(t, "serve is ready on "+n.RPC, func() bool {
		response, err := http.Get(n.RPC + "/health/readiness")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return n
}

// serveSettings are all that a relay needs, but for its ports.
func serveSettings(t *testing.T, devnet *network, operator account) []string {
	t.Helper()
	nodes := must.Get(json.Marshal(map[string]string{devnet.Consensus: "0.0.3"}))(t)
	return []string{
		"CHAIN_ID=0x12a",
		"HEDERA_NETWORK=" + string(nodes),
		"MIRROR_NODE_URL=" + devnet.Mirror,
		"OPERATOR_ID_MAIN=" + operator.ID,
		"OPERATOR_KEY_MAIN=" + operator.PrivateKey,
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1",
		"PRETTY_LOGS_ENABLED=false",
	}
}
