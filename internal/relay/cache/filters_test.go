package cache

import (
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// A poll that does not hear that it moved the cursor, and tries again, has moved it;
// another poll has not.
func TestAdvanceAgain(t *testing.T) {
	client := redistest.Start(t).Client()
	f := NewFilters(client, FilterBounds{Count: 10, Bytes: 1000, TTL: time.Hour, Timeout: 2 * time.Minute})
	must.Do(t, f.Add(t.Context(), "192.0.2.1", "0x1", []byte("f"), 5))
	for i, attempt := range []struct {
		poll string
		want bool
	}{{"one", true}, {"one", true}, {"other", false}} {
		moved, err := f.advance.Run(t.Context(), client, []string{filterKey("0x1")}, "5", "6", attempt.poll).Bool()
		if moved != attempt.want || err != nil {
			t.Errorf("attempt %d: %v %v", i, moved, err)
		}
	}
	if _, next, ok, err := f.Use(t.Context(), "0x1"); next != 6 || !ok || err != nil {
		t.Errorf("%d %v %v", next, ok, err)
	}
}
