package devnet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/must"
)

// kept makes a network with a file of state and runs it until stop is called.
func kept(t *testing.T, path string, interval time.Duration) (n *Network, stop func()) {
	t.Helper()
	n = must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path, StateInterval: interval}))(t)
	return n, must.Run(t, n.Run)
}

// TestStateIsKept: a network goes on where the one before it ended.
func TestStateIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	n, stop := kept(t, path, time.Hour)
	n.Ledger().Mine(5, 0)
	n.Ledger().SetAutomine(false)
	edit(t, n.Ledger()) // in a block that is open at the end
	want := n.Ledger().View().LatestBlock().Number + 1
	stop()
	n, stop = kept(t, path, time.Hour)
	defer stop()
	if got := n.Ledger().View().LatestBlock().Number; got != want {
		t.Errorf("block %d, not %d", got, want)
	}
	if a, _ := n.Ledger().View().Account(devaccounts.All()[0].ID); a.Nonce != 77 {
		t.Errorf("nonce %d", a.Nonce)
	}
}

func edit(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	nonce := uint64(77)
	must.Do(t, l.Edit(ledger.Edit{Address: devaccounts.All()[0].Address, Nonce: &nonce}))
}

// TestStateIsSavedMeanwhile: what happened is in the file soon, so that little is lost when the
// process is killed.
func TestStateIsSavedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	n, stop := kept(t, path, time.Millisecond)
	defer stop()
	edit(t, n.Ledger())
	copied := filepath.Join(t.TempDir(), "copy")
	for tries := 0; ; tries++ {
		state, err := os.ReadFile(path) // whole at every moment
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, os.WriteFile(copied, state, 0o600))
		other := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: copied}))(t)
		a, _ := other.Ledger().View().Account(devaccounts.All()[0].ID)
		other.Close()
		if a.Nonce == 77 {
			return
		}
		if tries > 10_000 {
			t.Fatal("nothing is saved")
		}
	}
}

// TestStateThatCannotBeLoaded is told, and stays as it is.
func TestStateThatCannotBeLoaded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	must.Do(t, os.WriteFile(path, []byte("something else"), 0o600))
	for _, tt := range []struct{ path, says string }{
		{path, "--state " + path + " cannot be loaded: it is no saved state"},
		{filepath.Join(dir, "none", "state"), "--state"},
		{dir, "--state"},
	} {
		n, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: tt.path})
		if err == nil {
			n.Close()
			t.Errorf("%s: a network", tt.path)
		} else if !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "something else" {
		t.Errorf("the file has become %q", text)
	}
}

// reloaded is a network with the state of this one.
func (w *world) reloaded() *world {
	w.t.Helper()
	state := must.Get(w.ledger.Dump(1 << 30))(w.t)
	n := must.Get(New(w.t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fees: w.fees}))(w.t)
	w.t.Cleanup(n.Close)
	n.Ledger().SetNodes(w.ledger.View().Nodes()) // their ports are in a file
	must.Do(w.t, n.Ledger().Load(strings.NewReader(string(state)), 1<<30))
	again := must.Get(n.Ledger().Dump(1 << 30))(w.t)
	if string(state) != string(again) {
		w.t.Fatalf("state of %d bytes became other %d bytes", len(state), len(again))
	}
	other := *w
	other.use(n)
	return &other
}

// TestStateIsOneNetworks: a second network is refused while the first one has the file, and has it after that.
func TestStateIsOneNetworks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	_, stop := kept(t, path, time.Hour)
	_, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path})
	if !errors.Is(err, ErrStateInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	stop()
	second := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", State: path}))(t)
	second.Close()
	_, stop = kept(t, path, time.Hour)
	stop()
}
