package txm_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
)

// TestStoppedBetweenSteps stops an owner by SIGSTOP at a point between two steps, or while its bytes are on their way, until
// another one has taken over and done the work. When it goes on, its late writes are refused, nothing that it signed alone
// leaves, and bytes that arrive late are those that the ledger has for their slot.
func TestStoppedBetweenSteps(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	const refused = "another owner has the signer"
	for point, want := range map[string]struct {
		log  string // what the stopped owner says at last
		sent int    // transactions that it has handed over
	}{
		txmgr.PointSigned: {refused, 0},
		txmgr.PointStored: {"the lease cannot be trusted long enough to send", 0},
		txmgr.PointSent:   {refused, 3},
		held:              {refused, 1}, // the first of a batch; the others are behind it
	} {
		database := server.Database()
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			chain := startAnvil(t, "--no-mining")
			early, other := startProxy(t, chain.url), startProxy(t, chain.url)
			n := txmNode{
				Ledger: database, Chain: 31337, URLs: []string{early.url}, Keys: devKeys[:1], Lease: 3 * time.Second, Resend: time.Second,
				Instance: "stopped", Point: point, Stop: true,
			}
			c := newCaller(t, n)
			for range 3 { // before anybody looks, so that they leave together
				c.must()
			}
			if point == held {
				early.spoil("eth_sendRawTransaction", held, 1)
			}
			stopped := n.start(t)
			if point == held {
				until(t, "the bytes are on their way", func() bool { return early.left() == 0 })
				stopped.Freeze()
			}
			until(t, "the owner is stopped at "+point, func() bool { return halted(stopped) })
			if got := len(early.sent()); got != want.sent {
				t.Fatalf("%d transactions have left, want %d", got, want.sent)
			}
			n.URLs, n.Instance, n.Point = []string{other.url}, "other", ""
			n.start(t)
			until(t, "the other has sent", func() bool { return c.owner() == "other" && len(other.sent()) >= 3 })
			until(t, "all are mined", func() bool {
				chain.mine(1)
				return c.count("SELECT count(*) FROM intents WHERE NOT final") == 0
			})
			if point == held {
				early.release()
			}
			stopped.Thaw()
			until(t, "the owner that was stopped finds out", func() bool { return stopped.Log.Has(want.log) })
			next := c.must()
			until(t, "the next one is mined", func() bool { chain.mine(1); return c.get(next.ID).Final })
			c.settled()
			c.audit(chain.url)
			c.sameBytes()
			for _, raw := range append(early.sent(), other.sent()...) {
				var tx types.Transaction
				must.Do(t, tx.UnmarshalBinary(hexutil.MustDecode(raw)))
				if c.count("SELECT count(*) FROM attempts WHERE hash = $1 AND nonce = $2", tx.Hash().Hex(), int64(tx.Nonce())) != 1 {
					t.Errorf("transaction %s with nonce %d was sent, and the ledger does not have it", tx.Hash(), tx.Nonce())
				}
			}
		})
	}
}

// halted reports whether the process is stopped by a signal.
func halted(p *harness.Process) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/stat")
	if err != nil {
		return false
	}
	_, fields, found := strings.Cut(string(text), ") ") // the state follows the name
	return found && strings.HasPrefix(fields, "T")
}
