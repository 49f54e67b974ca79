// Package ledgertest opens databases for tests, and asks them.
package ledgertest

import (
	"path/filepath"
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
)

// Open opens a file of SQLite that ends with the test, with the tables of the schemas.
func Open(t testing.TB, schemas ...ledger.Schema) *ledger.DB {
	t.Helper()
	return At(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"), schemas...)
}

// At opens a database until the test ends.
func At(t testing.TB, url string, schemas ...ledger.Schema) *ledger.DB {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), url))(t)
	t.Cleanup(func() { _ = db.Close() })
	for _, schema := range schemas {
		must.Do(t, db.Migrate(t.Context(), schema))
	}
	return db
}

// Each runs a test on each kind of database.
func Each(t *testing.T, run func(t *testing.T, db *ledger.DB)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		run(t, Open(t))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		run(t, At(t, pgtest.Start(t).Database()))
	})
}

// One is the value in the first row of an answer.
func One[T any](t testing.TB, db *ledger.DB, query ledger.SQL, args ...any) (value T, err error) {
	err = db.Read(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.One(t.Context(), query, args, &value)
		return err
	})
	return value, err
}

// List has the value of each row.
func List[T any](t testing.TB, db *ledger.DB, query ledger.SQL, args ...any) (values []T) {
	t.Helper()
	must.Do(t, db.Read(t.Context(), func(tx *ledger.Tx) error {
		values = nil
		return tx.Query(t.Context(), query, args, func(r ledger.Row) error {
			var value T
			err := r.Scan(&value)
			values = append(values, value)
			return err
		})
	}))
	return values
}

// Pairs has the two values of each row.
func Pairs[K comparable, V any](t testing.TB, db *ledger.DB, query ledger.SQL, args ...any) (map[K]V, error) {
	var pairs map[K]V
	err := db.Read(t.Context(), func(tx *ledger.Tx) error {
		pairs = map[K]V{}
		return tx.Query(t.Context(), query, args, func(r ledger.Row) error {
			var key K
			var value V
			err := r.Scan(&key, &value)
			pairs[key] = value
			return err
		})
	})
	return pairs, err
}
