package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"lockstep/internal/sleep"
)

// UncertainError says that the answer to a commit was lost: the transaction may have been
// committed or not. The caller reads before it writes again.
type UncertainError struct{ Err error }

func (e *UncertainError) Error() string { return "the commit's answer was lost: " + e.Err.Error() }

// Unwrap returns what the driver said.
func (e *UncertainError) Unwrap() error { return e.Err }

// ErrNoAnswer says that PostgreSQL did not answer in time. What had not been committed yet never will be.
var ErrNoAnswer = errors.New("the database did not answer in time")

// answerLimit bounds how long PostgreSQL may take for one answer. A server that has died, or a network that is cut, may leave a
// connection silent for a quarter of an hour.
const answerLimit = 30 * time.Second

// maxRetries bounds how often a transaction that lost a conflict is run again.
const maxRetries = 8

// Tx is one transaction.
type Tx struct {
	tx      *sql.Tx
	dialect Dialect
	limit   time.Duration // of one answer; 0: none
	began   int64         // the clock at the beginning, until Now has given it out; 0: it was not asked

	emitted []Event // by this transaction

	long map[SQL]*sql.Stmt // of SQLite: long statements that this transaction has run, by their text
}

// Write runs fn in a transaction that is durable when Write returns nil. On SQLite it is
// the only write transaction of the file. fn is run again when the database ended the
// transaction in favour of another, so it must have no effect outside of the transaction
// but values that it sets again.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	for try := 0; ; try++ {
		err := db.once(ctx, db.write, nil, fn)
		if err == nil || OnlyReads(err) {
			db.refuses.Store(err != nil)
		}
		if err == nil || try == maxRetries || !conflict(err) {
			return err
		}
		if !sleep.For(ctx, rand.N(10*time.Millisecond<<min(try, 5))) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Refuses reports whether the database refused the last write as OnlyReads has it.
func (db *DB) Refuses() bool { return db.refuses.Load() }

// WriteAt is Write with the time of the database's clock.
func (db *DB) WriteAt(ctx context.Context, fn func(tx *Tx, now int64) error) error {
	return db.Write(ctx, func(tx *Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return fn(tx, now)
	})
}

// Read runs fn in a transaction that sees one state of the database and writes nothing.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	options := &sql.TxOptions{ReadOnly: db.read != db.write || db.dialect == Postgres}
	if db.dialect == Postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	return db.once(ctx, db.read, options, fn)
}

func (db *DB) once(ctx context.Context, pool *sql.DB, options *sql.TxOptions, fn func(*Tx) error) (err error) {
	defer func(ctx context.Context) {
		if IsDown(err) {
			db.outage.Down(ctx, err)
		} else if err == nil { // another error may be one that nobody knows yet
			db.outage.Up(ctx)
		}
	}(ctx)
	if err := db.inPlace(); err != nil {
		return err
	}
	// The driver ends a transaction by the context of its beginning.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var raw *sql.Tx
	err = db.answers(cancel, func() (err error) {
		raw, err = pool.BeginTx(ctx, options)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin: %w", silence(ctx, err))
	}
	defer func() { _ = db.answers(cancel, raw.Rollback) }() // does nothing after a commit
	tx := &Tx{tx: raw, dialect: db.dialect, limit: db.limit}
	if db.dialect == Postgres && options == nil {
		// A process that is stopped inside a transaction must not keep others from taking over.
		var durable, idle string
		_, err := tx.One(ctx, "SELECT set_config('synchronous_commit', 'on', true), set_config('idle_in_transaction_session_timeout', '5000', true), "+clock,
			nil, &durable, &idle, &tx.began)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := db.answers(cancel, raw.Commit); err != nil {
		if conflict(err) || refused(err) || errors.Is(err, pgconn.ErrConnClosed) { // it was undone, or never sent
			return fmt.Errorf("commit: %w", err)
		}
		if ctx.Err() != nil && errors.Is(err, sql.ErrTxDone) { // rolled back before the commit began
			return fmt.Errorf("commit: %w", context.Cause(ctx))
		}
		return &UncertainError{silence(ctx, err)}
	}
	if f := db.emitted.Load(); f != nil && len(tx.emitted) > 0 {
		(*f)(tx.emitted)
	}
	return nil
}

// The codes of conflicts: SQLITE_BUSY and SQLITE_LOCKED with all their extended forms;
// PostgreSQL's serialization failure and deadlock.
func conflict(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code()&0xff == 5 || lite.Code()&0xff == 6
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	return false
}

// IsDown reports whether the database could not be reached, or was stopping or starting: the
// transaction had no effect, unless the error is an UncertainError as well.
func IsDown(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "53300", "25P03", "25P04": // too many connections, and sessions that ended since a transaction took too long
			return true
		}
		return strings.HasPrefix(pg.Code, "57P0") || strings.HasPrefix(pg.Code, "08")
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrReplaced) || errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF)
}

// OnlyReads reports whether the database answers and takes no writes, as a standby or a full or broken disk does: the transaction had no effect, unless the error
// is an UncertainError as well.
func OnlyReads(err error) bool {
	lite, ok := errors.AsType[*sqlite.Error](err)
	return refused(err) || ok && (lite.Code()&0xff == 10 || lite.Code()&0xff == 14) // SQLITE_IOERR, also of a quota; SQLITE_CANTOPEN, also for want of descriptors
}

// refused reports whether the database has refused to write, which is certain for a commit as well.
func refused(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code()&0xff == 8 || lite.Code()&0xff == 13 // SQLITE_READONLY, SQLITE_FULL
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "25006" || pg.Code == "53100") // read_only_sql_transaction, disk_full
}

// downPause is how often a database that is down is tried.
const downPause = 500 * time.Millisecond

// WhileDown runs f again and again while the database is down, for what must be done before
// a process can go on. f must be the same whether it is run once or twice.
func WhileDown(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil || !IsDown(err) {
			return err
		}
		if !sleep.For(ctx, downPause) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// ErrText says that a text has a NUL byte or is not UTF-8, which PostgreSQL does not store.
// SQLite would; a ledger refuses it on both.
var ErrText = errors.New("a text has a NUL byte or is not UTF-8")

func storable(args []any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && (strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text)) {
			return ErrText
		}
	}
	return nil
}

// answers asks the database for one answer, and cancels the transaction if it does not come in time.
func (db *DB) answers(cancel context.CancelCauseFunc, ask func() error) error {
	if db.limit > 0 {
		defer time.AfterFunc(db.limit, func() { cancel(ErrNoAnswer) }).Stop()
	}
	return ask()
}

// bounded is the context of one statement.
func (t *Tx) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, t.limit, ErrNoAnswer)
}

// silence names the cause of an error if it was the database's silence.
func silence(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// Exec runs a statement and returns how many rows it changed.
func (t *Tx) Exec(ctx context.Context, query SQL, args ...any) (int64, error) {
	if err := storable(args); err != nil {
		return 0, err
	}
	if t.dialect == SQLite && len(args) >= manyArguments {
		return t.execLong(ctx, query, args)
	}
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	result, err := t.tx.ExecContext(ctx, string(query), args...)
	if err != nil {
		return 0, silence(ctx, err)
	}
	return result.RowsAffected()
}

// execLong is Exec for a statement that costs more to read than to run, and is often the one that was run before. It ends with the
// transaction.
func (t *Tx) execLong(ctx context.Context, query SQL, args []any) (int64, error) {
	statement := t.long[query]
	if statement == nil {
		var err error
		if statement, err = t.tx.PrepareContext(ctx, t.text(string(query), len(args))); err != nil {
			return 0, err
		}
		if t.long == nil {
			t.long = map[SQL]*sql.Stmt{}
		}
		t.long[query] = statement
	}
	result, err := statement.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a query; scan is called for each row. The error of scan ends it.
func (t *Tx) Query(ctx context.Context, query SQL, args []any, scan func(Row) error) error {
	if err := storable(args); err != nil {
		return err
	}
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	rows, err := t.tx.QueryContext(ctx, t.text(string(query), len(args)), args...)
	if err != nil {
		return silence(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return silence(ctx, err)
		}
	}
	return silence(ctx, rows.Err())
}

// Row is what one row is read from.
type Row interface{ Scan(targets ...any) error }

// One reads the single row of a query and reports whether there is one.
func (t *Tx) One(ctx context.Context, query SQL, args []any, targets ...any) (bool, error) {
	if err := storable(args); err != nil {
		return false, err
	}
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	err := t.tx.QueryRowContext(ctx, t.text(string(query), len(args)), args...).Scan(targets...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, silence(ctx, err)
}

// Now returns the database's clock: microseconds since 1970. It does not stand still
// within a transaction; the first time in one that writes is that of its beginning.
func (t *Tx) Now(ctx context.Context) (int64, error) {
	if t.dialect == SQLite {
		return time.Now().UnixMicro(), nil // a file is used on one machine
	}
	if now := t.began; now != 0 {
		t.began = 0
		return now, nil
	}
	var now int64
	_, err := t.One(ctx, "SELECT "+clock, nil, &now)
	return now, err
}

// clock is PostgreSQL's.
const clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// Dialect returns which database this is.
func (t *Tx) Dialect() Dialect { return t.dialect }

// InsertInto begins an INSERT whose failure ends the transaction: SQLite then keeps nothing to undo it alone, which
// costs a copy of every page that it changes.
func (t *Tx) InsertInto() SQL {
	if t.dialect == SQLite {
		return "INSERT OR FAIL INTO "
	}
	return "INSERT INTO "
}

// ForUpdate returns the clause that locks the rows of a query against every other writer.
func (t *Tx) ForUpdate() SQL { return t.clause(" FOR UPDATE") }

// ForShare returns the clause that keeps the rows of a query as they are.
func (t *Tx) ForShare() SQL { return t.clause(" FOR SHARE") }

// SkipLocked returns the clause that locks rows and passes over those that others hold.
func (t *Tx) SkipLocked() SQL { return t.clause(" FOR UPDATE SKIP LOCKED") }

func (t *Tx) clause(text SQL) SQL {
	if t.dialect == SQLite {
		return ""
	}
	return text
}
