package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"lockstep/internal/sleep"
)

const (
	listenAgain = time.Second      // pause before a broken connection is made again
	listenCheck = 30 * time.Second // how often a silent connection is asked whether it lives
)

// Notify says a word to everyone who listens to a channel, in any process. It is a hint and
// no record: it may be lost, and on SQLite nobody hears it. It is no part of a transaction,
// since a server lets those that notify commit one at a time.
func (db *DB) Notify(ctx context.Context, channel, word string) error {
	if db.listener == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	_, err := db.write.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, word)
	return err
}

// Listen calls heard for every word until ctx ends, on a connection of its own that it makes
// again when it breaks; then it calls heard with "", since words may have been lost. On
// SQLite, and behind a pooler that gives each transaction another connection, no word comes.
func (db *DB) Listen(ctx context.Context, channel string, heard func(word string)) {
	if db.listener == nil {
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		db.listen(ctx, channel, heard)
		sleep.For(ctx, listenAgain)
	}
}

func (db *DB) listen(ctx context.Context, channel string, heard func(word string)) {
	begin, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	c, err := pgx.ConnectConfig(begin, db.listener.Copy())
	if err != nil {
		return
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenAgain)
		defer cancel()
		_ = c.Close(last) // it is of no use any more
	}()
	if _, err := c.Exec(begin, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return
	}
	heard("")
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		word, err := c.WaitForNotification(wait)
		silent := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			heard(word.Payload)
		case !silent || db.pingListener(ctx, c) != nil:
			return
		}
	}
}

func (db *DB) pingListener(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, db.limit)
	defer cancel()
	return c.Ping(ctx)
}
