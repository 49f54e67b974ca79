package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
