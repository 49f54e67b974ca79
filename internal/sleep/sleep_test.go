package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		ends, cancel := context.WithDeadline(t.Context(), time.Now().Add(2*time.Minute))
		defer cancel()
		for _, row := range []struct {
			what  string
			ctx   context.Context
			d     time.Duration
			takes time.Duration
			want  bool
		}{
			{"nothing ends it", ends, time.Minute, time.Minute, true},
			{"no time", ends, 0, 0, true},
			{"less than no time", ends, -time.Minute, 0, true},
			{"the context has ended", ended, time.Minute, 0, false},
			{"no time, and the context has ended", ended, 0, 0, false},
			{"the context ends meanwhile", ends, time.Hour, time.Minute, false},
		} {
			begun := time.Now()
			if got := For(row.ctx, row.d); got != row.want || time.Since(begun) != row.takes {
				t.Errorf("%s: %t after %s, want %t after %s", row.what, got, time.Since(begun), row.want, row.takes)
			}
		}
	})
}
