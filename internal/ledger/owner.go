package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/sleep"
)

// OwnerLock marks an owner as alive for as long as this process lives: an operating
// system's lock of a file beside SQLite's, which ends with the process however it ends.
// On PostgreSQL, and in memory, there is no such file and it does nothing.
func (db *DB) OwnerLock(owner string) error {
	if db.path == "" {
		return nil
	}
	db.mu.Lock()
	_, mine := db.owners[owner]
	db.mu.Unlock()
	if mine {
		return nil
	}
	if err := os.MkdirAll(db.ownerDir(), 0o700); err != nil {
		return fmt.Errorf("lock of owner: %w", err)
	}
	db.sweepOwners()
	file, err := lockedFile(db.ownerFile(owner))
	if err != nil {
		return fmt.Errorf("lock of owner %s: %w", owner, err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.owners == nil {
		db.owners = map[string]*os.File{}
	}
	db.owners[owner] = file
	return nil
}

// lockedFile makes a file and takes its lock. A sweep of another process may remove the file
// in between; then it is made again.
func lockedFile(name string) (*os.File, error) {
	for range 100 {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		taken, err := tryLock(file)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if taken && sameFile(file, name) {
			return file, nil
		}
		_ = file.Close()
	}
	return nil, errors.New("the lock is held")
}

func sameFile(file *os.File, name string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(open, there)
}

// OwnerDead reports that an owner's process has certainly ended. False says nothing.
func (db *DB) OwnerDead(owner string) bool {
	if db.path == "" || owner == "" {
		return false
	}
	file, err := os.OpenFile(db.ownerFile(owner), os.O_RDWR, 0o600)
	if err != nil {
		return os.IsNotExist(err) && db.hasOwnerDir() // swept after its owner's death
	}
	defer func() { _ = file.Close() }()
	taken, err := tryLock(file)
	return err == nil && taken
}

func (db *DB) ownerDir() string { return db.path + "-owners" }

func (db *DB) hasOwnerDir() bool {
	_, err := os.Stat(db.ownerDir())
	return err == nil
}

func (db *DB) ownerFile(owner string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, owner)
	return filepath.Join(db.ownerDir(), safe+".lock")
}

// sweepOwners removes the files of owners that have ended. The file is removed while its
// lock is held, so no living owner loses one.
func (db *DB) sweepOwners() {
	names, _ := filepath.Glob(filepath.Join(db.ownerDir(), "*.lock"))
	for _, name := range names {
		file, err := os.OpenFile(name, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if taken, err := tryLock(file); err == nil && taken {
			_ = os.Remove(name)
		}
		_ = file.Close()
	}
}

// RestoredError says that the database is not the one, or not as new as the one, that this
// ledger was last seen on: a file that was restored from a copy, a PostgreSQL server that
// was promoted or recovered. What had been committed may be missing.
type RestoredError struct{ Was, Is string }

func (e *RestoredError) Error() string {
	return fmt.Sprintf("the ledger was last seen as %s and is now %s: an older copy may have been restored", e.Was, e.Is)
}

// CheckIdentity compares the database with what was noted of it and notes it on the first
// call. On PostgreSQL that is the system identifier and the timeline, kept in the database.
// On SQLite it is a mark that grows with each Mark, kept in the file and beside it.
func (db *DB) CheckIdentity(ctx context.Context) error {
	if db.dialect == Postgres {
		return db.checkTimeline(ctx)
	}
	if db.path == "" {
		return nil
	}
	for end := time.Now().Add(markSettles); ; {
		// The one beside first: Mark writes it last, so the one inside, which is read later, is not below it.
		beside, err := db.markBeside()
		if err != nil {
			return err
		}
		inside, err := db.mark(ctx)
		if err != nil {
			return err
		}
		restored := &RestoredError{Was: fmt.Sprintf("mark %d", beside), Is: fmt.Sprintf("mark %d", inside)}
		switch {
		case inside < beside:
			return restored
		case inside == 0 || beside > 0:
			return nil
		case time.Now().After(end):
			return restored // a file that was copied without what is beside it
		}
		if !sleep.For(ctx, 20*time.Millisecond) { // the first Mark is between its two writes
			return ctx.Err()
		}
	}
}

// markSettles is how long the first Mark may take from its write inside to that beside.
const markSettles = 2 * time.Second

// CheckIdentity fails with *RestoredError in a transaction on a PostgreSQL server that has another history than the one
// that was noted: it was promoted, or recovered, since the process looked last. On SQLite nothing can change beneath
// a file that is open.
func (t *Tx) CheckIdentity(ctx context.Context) error {
	if t.dialect != Postgres {
		return nil
	}
	var noted, now string
	found, err := t.One(ctx, "SELECT value, "+timeline+" FROM marks WHERE name = 'timeline'", nil, &noted, &now)
	if err == nil && found && noted != now {
		err = &RestoredError{Was: noted, Is: now}
	}
	return err
}

// AcceptIdentity notes the database as it is now, after an operator has looked.
func (db *DB) AcceptIdentity(ctx context.Context) error {
	if db.dialect == Postgres {
		now, err := db.timeline(ctx)
		if err != nil {
			return err
		}
		return db.note(ctx, now)
	}
	if db.path == "" {
		return nil
	}
	beside, err := db.markBeside()
	if err != nil {
		return err
	}
	err = db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, "UPDATE counters SET value = CASE WHEN value < $1 THEN $1 ELSE value END WHERE name = 'mark'", beside)
		return err
	})
	if err != nil {
		return err
	}
	return db.Mark(ctx)
}

// Mark moves SQLite's mark on by one, first in the file, then beside it. A holder of leases
// calls it at each renewal. On PostgreSQL it does nothing: the timeline speaks for itself.
func (db *DB) Mark(ctx context.Context) error {
	if db.path == "" {
		return nil
	}
	var now int64
	err := db.Write(ctx, func(tx *Tx) error {
		_, err := tx.One(ctx, "UPDATE counters SET value = value + 1 WHERE name = 'mark' RETURNING value", nil, &now)
		return err
	})
	if err != nil {
		return err
	}
	release, err := db.lockFile(ctx, ".mark-lock")
	if err != nil {
		return err
	}
	defer release()
	beside, err := db.markBeside()
	if err != nil || beside >= now {
		return err // another process was quicker
	}
	temporary := db.path + ".mark-new"
	if err := os.WriteFile(temporary, []byte(strconv.FormatInt(now, 10)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, db.path+".mark")
}

func (db *DB) mark(ctx context.Context) (int64, error) {
	return ReadOne[int64](ctx, db, "SELECT value FROM counters WHERE name = 'mark'")
}

func (db *DB) markBeside() (int64, error) {
	text, err := os.ReadFile(db.path + ".mark")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s.mark is not a number", db.path)
	}
	return value, nil
}

// timeline is PostgreSQL's name of a server's history.
const timeline = "(SELECT system_identifier FROM pg_control_system())::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

func (db *DB) timeline(ctx context.Context) (string, error) {
	text, err := ReadOne[string](ctx, db, "SELECT "+timeline)
	if err != nil {
		return "", fmt.Errorf("ask for the database's timeline: %w", err)
	}
	return text, nil
}

func (db *DB) note(ctx context.Context, text string) error {
	return db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO marks (name, value) VALUES ('timeline', $1)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, text)
		return err
	})
}

func (db *DB) checkTimeline(ctx context.Context) error {
	now, err := db.timeline(ctx)
	if err != nil {
		return err
	}
	noted, err := ReadOne[string](ctx, db, "SELECT value FROM marks WHERE name = 'timeline'")
	switch {
	case err != nil:
		return err
	case noted == "":
		return db.note(ctx, now)
	case noted != now:
		return &RestoredError{Was: noted, Is: now}
	default:
		return nil
	}
}
