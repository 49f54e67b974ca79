package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"lockstep/internal/outage"
)

// Dialect tells which database a DB is.
type Dialect int

// The databases.
const (
	SQLite Dialect = iota + 1
	Postgres
)

func (d Dialect) String() string {
	if d == Postgres {
		return "postgres"
	}
	return "sqlite"
}

// busyTimeout is how long a writer of SQLite waits for another process's transaction.
const busyTimeout = 10 * time.Second

// writerCache is how many kibibytes of pages SQLite's writer keeps: with fewer, a transaction of thousands of rows
// writes pages that it has not done with.
const writerCache = 32 << 10

// checkpointPages is after how many pages of its log SQLite copies them into the file. A page that thousands of rows change is
// then copied once for many transactions. The log has four times as many kibibytes.
const checkpointPages = 8000

// maxConnections bounds the pool of one process.
const maxConnections = 16

// DB is an open ledger. It is safe for use by several goroutines.
type DB struct {
	dialect Dialect
	write   *sql.DB       // SQLite: one connection, whose transactions begin IMMEDIATE
	read    *sql.DB       // SQLite: several connections; otherwise the same as write
	path    string        // SQLite's file; empty in memory
	file    os.FileInfo   // which file that was when it was opened; nil if there is none
	refuses atomic.Bool   // see Refuses
	away    atomic.Bool   // another file, or none, stands in its place
	pages   chan struct{} // pages of events that are being read
	limit   time.Duration // of one answer; 0 on SQLite, where busyTimeout bounds the wait for other processes

	listener *pgx.ConnConfig // for LISTEN; nil on SQLite

	outage outage.Log // of the server; says nothing unless OpenWhenUp has opened the ledger

	emitted atomic.Pointer[func([]Event)] // see OnEmitted

	sequenced atomic.Int64 // newest cursor that Sequence has told of; SQLite only

	mu     sync.Mutex
	owners map[string]*os.File // locks of OwnerLock, by owner
}

// Open opens the database that the URL names and applies the ledger's own migrations.
// Several processes may do so at once.
func Open(ctx context.Context, databaseURL string) (*DB, error) {
	db, err := connect(databaseURL)
	if err != nil {
		return nil, err
	}
	if err := db.checkDurability(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger of DATABASE_URL: %w", err), db.Close())
	}
	if err := db.Migrate(ctx, own); err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger of DATABASE_URL: %w", err), db.Close())
	}
	if db.path != "" {
		if db.file, err = os.Stat(db.path); err != nil {
			return nil, errors.Join(fmt.Errorf("the ledger of DATABASE_URL: %w", err), db.Close())
		}
	}
	return db, nil
}

// downEvery is how often OpenWhenUp says that it still waits.
const downEvery = time.Minute

// OpenWhenUp is Open, and waits while the database is down. It says so in the log, at once and then now and then, with the
// reason. A database that answers and refuses is an error, as with Open. Later outages have a line each way, so that nobody who meets one
// (IsDown) has to write another; consequence is what they mean.
func OpenWhenUp(ctx context.Context, databaseURL string, log *slog.Logger, consequence string) (db *DB, err error) {
	var began, said time.Time
	err = WhileDown(ctx, func(ctx context.Context) error {
		if db, err = Open(ctx, databaseURL); err == nil || !IsDown(err) || time.Since(said) < downEvery {
			return err
		}
		if said = time.Now(); began.IsZero() {
			began = said
		}
		log.WarnContext(ctx, "the database does not answer: the process waits for it, and has no open port meanwhile", "waited", time.Since(began).Round(time.Second), "error", err)
		return err
	})
	if err == nil && !began.IsZero() {
		log.InfoContext(ctx, "the database answers", "waited", time.Since(began).Round(time.Second))
	}
	if err == nil {
		db.outage.Logger, db.outage.Upstream, db.outage.Name = log, "database", db.dialect.String()
		db.outage.Consequence, db.outage.Level = consequence, slog.LevelError
	}
	return db, err
}

// asyncpgSSL matches the name that asyncpg has for sslmode.
var asyncpgSSL = regexp.MustCompile(`([?&])ssl=`)

// CheckURL says what is wrong with a URL that Open would refuse for itself. It opens nothing.
func CheckURL(databaseURL string) error {
	_, err := parse(databaseURL)
	return err
}

// target is what a URL names.
type target struct {
	memory   bool
	file     string          // of SQLite
	postgres *pgx.ConnConfig // nil for the others
}

func parse(databaseURL string) (target, error) {
	scheme, rest, _ := strings.Cut(databaseURL, ":")
	switch scheme {
	case "memory":
		return target{memory: true}, nil
	case "sqlite":
		file := strings.TrimPrefix(rest, "//")
		if file == "" {
			return target{}, errors.New("DATABASE_URL: sqlite: needs the name of a file")
		}
		return target{file: file}, nil
	case "postgres", "postgresql", "postgresql+psycopg":
		return parsePostgres("postgres:" + rest)
	case "postgresql+asyncpg":
		return parsePostgres("postgres:" + asyncpgSSL.ReplaceAllString(rest, "${1}sslmode="))
	default:
		return target{}, fmt.Errorf("DATABASE_URL: want sqlite:FILE, memory: or postgres://…, got scheme %q", scheme)
	}
}

func parsePostgres(databaseURL string) (target, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return target{}, errors.New("DATABASE_URL: not a PostgreSQL URL") // pgx's text may show the password
	}
	return target{postgres: config}, nil
}

func connect(databaseURL string) (*DB, error) {
	t, err := parse(databaseURL)
	switch {
	case err != nil:
		return nil, err
	case t.memory:
		return openMemory()
	case t.postgres != nil:
		return openPostgres(t.postgres), nil
	default:
		return openSQLite(t.file)
	}
}

func dsn(path string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range append(pragmas, "foreign_keys(1)", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())) {
		q.Add("_pragma", p)
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
}

func openMemory() (*DB, error) {
	pool, err := sql.Open("sqlite", dsn(":memory:"))
	if err != nil {
		return nil, fmt.Errorf("open the ledger in memory: %w", err)
	}
	pool.SetMaxOpenConns(1) // each connection would be a database of its own
	return &DB{dialect: SQLite, write: pool, read: pool, pages: make(chan struct{}, pagesAtOnce)}, nil
}

func openSQLite(path string) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	if err := checkLog(path); err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	source := dsn(path, "journal_mode(WAL)", "synchronous(FULL)")
	write, err := sql.Open("sqlite", source+"&"+url.Values{"_pragma": {
		fmt.Sprintf("cache_size(-%d)", writerCache), fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
		"temp_store(memory)", // what a statement would need to be undone, which is no use after a crash
	}}.Encode())
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	write.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite", strings.Replace(source, "_txlock=immediate", "_txlock=deferred", 1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger: %w", err), write.Close())
	}
	read.SetMaxOpenConns(max(4, runtime.GOMAXPROCS(0)))
	return &DB{dialect: SQLite, write: write, read: read, path: path, pages: make(chan struct{}, pagesAtOnce)}, nil
}

func openPostgres(config *pgx.ConnConfig) *DB {
	// A pooler in transaction mode gives each transaction another session.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 5*time.Second)
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(maxConnections)
	pool.SetMaxIdleConns(maxConnections)
	pool.SetConnMaxIdleTime(time.Minute)
	return &DB{dialect: Postgres, write: pool, read: pool, limit: answerLimit, listener: config, pages: make(chan struct{}, pagesAtOnce)}
}

// checkDurability refuses a server that may lose what it has committed.
func (db *DB) checkDurability(ctx context.Context) error {
	if db.dialect == SQLite {
		return nil // the connection's own pragmas say so
	}
	var fsync string
	if err := db.read.QueryRowContext(ctx, "SHOW fsync").Scan(&fsync); err != nil {
		return fmt.Errorf("ask the database for its settings: %w", err)
	}
	if fsync != "on" {
		return errors.New("the database runs with fsync=off: what it has committed can be lost, so nothing may be signed on it")
	}
	return nil
}

// Dialect returns which database this is.
func (db *DB) Dialect() Dialect { return db.dialect }

// SQL returns the pool of connections, for libraries that bring queries of their own.
func (db *DB) SQL() *sql.DB { return db.write }

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.inPlace(); err != nil {
		return err
	}
	return db.read.PingContext(ctx)
}

// ErrReplaced says that the file of the ledger is not the one that this process opened. What is written to that one would be gone with the process, and
// new connections would read another.
var ErrReplaced = errors.New("the ledger's file was removed or replaced while the process had it open: put it back; or stop the process, remove the -wal and -shm beside the file, and start again")

// inPlace fails with ErrReplaced if it is so, and leaves word of it beside the file for who opens that next: the log of the file that was there must not be read
// into another.
func (db *DB) inPlace() error {
	if db.file == nil {
		return nil
	}
	now, err := os.Stat(db.path)
	away := err != nil || !os.SameFile(now, db.file)
	if db.away.Swap(away) != away {
		if away {
			_ = os.WriteFile(db.path+replacedSuffix, nil, 0o600) // without it, the error is all there is
		} else {
			_ = os.Remove(db.path + replacedSuffix)
		}
	}
	if away {
		return errors.Join(ErrReplaced, err)
	}
	return nil
}

// replacedSuffix is that of the file which says that another stands in the ledger's place than the one whose log lies there.
const replacedSuffix = ".replaced"

// checkLog refuses a file beside which the log of another one lies: SQLite would read it into this one.
func checkLog(path string) error {
	if _, err := os.Stat(path + replacedSuffix); err != nil {
		return nil //nolint:nilerr // nobody has seen it replaced
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		_ = os.Remove(path + replacedSuffix)
		return nil //nolint:nilerr // there is no log
	}
	return fmt.Errorf("%[1]s was replaced while a process had it open, and %[1]s-wal is the log of the file that was there: remove that and %[1]s-shm; or, if this is the file of before, remove %[1]s%[2]s", path, replacedSuffix)
}

// Close closes every connection and releases this process's owner locks.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var errs []error
	for owner, file := range db.owners {
		errs = append(errs, file.Close())
		delete(db.owners, owner)
	}
	if db.read != db.write {
		errs = append(errs, db.read.Close())
	}
	return errors.Join(append(errs, db.write.Close())...)
}
