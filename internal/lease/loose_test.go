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
		k := holders(t, url, time.Hour, "one", "two")
		left := func(name string) *Lease {
			t.Helper()
			l := must.Get(k[0].Acquire(t.Context(), name))(t)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if l.Release(ended) == nil {
				t.Fatal("released without a database")
			}
			return l
		}
		left("thing")
		if _, err := k[1].Acquire(t.Context(), "thing"); !errors.Is(err, ErrHeld) {
			t.Fatalf("before the next renewal: %v", err)
		}
		must.Do(t, k[0].renew(t.Context()))
		if _, err := k[1].Acquire(t.Context(), "thing"); err != nil {
			t.Errorf("nobody has it: %v", err)
		}
		if len(k[0].taking) != 0 {
			t.Errorf("left: %v", k[0].taking)
		}
		l := left("another")
		again, err := k[0].Acquire(t.Context(), "another") // who has it again keeps it
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
	k := holders(t, pgtest.Start(t).Database(), time.Hour, "one", "two")
	err := k[0].db.Write(t.Context(), func(tx *ledger.Tx) error {
		// A commit of the first holder takes longer than it waits for, and ends nevertheless.
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
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var uncertain *ledger.UncertainError
	if _, err := k[0].Acquire(short, "thing"); !errors.As(err, &uncertain) {
		t.Fatal(err)
	}
	// A renewal before the commit's end must not be the last word.
	must.Do(t, k[0].renew(t.Context()))
	must.Until(t, "the commit ends", func() (ended bool) {
		must.Do(t, k[1].db.Read(t.Context(), func(tx *ledger.Tx) (err error) {
			var owner string
			ended, err = tx.One(t.Context(), "SELECT owner FROM leases WHERE name = 'thing'", nil, &owner)
			return err
		}))
		return ended
	})
	must.Do(t, k[0].renew(t.Context()))
	if _, err := k[1].Acquire(t.Context(), "thing"); err != nil {
		t.Errorf("nobody has it: %v", err)
	}
}
