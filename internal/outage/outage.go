package outage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
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
	told   bool       // this loss has its line
	last   time.Time  // when a loss was told of last
	untold int        // losses without a line since then
}

// Down reports a failure by which the upstream is not usable. Only the first one of a loss
// changes anything, and one that comes when a line that was held back is due.
func (l *Log) Down(ctx context.Context, cause error) {
	if l.Logger == nil {
		return
	}
	now := time.Now()
	l.mu.Lock()
	if !l.out.Swap(true) {
		l.since, l.told = now, false
	}
	if l.told || !l.last.IsZero() && now.Sub(l.last) < Interval {
		l.mu.Unlock()
		return
	}
	attrs := append(l.attrs(), slog.Any("error", named(cause)), slog.String("consequence", l.Consequence))
	if l.untold > 0 {
		attrs = append(attrs, slog.Int("further_losses", l.untold))
	}
	l.told, l.last, l.untold = true, now, 0
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
	told, since := l.told, l.since
	if !told {
		l.untold++
	}
	l.mu.Unlock()
	if told {
		l.Logger.LogAttrs(ctx, slog.LevelInfo, Back, append(l.attrs(), slog.Duration("out_for", time.Since(since).Round(time.Millisecond)))...)
	}
	return true
}

// named says in words what io.EOF means: an operator who reads it alone learns nothing.
func named(cause error) error {
	if errors.Is(cause, io.EOF) {
		return fmt.Errorf("the connection was closed by the other end: %w", cause)
	}
	return cause
}

func (l *Log) attrs() []slog.Attr {
	return []slog.Attr{slog.String("upstream", l.Upstream), slog.String("name", l.Name)}
}
