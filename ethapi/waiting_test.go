package ethapi

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/pending"
	"lockstep/lock"
	"lockstep/precheck"
	"lockstep/rpc"
	"lockstep/submit"
)

// richChain is a mirror node on which every sender is known and has enough.
type richChain struct{}

func (richChain) Account(context.Context, common.Address) (submit.Account, bool, error) {
	return submit.Account{Balance: 1_000_000 * hedera.Hbar}, true, nil
}

func (richChain) GasPrice(context.Context) (*big.Int, error) {
	return big.NewInt(710_000_000_000), nil
}

func (richChain) Record(context.Context, hedera.TransactionID) (submit.Record, error) {
	return submit.RecordOpen, nil
}
func (richChain) Changed(common.Address) {}

// noNodes is a network that takes nothing.
type noNodes struct{}

func (noNodes) Submit(context.Context, consensus.Submission) (submit.Pending, error) {
	return nil, &consensus.NotSentError{Err: errors.New("no node")}
}

func (noNodes) OfferAgain(context.Context, consensus.Submission, submit.Pending) bool { return false }
func (noNodes) Await(context.Context, hedera.TransactionID, hedera.ID) error          { return nil }

// Knows implements submit.Nodes.
func (noNodes) Knows(context.Context, hedera.TransactionID, hedera.ID) (bool, error) {
	return false, nil
}

// inUse is what the process uses after a thorough collection, in bytes.
func inUse() (heap, stacks int64) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse), int64(m.StackInuse)
}

// gauge reads the one series of a collector that is a gauge.
func gauge(t *testing.T, collectors []prometheus.Collector, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name && f.GetType() == dto.MetricType_GAUGE {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no gauge %s", name)
	return 0
}

// sendServer is a WebSocket server with the one method.
func sendServer(t *testing.T, s Sender, inFlight int) *rpc.WSServer {
	t.Helper()
	config := must.Get(env.ParseAsWithOptions[rpc.Config](env.Options{Environment: map[string]string{}}))(t)
	config.WebSocket.MaxInFlight = inFlight
	registry := must.Get(rpc.NewRegistry(SendRawTransaction(s)))(t)
	dispatcher := must.Get(rpc.NewDispatcher(config, registry, rpc.Options{Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(), Unknown: UnknownMethod}))(t)
	return rpc.NewWSServer(dispatcher)
}

// upgrade opens a WebSocket connection that keeps no buffers.
func upgrade(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReaderSize(conn, 16)
	for line := "first"; line != "\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// TestWaitingMemory: a transaction that came over WebSocket and is queued behind others
// of its sender costs little memory, with and without a hold-back window.
func TestWaitingMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs memory of its own for everything")
	}
	for _, window := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprintf("window %v", window), func(t *testing.T) { waitingMemory(t, window) })
	}
}

func waitingMemory(t *testing.T, window time.Duration) {
	const waiting, most = 5000, 3 << 10 // measured: 2.5 KB; a goroutine would be more than the rest
	log := slog.New(slog.DiscardHandler)
	ordering := lock.DefaultConfig()
	ordering.MaxQueue, ordering.MaxHold, ordering.Window = 0, envx.Millis(time.Hour), envx.Millis(window)
	locks := must.Get(lock.New(ordering, lock.Deps{Log: log}))(t)
	unlimited := must.Get(limit.New(limit.Config{}, limit.Deps{}))(t)
	submitter := must.Get(submit.New(submit.Config{Returns: submit.ReturnsConsensus, MaxInProgress: waiting}, submit.Deps{
		Rules: precheck.Rules{ChainID: 298, Config: precheck.Config{
			CallDataSizeLimit: 131072, TransactionSizeLimit: 133120, MaxGasLimit: 15_000_000, GasPriceTolerance: 10_000_000_000, Jumbo: true,
		}},
		Locks: locks, Ordering: ordering, Nodes: noNodes{}, Chain: richChain{}, Log: log, WaitTime: time.Second,
		Pool: pending.Disabled(nil), Promises: pending.NoPromises(), Trace: lifecycle.Disabled(), Budget: unlimited, Nonces: limit.NewWrongNonces(limit.Config{}, nil),
		Charged: submit.TellNobody, Asker: func(context.Context) submit.Asker { return submit.Asker{} },
		Subsidy: func(*common.Address) (consensus.Subsidy, bool) { return consensus.Subsidy{}, false },
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 2)
	go func() { stopped <- locks.Run(ctx) }()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { stopped <- sendServer(t, submitter, waiting).Run(ctx, ln) }()
	conn := upgrade(t, ln.Addr().String())

	key := must.Get(crypto.GenerateKey())(t)
	sign := func(nonce uint64) []byte {
		to := common.Address{1}
		raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
			ChainID: big.NewInt(298), Nonce: nonce, Gas: 21000, GasFeeCap: big.NewInt(710_000_000_000), To: &to, Value: big.NewInt(1e10),
		}).MarshalBinary())(t)
		return raw
	}
	holder, err := submitter.Enter(sign(0)) // has the turn, and does not go on
	if err != nil {
		t.Fatal(err)
	}
	heapBefore, stacksBefore := inUse()
	for i := range waiting {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x%s"]}`, i, hex.EncodeToString(sign(uint64(i+1))))
		head := []byte{0x81, 0x80 | 126, byte(len(call) >> 8), byte(len(call)), 0, 0, 0, 0}
		must.Get(conn.Write(append(head, call...)))(t)
	}
	deadline := time.Now().Add(patience)
	for gauge(t, submitter.Collectors(), "rpc_relay_tx_in_progress") < waiting {
		if time.Now().After(deadline) {
			t.Fatal("not all transactions are waiting")
		}
		<-time.After(10 * time.Millisecond)
	}
	for { // what brought the transactions here may still be about to end
		heap, stacks := inUse()
		heap, stacks = (heap-heapBefore)/waiting, (stacks-stacksBefore)/waiting
		if heap+stacks <= most {
			t.Logf("%d bytes for each waiting transaction: heap %d, stacks %d", heap+stacks, heap, stacks)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a waiting transaction costs %d bytes, more than %d", heap+stacks, most)
		}
		<-time.After(100 * time.Millisecond)
	}

	cancel()
	go io.Copy(io.Discard, conn)
	holder.Leave()
	for range 2 {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	if left := submitter.Drain(context.Background()); left != 0 {
		t.Errorf("%d transactions left", left)
	}
}
