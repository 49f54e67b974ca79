package txm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"lockstep/e2e/harness"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
)

// patience bounds every wait of these tests; nothing is asserted about how long a wait takes.
const patience = 6 * time.Minute

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// process is one program that ends with the test.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}
	out  *tail
}

// tail keeps what a process wrote.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{}), out: &tail{}}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.SysProcAttr = proctest.WithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(cmd.Path), p.out)
		}
	})
	return p
}

func (p *process) freeze() { p.t.Helper(); p.must(proctest.Freeze(p.cmd.Process)) }

func (p *process) thaw() { p.t.Helper(); p.must(proctest.Thaw(p.cmd.Process)) }

func (p *process) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// start runs a node in a process of its own.
func (n txmNode) start(t testing.TB) *process {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	return run(t, cmd)
}

// counter answers every call with an event whose topic is the first word of the call's data.
const (
	counter     = "0x00000000000000000000000000000000000c0de1"
	counterCode = "0x60003560006000a100"
)

// anvil is a chain in a process.
type anvil struct {
	*process
	t    testing.TB
	port int
	url  string
}

func startAnvil(t testing.TB, args ...string) *anvil {
	t.Helper()
	if len(args) == 0 {
		// At once, and each second: anvil may not see a transaction that arrives while it mines, until the next arrives.
		args = []string{"--mixed-mining", "--block-time", "1"}
	}
	return startAnvilAt(t, func() int { return freePort(t) }, args...)
}

// startAnvilAt starts a chain at a port. Where another process has the port, or had it a moment ago, it tries again.
func startAnvilAt(t testing.TB, port func() int, args ...string) *anvil {
	t.Helper()
	found, _ := filepath.Glob("../node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil")
	if len(found) == 0 {
		t.Fatal("this test needs anvil; run scripts/setup.sh")
	}
	a := &anvil{t: t}
	until(t, "anvil listens", func() bool {
		if a.process == nil || a.ended() {
			a.port = port()
			a.process = run(t, exec.Command(found[0], append([]string{"--port", strconv.Itoa(a.port), "--host", "127.0.0.1"}, args...)...))
		}
		return strings.Contains(a.out.String(), "Listening on")
	})
	a.url = fmt.Sprintf("http://127.0.0.1:%d", a.port)
	a.ready()
	go harness.ForgetOverlooked(t.Context(), a.url)
	return a
}

func (a *anvil) ready() {
	a.t.Helper()
	until(a.t, "anvil answers", func() bool {
		var id string
		return a.try("eth_chainId", &id) == nil
	})
	a.call("anvil_setCode", nil, counter, counterCode)
}

func (a *anvil) try(method string, into any, params ...any) error {
	return callRPC(a.url, method, into, params...)
}

func (a *anvil) call(method string, into any, params ...any) {
	a.t.Helper()
	if err := a.try(method, into, params...); err != nil {
		a.t.Fatalf("%s: %v", method, err)
	}
}

func callRPC(url, method string, into any, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	answer, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("%s", reply.Error.Message)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, into)
}

// freePort returns a port that nobody has. It is below those that the kernel gives to connections, so that it is still free when a process
// that was killed starts again.
func freePort(t testing.TB) int {
	for range 100 {
		port := 12_000 + rand.IntN(18_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// ledgers are the databases that every test of a crash runs on.
func ledgers(t *testing.T, test func(t *testing.T, fresh func(*testing.T) string)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") })
	})
	t.Run("postgres", func(t *testing.T) {
		server := pgtest.Start(t)
		test(t, func(*testing.T) string { return server.Database() })
	})
}

// topic is a word of 32 bytes that no other intent has.
func topic() []byte {
	a, b := uuid.New(), uuid.New()
	return append(a[:], b[:]...)
}
