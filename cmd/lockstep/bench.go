package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"lockstep/bench"
	"lockstep/diff"
)

const benchAbout = `Sends signed transfers through any Ethereum JSON-RPC relay and reports throughput,
latency, errors and, from the chain itself, what was executed, out of order, lost or
duplicated. The only kind of load so far is "send":

  lockstep bench send --rpc URL[,URL...] --key-file FILE [flags]

Several URLs are relays of one chain: consecutive nonces alternate between them.`

func runBench(ctx context.Context, args []string, std streams) error {
	var cfg bench.Config
	flags := newFlags("bench send", benchAbout, std)
	rpc := flags.String("rpc", "http://127.0.0.1:7546", "relay `URLs` (http, https, ws or wss), separated by commas")
	keyFile := flags.String("key-file", "", "`file` with the private key that funds the senders; else $LOCKSTEP_BENCH_KEY")
	flags.StringVar(&cfg.ConsensusLog, "consensus-log", "", "`URL` of a devnet's mirror node, which tells the order in which consensus saw transactions")
	flags.IntVar(&cfg.Senders, "senders", 1, "number of sending accounts")
	flags.IntVar(&cfg.Count, "count", 100, "transactions of each sender")
	flags.DurationVar(&cfg.Spacing, "spacing", 0, "time between two transactions of one sender")
	flags.BoolVar(&cfg.Sticky, "sticky", false, "keep each sender on one of the URLs")
	flags.IntVar(&cfg.ShuffleWindow, "shuffle", 1, "send out of nonce order inside windows of this many")
	flags.IntVar(&cfg.Connections, "connections", 0, "maximum number of open connections for each URL (0: chosen by the protocol)")
	flags.StringVar(&cfg.Seed, "seed", "lockstep", "seed of the sender keys and of the shuffling")
	flags.DurationVar(&cfg.Timeout, "timeout", 65*time.Second, "maximum time to wait for an answer")
	asJSON := flags.Bool("json", false, "write the report as JSON")
	if len(args) == 0 || args[0] != "send" {
		flags.Usage()
		if len(args) > 0 && strings.HasPrefix(strings.TrimLeft(args[0], "-"), "h") {
			return flag.ErrHelp
		}
		return errUsage
	}
	err := parse(flags, args[1:])
	if err != nil {
		return err
	}
	if cfg.Funder, err = benchKey(*keyFile, std.env); err != nil {
		return err
	}
	cfg.URLs = strings.Split(*rpc, ",")
	cfg.Progress = std.err
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return report.Write(std.out, *asJSON)
}

// benchKey reads the funder's key. It is no flag: a command line can be seen by
// everybody on the machine.
func benchKey(file string, environ []string) (*ecdsa.PrivateKey, error) {
	text := variable(environ, "LOCKSTEP_BENCH_KEY")
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	if text == "" {
		return nil, nil
	}
	return bench.ParseKey(text)
}

// variable gives the value of an environment variable, "" without it.
func variable(environ []string, name string) (value string) {
	for _, pair := range environ {
		if found, ok := strings.CutPrefix(pair, name+"="); ok {
			value = found
		}
	}
	return value
}

const diffAbout = `Sends the same requests to two relays and reports where their answers differ.

  lockstep diff --a URL --b URL --requests FILE      compare
  lockstep diff --generate --a URL > FILE            make requests from the newest blocks

FILE holds one request per line: a JSON-RPC object, a batch, {"method": …, "params": […]}
in short, or ">> " and the request as in execution-apis' test files. - is standard input.

--ignore and --shape take METHOD:PATH or PATH, several times; * stands for any part and
[*] for any index: --ignore 'eth_getBlock*:result.transactions[*].v' --ignore status

Headers can also come from the environment, so that the command line does not show
them: LOCKSTEP_DIFF_HEADERS_A and LOCKSTEP_DIFF_HEADERS_B, a "Name: value" per line.

Exit codes: 0 all answers are the same, 1 some differ, 2 not everything was compared.`

// Exit codes of diff that are not those of other commands.
const (
	exitDifferent = 1
	exitTrouble   = 2
)

// exit is an error that is a command's own exit code.
type exit struct {
	code int
	error
}

func (e exit) Unwrap() error { return e.error }

func runDiff(ctx context.Context, args []string, std streams) error {
	var cfg diff.Config
	flags := newFlags("diff", diffAbout, std)
	requests := flags.String("requests", "", "`file` of requests, - for standard input")
	generate := flags.Bool("generate", false, "write requests to standard output instead, from what relay a has")
	var from diff.GenerateConfig
	flags.IntVar(&from.Blocks, "blocks", 20, "with --generate: `number` of newest blocks")
	flags.IntVar(&from.Transactions, "transactions", 20, "with --generate: maximum number of transactions of a block")
	headers := diffFlags(flags, &cfg)
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := headers(std.env); err != nil {
		return exit{exitTrouble, err}
	}
	if *generate {
		from.From = cfg.A
		return trouble(diff.Generate(ctx, from, std.out))
	}
	in, err := openRequests(*requests, std.in)
	if err != nil {
		return exit{exitTrouble, err}
	}
	defer func() { _ = in.Close() }() // it was only read
	summary, err := diff.Run(ctx, cfg, in, std.out)
	switch {
	case err != nil:
		return exit{exitTrouble, err}
	case summary.Total.Trouble > 0:
		return exit{exitTrouble, errors.New("not everything was compared")}
	case summary.Total.Sent == 0:
		return exit{exitTrouble, errors.New("there was nothing to compare")}
	case summary.Total.Different > 0:
		return exit{exitDifferent, errors.New("the answers differ")}
	default:
		return nil
	}
}

func trouble(err error) error {
	if err == nil {
		return nil
	}
	return exit{exitTrouble, err}
}

// diffFlags declares the flags of a comparison. The function it returns collects the
// headers once they are parsed.
func diffFlags(flags *flag.FlagSet, cfg *diff.Config) func(environ []string) error {
	cfg.A.Header, cfg.B.Header = http.Header{}, http.Header{}
	list := func(name, usage string, into *[]string) {
		flags.Func(name, usage, func(s string) error { *into = append(*into, s); return nil })
	}
	var headersA, headersB []string
	flags.StringVar(&cfg.A.URL, "a", "", "`URL` of the first relay")
	flags.StringVar(&cfg.B.URL, "b", "", "`URL` of the second relay")
	list("header-a", "`header` for the first relay as \"Name: value\"; several times", &headersA)
	list("header-b", "`header` for the second relay; several times", &headersB)
	list("ignore", "`path` that is not compared; several times", &cfg.Ignore)
	list("shape", "`path` of which only the JSON type is compared; several times", &cfg.Shape)
	flags.BoolVar(&cfg.Pin, "pin", false, `replace "latest" by the lower of the relays' heads`)
	flags.BoolVar(&cfg.Writes, "writes", false, "send requests that change something, too")
	flags.IntVar(&cfg.Concurrency, "concurrency", 4, "requests under way")
	flags.Float64Var(&cfg.RPS, "rps", 0, "maximum number of requests per second to each relay (0: no limit)")
	flags.DurationVar(&cfg.Timeout, "timeout", 0, "maximum time to wait for an answer (default 30s)")
	flags.Int64Var(&cfg.MaxAnswer, "max-answer", 0, "`bytes` of the largest answer that is compared (default 64 MiB)")
	flags.BoolVar(&cfg.JSON, "json", false, "report as JSON lines")
	return func(environ []string) error {
		// Not while parsing: package flag shows what it cannot parse.
		return errors.Join(
			addHeaders(cfg.A.Header, "--header-a", headersA), addHeaders(cfg.B.Header, "--header-b", headersB),
			envHeaders(cfg.A.Header, "LOCKSTEP_DIFF_HEADERS_A", environ), envHeaders(cfg.B.Header, "LOCKSTEP_DIFF_HEADERS_B", environ),
		)
	}
}

func envHeaders(into http.Header, name string, environ []string) error {
	for _, pair := range environ {
		if text, ok := strings.CutPrefix(pair, name+"="); ok {
			return addHeaders(into, name, strings.Split(text, "\n"))
		}
	}
	return nil
}

func addHeaders(into http.Header, source string, lines []string) error {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := diff.ParseHeader(into, line); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

func openRequests(name string, stdin io.Reader) (io.ReadCloser, error) {
	switch name {
	case "":
		return nil, errors.New("--requests is missing; --generate can make some")
	case "-":
		return io.NopCloser(stdin), nil
	default:
		return os.Open(name)
	}
}
