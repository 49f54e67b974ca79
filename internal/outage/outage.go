package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/clip"
)

// The lines of the log.
const (
	Lost = "an upstream is not usable"
	Back = "an upstream is usable again"
)

// Interval is the least time between two lines about losses of one upstream.
const Interval = 10 * time.Second

// Log tells of one upstream. Its fields do not change after its first use; without a Logger it
// says nothing. It is safe for concurrent use, and Up costs one atomic load while there is
// nothing to say.
type Log struct {
	Logger *slog.Logger
	// Upstream is the kind: mirror, node or redis.
	Upstream string
	// Name tells those of one kind apart.
	Name string
	// Consequence is what the loss means for clients.
	Consequence string
	// Level is that of the line of loss.
	Level slog.Level

	out atomic.Bool // lost, with a line or without

	mu     sync.Mutex // guards all below
	since  time.Time  // of this loss
	told   []string   // the causes for which this loss has a line
	last   time.Time  // when a loss was told of last
	untold int        // losses without a line since then
}

// maxCauses bounds the lines about one loss.
const maxCauses = 4

// Down reports a failure by which the upstream is not usable. The first one of a loss has a line, and so has another cause, which may be
// what keeps the upstream away by now; an Interval lies between two lines.
func (l *Log) Down(ctx context.Context, cause error) {
	if l.Logger == nil {
		return
	}
	now := time.Now()
	l.mu.Lock()
	if !l.out.Swap(true) {
		l.since, l.told = now, nil
	}
	if len(l.told) == maxCauses || !l.last.IsZero() && now.Sub(l.last) < Interval || slices.Contains(l.told, kindOf(cause)) {
		l.mu.Unlock()
		return
	}
	attrs := append(l.attrs(), slog.Any("error", named(cause)), slog.String("consequence", l.Consequence))
	if l.untold > 0 {
		attrs = append(attrs, slog.Int("further_losses", l.untold))
	}
	l.told, l.last, l.untold = append(l.told, kindOf(cause)), now, 0
	l.mu.Unlock()
	l.Logger.LogAttrs(ctx, l.Level, Lost, attrs...)
}

// Up reports that the upstream was usable just now, and tells whether that ended a loss.
func (l *Log) Up(ctx context.Context) (ended bool) {
	if !l.out.Load() {
		return false
	}
	l.mu.Lock()
	if !l.out.Swap(false) {
		l.mu.Unlock()
		return false
	}
	told, since := len(l.told) > 0, l.since
	if !told {
		l.untold++
	}
	l.mu.Unlock()
	if told {
		l.Logger.LogAttrs(ctx, slog.LevelInfo, Back, append(l.attrs(), slog.Duration("out_for", time.Since(since).Round(time.Millisecond)))...)
	}
	return true
}

// kindOf is a cause without what differs from one failure to the next, such as a port.
func kindOf(cause error) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, clip.Text(fmt.Sprint(cause), 256))
}

// named says in words what io.EOF and a deadline mean: an operator who reads them alone learns nothing.
func named(cause error) error {
	switch {
	case errors.Is(cause, io.EOF):
		return fmt.Errorf("the connection was closed by the other end: %w", cause)
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time: %w", cause)
	}
	return cause
}

func (l *Log) attrs() []slog.Attr {
	return []slog.Attr{slog.String("upstream", l.Upstream), slog.String("name", l.Name)}
}
