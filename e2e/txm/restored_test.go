package txm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestRestoredLedger puts an older copy of the ledger in its place. The manager sees that
// what it had committed is missing and signs nothing until an operator has looked.
func TestRestoredLedger(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	n := txmNode{
		Ledger: "sqlite:" + path, Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1], Instance: "node",
		Reconcile: time.Second, Lease: 3 * time.Second,
	}
	c := newCaller(t, n)
	mark := func() string { text, _ := os.ReadFile(path + ".mark"); return string(text) }
	stop := func(p *harness.Process) {
		p.Signal(syscall.SIGTERM)
		<-p.Ended
	}
	p := n.start(t)
	c.many(3)
	c.settled()
	stop(p)
	copied := filepath.Join(t.TempDir(), "copy.db")
	must.Get(c.db.SQL().ExecContext(t.Context(), "VACUUM INTO $1", copied))(t)
	before := mark()
	p = n.start(t)
	c.many(3)
	c.settled()
	until(t, "the ledger has moved on", func() bool { return mark() != before })
	stop(p)
	must.Do(t, c.db.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + suffix) // gone with the last connection, as a rule
	}
	must.Do(t, os.Rename(copied, path))
	c = newCaller(t, n)
	n.start(t)
	waiting := c.must()
	until(t, "signing is halted", func() bool { return c.count("SELECT count(*) FROM signer_chains WHERE halted <> ''") == 1 })
	signer := keyOf(devKeys[0]).Account()
	sent := func() uint64 {
		var text string
		chain.call("eth_getTransactionCount", &text, signer, "pending")
		return number(text)
	}
	if got := c.get(waiting.ID); got.Status != txmgr.StatusAccepted || sent() != 6 {
		t.Fatalf("on a restored ledger an intent became %s, and %d transactions were sent", got.Status, sent())
	}
	must.Get(c.m.Reconcile(t.Context(), "31337", signer, "test", txmgr.ReconcileOptions{}))(t)
	c.reaches(waiting.ID, txmgr.StatusConfirmed)
	if runs := c.executions(chain.url); len(runs) != 7 || sent() != 7 {
		t.Fatalf("%d intents ran in %d transactions, want 7: %s", len(runs), sent(), fmt.Sprint(runs))
	}
}
