package devnet

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/ethclient"

	"lockstep/bench"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

// running is a network that is ready.
type running struct {
	*harness.Process
	RPC, Mirror string
	Accounts    []struct{ PrivateKey string }
	start       time.Duration
}

func dev(t *testing.T, flags ...string) *running {
	t.Helper()
	args := append([]string{"dev", "--json", "--ui", "", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"}, flags...)
	harness.Program(t) // is built before the clock starts
	began := time.Now()
	n := &running{Process: harness.Command{Name: "lockstep dev", Settings: append(harness.Patient(), "NONCE_GAP_HOLD_MS=240000"), Args: args, Shown: 32 << 10}.Start(t)}
	n.ReadReady(n)
	n.start = time.Since(began)
	return n
}

// transfers sends value transfers of a crowd of senders through the relay, which must all be executed once and in order.
func (n *running) transfers(t *testing.T, senders, each int, crowd string) (perSecond float64) {
	t.Helper()
	funder := must.Get(bench.ParseKey(n.Accounts[1].PrivateKey))(t)
	report, err := bench.Run(t.Context(), bench.Config{
		URLs: []string{n.RPC}, ConsensusLog: n.Mirror,
		Senders: senders, Count: each, Funder: funder, Seed: crowd, Timeout: harness.StartLimit,
	})
	if err != nil || !report.Clean() {
		text, _ := json.Marshal(report)
		t.Fatalf("%v: %s", err, text)
	}
	return report.AcceptedTPS
}

// blocks is the number of the newest block.
func (n *running) blocks(t *testing.T) uint64 {
	t.Helper()
	client := must.Get(ethclient.DialContext(t.Context(), n.RPC))(t)
	defer client.Close()
	return must.Get(client.BlockNumber(t.Context()))(t)
}

func megabytes(bytes int) float64 { return float64(bytes) / (1 << 20) }

// TestWeight starts networks and sends 10,000 transfers through one of them. It prints what it measures; the
// figures of a quiet machine are in docs/internals/NETWORK.md.
func TestWeight(t *testing.T) {
	const starts = 5
	var took, weighs, own []float64
	var n *running
	for range starts {
		if n != nil {
			n.Stop()
		}
		n = dev(t)
		took = append(took, float64(n.start.Microseconds())/1000)
		before := 0
		harness.Until(t, harness.StartLimit, "memory is at rest", func() bool {
			now := n.Memory()
			rests := now == before
			before = now
			return rests
		})
		weighs, own = append(weighs, megabytes(n.Memory())), append(own, megabytes(n.OwnMemory()))
	}
	rate := n.transfers(t, 100, 100, "devnet")
	slices.Sort(took)
	slices.Sort(weighs)
	slices.Sort(own)
	t.Logf("start %.0f ms (%.0f to %.0f), idle %.0f MiB (%.0f to %.0f), %.0f without the program's file, 10,000 transfers at %.0f/s, then %.0f MiB; %d processors",
		took[starts/2], took[0], took[starts-1], weighs[starts/2], weighs[0], weighs[starts-1], own[starts/2], rate, megabytes(n.Memory()), runtime.NumCPU())
	const heavy = 60e6 / (1 << 20) // MiB
	if weighs[0] > heavy {
		t.Errorf("an idle network has %.0f MiB", weighs[0])
	}
}
