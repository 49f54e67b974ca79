package harness

import (
	"bytes"
	"strings"
	"sync"
)

// Tail keeps the last bytes written to it.
type Tail struct {
	Limit int

	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer.
func (w *Tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if over := len(w.text) - w.Limit; over > 0 {
		w.text = bytes.Clone(w.text[over:])
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
