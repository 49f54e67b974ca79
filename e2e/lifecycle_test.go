package e2e

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

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
