package outage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A loss and its end have one line each. An upstream that comes and goes does not fill the log,
// and what was held back is said as soon as it may be.
func TestEachChangeIsSaidOnceAndThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := &Log{
			Logger:   slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
			Upstream: "redis", Name: "locks", Consequence: "order is kept here", Level: slog.LevelWarn,
		}
		down, up := func() { l.Down(t.Context(), errors.New("refused")) }, func() { l.Up(t.Context()) }
		lost := `level=WARN msg="an upstream is not usable" upstream=redis name=locks error=refused consequence="order is kept here"`
		back := `level=INFO msg="an upstream is usable again" upstream=redis name=locks out_for=`
		for _, step := range []struct {
			what string
			do   func()
			want string
		}{
			{"it works", up, ""},
			{"it fails", down, lost},
			{"and again", down, ""},
			{"it works again", func() { time.Sleep(3 * time.Second); up() }, back + "3s"}, //nolint:forbidigo // fake time
			{"and on", up, ""},
			{"it fails too soon for a line", down, ""},
			{"so its end has none", up, ""},
			{"it fails once more", down, ""},
			{"the line is due", func() { time.Sleep(7 * time.Second); down() }, lost + " further_losses=1"}, //nolint:forbidigo // fake time
			{"the end of that", up, back + "7s"},
		} {
			text.Reset()
			step.do()
			if diff := cmp.Diff(step.want, strings.TrimSpace(text.String())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.what, diff)
			}
		}
	})
}

// Who refuses connections while it starts may want a password afterwards. What changes with each failure makes no other cause.
func TestAnotherCauseIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := &Log{Logger: slog.New(slog.NewTextHandler(&text, nil)), Upstream: "redis", Name: "locks"}
		for _, step := range []struct {
			after time.Duration
			cause string
			said  bool
		}{
			{0, "port 4001: refused", true},
			{time.Second, "NOAUTH", false},
			{Interval, "port 4002: refused", false},
			{0, "NOAUTH", true},
			{time.Minute, "NOAUTH", false},
			{0, "port 4003: refused", false},
			{0, "a", true},
			{time.Minute, "b", true},
			{time.Minute, "c", false},
		} {
			text.Reset()
			time.Sleep(step.after) //nolint:forbidigo // fake time
			l.Down(t.Context(), errors.New(step.cause))
			if said := strings.Contains(text.String(), step.cause); said != step.said || !said && text.Len() > 0 {
				t.Errorf("%s, %v later: %q", step.cause, step.after, text.String())
			}
		}
	})
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// One that was given no logger says nothing.
func TestWithoutALogger(t *testing.T) {
	var l Log
	l.Down(t.Context(), errors.New("refused"))
	l.Up(t.Context())
}

// What io.EOF and a deadline mean is said: the words of the libraries tell an operator nothing.
func TestCausesAreNamed(t *testing.T) {
	for want, cause := range map[string]error{
		"the connection was closed by the other end: heartbeat: EOF": fmt.Errorf("heartbeat: %w", io.EOF),
		"no answer in time: blocks: context deadline exceeded":       fmt.Errorf("blocks: %w", context.DeadlineExceeded),
	} {
		var text bytes.Buffer
		l := Log{Logger: slog.New(slog.NewTextHandler(&text, nil)), Upstream: "redis", Name: "locks"}
		l.Down(t.Context(), cause)
		if !strings.Contains(text.String(), `error="`+want+`"`) {
			t.Error(text.String())
		}
	}
}
