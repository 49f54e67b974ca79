package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench"
)

const benchAbout = `Sends signed transfers through any Ethereum JSON-RPC relay and reports throughput,
latency, errors and, from the chain itself, what was executed, out of order, lost or
duplicated. The only kind of load so far is "send":

  lockstep bench send --rpc URL[,URL...] --key-file FILE [flags]

Several URLs are relays of one chain: consecutive nonces alternate between them.
--compare measures a second target in turns with the first and prints ratios.`

func runBench(ctx context.Context, args []string, std streams) error {
	var cfg bench.Config
	flags := newFlags("bench send", benchAbout, std)
	finish := benchFlags(flags, &cfg)
	if len(args) == 0 || args[0] != "send" {
		flags.Usage()
		if len(args) > 0 && strings.HasPrefix(strings.TrimLeft(args[0], "-"), "h") {
			return flag.ErrHelp
		}
		return errUsage
	}
	if err := parse(flags, args[1:]); err != nil {
		return err
	}
	if err := finish(std.env); err != nil {
		return err
	}
	if stderr, ok := std.err.(*os.File); ok {
		cfg.Progress = stderr
	}
	_, err := bench.Run(ctx, cfg, std.out)
	return err
}

// benchFlags declares the flags. The function it returns turns what needs turning
// once they are parsed.
func benchFlags(flags *flag.FlagSet, cfg *bench.Config) func(environ []string) error {
	rpc := flags.String("rpc", "http://127.0.0.1:7546", "relay `URLs` (http, https, ws or wss), separated by commas")
	compare := flags.String("compare", "", "`URLs` of a second target, measured in turns with the first")
	keyFile := flags.String("key-file", "", "`file` with the private key that funds the senders; else $LOCKSTEP_BENCH_KEY")
	to := flags.String("to", "", "recipient `address` (default: the funder)")
	value := flags.String("value", "", "`weibar` that each transaction transfers (default: 1 tinybar)")
	compareLog := flags.String("compare-consensus-log", "", "like --consensus-log, for the second target")
	flags.StringVar(&cfg.ConsensusLog, "consensus-log", "", "`URL` of a devnet's mirror node, which tells the order in which consensus saw transactions")
	flags.IntVar(&cfg.Senders, "senders", 1, "number of sending accounts")
	flags.IntVar(&cfg.Count, "count", 100, "transactions of each sender")
	flags.DurationVar(&cfg.Spacing, "spacing", 0, "time between two requests of one sender")
	flags.IntVar(&cfg.Batch, "batch", 1, "transactions of a sender in one JSON-RPC batch")
	flags.BoolVar(&cfg.Sticky, "sticky", false, "keep each sender on one of the URLs")
	flags.IntVar(&cfg.ShuffleWindow, "shuffle", 1, "send out of nonce order inside windows of this many")
	flags.IntVar(&cfg.Connections, "connections", 0, "maximum number of open connections for each URL (0: chosen by the protocol)")
	flags.BoolVar(&cfg.ConnPerRequest, "no-keep-alive", false, "a connection for each request")
	flags.StringVar(&cfg.Seed, "seed", "lockstep", "seed of the sender keys and of the shuffling")
	flags.BoolVar(&cfg.FreshSenders, "fresh-senders", false, "other senders in each run")
	flags.IntVar(&cfg.Runs, "runs", 1, "number of runs; medians are reported with their spread")
	flags.DurationVar(&cfg.Pause, "pause", 0, "time between runs")
	flags.DurationVar(&cfg.Timeout, "timeout", 65*time.Second, "maximum time to wait for an answer")
	profiles := flags.String("profile", "", "`directory` to write a CPU and an allocation profile of each relay and run to")
	consoles := flags.String("profile-from", "", "`URLs` of the relays' consoles (ADMIN_ADDRESS) for --profile; $ADMIN_TOKEN is their token")
	flags.BoolVar(&cfg.JSON, "json", false, "write the report as JSON")
	return func(environ []string) error {
		cfg.URLs = strings.Split(*rpc, ",")
		if *compare != "" {
			cfg.Compare = &bench.Target{URLs: strings.Split(*compare, ","), ConsensusLog: *compareLog}
		}
		return errors.Join(benchKey(cfg, *keyFile, environ), benchAmounts(cfg, *to, *value), benchProfiles(cfg, *profiles, *consoles, environ))
	}
}

// benchKey reads the funder's key. It is no flag: a command line can be seen by
// everybody on the machine.
func benchKey(cfg *bench.Config, file string, environ []string) error {
	text := variable(environ, "LOCKSTEP_BENCH_KEY")
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text = string(content)
	}
	if text == "" {
		return nil
	}
	key, err := bench.ParseKey(text)
	cfg.Funder = key
	return err
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

// benchProfiles has profiles taken while a run lasts.
func benchProfiles(cfg *bench.Config, dir, consoles string, environ []string) error {
	switch {
	case dir == "" && consoles == "":
		return nil
	case dir == "" || consoles == "":
		return errors.New("--profile needs --profile-from, and --profile-from needs --profile")
	}
	p := &bench.Profiler{
		Dir: dir, Consoles: strings.Split(consoles, ","), Token: variable(environ, "ADMIN_TOKEN"),
		Lasts: time.Duration(cfg.Count) * cfg.Spacing,
	}
	for _, console := range p.Consoles {
		if !strings.HasPrefix(console, "http://") && !strings.HasPrefix(console, "https://") {
			return fmt.Errorf("--profile-from %q: want http://host:port", console)
		}
	}
	cfg.Before, cfg.After = p.Before, p.After
	return nil
}

func benchAmounts(cfg *bench.Config, to, value string) error {
	if to != "" {
		if !common.IsHexAddress(to) {
			return fmt.Errorf("--to %q is not an address", to)
		}
		address := common.HexToAddress(to)
		cfg.To = &address
	}
	if value != "" {
		amount, ok := new(big.Int).SetString(value, 0)
		if !ok {
			return fmt.Errorf("--value %q is not a number", value)
		}
		cfg.Value = amount
	}
	return nil
}
