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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"lockstep/console"
	"lockstep/lock"
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
	response, err := adminClient.Do(request)
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

// The size of a picture where there is no terminal that has one.
const (
	defaultWidth  = 120
	defaultHeight = 60
)

// order is what lanes are sorted by.
type order int

const (
	byWaiting order = iota
	byHeld
	bySender
	orders
)

func (o order) String() string {
	return [...]string{"those with the most waiting first", "those held longest first", "by sender"}[o]
}

// board is what is known of a relay, and how it is to be shown.
type board struct {
	before, now console.State
	elapsed     time.Duration // between the two; 0: there is only one
	at          time.Time     // of the second
	order       order
	held        bool   // the picture stays as it is
	trouble     string // why there is nothing new; "" while there is
}

// take notes a state.
func (s *board) take(state console.State, at time.Time) {
	if s.held {
		return
	}
	if !s.at.IsZero() {
		s.elapsed = at.Sub(s.at)
	}
	s.before, s.now, s.at = s.now, state, at
}

// press acts upon a key, and tells whether to go on.
func (s *board) press(key byte) bool {
	const interrupt = 3
	switch key {
	case 'q', 'Q', interrupt:
		return false
	case 's':
		s.order = (s.order + 1) % orders
	case 'p':
		s.held = !s.held
	}
	return true
}

// print writes a picture as text.
func (s *board) print(out io.Writer) error {
	_, err := io.WriteString(out, strings.Join(s.lines(defaultWidth, defaultHeight), "\n")+"\n")
	return err
}

// lines is the picture: no line is longer than the width, and there are fewer than the height.
func (s *board) lines(width, height int) []string {
	lines := s.head()
	lines = append(lines, s.upstreams()...)
	methods := s.methods()
	room := max(height-len(lines)-1, 0)
	lanes := s.lanes(max(room/2, room-len(methods)))
	lines = append(append(lines, lanes...), methods...)
	lines = lines[:min(len(lines), max(height-1, 1))]
	for i, line := range lines {
		lines[i] = cut(plain(line), width)
	}
	return lines
}

// plain replaces what a terminal would act upon: names and causes come from others.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(width-1, 0)]) + "…"
}

func (s *board) head() []string {
	n := s.now
	ordering := "ordering off"
	if n.Ordering {
		ordering = "ordering on"
		if n.Ordered != "" && n.Ordered != lock.AllSenders { // older relays do not tell it
			ordering += " for " + n.Ordered
		}
		ordering += fmt.Sprintf(", window %d ms", n.Window)
	}
	first := fmt.Sprintf("lockstep (version %s)   chain %d   %s", n.Version, n.ChainID, ordering)
	if n.Costs.Balance != nil {
		first += "   operator " + hbar(*n.Costs.Balance)
	}
	if n.Costs.Remaining != nil && n.Costs.Limit > 0 {
		first += fmt.Sprintf("   budget %s of %s left", hbar(*n.Costs.Remaining), hbar(float64(n.Costs.Limit)))
	}
	lines := []string{first}
	if s.at.IsZero() {
		lines[0] = "lockstep top"
	}
	switch {
	case s.trouble != "":
		lines = append(lines, "NOTHING NEW: "+s.trouble)
	case s.held:
		lines = append(lines, "held since "+s.at.Format(time.TimeOnly)+"; p goes on")
	}
	return append(lines, "")
}

func hbar(tinybars float64) string { return strconv.FormatFloat(tinybars/1e8, 'f', 2, 64) + " ℏ" }

func (s *board) upstreams() []string {
	lines := []string{row(12, "UPSTREAM", 30, "NAME", 0, "STATE")}
	for _, u := range s.now.Upstreams {
		state := "up"
		if !u.Up {
			state = "DOWN"
			if u.Since != nil {
				state += " since " + u.Since.Local().Format(time.TimeOnly)
			}
		}
		for _, more := range []string{u.Cause, u.Note} {
			if more != "" {
				state += ", " + more
			}
		}
		lines = append(lines, row(12, u.Kind, 30, u.Name, 0, state))
	}
	return append(lines, "")
}

// row puts texts into columns, each with its width before it; 0 for the last.
func row(columns ...any) string {
	var b strings.Builder
	for i := 0; i < len(columns); i += 2 {
		width, text := columns[i].(int), columns[i+1].(string)
		if width == 0 {
			b.WriteString(text)
			break
		}
		fmt.Fprintf(&b, "%-*s ", width, cut(text, width))
	}
	return b.String()
}

// figures is a row of a name and right-aligned columns.
func figures(name string, width int, columns ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, cut(name, width))
	for _, c := range columns {
		fmt.Fprintf(&b, " %9s", c)
	}
	return b.String()
}

func (s *board) lanes(room int) []string {
	lanes := slices.Clone(s.now.Lanes)
	waiting, held := 0, 0
	for _, l := range lanes {
		waiting += l.Waiting
		if l.Held || l.HeldBy != "" {
			held++
		}
	}
	slices.SortStableFunc(lanes, func(a, b lock.LaneInfo) int {
		sender := a.Sender.Cmp(b.Sender)
		switch s.order {
		case byHeld:
			return cmp.Or(cmp.Compare(b.HeldFor, a.HeldFor), sender)
		case bySender:
			return sender
		default:
			return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.HeldFor, a.HeldFor), sender)
		}
	})
	lines := []string{
		fmt.Sprintf("LANES in use %d, held %d, waiting %d; %s", max(s.now.AllLanes, len(lanes)), held, waiting, s.order),
		row(42, "SENDER", 7, "WAITING", 8, "NEXT", 12, "HOLDER", 8, "NONCE", 8, "HELD", 8, "LEFT", 0, "ORDER"),
	}
	shown := lanes[:max(min(len(lanes), room-len(lines)-2), 0)]
	for _, l := range shown {
		lines = append(lines, lane(l))
	}
	if more := max(s.now.AllLanes, len(lanes)) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return append(lines, "")
}

func lane(l lock.LaneInfo) string {
	holder, nonce, heldFor, left := "-", "", "", ""
	switch {
	case l.Held:
		holder = "here"
	case l.HeldBy != "":
		holder = l.HeldBy
	}
	if l.Held {
		nonce, heldFor = strconv.FormatUint(l.Nonce, 10), seconds(l.HeldFor)
		if l.Left > 0 {
			left = seconds(l.Left)
		}
	}
	next := ""
	if l.Expected != nil {
		next = strconv.FormatUint(*l.Expected, 10)
	}
	return row(42, l.Sender.Hex(), 7, strconv.Itoa(l.Waiting), 8, next, 12, holder, 8, nonce, 8, heldFor, 8, left, 0, l.Strategy)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }

func (s *board) methods() []string {
	const name = 26
	earlier := map[string]console.Method{}
	if s.elapsed > 0 {
		for _, m := range s.before.Methods {
			earlier[m.Name] = m
		}
	}
	type line struct {
		rate float64
		text string
	}
	var list []line
	for _, m := range s.now.Methods {
		if m.Calls == 0 && m.Failed == 0 {
			continue
		}
		last := earlier[m.Name]
		rate, failures := "", ""
		var perSecond float64
		buckets := m.Buckets
		if s.elapsed > 0 && m.Calls >= last.Calls { // fewer: it is another process
			perSecond = float64(m.Calls-last.Calls) / s.elapsed.Seconds()
			rate = strconv.FormatFloat(perSecond, 'f', 1, 64)
			failures = strconv.FormatFloat(float64(m.Failed-min(last.Failed, m.Failed))/s.elapsed.Seconds(), 'f', 1, 64)
			if m.Calls > last.Calls {
				buckets = since(m.Buckets, last.Buckets)
			}
		}
		list = append(list, line{perSecond, figures(m.Name, name, rate, failures, quantile(m.Bounds, buckets, .5), quantile(m.Bounds, buckets, .99),
			strconv.FormatUint(m.Calls, 10), strconv.FormatUint(m.Failed, 10))})
	}
	slices.SortStableFunc(list, func(a, b line) int { return cmp.Compare(b.rate, a.rate) })
	lines := []string{figures("METHOD", name, "CALLS/S", "ERRORS/S", "P50", "P99", "CALLS", "ERRORS")}
	for _, l := range list {
		lines = append(lines, l.text)
	}
	return lines
}

// since is what came into buckets after an earlier state.
func since(now, before []uint64) []uint64 {
	out := slices.Clone(now)
	for i := range out {
		if i < len(before) && before[i] <= out[i] {
			out[i] -= before[i]
		}
	}
	return out
}

// quantile is the bound of the bucket in which a share of the calls is.
func quantile(bounds []float64, buckets []uint64, share float64) string {
	if len(buckets) == 0 || len(buckets) != len(bounds) {
		return ""
	}
	all := buckets[len(buckets)-1]
	if all == 0 {
		return ""
	}
	for i, n := range buckets {
		if float64(n) >= share*float64(all) {
			return "≤ " + strconv.FormatFloat(bounds[i], 'g', 4, 64) + " ms"
		}
	}
	return ""
}

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
