package sqlstore_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
	"lockstep/txmgr/storetest"
)

func open(t *testing.T, url string) (txmgr.Store, *ledger.DB) {
	t.Helper()
	db, err := ledger.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlstore.New(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return store, db
}

func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) (txmgr.Store, *ledger.DB) { return open(t, "memory:") }})
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) (txmgr.Store, *ledger.DB) {
		return open(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
	}})
}

// TestPostgres holds the store against its contract behind a pooler that gives each transaction another session, which asks for more than
// a server by itself. Two processes begin at once on an empty database.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Pooled(server.Database())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			db, err := ledger.Open(t.Context(), database)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = sqlstore.New(t.Context(), db)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) (txmgr.Store, *ledger.DB) {
		return open(t, server.Pooled(server.Database()))
	}})
}
