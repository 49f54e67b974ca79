package watchers

import (
	"context"
	"errors"
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
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// TestKilledInTheMiddle kills a process between two transactions of one range of blocks, and between a sink's confirmation and the note of
// it. The database holds both up by construction: the first half of the range is stored and some of it is handed on when the process dies.
// Its successor misses nothing, stores nothing twice, and repeats only the messages that were on their way.
func TestKilledInTheMiddle(t *testing.T) {
	const children, each, blocks = 3, 3000, 3
	chain := watchtest.New(t, children+1)
	family(chain, children) // 1
	for n := 1; n <= blocks; n++ {
		for child := 1; child <= children; child++ {
			chain.EmitMany(watchtest.Emitter(child), each/children, approved, watchtest.Word(common.Address{byte(n)}))
		}
		chain.Commit() // 2 to 4: one transaction stores 5,000 events and those of their last block
	}
	for range 20 {
		chain.Commit() // so that the blocks above are one range, which nothing can replace
	}
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	db := ledgertest.At(t, database, watch.Schema)
	run := func(statement ledger.SQL) {
		t.Helper()
		must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Exec(t.Context(), statement)
			return err
		}))
	}
	run("CREATE TABLE hold (one INTEGER)")
	run("INSERT INTO hold VALUES (1)")
	run("CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN WHILE EXISTS (SELECT 1 FROM hold) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NEW; END'")
	run("CREATE TRIGGER held BEFORE INSERT ON chain_events FOR EACH ROW WHEN (NEW.block_number > " + ledger.Number(blocks) + ") EXECUTE FUNCTION held()")
	run("CREATE TRIGGER held BEFORE INSERT ON sink_cursors FOR EACH ROW WHEN (NEW.position > " + ledger.Number(children) + ") EXECUTE FUNCTION held()")
	count := func(query ledger.SQL) int64 { return must.Get(ledgertest.One[int64](t, db, query))(t) }
	f := &fleet{t: t, db: db, members: map[string]*harness.Process{}, settings: []string{"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events")}}
	f.start("a")
	for _, table := range []string{"chain_events", "sink_cursors"} {
		watchtest.Until(t, "a row of "+table+" is held up", func() (bool, error) {
			n := count("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE 'INSERT INTO " + ledger.SQL(table) + "%'")
			return n > 0, errors.New("not yet")
		})
	}
	f.members["a"].Kill()
	want := scan(t, chain)
	if n := count("SELECT COUNT(*) FROM chain_events"); n != children+(blocks-1)*each {
		t.Errorf("%d events were stored when the process died, half of the range is %d", n, children+(blocks-1)*each)
	}
	before := deliveries(t, redis)
	if len(before) <= children || len(before) > children+repeatable {
		t.Errorf("%d messages were handed on when the process died", len(before))
	}
	run("DELETE FROM hold")
	f.start("b")
	stored(t, db, want)
	handedOn(t, redis, want)
	after := deliveries(t, redis)
	again := 0
	for message, times := range before {
		switch {
		case after[message] == times:
		case strings.HasPrefix(message, "Deployed "):
			t.Errorf("%s came again, although it was noted", message)
		default:
			again++
		}
	}
	if again == 0 {
		t.Error("no message came again, although none of those on their way was noted")
	}
}

// deliveries counts how often each message stands in the stream.
func deliveries(t *testing.T, redis *redistest.Server) map[string]int {
	t.Helper()
	times := map[string]int{}
	for _, e := range must.Get(messages(t, redis, "events"))(t) {
		times[e.Event+" "+e.Delivery]++
	}
	return times
}

// outage is how long the database is away besides what it takes to notice: nothing, or what LOCKSTEP_OUTAGE says.
func outage(t *testing.T) time.Duration {
	text := os.Getenv("LOCKSTEP_OUTAGE")
	if text == "" {
		return 0
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestDatabaseAway takes the database away for a while and brings it back, and takes it away for good.
func TestDatabaseAway(t *testing.T) {
	away := outage(t)
	chain := watchtest.New(t, 3)
	redis := redistest.Start(t)
	server := pgtest.Start(t)
	database := server.Database()
	f := &fleet{t: t, members: map[string]*harness.Process{}}
	// start runs a process that waits for its database for a while.
	start := func(name string, patience time.Duration) {
		f.settings = []string{
			"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events"), "WATCH_DB_PATIENCE=" + patience.String(),
		}
		f.start(name)
	}
	start("a", away+2*patience) // however slowly the database comes back
	emit := func() {
		chain.Emit(watchtest.Emitter(1), approved, watchtest.Word(common.Address{1}))
		chain.Commit()
	}
	chain.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(1)), watchtest.Number(1))
	emit()
	db := ledgertest.At(t, database)
	stored(t, db, scan(t, chain))

	server.Kill()
	emit()
	harness.Until(t, patience, "the outage is noticed", func() bool { return f.members["a"].Log.Has("an upstream is not usable") })
	emit()
	<-time.After(away)
	server.Restart()
	stored(t, db, scan(t, chain))
	harness.Until(t, patience, "the return is noticed", func() bool { return f.members["a"].Log.Has("an upstream is usable again") })

	f.members["a"].Stop()
	start("b", 5*time.Second)
	emit()
	stored(t, db, scan(t, chain))
	server.Kill()
	select {
	case <-f.members["b"].Ended:
	case <-time.After(patience):
		t.Fatal("the process does not end without its database")
	}
	if code := f.members["b"].Exit(); code != 1 {
		t.Errorf("exit status %d", code)
	}
	lines := strings.Split(strings.TrimSpace(f.members["b"].Log.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "the database does not answer for ") {
		t.Errorf("the last line is %q", last)
	}
}

// TestMirrorNodeTellsWhatTheRelayTells follows one factory on the development network twice: through the relay, and
// through the mirror node alone. Both hand on the same messages, of blocks that are past at the start and of new ones.
func TestMirrorNodeTellsWhatTheRelayTells(t *testing.T) {
	contracts := compile(t, "Escrow.sol")
	var network struct{ RPC, Mirror string }
	harness.Command{
		Name: "dev", Settings: harness.Patient(),
		Args: []string{"dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"},
	}.Start(t).ReadReady(&network)
	client := must.Get(rpc.DialContext(t.Context(), network.RPC))(t)
	t.Cleanup(client.Close)
	var accounts []common.Address
	if err := client.CallContext(t.Context(), &accounts, "eth_accounts"); err != nil || len(accounts) == 0 {
		t.Fatal(accounts, err)
	}
	send := func(to *common.Address, value uint64, data []byte) *types.Receipt {
		t.Helper()
		tx := map[string]any{"from": accounts[0], "gas": hexutil.Uint64(2_000_000), "value": hexutil.Uint64(value), "data": hexutil.Bytes(data)}
		if to != nil {
			tx["to"] = to
		}
		var hash common.Hash
		must.Do(t, client.CallContext(t.Context(), &hash, "eth_sendTransaction", tx))
		var receipt *types.Receipt
		harness.Until(t, patience, "a receipt", func() bool {
			var err error
			receipt, err = ethclient.NewClient(client).TransactionReceipt(t.Context(), hash)
			return err == nil
		})
		if receipt.Status != types.ReceiptStatusSuccessful {
			t.Fatalf("transaction %s failed", hash)
		}
		return receipt
	}
	pack := func(contract, method string, args ...any) []byte {
		t.Helper()
		return must.Get(contracts[contract].abi.Pack(method, args...))(t)
	}
	factory := send(nil, 0, contracts["EscrowFactory"].code).ContractAddress
	escrow := func() {
		t.Helper()
		made := send(&factory, 10_000_000_000_000, pack("EscrowFactory", "deploy", common.Address{0xee}, accounts[0]))
		address := common.BytesToAddress(made.Logs[0].Topics[1].Bytes())
		send(&address, 0, pack("Escrow", "approve"))
		send(&address, 0, pack("Escrow", "release"))
	}
	const each = 3 // messages of an escrow
	for range 4 {
		escrow()
	}
	redis := redistest.Start(t)
	for name, url := range map[string]string{"relay": network.RPC, "mirror": "mirror+" + network.Mirror} {
		harness.Command{Name: name, Shown: 3000, Args: []string{"watch"}, Settings: []string{
			"CHAIN_ID=298", "RPC_URL=" + url, "FACTORY_ADDRESS=" + factory.Hex(), "START_BLOCK=0", "INSTANCE_ID=" + name, "DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "watch.db"),
			"WATCH_SINKS=redis://" + redis.Addr() + "/" + name, "WATCH_ADDRESS=off", "PRETTY_LOGS_ENABLED=false",
		}}.Start(t)
	}
	told := func(stream string, want int) map[string]watch.Event {
		t.Helper()
		var got map[string]watch.Event
		watchtest.Until(t, fmt.Sprintf("%s has handed on %d messages", stream, want), func() (bool, error) {
			got = map[string]watch.Event{}
			events, err := messages(t, redis, stream)
			for _, e := range events {
				got[e.Delivery] = e
			}
			return err == nil && len(got) >= want, errors.Join(errors.New(fmt.Sprint(len(got))), err)
		})
		return got
	}
	same := func(want int) {
		t.Helper()
		relay, mirror := told("relay", want), told("mirror", want)
		if diff := cmp.Diff(relay, mirror); diff != "" || len(relay) != want {
			t.Fatalf("%d messages; relay and mirror node differ:\n%s", len(relay), diff)
		}
	}
	same(4 * each)
	for range 3 {
		escrow()
	}
	same(7 * each)
}

// owners reads which process owns each shard. It is complete when each has one of the wanted processes.
func owners(t *testing.T, db *ledger.DB, names []string) (map[string]string, bool) {
	t.Helper()
	list, used := map[string]string{}, map[string]bool{}
	complete := true
	rows := must.Get(ledgertest.Pairs[string, string](t, db, "SELECT c.unit, COALESCE(l.owner, '') FROM cursors c LEFT JOIN leases l ON l.name = c.unit WHERE c.unit LIKE 'shard:%'"))(t)
	for unit, owner := range rows {
		name, _, _ := strings.Cut(owner, "/")
		list[unit], used[name] = name, true
	}
	for name := range used {
		complete = complete && strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
	}
	return list, complete && len(used) == len(names)
}

// TestFixedPartitions divides the shards by hand. A partition that nobody has is warned of, and its contracts wait for it.
func TestFixedPartitions(t *testing.T) {
	const children = 30
	chain := watchtest.New(t, children+1)
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	f := &fleet{t: t, members: map[string]*harness.Process{}}
	start := func(name string, partition int) {
		f.settings = []string{
			"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events"), "TOTAL_PARTITIONS=2", fmt.Sprintf("PARTITION_NUMBER=%d", partition),
		}
		f.start(name)
	}
	family(chain, children)
	for n := 1; n <= children; n++ {
		chain.Emit(watchtest.Emitter(n), approved, watchtest.Word(common.Address{1}))
	}
	chain.Commit()
	start("a", 0)
	harness.Until(t, patience, "the partition that nobody has is warned of", func() bool {
		return f.members["a"].Log.Has("no living process has these partitions")
	})
	start("b", 1)
	db := ledgertest.At(t, database)
	want := scan(t, chain)
	stored(t, db, want)
	handedOn(t, redis, want)
	var list map[string]string
	watchtest.Until(t, "both have shards", func() (complete bool, err error) {
		list, complete = owners(t, db, []string{"a", "b"})
		return complete, fmt.Errorf("owners %v", list)
	})
	for unit, owner := range list {
		var n int
		if _, err := fmt.Sscanf(unit, fmt.Sprintf("shard:%d:%%d", watchtest.ChainID), &n); err != nil || owner != []string{"a", "b"}[n%2] {
			t.Errorf("%s has %s, %v", owner, unit, err)
		}
	}
}

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
