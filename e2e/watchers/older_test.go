package watchers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// TestOlderEnvironment runs a watcher with the older environment variables alone, on anvil, through a reorganisation of depth 3 across the
// discovery of a contract. The older metrics and views tell what happened.
func TestOlderEnvironment(t *testing.T) {
	contracts := compile(t, "Escrow.sol")
	chain := startAnvil(t)
	factory := chain.mined(chain.send(nil, 0, contracts["EscrowFactory"].code)).ContractAddress
	redis := redistest.Start(t)
	database := "sqlite:" + filepath.Join(t.TempDir(), "watch.db")
	port := strconv.Itoa(proctest.FreePort(t))
	process := harness.Command{Name: "watch", Shown: 3000, Args: []string{"watch"}, Settings: []string{
		fmt.Sprintf("CHAIN_ID=%d", anvilID), "RPC_URL=" + chain.url, "FACTORY_ADDRESS=" + factory.Hex(), "START_BLOCK=1", "INSTANCE_ID=older", "DATABASE_URL=" + database,
		"WATCH_SINKS=redis://" + redis.Addr() + "/events", "WATCH_LOOPBACK_TOKEN=false", "WATCH_ADDRESS=127.0.0.1:" + port, "PRETTY_LOGS_ENABLED=false",
	}}.Start(t)
	deploy := must.Get(contracts["EscrowFactory"].abi.Pack("deploy", common.Address{0xee}, chain.payer()))(t)
	approve := must.Get(contracts["Escrow"].abi.Pack("approve"))(t)
	release := must.Get(contracts["Escrow"].abi.Pack("release"))(t)
	create := func() common.Address {
		return common.BytesToAddress(chain.mined(chain.send(&factory, 1000, deploy)).Logs[0].Topics[1].Bytes())
	}
	var told []string
	wait := func(lines ...string) {
		t.Helper()
		told = append(told, lines...)
		var got []string
		watchtest.Until(t, strings.Join(told, ", "), func() (bool, error) {
			got = got[:0]
			seen := map[string]bool{} // a message comes again where the answer of Redis was late
			events, err := messages(t, redis, "events")
			if err != nil {
				return false, err
			}
			for _, e := range events {
				key := fmt.Sprint(e.Address, e.Seq)
				if seen[key] {
					continue
				}
				seen[key] = true
				sign := "+"
				if e.Removed {
					sign = "-"
				}
				got = append(got, fmt.Sprintf("%s%s@%d", sign, e.Event, e.BlockNumber))
			}
			return len(got) >= len(told), errors.New(strings.Join(got, ", "))
		})
		// There is an order within a contract alone; each step here is about what came with it.
		if diff := cmp.Diff(slices.Sorted(slices.Values(told)), slices.Sorted(slices.Values(got))); diff != "" {
			t.Fatal(diff)
		}
	}
	read := func(block uint64) {
		t.Helper()
		watchtest.Until(t, fmt.Sprintf("block %d is read", block), func() (bool, error) {
			text, err := get(t, "http://127.0.0.1:"+port+"/v1/watches")
			var body struct{ Watches []watch.State }
			if err := errors.Join(err, json.Unmarshal(text, &body)); err != nil {
				return false, err
			}
			return len(body.Watches) == 1 && body.Watches[0].Block == block, errors.New(string(text))
		})
	}
	read(1)
	first := create() // 2
	wait("+EscrowDeployed@2")
	read(2)
	second := create() // 3
	wait("+EscrowDeployed@3")
	read(3)
	chain.mined(chain.send(&second, 0, approve)) // 4
	wait("+Approved@4")
	chain.call("anvil_mine", "0x1") // 5
	read(5)
	chain.call("anvil_reorg", 3, []any{}) // 3 to 5 are empty now
	wait("-Approved@4", "-EscrowDeployed@3")
	nonce := must.Get(chain.NonceAt(t.Context(), chain.payer(), nil))(t)
	chain.nonce = nonce
	db := ledgertest.At(t, database)
	registry := func(want ...string) {
		t.Helper()
		got := ledgertest.List[string](t, db, "SELECT address || ' ' || status || ' ' || payer || ' ' || payee || ' ' || amount || ' ' || discovered_block_number FROM escrow_registry WHERE chain_id = $1 ORDER BY discovered_block_number", int64(anvilID))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	line := func(escrow common.Address, status string, block int) string {
		return fmt.Sprintf("%s %s %s %s 1000 %d", escrow.Hex(), status, chain.payer().Hex(), common.Address{0xee}.Hex(), block)
	}
	registry(line(first, "active", 2))
	again := create() // 6
	if again != second {
		t.Fatalf("the escrow is %s, it was %s", again, second)
	}
	wait("+EscrowDeployed@6")
	read(6)
	chain.mined(chain.send(&again, 0, approve)) // 7
	wait("+Approved@7")
	chain.mined(chain.send(&again, 0, release)) // 8
	wait("+Released@8")
	registry(line(first, "active", 2), line(again, "released", 6))

	for name, want := range map[string]string{
		"relayer_escrows_monitored": "2", "relayer_events_published": "8", "relayer_is_leader": "1", "total_active_instances": "1",
		"total_escrows_registered": "2", "leader_election_count": "1", "event_deduplication_hits": "0", "watch_reorgs_total": "1",
		"relayer_blocks_processed": "14", // 1 to 5, 3 to 5 once more, 6 to 8, and the blocks 2, 3 and 6 for the contracts that they announce
	} {
		watchtest.Until(t, name+" is "+want, func() (bool, error) {
			got, err := metric(t, "http://127.0.0.1:"+port, name)
			return got == want, errors.Join(errors.New(got), err)
		})
	}
	heartbeat(t, db, "http://127.0.0.1:"+port)
	process.Stop()
	for query, want := range map[ledger.SQL]int64{
		"SELECT COUNT(*) FROM processed_events WHERE event_type IN ('Approved', 'Released') AND processed_by_instance = 'older' AND processed_at > 0 AND block_number > 6":                                                2,
		"SELECT COUNT(*) FROM processed_events WHERE contract_address = '" + ledger.SQL(again.Hex()) + "' AND event_id LIKE '0x%:%'":                                                                                      2,
		"SELECT COUNT(*) FROM relayer_instances WHERE instance_id = 'older' AND status = 'dead' AND escrows_monitored = 2 AND current_block = 8 AND partition_number = 0 AND total_partitions = 1 AND last_heartbeat > 0": 1,
		"SELECT COUNT(*) FROM escrow_records WHERE status = 'released' AND amount = '1000' AND created_at <= updated_at":                                                                                                  1,
		"SELECT COUNT(*) FROM escrow_registry WHERE last_monitored_block = 8 AND discovered_at > 0":                                                                                                                       2,
	} {
		if got, err := ledgertest.One[int64](t, db, query); err != nil || got != want {
			t.Errorf("%s: %d, want %d, %v", query, got, want, err)
		}
	}
}

// heartbeat holds the age of the last heartbeat against the row that the process writes with each: it grows with the row's age, is never
// more, and begins anew with the next row.
func heartbeat(t *testing.T, db *ledger.DB, url string) {
	t.Helper()
	var written int64
	row := func() (int64, error) {
		return ledgertest.One[int64](t, db, "SELECT last_heartbeat FROM relayer_instances")
	}
	// look reads the metric between two looks at the same row.
	look := func(what string, holds func(age float64) bool) {
		t.Helper()
		watchtest.Until(t, what, func() (bool, error) {
			before, err := row()
			if err != nil {
				return false, err
			}
			text, err := metric(t, url, "relayer_last_heartbeat_age")
			if err != nil {
				return false, err
			}
			age, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return false, err
			}
			after, err := row()
			if err != nil || before != after {
				return false, err
			}
			limit := time.Since(time.UnixMicro(before)).Seconds()
			written = before
			return age >= 0 && age <= limit && holds(age), fmt.Errorf("%s; the row is %.3f seconds old", text, limit)
		})
	}
	look("the age grows", func(age float64) bool { return age > 1 })
	last := written
	look("the age begins anew", func(age float64) bool { return written > last }) // less than the age of the new row, as always
}

// get reads what a listener answers.
func get(t *testing.T, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	return io.ReadAll(answer.Body)
}

// metric reads one value of a listener.
func metric(t *testing.T, url, name string) (string, error) {
	text, err := get(t, url+"/metrics")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value), err
		}
	}
	return "", err
}
