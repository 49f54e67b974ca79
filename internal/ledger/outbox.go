package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"lockstep/internal/sleep"
)

// Event is one row of the outbox, or what a reader of the stream gets.
type Event struct {
	Cursor  int64  // 1, 2, 3 … without gaps; 0 before the sequencer has seen it
	Topic   string // the room that wrote it
	Subject string // what it is about: an intent's id, a contract
	Kind    string
	Body    string // JSON
	At      int64  // microseconds since 1970, by the database's clock
	Of      any    // what it is about, for OnEmitted; it is not stored
}

// OnEmitted sets what gets the events of this DB's own transactions, each once it is certainly durable. An event
// whose commit has an unknown outcome is not among them. It is set before the first transaction.
func (db *DB) OnEmitted(f func([]Event)) { db.emitted.Store(&f) }

// sequenceBatch bounds one transaction of the sequencer.
const sequenceBatch = 2000

// Emit leaves an event in the outbox. It becomes visible with the transaction. Events of
// one subject keep their order if the transactions that write them exclude each other, as
// those do that have locked the subject's row before. SQLite's only writer gives the cursors, too.
func (t *Tx) Emit(ctx context.Context, events ...Event) error {
	t.emitted = append(t.emitted, events...)
	var cursor, one int64 // zero: there is none yet
	if t.dialect == SQLite && len(events) > 0 {
		n := int64(len(events))
		if _, err := t.One(ctx, "UPDATE counters SET value = value + $1 WHERE name = 'outbox' RETURNING value", []any{n}, &cursor); err != nil {
			return fmt.Errorf("outbox: %w", err)
		}
		cursor, one = cursor-n, 1
	}
	_, err := Values(ctx, t, t.InsertInto()+"outbox (seq, topic, subject, kind, body, at) VALUES %s", events, func(e Event) []any {
		cursor += one
		return []any{cursor, e.Topic, e.Subject, e.Kind, e.Body, e.At}
	}, nil)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// Sequence gives cursors to committed events that have none, and returns how many have got one since it was
// called last on this DB, or more. Any process may call it at any time; the row of the counter makes them take
// turns. A cursor is therefore visible only when all lower ones are.
func (db *DB) Sequence(ctx context.Context) (int64, error) {
	var waiting bool
	var last int64
	err := db.Read(ctx, func(tx *Tx) error {
		var id int64
		var err error
		if waiting, err = tx.One(ctx, "SELECT id FROM outbox WHERE seq = 0 LIMIT 1", nil, &id); err != nil || waiting || tx.dialect != SQLite {
			return err
		}
		_, err = tx.One(ctx, "SELECT value FROM counters WHERE name = 'outbox'", nil, &last)
		return err
	})
	if err != nil {
		return 0, err
	}
	if !waiting {
		return max(0, last-db.sequenced.Swap(last)), nil
	}
	var given int64
	err = db.Write(ctx, func(tx *Tx) error {
		var last int64
		if _, err := tx.One(ctx, "SELECT value FROM counters WHERE name = 'outbox'"+tx.ForUpdate(), nil, &last); err != nil {
			return err
		}
		var err error
		given, err = tx.Exec(ctx, `UPDATE outbox SET seq = $1 + v.place
			FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM
				(SELECT id FROM outbox WHERE seq = 0 ORDER BY id LIMIT $2) AS next) AS v
			WHERE outbox.id = v.id`, last, int64(sequenceBatch))
		if err != nil || given == 0 {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE counters SET value = $1 WHERE name = 'outbox'", last+given)
		return err
	})
	return given, err
}

// Events returns the events of a topic after a cursor, oldest first. However many readers there are, they leave connections for other reads.
func (db *DB) Events(ctx context.Context, topic string, after int64, limit int) ([]Event, error) {
	select {
	case db.pages <- struct{}{}:
		defer func() { <-db.pages }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return ReadOf(ctx, db, func(tx *Tx) ([]Event, error) { return tx.Events(ctx, topic, after, limit) })
}

// pagesAtOnce is how many pages of events are read at a time, of at least four connections.
const pagesAtOnce = 2

// eventsAfter reads a page of events. The index of seq is one of those above 0: without that condition SQLite reads the whole outbox, and with it before the cursor it
// begins at 0.
const eventsAfter = "SELECT " + eventColumns + " FROM outbox WHERE seq > $1 AND seq > 0 AND topic = $2 ORDER BY seq LIMIT $3"

// Events returns the events of a topic after a cursor, oldest first, as the transaction sees them.
func (t *Tx) Events(ctx context.Context, topic string, after int64, limit int) ([]Event, error) {
	return All(ctx, t, eventsAfter, []any{after, topic, limit}, scanEvent)
}

const eventColumns = "seq, topic, subject, kind, body, at"

func scanEvent(r Row) (e Event, err error) {
	err = r.Scan(&e.Cursor, &e.Topic, &e.Subject, &e.Kind, &e.Body, &e.At)
	return e, err
}

// Newest returns the cursor of the newest event of all topics.
func (db *DB) Newest(ctx context.Context) (int64, error) {
	return ReadOne[int64](ctx, db, "SELECT value FROM counters WHERE name = 'outbox'")
}

// latestSpan bounds how far back Latest looks, in events of all topics.
const latestSpan = 20_000

// Latest returns the events of a topic, and of a kind unless it is "", newest first, and the cursor behind which newer ones
// will come. It looks at the newest latestSpan events of all topics.
func (db *DB) Latest(ctx context.Context, topic, kind string, limit int) (list []Event, cursor int64, err error) {
	err = db.Read(ctx, func(tx *Tx) error {
		if _, err := tx.One(ctx, "SELECT value FROM counters WHERE name = 'outbox'", nil, &cursor); err != nil {
			return err
		}
		list, err = All(ctx, tx, "SELECT "+eventColumns+" FROM outbox WHERE seq > $1 AND seq > 0 AND seq <= $2 AND topic = $3 AND ($4 = '' OR kind = $4) ORDER BY seq DESC LIMIT $5",
			[]any{cursor - latestSpan, cursor, topic, kind, limit}, scanEvent)
		return err
	})
	return list, cursor, err
}

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
