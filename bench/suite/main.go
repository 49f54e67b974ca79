package main

import (
	"cmp"
	"context"
	"encoding/json"
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
	"sync"
	"syscall"
	"time"
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

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "network":
			return networkRole(ctx, args[1:], out)
		case "archive":
			return archiveRole(ctx, out)
		case "listeners":
			return listenersRole(ctx, args[1:], out)
		case "echo":
			return echoRole(ctx, out)
		case "naive":
			return naiveRole(ctx, out)
		case "speaker":
			return speakerRole(ctx, out)
		}
	}
	debug.SetGCPercent(frugal)
	l := &lab{progress: progress}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	program := flags.String("lockstep", "bin/lockstep", "the `program` to measure")
	chosen := flags.String("rows", "", "`rows` to measure, separated by commas (default: all of "+strings.Join(rowNames(), ", ")+")")
	file := flags.String("json", "", "`file` to write the figures to, as JSON")
	document := flags.String("doc", "", "`directory` of documents in which the sections of these rows are replaced: PERFORMANCE.md and internals/FIGURES.md")
	keep := flags.String("keep", "", "`directory` to keep the logs of all processes in")
	settings := flags.String("set", "", "further `settings` of our relays, NAME=value separated by spaces")
	flags.IntVar(&l.runs, "runs", 0, "runs of each row (default: each row's own number)")
	flags.StringVar(&l.cases, "cases", "", "`cases` of the row healing, separated by commas (default: all)")
	flags.BoolVar(&l.short, "short", false, "less to send and shorter trouble in the row healing, fewer connections in listeners and queued")
	flags.StringVar(&l.profiles, "profile", "", "`directory` to write CPU and allocation profiles of the relays to, of each load")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l.settings = strings.Fields(*settings)
	list, err := choose(*chosen)
	if err != nil {
		return err
	}
	if err := l.open(*program, *keep); err != nil {
		return err
	}
	defer l.close()
	return l.measure(ctx, list, out, *file, *document)
}

// row is one measurement.
type row struct {
	id, title string
	runs      int // when the caller does not say
	measure   func(ctx context.Context, l *lab, t *table, runs int) error
}

func rows() []row {
	return []row{
		{"burst", "1 sender × 100, 1 ms apart, one relay", 3, burst},
		{"two-relays", "1 sender × 100, consecutive nonces alternating between two relays on one Redis, 1 ms apart", 20, twoRelays},
		{"fifty", "50 senders × 20, each 1 ms apart, one relay", 3, fifty},
		{"slow-consensus", "1 sender × 100, 1 ms apart, 3 s to consensus", 3, slowConsensus},
		{"thousand", "1,000 senders × 20 over two relays on one Redis", 1, thousand},
		{"queued", "10,000 HTTP connections with a transaction each that waits for its turn", 1, queuedConnections},
		{"listeners", "100,000 WebSocket connections with a subscription to newHeads each", 1, listening},
		{"redis-killed", "Redis killed in the middle of a burst", 3, redisKilled},
		{"holder-killed", "kill -9 of the relay that holds the lock", 3, holderKilled},
		{"healing", "what a short failure costs a burst", 3, healing},
		{"sends-beside-reads", "50 senders × 4 alone, and beside 600 slow reads of other clients", 3, sendsBesideReads},
		{"reads-cheap", "reads that need no mirror node", 3, readsCheap},
		{"reads-limit", "what requests cost against a bare echo and nginx", 3, readsLimit},
		{"reads-cold", "reads of what was never asked for before", 3, readsCold},
		{"reads-tip", "reads of the newest, asked for by many", 3, readsTip},
		{"reads-memory", "memory of the relay's process", 3, readsMemory},
		{"reads-start", "start of the relay to its first answer", 7, readsStart},
		{"reads-large", "a block of 10,000 transactions in full", 3, readsLarge},
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
	program   string // lockstep
	self      string
	dir       string // of logs
	keep      bool
	runs      int
	settings  []string  // of our relays
	yardstick yardstick // what reads are compared with
	profiles  string
	profiling sync.WaitGroup // of profiles that are under way
	cases     string         // of the row healing; "": all
	short     bool           // the rows healing, listeners and queued with less of everything
	cpus      int            // that all processes share; 0: those of the machine
	progress  io.Writer
	started   int
}

func (l *lab) open(program, keep string) (err error) {
	if l.program, err = filepath.Abs(program); err != nil {
		return err
	}
	if _, err = os.Stat(l.program); err != nil {
		return fmt.Errorf("-lockstep: %w", err)
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.profiles != "" {
		if err := os.MkdirAll(l.profiles, 0o750); err != nil {
			return err
		}
	}
	if keep != "" {
		l.keep = true
		if l.dir, err = filepath.Abs(keep); err != nil {
			return err
		}
		return os.MkdirAll(l.dir, 0o750)
	}
	l.dir, err = os.MkdirTemp("", "lockstep-suite-")
	return err
}

// processors is how many all processes share.
func (l *lab) processors() int { return cmp.Or(l.cpus, runtime.NumCPU()) }

func (l *lab) close() {
	if !l.keep {
		_ = os.RemoveAll(l.dir) // it is in the directory for temporary files
	}
}

// report is the file of -json.
type report struct {
	Started time.Time `json:"started"`
	Machine string    `json:"machine"`
	Set     []string  `json:"set,omitempty"` // settings of our relays besides the defaults
	Partial bool      `json:"partial"`
	Tables  []*table  `json:"tables"`
}

func (l *lab) measure(ctx context.Context, list []row, out io.Writer, file, document string) error {
	r := report{Started: time.Now().UTC(), Machine: machine(), Set: l.settings}
	if _, err := fmt.Fprintf(out, "Order of transactions, reads and watchers, measured %s on %s.\n* TypeScript relay, measured earlier on such a machine; not measured here.\n",
		r.Started.Format(time.DateTime), r.Machine); err != nil {
		return err
	}
	if len(l.settings) > 0 {
		if _, err := fmt.Fprintf(out, "Our relays run with %s.\n", strings.Join(l.settings, " ")); err != nil {
			return err
		}
	}
	var errs []error
	for _, row := range list {
		if ctx.Err() != nil {
			r.Partial = true
			break
		}
		t := l.one(ctx, row)
		if t.Failure != "" {
			errs = append(errs, fmt.Errorf("row %s is incomplete", row.id))
		}
		r.Tables = append(r.Tables, t)
		errs = append(errs, t.write(out))
	}
	if file != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o600)
		}
		errs = append(errs, err)
	}
	if document != "" {
		errs = append(errs, r.document(document))
	}
	return errors.Join(errs...)
}

// machine says where this runs.
func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// one measures one row.
func (l *lab) one(ctx context.Context, r row) *table {
	t := &table{ID: r.id, Title: r.title, Figures: []*figure{}}
	runs := r.runs
	if l.runs > 0 {
		runs = l.runs
	}
	l.say("%s …\n", r.id)
	start := time.Now()
	if err := r.measure(ctx, l, t, runs); err != nil {
		t.Failure = err.Error()
	}
	l.profiling.Wait()
	t.conclude()
	t.Seconds = time.Since(start).Seconds()
	return t
}

func (l *lab) say(format string, args ...any) {
	_, _ = fmt.Fprintf(l.progress, format, args...) // the terminal went away
}
