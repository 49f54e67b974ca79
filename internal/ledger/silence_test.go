package ledger

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/pgtest"
)

// TestSilence stops the server's process of a connection, which then neither answers nor closes it: a
// transaction ends nevertheless, and says whether it may have been committed.
func TestSilence(t *testing.T) {
	db := opened(t, pgtest.Start(t).Database())
	db.limit = time.Second
	write(t, db, "CREATE TABLE things (id INT)")
	stop := func(ctx context.Context, tx *Tx) error {
		var process int
		if _, err := tx.One(ctx, "SELECT pg_backend_pid()", nil, &process); err != nil {
			return err
		}
		t.Cleanup(func() { _ = syscall.Kill(process, syscall.SIGCONT) })
		return syscall.Kill(process, syscall.SIGSTOP)
	}
	for name, one := range map[string]struct {
		run       func(ctx context.Context) error
		uncertain bool
	}{
		"statement": {run: func(ctx context.Context) error {
			return db.Write(ctx, func(tx *Tx) error {
				if err := stop(ctx, tx); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "INSERT INTO things VALUES (1)")
				return err
			})
		}},
		"query": {run: func(ctx context.Context) error {
			return db.Read(ctx, func(tx *Tx) error {
				if err := stop(ctx, tx); err != nil {
					return err
				}
				return tx.Query(ctx, "SELECT id FROM things", nil, func(Row) error { return nil })
			})
		}},
		"commit": {uncertain: true, run: func(ctx context.Context) error {
			return db.Write(ctx, func(tx *Tx) error { return stop(ctx, tx) })
		}},
		"rollback": {run: func(ctx context.Context) error {
			return db.Write(ctx, func(tx *Tx) error { return errors.Join(ErrNoAnswer, stop(ctx, tx)) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan error, 1)
			go func() { ended <- one.run(context.WithoutCancel(t.Context())) }()
			select {
			case err := <-ended:
				var uncertain *UncertainError
				if !errors.Is(err, ErrNoAnswer) || !IsDown(err) || errors.As(err, &uncertain) != one.uncertain {
					t.Errorf("got %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the transaction waits for ever")
			}
			write(t, db, "INSERT INTO things VALUES (2)") // on another connection
		})
	}
}
