package watchers

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

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
