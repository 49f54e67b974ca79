package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/pgtest"
)

func opened(t *testing.T, url string) *DB {
	t.Helper()
	db := must.Get(Open(t.Context(), url))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// both runs a test on each database.
func both(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Start(t).Database()) })
}

var older = fstest.MapFS{
	"migrations/0001_first.sql": {Data: []byte("CREATE TABLE things (id SERIAL_KEY, name TEXT NOT NULL);\n")},
}

var newer = fstest.MapFS{
	"migrations/0001_first.sql":  older["migrations/0001_first.sql"],
	"migrations/0002_second.sql": {Data: []byte("-- a comment; with a semicolon\nALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 7;\nUPDATE things SET size = 8 WHERE name = 'b';\n")},
}

// TestMigrateOlder migrates an older database with data, by several processes at once, and
// refuses one that is newer than the program.
func TestMigrateOlder(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		db := opened(t, url)
		must.Do(t, db.Migrate(t.Context(), Schema{Name: "things", Files: older}))
		write(t, db, "INSERT INTO things (name) VALUES ('a'), ('b')")
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				other, err := Open(context.WithoutCancel(t.Context()), url)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(other.Migrate(context.WithoutCancel(t.Context()), Schema{Name: "things", Files: newer}), other.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := count(t, db, "SELECT sum(size) FROM things"); got != 15 {
			t.Errorf("the sizes sum up to %d, want 15", got)
		}
		if err := db.Migrate(t.Context(), Schema{Name: "things", Files: older}); err == nil {
			t.Error("a database that a newer program migrated was taken")
		}
	})
}

func write(t *testing.T, db *DB, statement SQL) {
	t.Helper()
	must.Do(t, db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), statement)
		return err
	}))
}

func count(t *testing.T, db *DB, query SQL) (n int) {
	t.Helper()
	must.Do(t, db.Read(t.Context(), func(tx *Tx) error {
		_, err := tx.One(t.Context(), query, nil, &n)
		return err
	}))
	return n
}

// TestPostgresSchemes opens one database by each scheme that programs write, those of SQLAlchemy's drivers among
// them: all are the same ledger.
func TestPostgresSchemes(t *testing.T) {
	_, rest, _ := strings.Cut(pgtest.Start(t).Database(), ":")
	separator := "?"
	if strings.Contains(rest, "?") {
		separator = "&"
	}
	db := opened(t, "postgres:"+rest)
	must.Do(t, db.Migrate(t.Context(), Schema{Name: "things", Files: newer}))
	for n, url := range []string{
		"postgres:" + rest, "postgresql:" + rest, "postgresql+psycopg:" + rest, "postgresql+asyncpg:" + rest, "postgresql+asyncpg:" + rest + separator + "ssl=disable",
	} {
		other := opened(t, url)
		if err := other.Migrate(t.Context(), Schema{Name: "things", Files: newer}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		write(t, other, "INSERT INTO things (name) VALUES ('a')")
		if got := count(t, db, "SELECT count(*) FROM things"); got != n+1 || other.Dialect() != Postgres {
			t.Errorf("after %s there are %d rows, want %d", url, got, n+1)
		}
	}
	for _, scheme := range []string{"mysql", "postgresql+pg8000", ""} {
		if db, err := Open(t.Context(), scheme+":"+rest); err == nil {
			t.Errorf("the scheme %q is taken", scheme)
			_ = db.Close()
		}
	}
}

// TestOverlappingCommits lets the transaction that wrote first commit last. A reader who was
// given a cursor meanwhile misses nothing.
func TestOverlappingCommits(t *testing.T) {
	db := opened(t, pgtest.Start(t).Database()) // SQLite has one writer at a time
	emitted, finish := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- db.Write(context.WithoutCancel(t.Context()), func(tx *Tx) error {
			err := tx.Emit(t.Context(), Event{Topic: "t", Subject: "slow", Kind: "k", Body: "{}"})
			close(emitted)
			<-finish
			return err
		})
	}()
	<-emitted
	must.Do(t, db.Write(t.Context(), func(tx *Tx) error {
		return tx.Emit(t.Context(), Event{Topic: "t", Subject: "quick", Kind: "k", Body: "{}"})
	}))
	next := func(after int64, want string) int64 {
		t.Helper()
		must.Get(db.Sequence(t.Context()))(t)
		list, err := db.Events(t.Context(), "t", after, 10)
		if err != nil || len(list) != 1 || list[0].Subject != want {
			t.Fatalf("after %d: got %+v, %v; want %s", after, list, err, want)
		}
		return list[0].Cursor
	}
	first := next(0, "quick")
	close(finish)
	must.Do(t, <-done)
	if second := next(first, "slow"); second != first+1 {
		t.Fatalf("the cursors are %d and %d", first, second)
	}
}

// TestSequencersAtOnce lets several processes sequence and write: cursors are 1, 2, 3 …
func TestSequencersAtOnce(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		db := opened(t, url)
		const writers, each = 4, 20
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				ctx := context.WithoutCancel(t.Context())
				for range each {
					err := db.Write(ctx, func(tx *Tx) error { return tx.Emit(ctx, Event{Topic: "t", Subject: "s", Kind: "k", Body: "{}"}) })
					if _, sequenced := db.Sequence(ctx); err != nil || sequenced != nil {
						t.Error(err, sequenced)
						return
					}
				}
			})
		}
		group.Wait()
		must.Get(db.Sequence(t.Context()))(t)
		list, err := db.Events(t.Context(), "t", 0, 1000)
		if err != nil || len(list) != writers*each {
			t.Fatalf("%d events, %v; want %d", len(list), err, writers*each)
		}
		for n, e := range list {
			if e.Cursor != int64(n+1) {
				t.Fatalf("cursor %d stands at place %d", e.Cursor, n+1)
			}
		}
	})
}

// TestAPageOfEventsIsFound: a page costs what is on it, however long the outbox is.
func TestAPageOfEventsIsFound(t *testing.T) {
	db := opened(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
	plan := must.Get(ReadOf(t.Context(), db, func(tx *Tx) ([]string, error) {
		return All(t.Context(), tx, "EXPLAIN QUERY PLAN "+eventsAfter, []any{5, "t", 10}, func(r Row) (step string, err error) {
			var ignored int
			err = r.Scan(&ignored, &ignored, &ignored, &step)
			return step, err
		})
	}))(t)
	if want := []string{"SEARCH outbox USING INDEX outbox_seq (seq>?)"}; !slices.Equal(plan, want) {
		t.Errorf("a page is read by %q, want %q", plan, want)
	}
	// Which of both bounds it begins at the plan does not say: the one that is written first.
	if cursor, index := strings.Index(string(eventsAfter), "seq > $1"), strings.Index(string(eventsAfter), "seq > 0"); cursor > index {
		t.Error("a page is looked for from the first event on")
	}
	for range pagesAtOnce {
		db.pages <- struct{}{}
	}
	ctx, enough := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer enough()
	if _, err := db.Events(ctx, "t", 0, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while many pages are read: %v", err)
	}
	if _, err := db.Newest(t.Context()); err != nil {
		t.Errorf("while many pages are read: %v", err)
	}
}

// TestMarksThatMoveOn: while one process moves the marks on, from the first on, another that looks does not take the
// database for an older copy.
func TestMarksThatMoveOn(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	one, other := opened(t, url), opened(t, url)
	defer func() { _ = errors.Join(one.Close(), other.Close()) }()
	moved := make(chan error, 1)
	go func() {
		for range 200 {
			if err := one.Mark(t.Context()); err != nil {
				moved <- err
				return
			}
		}
		moved <- nil
	}()
	for {
		must.Do(t, other.CheckIdentity(t.Context()))
		select {
		case err := <-moved:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// TestRestoredFile puts an older copy of the file in the place of the newer one.
func TestRestoredFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	mark := func(times int) {
		t.Helper()
		db := opened(t, "sqlite:"+path)
		for range times {
			must.Do(t, db.Mark(t.Context()))
		}
		must.Do(t, errors.Join(db.CheckIdentity(t.Context()), db.Close()))
	}
	mark(2)
	old := must.Get(os.ReadFile(path))(t)
	mark(2)
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + suffix) // a clean close has removed them already
	}
	must.Do(t, os.WriteFile(path, old, 0o600))
	db := opened(t, "sqlite:"+path)
	var restored *RestoredError
	if err := db.CheckIdentity(t.Context()); !errors.As(err, &restored) {
		t.Fatalf("an older copy was taken: %v", err)
	}
	must.Do(t, db.AcceptIdentity(t.Context()))
	if err := db.CheckIdentity(t.Context()); err != nil {
		t.Fatalf("after an operator's word: %v", err)
	}
}

// TestTimeline notes a PostgreSQL server and refuses another history: that of a standby which has become the primary.
func TestTimeline(t *testing.T) {
	server := pgtest.Start(t)
	db := opened(t, server.Database())
	sees := func(db *DB) error {
		return db.Write(t.Context(), func(tx *Tx) error { return tx.CheckIdentity(t.Context()) })
	}
	must.Do(t, errors.Join(db.CheckIdentity(t.Context()), sees(db)))
	server.Promote()
	var restored *RestoredError
	must.Until(t, "a transaction sees another timeline, after some whose connections were cut", func() bool { return errors.As(sees(db), &restored) })
	if err := db.CheckIdentity(t.Context()); !errors.As(err, &restored) {
		t.Fatalf("another timeline was taken: %v", err)
	}
	must.Do(t, errors.Join(db.AcceptIdentity(t.Context()), db.CheckIdentity(t.Context()), sees(db)))
}

// TestNoFsync refuses a server that may lose what it has committed.
func TestNoFsync(t *testing.T) {
	if db, err := Open(t.Context(), pgtest.Start(t, "fsync = off").Database()); err == nil {
		_ = db.Close()
		t.Fatal("a server without fsync was taken")
	}
}

func TestOwnerLock(t *testing.T) {
	path := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	one, two := opened(t, path), opened(t, path)
	must.Do(t, one.OwnerLock("a/1"))
	must.Do(t, two.OwnerLock("b/1"))
	if two.OwnerDead("a/1") {
		t.Fatal("a living owner counts as dead")
	}
	must.Do(t, one.Close())
	if !two.OwnerDead("a/1") {
		t.Fatal("an owner whose process has ended is not known to be dead")
	}
}

// TestLongLists changes the text of a long list of values alone, and never its meaning.
func TestLongLists(t *testing.T) {
	lite := &Tx{dialect: SQLite}
	for _, q := range []struct{ query, want string }{
		{string("VALUES " + Rows(1, 16)), "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{string("SELECT $1 WHERE a IN " + List(1, 15)), ""}, // $1 twice
		{"SELECT $2, $1", ""},
		{"SELECT $, $1", ""},
	} {
		q.want = cmp.Or(q.want, q.query)
		if got := lite.text(q.query, 16); got != q.want {
			t.Errorf("%s became %s", q.query, got)
		}
	}
	if q := string("VALUES " + Rows(1, 16)); (&Tx{dialect: Postgres}).text(q, 16) != q || lite.text(q, 15) != q {
		t.Error("a text was changed for nothing")
	}
	both(t, func(t *testing.T, url string) {
		db := opened(t, url)
		write(t, db, "CREATE TABLE pairs (a BIGINT NOT NULL, b TEXT NOT NULL)")
		const rows = 2000
		args := make([]any, 0, 2*rows)
		for n := range rows {
			args = append(args, int64(n), strconv.Itoa(n))
		}
		must.Do(t, db.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO pairs (a, b) VALUES "+Rows(rows, 2), args...)
			return err
		}))
		if n := count(t, db, "SELECT count(*) FROM pairs WHERE CAST(a AS TEXT) = b"); n != rows {
			t.Errorf("%d of %d rows have what was given", n, rows)
		}
	})
}

// TestDown tells a database that does not answer from one that refuses a statement.
func TestDown(t *testing.T) {
	server := pgtest.Start(t)
	db := opened(t, server.Database())
	wrong := db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT nothing FROM nowhere")
		return err
	})
	if wrong == nil || IsDown(wrong) {
		t.Errorf("a statement that fails: %v", wrong)
	}
	onlyReads := db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), "SET TRANSACTION READ ONLY")
		_, refused := tx.Exec(t.Context(), "CREATE TABLE none (n INTEGER)")
		return errors.Join(err, refused)
	})
	if !db.Refuses() {
		t.Error("the last write was refused, and nobody knows")
	}
	if err := db.Write(t.Context(), func(*Tx) error { return nil }); err != nil || db.Refuses() {
		t.Errorf("a write is taken: %v", err)
	}
	if !OnlyReads(onlyReads) || IsDown(onlyReads) || OnlyReads(wrong) {
		t.Errorf("a write to what is only read: %v; and %v", onlyReads, wrong)
	}
	full := db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), `CREATE TABLE full_disk (n INTEGER);
			CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$;
			CREATE CONSTRAINT TRIGGER full_disk AFTER INSERT ON full_disk DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION full_disk();
			INSERT INTO full_disk VALUES (1)`)
		return err
	})
	if _, unsure := errors.AsType[*UncertainError](full); !OnlyReads(full) || unsure {
		t.Errorf("a commit that is refused: %v", full)
	}
	left := db.Write(t.Context(), func(tx *Tx) error {
		must.Get(tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '20ms'"))(t)
		must.Until(t, "the server has ended the session", func() bool {
			return count(t, db, "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'") == 0
		})
		_, err := tx.Exec(t.Context(), "SELECT 1")
		return err
	})
	if _, unsure := errors.AsType[*UncertainError](left); !IsDown(left) || unsure {
		t.Errorf("a session that the server has ended: %v", left)
	}
	broken := db.Write(t.Context(), func(tx *Tx) error {
		server.Kill()
		for {
			if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
				break // the driver has closed the connection by now
			}
		}
		return nil
	})
	if _, unsure := errors.AsType[*UncertainError](broken); !IsDown(broken) || unsure {
		t.Errorf("a commit that was never sent: %v", broken)
	}
	for range 3 { // connections that were open break first
		if err := db.Ping(t.Context()); err == nil || !IsDown(err) {
			t.Errorf("a server that is gone: %v", err)
		}
	}
	tries := 0
	err := WhileDown(t.Context(), func(ctx context.Context) error {
		if tries++; tries == 2 {
			server.Restart()
		}
		return db.Ping(ctx)
	})
	if err != nil || tries < 2 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if err := WhileDown(t.Context(), func(context.Context) error { return wrong }); err != wrong { //nolint:errorlint // the very same
		t.Errorf("another error: %v", err)
	}
}

// lines hands on each line of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// TestReplacedFile removes or replaces the file of an open ledger: nothing is written to one that is gone with the process, nothing is read from another, and no
// file is made in its place.
func TestReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := opened(t, "sqlite:"+path)
	nothing := func(*Tx) error { return nil }
	must.Do(t, db.Write(t.Context(), nothing))
	must.Do(t, os.Rename(path, path+".away"))
	fails := func(when string) {
		t.Helper()
		for what, err := range map[string]error{"write": db.Write(t.Context(), nothing), "read": db.Read(t.Context(), nothing), "ping": db.Ping(t.Context())} {
			if !errors.Is(err, ErrReplaced) || !IsDown(err) {
				t.Errorf("%s, %s: %v", when, what, err)
			}
		}
	}
	fails("without the file")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file in its place: %v", err)
	}
	must.Do(t, os.WriteFile(path, must.Get(os.ReadFile(path+".away"))(t), 0o600))
	fails("with a copy")
	must.Do(t, os.Rename(path+".away", path))
	must.Do(t, db.Write(t.Context(), nothing))
}

// TestLogOfAReplacedFile: the log of a file is not read into an older copy that was put in its place while it was open, however the process ends.
func TestLogOfAReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	url := "sqlite:" + path
	db := opened(t, url)
	events := func(db *DB) int {
		return must.Get(ReadOne[int](t.Context(), db, "SELECT count(*) FROM outbox"))(t)
	}
	emit := func(tx *Tx) error {
		return tx.Emit(t.Context(), Event{Topic: "t", Subject: "s", Kind: "k", Body: "{}"})
	}
	must.Do(t, db.Write(t.Context(), emit))
	must.Get(db.SQL().ExecContext(t.Context(), "VACUUM INTO ?", path+".copy"))(t)
	must.Do(t, db.Write(t.Context(), emit))
	must.Do(t, errors.Join(os.Rename(path, path+".away"), os.Rename(path+".copy", path)))
	if err := db.Ping(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Fatalf("with a copy: %v", err)
	}
	if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "remove") || IsDown(err) {
		t.Errorf("another process, while the first one has not ended: %v", err)
	}
	must.Do(t, db.Close())
	if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "remove") {
		t.Errorf("the next process: %v", err)
	}
	must.Do(t, errors.Join(os.Remove(path+"-wal"), os.RemoveAll(path+"-shm")))
	if n := events(opened(t, url)); n != 1 {
		t.Errorf("the copy has %d events, want the one that it was made with", n)
	}
	if _, err := os.Stat(path + replacedSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("word is left of what is over: %v", err)
	}
}

// TestOpenWhenUp begins while the server is down, says why it waits, and opens the ledger when the server is back. An outage after that is said
// once each way, however many transactions fail. It does not wait for what no time mends.
func TestOpenWhenUp(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Database()
	server.Kill()
	said := make(lines, 10)
	log := slog.New(slog.NewTextHandler(said, nil))
	type opened struct {
		db  *DB
		err error
	}
	open := func(ctx context.Context, url string) <-chan opened {
		done := make(chan opened, 1)
		go func() {
			db, err := OpenWhenUp(ctx, url, log, "nothing is done")
			done <- opened{db, err}
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := open(ctx, url)
	if line := <-said; !strings.Contains(line, "does not answer") || !strings.Contains(line, "error=") {
		t.Errorf("it says %s", line)
	}
	cancel()
	if got := <-ended; !errors.Is(got.err, context.Canceled) {
		t.Errorf("after the end it returns %v", got.err)
	}
	ended = open(t.Context(), url)
	<-said
	server.Restart()
	got := <-ended
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer func() { _ = got.db.Close() }()
	if line := <-said; !strings.Contains(line, "the database answers") {
		t.Errorf("it says %s", line)
	}
	read := func(ctx context.Context) error { return got.db.Read(ctx, func(*Tx) error { return nil }) }
	if err := read(t.Context()); err != nil {
		t.Error(err)
	}
	server.Kill()
	for range 20 {
		if err := read(t.Context()); !IsDown(err) {
			t.Fatalf("while the server is gone: %v", err)
		}
	}
	if line := <-said; !strings.Contains(line, outage.Lost) || !strings.Contains(line, "nothing is done") {
		t.Errorf("it says %s", line)
	}
	server.Restart()
	if err := WhileDown(t.Context(), read); err != nil {
		t.Error(err)
	}
	if line := <-said; !strings.Contains(line, outage.Back) {
		t.Errorf("it says %s", line)
	}
	for _, wrong := range []string{"mysql://127.0.0.1/x", url + "x"} { // no kind of ours, no such database
		if got := <-open(t.Context(), wrong); got.err == nil || IsDown(got.err) {
			t.Errorf("%s: %v", wrong, got.err)
		}
	}
	if len(said) != 0 {
		t.Errorf("it also says %s", <-said)
	}
}

// TestGivenUpBeforeTheCommit ends the caller's context while its transaction is open: the error is the caller's own end, of known outcome.
func TestGivenUpBeforeTheCommit(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		db := opened(t, url)
		write(t, db, "CREATE TABLE things (name TEXT NOT NULL)")
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Write(ctx, func(tx *Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO things (name) VALUES ('a')"); err != nil {
				return err
			}
			cancel()
			for {
				if _, err := tx.tx.ExecContext(t.Context(), "SELECT 1"); errors.Is(err, sql.ErrTxDone) {
					return nil // the driver has rolled it back
				}
				runtime.Gosched()
			}
		})
		var uncertain *UncertainError
		if !errors.Is(err, context.Canceled) || errors.As(err, &uncertain) {
			t.Errorf("got %v, want the end of the context and nothing uncertain", err)
		}
		if got := count(t, db, "SELECT count(*) FROM things"); got != 0 {
			t.Errorf("%d things, want none", got)
		}
	})
}

// TestNotify hears words, and after a break of the connection that some may be lost.
func TestNotify(t *testing.T) {
	server := pgtest.Start(t)
	db := opened(t, server.Database())
	words := make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		db.Listen(ctx, "a channel", func(word string) { words <- word })
		close(ended)
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-words:
			if got != want {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("never heard %q", want)
		}
	}
	expect("")
	for _, word := range []string{"one", "two"} {
		must.Do(t, db.Notify(t.Context(), "a channel", word))
		expect(word)
	}
	server.Kill()
	server.Restart()
	expect("")
	for db.Ping(t.Context()) != nil { // connections that were open break first
	}
	must.Do(t, db.Notify(t.Context(), "a channel", "three"))
	expect("three")
	stop()
	<-ended

	file := opened(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
	silent, end := context.WithCancel(t.Context())
	end()
	file.Listen(silent, "c", func(string) { t.Error("a file said something") })
	if err := file.Notify(t.Context(), "c", "word"); err != nil {
		t.Error(err)
	}
}

// TestCommittedMeansDurable asks open connections what the databases do at a commit. A PostgreSQL server whose sessions would not wait for the
// disk is told to wait in each transaction that writes.
func TestCommittedMeansDurable(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		settings := map[string]string{"PRAGMA synchronous": "2", "PRAGMA journal_mode": "wal"}
		if strings.HasPrefix(url, "postgres") {
			settings = map[string]string{"SHOW synchronous_commit": "on"}
			separator := "?"
			if strings.Contains(url, "?") {
				separator = "&"
			}
			url += separator + "synchronous_commit=off"
		}
		db := opened(t, url)
		if db.Dialect() == Postgres {
			var before string
			if err := db.read.QueryRowContext(t.Context(), "SHOW synchronous_commit").Scan(&before); err != nil || before != "off" {
				t.Fatalf("the session has synchronous_commit %q, %v", before, err)
			}
		}
		for question, want := range settings {
			must.Do(t, db.Write(t.Context(), func(tx *Tx) error {
				var got string
				if _, err := tx.One(t.Context(), SQL(question), nil, &got); err != nil {
					return err
				}
				if got != want {
					t.Errorf("%s: %q, want %q", question, got, want)
				}
				return nil
			}))
		}
	})
}

type inner struct {
	Number *big.Int `db:"number"`
	Sum    *big.Int `db:"amount,0"`
}

type record struct {
	*inner
	Serial int64           `db:"serial,serial"`
	Name   string          `db:"name"`
	Flag   bool            `db:"flag"`
	Large  uint64          `db:"large"`
	Bytes  []byte          `db:"bytes"`
	Raw    json.RawMessage `db:"raw"`
	List   []string        `db:"list"`
	Other  string
}

// TestColumns stores records of all kinds of fields, reads them again, and changes some of their columns.
func TestColumns(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		ctx, db := t.Context(), opened(t, url)
		full := &record{&inner{big.NewInt(7), big.NewInt(8)}, 1, "full", true, math.MaxUint64, []byte{1, 255}, json.RawMessage(`{"a":"<"}`), []string{"x", "y"}, ""}
		empty := &record{inner: &inner{}, Serial: 2, Name: "empty"}
		read := func(tx *Tx) (list []*record, err error) {
			return All(ctx, tx, "SELECT "+Names[record]("r.")+" FROM columns_test r ORDER BY serial", nil, func(r Row) (*record, error) {
				one := &record{inner: &inner{}}
				return one, Scan(r, one)
			})
		}
		var found []*record
		must.Do(t, db.Write(ctx, func(tx *Tx) error {
			must.Get(tx.Exec(ctx, "DROP TABLE IF EXISTS columns_test"))(t)
			must.Get(tx.Exec(ctx, `CREATE TABLE columns_test (serial BIGINT, name TEXT PRIMARY KEY, flag BOOLEAN, large BIGINT, bytes TEXT, raw TEXT, list TEXT, number TEXT, amount TEXT)`))(t)
			must.Do(t, Insert(ctx, tx, "columns_test", []*record{full, empty}, "", nil))
			must.Get(tx.Exec(ctx, "UPDATE columns_test SET serial = CASE WHEN name = 'full' THEN 1 ELSE 2 END"))(t)
			found = must.Get(read(tx))(t)
			return nil
		}))
		empty.Sum = new(big.Int)
		if !reflect.DeepEqual(found, []*record{full, empty}) {
			t.Errorf("read %+v and %+v", found[0], found[1])
		}
		must.Do(t, db.Write(ctx, func(tx *Tx) error {
			full.Flag, full.Large, full.List, full.Bytes = false, 3, nil, []byte{9}
			if n := must.Get(Update(ctx, tx, "columns_test", "name", "flag large list", []*record{full, {inner: &inner{}, Name: "nobody"}}))(t); n != 1 {
				t.Errorf("%d records changed", n)
			}
			empty.Number = big.NewInt(5)
			must.Do(t, Put(ctx, tx, "columns_test", "name", []*record{empty}))
			found = must.Get(read(tx))(t)
			return nil
		}))
		if full.Bytes = []byte{1, 255}; !reflect.DeepEqual(found, []*record{full, empty}) {
			t.Errorf("after a change: %+v and %+v", found[0], found[1])
		}
	})
}

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
