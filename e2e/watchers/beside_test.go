package watchers

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
)

// indexer is a program that writes the events of a chain to a table.
type indexer struct {
	name    string
	command func(database string) *exec.Cmd
	table   string
	key     string // what tells its rows apart
}

// index runs an indexer on a new database until it has all events, or, when it has half of them, kills it and starts it again. It returns how long that
// took, what it cost the program (what it cost the database is not counted), and how many rows there are that differ.
func (x indexer) index(b *testing.B, server *pgtest.Server, events int64, kill bool) (took, cpu time.Duration, peak, distinct int64) {
	b.Helper()
	database := server.Database()
	db := ledgertest.At(b, database)
	log := new(proctest.Tail)
	start := func() *exec.Cmd {
		cmd := x.command(database)
		cmd.Stdout, cmd.Stderr = log, log
		must.Do(b, cmd.Start())
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		peak = max(peak, use.Maxrss/1024)
	}
	ask := func(what string) (int64, error) {
		return ledgertest.One[int64](b, db, ledger.SQL("SELECT COUNT("+what+") FROM "+x.table))
	}
	began := time.Now()
	cmd := start()
	defer func() { _ = cmd.Process.Kill() }()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for rows := int64(0); rows < events; {
		select {
		case <-look.C:
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
		if time.Since(began) > patience {
			b.Fatalf("%s has %d of %d events\n%s", x.name, rows, events, log.Last(4000))
		}
		rows, _ = ask("*") // before there is a table: none
		if kill && rows >= events/2 {
			kill = false
			end(cmd)
			b.Logf("%s was killed at %d events", x.name, rows)
			cmd = start()
		}
	}
	took = time.Since(began)
	end(cmd)
	rows, err := ask("*")
	if err == nil {
		distinct, err = ask("DISTINCT " + x.key)
	}
	if err != nil || rows != events {
		b.Errorf("%s wrote %d rows, the chain has %d events: %v", x.name, rows, events, err)
	}
	return took, cpu, peak, distinct
}

// BenchmarkBesidePonder has lockstep watch and ponder, each in its turn, write the same events of the same anvil to tables in PostgreSQL: once without
// trouble, and once killed in the middle. `make bench-ponder` installs ponder and runs it.
func BenchmarkBesidePonder(b *testing.B) {
	folder := os.Getenv("LOCKSTEP_PONDER")
	if folder == "" {
		b.Fatal("LOCKSTEP_PONDER names the folder where ponder is installed: make bench-ponder")
	}
	const blocks, each = 2000, 50
	const events = blocks * each
	chain := startAnvil(b, "--timestamp", strconv.FormatInt(time.Now().Add(-24*time.Hour).Unix(), 10))
	contract := common.HexToAddress("0x0380000000000000000000000000000000000001")
	// n = CALLDATALOAD(0); do { LOG3(n, Transfer, CALLER, n) } while (--n)
	topic := crypto.Keccak256Hash([]byte("Transfer(address,uint256,uint256)"))
	chain.call("anvil_setCode", contract, "0x5f355b805f528033"+"7f"+topic.Hex()[2:]+"60205fa3"+"6001900380600257"+"00")
	nonce := must.Get(chain.PendingNonceAt(b.Context(), chain.payer()))(b)
	for first := 0; first < blocks; first += 100 {
		batch := make([]rpc.BatchElem, 100)
		for i := range batch {
			batch[i] = rpc.BatchElem{Method: "eth_sendTransaction", Result: new(common.Hash), Args: []any{map[string]any{
				"from": chain.payer(), "to": contract, "nonce": hexutil.Uint64(nonce + uint64(first+i)), "gas": "0x100000", "data": common.BigToHash(big.NewInt(each)),
			}}}
		}
		must.Do(b, chain.rpc.BatchCallContext(b.Context(), batch))
		for _, one := range batch {
			if one.Error != nil {
				b.Fatal(one.Error)
			}
		}
	}
	chain.call("anvil_mine", "0x80") // so that all events are final
	server := pgtest.Start(b)
	file := filepath.Join(b.TempDir(), "watch.yaml")
	text := fmt.Sprintf("chains:\n  - {id: 31337, urls: [%q]}\ntables: true\nwatches:\n  - name: token\n    chain: 31337\n    start: 1\n    addresses: [%q]\n"+
		"    events: [\"Transfer(address indexed from, uint256 indexed id, uint256 amount)\"]\n", chain.url, contract.Hex())
	must.Do(b, os.WriteFile(file, []byte(text), 0o600))
	run := func(dir string, env []string, name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(b.Context()), name, args...) // killed by index
		cmd.Dir, cmd.Env = dir, append(harness.Environment(), env...)
		return cmd
	}
	for _, x := range []indexer{
		{"lockstep", func(database string) *exec.Cmd {
			return run(b.TempDir(), []string{"DATABASE_URL=" + database, "WATCH_ADDRESS=off", "PRETTY_LOGS_ENABLED=false"}, harness.Program(b), "watch", file)
		}, "event_token_transfer", "(block_number, log_index)"},
		{"ponder", func(database string) *exec.Cmd {
			return run(folder, []string{"DATABASE_URL=" + database, "RPC_URL=" + chain.url, "CONTRACT=" + contract.Hex(), "PONDER_TELEMETRY_DISABLED=1"},
				"node", filepath.Join("node_modules", "ponder", "dist", "esm", "bin", "ponder.js"), "start", "--schema", "app", "--port", strconv.Itoa(proctest.FreePort(b)))
		}, "app.transfer", "id"},
	} {
		for _, kill := range []bool{false, true} {
			name := x.name
			if kill {
				name += ", killed"
			}
			b.Run(strings.ReplaceAll(name, ", ", "-"), func(b *testing.B) {
				for b.Loop() {
					took, cpu, peak, distinct := x.index(b, server, events, kill)
					if distinct != events {
						b.Errorf("%d rows differ, the chain has %d events", distinct, events)
					}
					b.ReportMetric(events/took.Seconds(), "events/s")
					b.ReportMetric(cpu.Seconds(), "cpu-s")
					b.ReportMetric(float64(peak), "peak-MB")
				}
			})
		}
	}
}
