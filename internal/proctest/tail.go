package proctest

import (
	"bytes"
	"errors"
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

// bytes returns what is kept. Nobody may change it, nor does Write.
func (w *Tail) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}

func (w *Tail) String() string { return string(w.bytes()) }

// Last gives a maximum of n bytes, the last ones.
func (w *Tail) Last(n int) string {
	text := w.bytes()
	return string(text[max(0, len(text)-n):])
}

// Has tells whether something was written.
func (w *Tail) Has(text string) bool { return bytes.Contains(w.bytes(), []byte(text)) }

// line looks for a whole line that read takes.
func (w *Tail) line(read func(line []byte) bool) error {
	for line := range bytes.Lines(w.bytes()) {
		if bytes.HasSuffix(line, []byte("\n")) && read(line) {
			return nil
		}
	}
	return errors.New("it does not say that it is ready")
}
