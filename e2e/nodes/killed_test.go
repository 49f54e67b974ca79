package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/devnet/node"
	"lockstep/internal/hedera"
)

// A node is killed in the middle of a burst, the moment it takes a transaction or right
// before. Whatever it may have goes to no other node; what never left goes on at once.
func TestNodeKilled(t *testing.T) {
	for name, taken := range map[string]bool{"with the transaction taken": true, "before it is taken": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const wallets, size, fatal = 3, 30, 25
			var doors atomic.Pointer[map[hedera.ID]*door]
			var calls atomic.Int64
			var victim atomic.Pointer[ledger.Submission]
			log, lines := &offerLog{seen: map[hedera.TransactionID][]offer{}}, new(journal)
			n := startNetwork(t, devnet.Config{Nodes: 3, ConsensusLatency: 30 * time.Millisecond, Fault: func(c node.Call) node.Fault {
				if c.Submission == nil {
					return node.Fault{}
				}
				last := calls.Add(1) == fatal
				log.add(c.Submission, last)
				if !last {
					return node.Fault{}
				}
				victim.Store(c.Submission)
				(*doors.Load())[c.Submission.Node].kill()
				return node.Fault{DropBefore: !taken}
			}})
			opened := newDoors(t, n)
			doors.Store(&opened)
			// Of what was inside the door nobody will ever know: the client's time runs out, which is three times as long. A node
			// that is busy for some seconds is reached within it.
			r := startLogging(t, n, lines, slog.LevelDebug, "HEDERA_NETWORK="+networkOf(t, opened), "SDK_REQUEST_TIMEOUT=10000", "SDK_GRPC_DEADLINE=10s",
				"NONCE_RECOVERY_MS=50000", "LOCK_MAX_HOLD_MS=30000", "SHUTDOWN_DRAIN_TIMEOUT_MS=100")
			answers := make([][]rpc.BatchElem, wallets)
			var clients sync.WaitGroup
			for i := range answers {
				w := newWallet(t, n, i)
				for range size {
					raw := w.sign(&common.Address{9}, nil)
					answers[i] = append(answers[i], rpc.BatchElem{Method: "eth_sendRawTransaction", Args: []any{hexutil.Encode(raw)}, Result: new(common.Hash)})
				}
				clients.Go(func() {
					if err := r.BatchCallContext(context.WithoutCancel(t.Context()), answers[i]); err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()

			for id, offers := range log.seen {
				if len(offers) != 1 {
					t.Errorf("%s was offered to %v; the relay says:\n%s", id, offers, lines.about(id.String(), "level=WARN"))
				}
			}
			executed := executedOnce(t, n)
			if victim.Load() == nil {
				t.Fatal("no node was killed")
			}
			for i, answer := range answers {
				open := checkAnswers(t, answer, executed)
				if newWallet(t, n, i).address() != victim.Load().Ethereum.From() {
					continue
				}
				if got := open >= 0; got == taken {
					t.Errorf("the sender whose node was killed is told that one is open: %v", got)
				}
				if last := answer[size-1]; taken && last.Error != nil {
					t.Errorf("the rest did not go elsewhere: %v", last.Error)
				}
			}
		})
	}
}

// offerLog is who was offered what, and when.
type offerLog struct {
	mu   sync.Mutex
	seen map[hedera.TransactionID][]offer
}

type offer struct {
	node   hedera.ID
	at     time.Time
	victim bool
}

func (o offer) String() string {
	return fmt.Sprintf("%s at %s (victim: %v)", o.node, o.at.Format(time.StampMicro), o.victim)
}

func (l *offerLog) add(sub *ledger.Submission, victim bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[sub.ID] = append(l.seen[sub.ID], offer{sub.Node, time.Now(), victim})
}

// networkOf writes the doors' addresses as the relay's settings want them.
func networkOf(t *testing.T, doors map[hedera.ID]*door) string {
	t.Helper()
	nodes := map[string]string{}
	for id, d := range doors {
		nodes[d.addr] = id.String()
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// executedOnce returns the hashes that were executed, and fails if anything reached consensus
// twice or out of its sender's order.
func executedOnce(t *testing.T, n *devnet.Network) map[common.Hash]bool {
	t.Helper()
	hashes, next := map[common.Hash]bool{}, map[common.Address]uint64{}
	for _, e := range n.Ledger().Handled().ConsensusLog(0, 1000) {
		if hashes[e.Hash] || !hedera.Succeeded(e.Status) || e.Nonce != next[e.Sender] {
			t.Errorf("nonce %d at node %s, twice %v, next was %d: %s", e.Nonce, e.Node, hashes[e.Hash], next[e.Sender], e.Status)
		}
		hashes[e.Hash] = true
		next[e.Sender]++
	}
	return hashes
}

// checkAnswers compares what a client was told of its burst with what was executed: hashes,
// then perhaps one that is open, and nothing but refusals after it. It returns the place of
// the open one, or -1.
func checkAnswers(t *testing.T, answers []rpc.BatchElem, executed map[common.Hash]bool) (open int) {
	t.Helper()
	open = -1
	for i, answer := range answers {
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(hexutil.MustDecode(answer.Args[0].(string))); err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.Error == nil && executed[tx.Hash()] && open < 0:
		case answer.Error != nil && provisional(answer.Error) && open < 0:
			open = i
		case answer.Error != nil && !executed[tx.Hash()] && open >= 0:
		default:
			t.Errorf("nonce %d: executed %v, told %v, open is %d", tx.Nonce(), executed[tx.Hash()], answer.Error, open)
		}
	}
	return open
}

// provisional tells whether an error says that the outcome is not known.
func provisional(err error) bool {
	var detailed rpc.DataError
	if !errors.As(err, &detailed) {
		return false
	}
	data, _ := detailed.ErrorData().(map[string]any)
	return data["provisional"] == true
}
