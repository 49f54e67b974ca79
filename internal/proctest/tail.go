package proctest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
)

// tailKept is how much of a log there is at least, in bytes, once that was written.
const tailKept = 16 << 20

// Tail keeps the end of what is written to it. The zero value is ready.
type Tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer.
func (w *Tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text = append(w.text, b...); len(w.text) > 2*tailKept {
		w.text = bytes.Clone(w.text[len(w.text)-tailKept:])
	}
	return len(b), nil
}

func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// Last gives a maximum of n bytes, the last ones.
func (w *Tail) Last(n int) string {
	text := w.String()
	return text[max(0, len(text)-n):]
}

// Has tells whether something was written.
func (w *Tail) Has(text string) bool { return strings.Contains(w.String(), text) }

// line looks for a whole line that read takes.
func (w *Tail) line(read func(line []byte) bool) error {
	for line := range bytes.Lines([]byte(w.String())) {
		if bytes.HasSuffix(line, []byte("\n")) && read(line) {
			return nil
		}
	}
	return errors.New("it does not say that it is ready")
}
