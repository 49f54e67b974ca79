package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program's own
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "bench suite:", err) // there is nowhere else to say it
		os.Exit(1)
	}
}

// frugal is how much the heaps of the load generator and of the network grow between two
// collections, in percent. They share the CPUs with what is measured, which collects at
// the usual pace.
const frugal = 400

// roles are what the suite's own processes do.
var roles = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	"echo":  func(ctx context.Context, _ []string, out io.Writer) error { return echoRole(ctx, out) },
	"naive": func(ctx context.Context, _ []string, out io.Writer) error { return naiveRole(ctx, out) },
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			return role(ctx, args[1:], out)
		}
	}
	debug.SetGCPercent(frugal)
	l := &lab{progress: progress}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	program := flags.String("lockstep", "bin/lockstep", "the `program` to measure")
	chosen := flags.String("rows", "", "`rows` to measure, separated by commas (default: all of "+strings.Join(rowNames(), ", ")+")")
	document := flags.String("doc", "", "`directory` of documents in which the figures of these rows are replaced: internals/figures.json and FIGURES.md, and PERFORMANCE.md")
	flags.IntVar(&l.runs, "runs", 0, "runs of each row (default: each row's own number)")
	flags.StringVar(&l.cases, "cases", "", "`cases` of the row healing, separated by commas (default: all)")
	flags.BoolVar(&l.short, "short", false, "less to send and shorter trouble in the row healing, fewer connections in listeners and queued")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list, err := choose(*chosen)
	if err != nil {
		return err
	}
	if err := l.open(*program); err != nil {
		return err
	}
	return errors.Join(l.measure(ctx, list, out, *document), os.RemoveAll(l.dir))
}

// row is one measurement.
type row struct {
	id, title string
	runs      int // when the caller does not say
	measure   func(s *scenario)
}

func rows() []row {
	return []row{
		{"burst", "1 sender × 100, 1 ms apart, one relay", 3, burst.run},
		{"two-relays", "1 sender × 100, consecutive nonces alternating between two relays on one Redis, 1 ms apart", 20, twoRelays.run},
		{"fifty", "50 senders × 20, each 1 ms apart, one relay", 3, fifty.run},
		{"queued", "10,000 HTTP connections with a transaction each that waits for its turn", 1, queued},
		{"listeners", "100,000 WebSocket connections with a subscription to newHeads each", 1, listening},
		{"redis-killed", "Redis killed in the middle of a burst", 3, redisKilled},
		{"holder-killed", "kill -9 of the relay that holds the lock", 3, holderKilled},
		{"healing", "what a short failure costs a burst", 3, healing},
		{"reads-limit", "what requests cost against a bare echo and nginx", 3, readsLimit},
		{"reads-memory", "memory of the relay's process", 3, readsMemory},
	}
}

func rowNames() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.id)
	}
	return names
}

func choose(list string) ([]row, error) {
	if list == "" {
		return rows(), nil
	}
	var out []row
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		found := slices.DeleteFunc(rows(), func(r row) bool { return r.id != name && !strings.HasPrefix(r.id, name+"-") })
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no row %q; there are %s", name, strings.Join(rowNames(), ", "))
		}
		out = append(out, found...)
	}
	return out, nil
}

// lab is what the rows share.
type lab struct {
	program  string // lockstep
	self     string
	dir      string // where processes run
	runs     int
	cases    string // of the row healing; "": all
	short    bool   // the rows healing, listeners and queued with less of everything
	progress io.Writer
}

func (l *lab) open(program string) (err error) {
	if l.program, err = filepath.Abs(program); err != nil {
		return err
	}
	if _, err = os.Stat(l.program); err != nil {
		return fmt.Errorf("-lockstep: %w", err)
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	l.dir, err = os.MkdirTemp("", "lockstep-suite-")
	return err
}

func (l *lab) measure(ctx context.Context, list []row, out io.Writer, document string) error {
	measured := fmt.Sprintf("%s, %s/%s, %d CPUs, %s", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if _, err := fmt.Fprintf(out, "Measured %s.\n", measured); err != nil {
		return err
	}
	var errs []error
	var tables []*table
	for _, r := range list {
		if ctx.Err() != nil {
			break
		}
		l.say("%s …\n", r.id)
		t, start := &table{ID: r.id, Title: r.title, Measured: measured}, time.Now()
		t.failure = l.play(ctx, t, cmp.Or(l.runs, r.runs), r.measure)
		t.conclude()
		t.seconds = time.Since(start).Seconds()
		if t.failure != nil {
			errs = append(errs, fmt.Errorf("row %s is incomplete", r.id))
		}
		tables = append(tables, t)
		errs = append(errs, t.write(out))
	}
	if document != "" {
		errs = append(errs, publish(document, tables))
	}
	return errors.Join(errs...)
}

// scenario is a row, or a part of one, while it is played: what is started in it ends with it, and what fails ends it.
type scenario struct {
	*lab
	*table
	ctx  context.Context
	runs int
	ends []func()
}

// failure is what a scenario panics with.
type failure struct{ error }

// play plays a scenario to its end, or to what failed.
func (l *lab) play(ctx context.Context, t *table, runs int, scene func(s *scenario)) (err error) {
	s := &scenario{lab: l, table: t, ctx: ctx, runs: runs}
	defer func() {
		for _, end := range slices.Backward(s.ends) {
			end()
		}
		switch what := recover().(type) {
		case nil:
		case failure:
			err = what.error
		default:
			panic(what)
		}
	}()
	scene(s)
	return nil
}

// part plays a scenario within this one.
func (s *scenario) part(scene func(s *scenario)) { s.must(s.play(s.ctx, s.table, 1, scene)) }

// must ends the scenario if there is an error. Only its own goroutine may call it, and what calls it.
func (s *scenario) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func (s *scenario) atEnd(end func()) { s.ends = append(s.ends, end) }

func (s *scenario) until(limit time.Duration, look func() error) {
	s.must(proctest.Until(s.ctx, limit, look))
}

func (s *scenario) pause(d time.Duration) { sleep.For(s.ctx, d) }

func (l *lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.progress, format, args...) // the terminal went away
}
