package txm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
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
	harness.Until(t, limit, what, holds)
}

// start runs a node in a process of its own.
func (n txmNode) start(t testing.TB) *harness.Process {
	t.Helper()
	text := must.Get(json.Marshal(n))(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	return harness.Run(t, cmd)
}

// counter answers every call with an event whose topic is the first word of the call's data.
const (
	counter     = "0x00000000000000000000000000000000000c0de1"
	counterCode = "0x60003560006000a100"
)

// anvil is a chain in a process.
type anvil struct {
	*harness.Process
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
	return startAnvilAt(t, proctest.FreePort(t), args...)
}

func startAnvilAt(t testing.TB, port int, args ...string) *anvil {
	t.Helper()
	a := &anvil{t: t, port: port}
	a.Process, a.url = harness.Anvil(t, port, args...)
	a.ready()
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
	client, err := rpc.Dial(url)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Call(into, method, params...)
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
