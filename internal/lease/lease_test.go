package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/sleep"
)

func holders(t *testing.T, url string, ttl time.Duration, names ...string) []*Holder {
	t.Helper()
	var list []*Holder
	for _, name := range names {
		db := must.Get(ledger.Open(t.Context(), url))(t)
		t.Cleanup(func() { _ = db.Close() })
		list = append(list, NewHolder(db, "test", name, ttl, slog.New(slog.DiscardHandler)))
	}
	return list
}

func fenced(t *testing.T, k *Holder, f Fence) error {
	t.Helper()
	return k.db.Write(t.Context(), func(tx *ledger.Tx) error { return f.Check(t.Context(), tx) })
}

func both(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Start(t).Database()) })
}

// TestOneOwner: a lease has one owner, an expired one gets a new term, and the old term
// writes nothing and comes back never.
func TestOneOwner(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		k := holders(t, url, time.Hour, "one", "two")
		first := must.Get(k[0].Acquire(t.Context(), "thing"))(t)
		if _, err := k[1].Acquire(t.Context(), "thing"); !errors.Is(err, ErrHeld) {
			t.Fatalf("a second owner: %v", err)
		}
		if again, err := k[0].Acquire(t.Context(), "thing"); err != nil || again != first {
			t.Fatalf("the holder asks again: %v", err)
		}
		if err := fenced(t, k[0], first.Fence()); err != nil || !first.Trusted(time.Minute) {
			t.Fatalf("the holder's own term: %v", err)
		}
		expire(t, k[0])
		second, err := k[1].Acquire(t.Context(), "thing")
		if err != nil || second.Term() != first.Term()+1 {
			t.Fatalf("after the expiry: %v", err)
		}
		if err := fenced(t, k[0], first.Fence()); !errors.Is(err, ErrDeposed) {
			t.Fatalf("the old term: %v", err)
		}
		must.Do(t, k[0].renew(t.Context()))
		select {
		case <-first.Lost():
		default:
			t.Fatal("a renewal did not find the lease lost")
		}
		if first.Trusted(0) {
			t.Fatal("a lost lease is trusted")
		}
		must.Do(t, second.Release(t.Context()))
		third, err := k[0].Acquire(t.Context(), "thing")
		if err != nil || third.Term() != second.Term()+1 {
			t.Fatalf("after the release: %v", err)
		}
	})
}

// expire lets all leases of a holder expire by the database's clock.
func expire(t *testing.T, k *Holder) {
	t.Helper()
	must.Do(t, k.db.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE leases SET expires_at = 1 WHERE owner = $1", k.owner)
		return err
	}))
}

// TestTrustEnds: a holder that cannot renew stops to trust its lease before it expires.
func TestTrustEnds(t *testing.T) {
	k := holders(t, "memory:", time.Hour, "one")[0]
	l := must.Get(k.Acquire(t.Context(), "thing"))(t)
	if !l.Trusted(47*time.Minute) || l.Trusted(48*time.Minute) {
		t.Fatal("an hour less a fifth is the time of trust")
	}
}

// TestSameName: two living processes of one name are an error; one that has ended is not.
func TestSameName(t *testing.T) {
	k := holders(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), 200*time.Millisecond, "same", "same")
	must.Do(t, k[0].Register(t.Context()))
	k[0].ttl = time.Hour
	must.Do(t, k[0].renew(t.Context()))
	if err := k[1].Register(t.Context()); !errors.Is(err, ErrHeld) {
		t.Fatalf("a second living process of the name: %v", err)
	}
	if err := k[0].db.Close(); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	k[1].ttl = time.Hour // so that it lives when it is looked for, however slow the machine is
	if err := k[1].Register(t.Context()); err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if nodes, err := k[1].Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0] != "same" {
		t.Fatalf("nodes %v, %v", nodes, err)
	}
}

// TestSlowAnswer: that a name was held when the database was asked, an answer that took long does not end a process, which asks again.
func TestSlowAnswer(t *testing.T) {
	k := holders(t, pgtest.Start(t).Database(), time.Second, "same", "same")
	must.Do(t, k[0].Register(t.Context()))
	locked, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- k[0].db.Write(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT name FROM leases FOR UPDATE")
			close(locked)
			<-release
			return err
		})
	}()
	<-locked
	patience := now() + k[1].ttl + k[1].renewal()
	registered := make(chan error, 1)
	go func() { registered <- k[1].Register(t.Context()) }()
	for waiting := 0; len(registered) == 0 && (waiting == 0 || now() <= patience); {
		if !sleep.For(t.Context(), 10*time.Millisecond) {
			t.Fatal("the question does not come")
		}
		must.Do(t, k[0].db.Read(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.One(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", nil, &waiting)
			return err
		}))
	}
	close(release)
	<-ended
	if err := <-registered; err != nil {
		t.Fatalf("nobody has the name: %v", err)
	}
}

// TestPreferred: with a tenth node about a tenth of the names move, and all of them to it.
func TestPreferred(t *testing.T) {
	var nodes []string
	for n := range 9 {
		nodes = append(nodes, fmt.Sprint("node", n))
	}
	const names = 5000
	moved := 0
	load := map[string]int{}
	for n := range names {
		name := fmt.Sprint("thing", n)
		before, after := Preferred(name, nodes), Preferred(name, append(nodes[:9:9], "new"))
		load[before]++
		if before == after {
			continue
		}
		if moved++; after != "new" {
			t.Fatalf("%s moved from %s to %s", name, before, after)
		}
	}
	if moved < names/20 || moved > names/6 {
		t.Errorf("%d of %d names moved", moved, names)
	}
	for _, node := range nodes {
		if load[node] < names/9*3/4 || load[node] > names/9*5/4 {
			t.Errorf("%s has %d of %d names", node, load[node], names)
		}
	}
}
