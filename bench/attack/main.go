// Command attack does to a relay what a stranger may do, on loopback and within bounds, and
// prints what it cost:
//
//	go run ./bench/attack -lockstep bin/lockstep [-attacks simulate-bomb,unfinished-bodies] [-clients 50] [-race]
//
// It starts a development network and, for each attack, a relay with its default settings, each
// in a process of its own. Next to the attack one honest client asks for eth_chainId all the time.
// The clients of an attack come from different addresses: they say so in X-Forwarded-For, which
// the relay believes from loopback unless it is told otherwise.
//
// # Reading the table
//
//	peak, after  megabytes of resident memory, the maximum and ten seconds after the attack
//	p99          the honest client's slowest hundredth in milliseconds
//	noise        how many times slower than before a server was that does nothing (lab.go), in a
//	             process of its own and at the same time: what the machine alone made of it
//	p99/noise    the one divided by the other, in milliseconds: 50 is what there may be
//	answered     calls of the attack that were answered with a result
//	refused      those that were answered with an error, or whose connection was not taken
//	note         what else the attack is about
//
// # What may be
//
// Under no attack may the relay take more than 512 MB of memory, nor an honest client's slowest hundredth take
// longer than 50 ms times the noise, unless the work itself is counted, nor may what the attack is about come to pass: forged addresses that get in,
// rejections beyond the sender's budget, locks without Redis, requests without an answer. What was so all the same
// is printed in a line of its own, and the exit status is 1.
//
// # Under the race detector
//
// With -race the program must be one that was built with -race. It ends at its first data race, and so does
// the run, with the report. Its memory and its times are then not the product's: the detector takes five to ten
// times as much of both.
//
// A row is an entry of attacks in the file attacks.go: a name and what its clients do.
//
// # Words
//
//	attack         a row of the table: a name, and what its clients do
//	honest client  the one that is measured beside an attack
//	noise          what the machine alone makes of a time
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program's own
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "attack:", err) // there is nowhere else to say it
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 1 && args[0] == echoCommand {
		return serveEcho(ctx, out)
	}
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	program := flags.String("lockstep", "bin/lockstep", "the `program` to attack")
	chosen := flags.String("attacks", "", "`names` of attacks, separated by commas (default: all of "+strings.Join(names(), ", ")+")")
	clients := flags.Int("clients", 50, "`number` of clients of an attack")
	race := flags.Bool("race", false, "the program was built with -race: a data race ends the run")
	length := flags.Duration("for", 10*time.Second, "how `long` an attack lasts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list, err := choose(*chosen)
	if err != nil {
		return err
	}
	l, err := open(ctx, *program, *race)
	if err != nil {
		return err
	}
	defer l.close()
	if *race {
		_, _ = fmt.Fprintln(out, "under the race detector: memory and times are not the product's")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "attack\tpeak MB\tafter MB\tp99 ms\tnoise\tp99/noise\tanswered\trefused\tnote")
	var broken []error
	for _, a := range list {
		r, err := l.attack(ctx, a, *clients, *length, 10*time.Second)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\t%d\t%s\n",
			a.name, r.peak>>20, r.after>>20, r.during.relay.Seconds()*1e3, r.noise(), r.during.relay.Seconds()*1e3/r.noise(), r.answered, r.refused, r.note)
		for _, text := range r.verdict(*race) {
			broken = append(broken, fmt.Errorf("%s: %s", a.name, text))
		}
	}
	return errors.Join(table.Flush(), errors.Join(broken...))
}
