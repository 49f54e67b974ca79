package sleep

import (
	"context"
	"net/http"
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

func TestRetryAfter(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "0.25": time.Second / 4, "99999": time.Minute, "1e300": time.Minute, "NaN": 0, "-1": 0, "soon": 0,
		now.Add(9 * time.Second).UTC().Format(http.TimeFormat): 9 * time.Second, now.Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
	} {
		if got := RetryAfter(text, now, time.Minute); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
