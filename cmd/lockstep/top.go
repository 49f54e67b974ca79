package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"lockstep/console"
)

const topAbout = `Shows a running relay, live: the senders' lanes with who holds and who waits, the upstreams,
and the rate and latency of each method.

  lockstep top           q ends it, s sorts the lanes another way, p holds the picture
  lockstep top --once    one picture, for scripts

` + adminAbout + `
Where standard output is no terminal, one picture follows the other.`

func runTop(ctx context.Context, args []string, std streams) error {
	flags := newFlags("top", topAbout, std)
	url := adminFlag(flags)
	once := flags.Bool("once", false, "print one picture and end")
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		flags.Usage()
		return errUsage
	}
	a, err := newAdmin(*url, std)
	if err != nil {
		return err
	}
	if *once {
		ctx, cancel := context.WithTimeout(ctx, adminTimeout)
		defer cancel()
		return a.topOnce(ctx, std.out)
	}
	return a.topLive(ctx, std)
}

// settles is how long --once waits for a second state, which rates need. A relay that nothing happens to sends none.
const settles = 2 * time.Second

func (a admin) topOnce(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states, failed := a.states(ctx)
	var s board
	var quiet <-chan time.Time
	for {
		select {
		case state := <-states:
			if s.take(state, time.Now()); quiet != nil {
				return s.print(out)
			}
			quiet = time.After(settles)
		case <-quiet:
			return s.print(out)
		case err := <-failed:
			return err
		}
	}
}

// topLive draws each new state until somebody ends it. A relay that goes away may come back.
func (a admin) topLive(ctx context.Context, std streams) error {
	screen, err := openScreen(std)
	if err != nil {
		return err
	}
	defer screen.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := board{}
	states, failed := a.states(ctx)
	var retry <-chan time.Time
	for {
		select {
		case state := <-states:
			s.take(state, time.Now())
			s.trouble = ""
		case err := <-failed:
			if refused, ok := errors.AsType[*refusedError](err); ok && !refused.passes {
				return err
			}
			s.trouble = err.Error()
			states, failed = nil, nil
			retry = time.After(time.Second)
		case <-retry:
			retry = nil
			states, failed = a.states(ctx)
			continue
		case key := <-screen.keys:
			if !s.press(key) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		if err := screen.draw(&s); err != nil {
			return err
		}
	}
}

// refusedError is an answer of the relay that is no stream.
type refusedError struct {
	status, text string
	passes       bool // it may be otherwise in a moment
}

func (e *refusedError) Error() string {
	text := e.status
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

// longestState bounds the text of a state; a lane takes some hundred bytes.
const longestState = 64 << 20

// states sends what the relay tells of itself, until the stream ends, which is an error.
func (a admin) states(ctx context.Context) (<-chan console.State, <-chan error) {
	states, failed := make(chan console.State), make(chan error, 1)
	go func() { failed <- a.follow(ctx, states) }()
	return states, failed
}

func (a admin) follow(ctx context.Context, states chan<- console.State) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/ui/events", nil)
	if err != nil {
		return err
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token.Reveal())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return a.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status alone says enough
		return &refusedError{status: response.Status, text: strings.TrimSpace(string(text)), passes: response.StatusCode == http.StatusServiceUnavailable}
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, longestState)
	for lines.Scan() {
		text, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var state console.State
		if err := json.Unmarshal(text, &state); err != nil {
			return fmt.Errorf("what the relay says cannot be read: %w", err)
		}
		select {
		case states <- state:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cmp.Or(lines.Err(), errors.New("the relay has ended the stream"))
}

// screen is where pictures go.
type screen struct {
	out   io.Writer
	file  *os.File // nil: no terminal
	keys  chan byte
	reset func()
}

// openScreen makes a terminal ready for pictures: keys come at once and are not shown.
func openScreen(std streams) (*screen, error) {
	s := &screen{out: std.out, reset: func() {}}
	file, ok := std.out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s, nil
	}
	s.file = file
	in, ok := std.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return s, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	s.reset = func() { _ = term.Restore(int(in.Fd()), before) }
	s.keys = make(chan byte)
	go func() { // ends with the process: a read from a terminal cannot be given up
		var one [1]byte
		for {
			if n, err := in.Read(one[:]); err != nil || n == 0 {
				return
			}
			s.keys <- one[0]
		}
	}()
	_, err = io.WriteString(s.out, "\x1b[?1049h\x1b[?25l") // another page, without the cursor
	return s, err
}

func (s *screen) close() {
	if s.file != nil {
		_, _ = io.WriteString(s.out, "\x1b[?25h\x1b[?1049l")
	}
	s.reset()
}

// draw puts a picture in the place of the one before.
func (s *screen) draw(picture *board) error {
	if s.file == nil {
		return picture.print(s.out)
	}
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil {
		width, height = defaultWidth, defaultHeight
	}
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	for _, line := range picture.lines(width, height) {
		b.WriteString(line + "\x1b[K\r\n")
	}
	b.WriteString("\x1b[J")
	_, err = s.out.Write(b.Bytes())
	return err
}
