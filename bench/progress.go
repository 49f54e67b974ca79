package bench

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	barWidth      = 30
	redrawPause   = 100 * time.Millisecond
	clearLineCode = "\r\x1b[K"
)

// progress draws one line that shows how far the current stage is, if its writer is a terminal; elsewhere it
// writes its notes alone. A nil progress writes nothing. It is safe for concurrent use and never makes the
// load wait: whoever finds it busy drawing just counts on.
type progress struct {
	w        io.Writer
	terminal bool

	done atomic.Int64 // of the current stage

	mu    sync.Mutex // guards what follows, and the writer
	title string
	stage string
	total int
	drawn time.Time
}

// newProgress returns nil if there is nothing to write to.
func newProgress(w io.Writer) *progress {
	if w == nil {
		return nil
	}
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// run names what the stages that follow belong to.
func (p *progress) run(title string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title = title
}

func (p *progress) begin(stage string, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.total = stage, total
	p.done.Store(0)
	p.draw()
}

func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.done.Add(int64(n))
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if time.Since(p.drawn) >= redrawPause {
		p.draw()
	}
}

// note writes a line that stays.
func (p *progress) note(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format+"\n", args...)
	if p.terminal {
		line = clearLineCode + line
	}
	_, _ = io.WriteString(p.w, line)
}

// end wipes the line.
func (p *progress) end() {
	if p == nil || !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.w, clearLineCode)
}

// draw writes the line; the caller holds mu. A terminal that cannot be written to is
// no reason to stop measuring.
func (p *progress) draw() {
	if !p.terminal {
		return
	}
	p.drawn = time.Now()
	filled, done := barWidth, int(p.done.Load())
	if p.total > 0 {
		filled = min(barWidth, barWidth*done/p.total)
	}
	bar := strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled)
	_, _ = fmt.Fprintf(p.w, "%s%s %-6s [%s] %d/%d", clearLineCode, p.title, p.stage, bar, done, p.total)
}
