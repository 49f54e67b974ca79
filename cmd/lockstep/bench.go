package main

import (
	"context"
	"crypto/ecdsa"
	"flag"
	"os"
	"strings"
	"time"

	"lockstep/bench"
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
