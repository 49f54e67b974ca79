package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal is what is known of where a text goes. The zero value is a pipe or a file: no colour, no width.
type terminal struct {
	columns int // 0 if it is no terminal
	colour  bool
}

// terminalOf looks at the stream. NO_COLOR, set to anything, means what it means everywhere (no-color.org), and a
// terminal that calls itself dumb gets no colour either.
func terminalOf(w io.Writer) terminal {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return terminal{}
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil || columns == 0 { // a terminal need not know its size
		columns = 80
	}
	return terminal{columns: columns, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// What a terminal knows as text attributes and colours (ECMA-48, select graphic rendition).
const (
	bold = "1"
	dim  = "2"
	cyan = "36"
)

func (t terminal) paint(how, text string) string {
	if !t.colour || text == "" {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}
