package sqlstore_test

import (
	"path/filepath"
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

func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) (txmgr.Store, *ledger.DB) { return open(t, server.Database()) }})
}
