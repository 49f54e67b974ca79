package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
)

// TestReleaseFails: what could not be given back is given back later, and is not renewed for ever with nobody who works on it.
func TestReleaseFails(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		k := keepers(t, url, time.Hour, "one", "two")
		for name, release := range map[string]func(context.Context, *Lease) error{
			"one":  func(ctx context.Context, l *Lease) error { return l.Release(ctx) },
			"many": func(ctx context.Context, l *Lease) error { return k[0].ReleaseAll(ctx, []*Lease{l}) },
		} {
			l := must.Get(k[0].Acquire(t.Context(), name))(t)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if release(ended, l) == nil {
				t.Fatalf("%s: released without a database", name)
			}
			if _, err := k[1].Acquire(t.Context(), name); !errors.Is(err, ErrHeld) {
				t.Fatalf("%s: before the next renewal: %v", name, err)
			}
			must.Do(t, k[0].renew(t.Context()))
			if _, err := k[1].Acquire(t.Context(), name); err != nil {
				t.Errorf("%s: nobody has it: %v", name, err)
			}
		}
		if len(k[0].taking) != 0 {
			t.Errorf("left: %v", k[0].taking)
		}
	})
}

// TestReleaseFailsAndComesBack: who has the lease again keeps it.
func TestReleaseFailsAndComesBack(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		k := keepers(t, url, time.Hour, "one", "two")
		l := must.Get(k[0].Acquire(t.Context(), "thing"))(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if l.Release(ended) == nil {
			t.Fatal("released without a database")
		}
		again, err := k[0].Acquire(t.Context(), "thing")
		if err != nil || again.Term() != l.Term()+1 {
			t.Fatalf("again: %v", err)
		}
		must.Do(t, k[0].renew(t.Context()))
		if err := fenced(t, k[0], again.Fence()); err != nil || !again.Trusted(0) {
			t.Errorf("the new term: %v", err)
		}
	})
}

// TestAcquireWithoutAnAnswer: what was acquired by a commit whose answer was lost is given back, too.
func TestAcquireWithoutAnAnswer(t *testing.T) {
	k := keepers(t, pgtest.Start(t).Database(), time.Hour, "one", "two")
	err := k[0].db.Write(t.Context(), func(tx *ledger.Tx) error {
		// A commit of the first keeper takes longer than it waits for, and ends nevertheless.
		for _, statement := range []ledger.SQL{
			`CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$
				DECLARE until timestamptz := clock_timestamp() + interval '3 s';
				BEGIN
					WHILE clock_timestamp() < until LOOP
						BEGIN PERFORM pg_sleep(0.1); EXCEPTION WHEN query_canceled THEN NULL; END;
					END LOOP;
					RETURN NULL;
				EXCEPTION WHEN query_canceled THEN RETURN NULL;
				END $$`,
			`CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON leases DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.owner LIKE 'one/%') EXECUTE FUNCTION linger()`,
		} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, *ledger.Tx, []string) error { return nil }
	for name, acquire := range map[string]func(context.Context) error{
		"one":  func(ctx context.Context) error { _, err := k[0].Acquire(ctx, "one"); return err },
		"many": func(ctx context.Context) error { _, err := k[0].AcquireAll(ctx, []string{"many"}, nothing); return err },
	} {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var uncertain *ledger.UncertainError
		if err := acquire(short); !errors.As(err, &uncertain) {
			t.Fatalf("%s: %v", name, err)
		}
		// A renewal before the commit's end must not be the last word.
		must.Do(t, k[0].renew(t.Context()))
		ended := false
		for began := time.Now(); !ended; {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: the commit did not end", name)
			}
			must.Do(t, k[1].db.Read(t.Context(), func(tx *ledger.Tx) (err error) {
				var owner string
				ended, err = tx.One(t.Context(), "SELECT owner FROM leases WHERE name = $1", []any{name}, &owner)
				return err
			}))
		}
		must.Do(t, k[0].renew(t.Context()))
		if _, err := k[1].Acquire(t.Context(), name); err != nil {
			t.Errorf("%s: nobody has it: %v", name, err)
		}
	}
}
