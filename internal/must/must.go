// Package must ends a test where something fails that the test is not about.
//
//	db := must.Get(ledger.Open(t.Context(), url))(t)
//	must.Do(t, db.Close())
//
// What a test is about it compares itself, and says what it wanted.
package must

import "testing"

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a value, or ends the test if there is an error instead.
func Get[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Get2 is Get for two values.
func Get2[A, B any](a A, b B, err error) func(t testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}
