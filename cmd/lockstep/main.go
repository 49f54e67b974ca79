// Command lockstep is a JSON-RPC relay for Hedera, and a one-process Hedera to
// develop against.
//
//	lockstep dev       a chain and a relay in one process
//	lockstep devnet    the chain alone
//	lockstep serve     the relay alone, configured by the environment and .env
//	lockstep txm       the transaction manager, which signs and sends for its callers
//	lockstep watch     event watchers: follow contracts, hand every event on
//	lockstep bench     load generator for any relay
//	lockstep diff      where two relays answer the same requests differently
//	lockstep locks     who holds which sender's lock on a running relay
//	lockstep top       a running relay, live: lanes, upstreams, rates
//	lockstep keys      makes and checks API keys of the relay
//	lockstep config    the settings in effect, secrets masked; check says what is wrong with them
//	lockstep health    asks a running relay whether it is ready
//	lockstep completion what a shell needs to complete words: bash, zsh or fish
//	lockstep version   what this is
//
// Every subcommand explains its flags with -h. Exit codes: 0 after a clean stop,
// 1 when something failed, 2 for a wrong command line; diff has its own.
//
// # Words
//
//	subcommand            the first word of the command line
//	driver                see package txmgr/service
//	development accounts  see package devnet
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// version is set by the linker.
var version = "dev"

// command is one subcommand.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, std streams) error
}

// streams are where a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	env      []string
}

func commands() []command {
	return []command{
		{"dev", "a chain and a relay in one process, for development", runDev},
		{"devnet", "the chain alone: consensus nodes and mirror node", runDevnet},
		{"serve", "the relay alone, configured by the environment and .env", runServe},
		{"txm", "the transaction manager: it signs and sends for its callers", runTxm},
		{"watch", "event watchers: follow contracts, hand every event on", runWatch},
		{"bench", "load generator for any relay", runBench},
		{"diff", "where two relays answer the same requests differently", runDiff},
		{"locks", "senders' locks of a running relay, and release by hand", runLocks},
		{"top", "a running relay, live: lanes, upstreams, rates", runTop},
		{"keys", "makes and checks API keys of the relay", runKeys},
		{"config", "the settings in effect, secrets masked", runConfig},
		{"health", "whether a running relay is ready", runHealth},
		{"completion", "what a shell needs to complete words: bash, zsh or fish", runCompletion},
		{"version", "what this is", runVersion},
	}
}

// errUsage means that the command line is wrong and has been explained.
var errUsage = errors.New("wrong command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second signal is not caught any more and ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()}))
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 {
		usage(std.err)
		return 2
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		usage(std.out)
		return 0
	case "-v", "-version", "--version":
		args[0] = "version"
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		var own exit
		switch err := c.run(ctx, args[1:], std); {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return 0
		case errors.Is(err, errUsage):
			return 2
		case errors.As(err, &own):
			fmt.Fprintf(std.err, "lockstep %s: %v\n", c.name, own)
			return own.code
		default:
			fmt.Fprintf(std.err, "lockstep %s: %v\n", c.name, err)
			return 1
		}
	}
	fmt.Fprintf(std.err, "lockstep: there is no command %q\n\n", args[0])
	usage(std.err)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: lockstep <command> [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nlockstep <command> -h explains the flags of a command.\n")
}

// newFlags makes a flag set whose errors explain themselves once.
func newFlags(name, about string, std streams) *flag.FlagSet {
	flags := flag.NewFlagSet("lockstep "+name, flag.ContinueOnError)
	flags.SetOutput(std.err)
	flags.Usage = func() {
		fmt.Fprintf(std.err, "usage: lockstep %s [flags]\n\n%s\n\n", name, about)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads the flags; nothing may be left over unless args are wanted.
func parse(flags *flag.FlagSet, args []string) error {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return errUsage
	case flags.NArg() > 0:
		fmt.Fprintf(flags.Output(), "%s: unexpected argument %q\n", flags.Name(), flags.Arg(0))
		return errUsage
	default:
		return nil
	}
}

func runVersion(_ context.Context, args []string, std streams) error {
	if err := parse(newFlags("version", "Prints the version.", std), args); err != nil {
		return err
	}
	_, err := fmt.Fprintln(std.out, "lockstep", version)
	return err
}

const completionAbout = `Prints what a shell needs to complete the words of lockstep: its commands, their words and their flags.

  lockstep completion bash     source <(lockstep completion bash)
  lockstep completion zsh      lockstep completion zsh > "${fpath[1]}/_lockstep"
  lockstep completion fish     lockstep completion fish > ~/.config/fish/completions/lockstep.fish`

// completable is a command with what may follow it.
type completable struct {
	name, summary string
	words, flags  []string
}

func (c completable) all() string { return strings.Join(slices.Concat(c.words, c.flags), " ") }

func runCompletion(ctx context.Context, args []string, std streams) error {
	flags := newFlags("completion", completionAbout, std)
	shell, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	scripts := map[string]func([]completable) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	if len(shell) != 1 || scripts[shell[0]] == nil {
		flags.Usage()
		return errUsage
	}
	_, err = fmt.Fprint(std.out, scripts[shell[0]](completables(ctx)))
	return err
}

var (
	helpFlag = regexp.MustCompile(`(?m)^  (-[\w-]+)`)
	helpWord = regexp.MustCompile(`(?m)^  lockstep (\w+) ([a-z]\w*(?:\|\w+)*(?: \| \w+)*)`)
)

// completables asks each command for its help, which lists its words and flags.
func completables(ctx context.Context) (list []completable) {
	for _, c := range commands() {
		var help bytes.Buffer
		_ = c.run(ctx, []string{"-h"}, streams{in: strings.NewReader(""), out: &help, err: &help}) // always that help was asked for
		found := completable{name: c.name, summary: c.summary}
		for _, m := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
			found.flags = append(found.flags, m[1])
		}
		for _, m := range helpWord.FindAllStringSubmatch(help.String(), -1) {
			for word := range strings.SplitSeq(m[2], "|") {
				if word = strings.TrimSpace(word); m[1] == c.name && !slices.Contains(found.words, word) {
					found.words = append(found.words, word)
				}
			}
		}
		list = append(list, found)
	}
	return list
}

func bashScript(list []completable) string {
	var b strings.Builder
	b.WriteString("# Completion of lockstep for bash.\n_lockstep() {\n\tlocal words=\n\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n")
	fmt.Fprintf(&b, "\t\twords=%q\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n", names(list))
	for _, c := range list {
		fmt.Fprintf(&b, "\t\t%s) words=%q ;;\n", c.name, c.all())
	}
	b.WriteString("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _lockstep lockstep\n")
	return b.String()
}

func names(list []completable) string {
	var all []string
	for _, c := range list {
		all = append(all, c.name)
	}
	return strings.Join(all, " ")
}

func zshScript(list []completable) string {
	var b strings.Builder
	b.WriteString("#compdef lockstep\n# Completion of lockstep for zsh.\n_lockstep() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a commands=(\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\t\t\t%s\n", quoted(c.name+":"+c.summary))
	}
	b.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tcase ${words[2]} in\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\t%s) compadd -- %s ;;\n", c.name, c.all())
	}
	b.WriteString("\tesac\n\t_files\n}\nif [ \"$funcstack[1]\" = _lockstep ]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n")
	return b.String()
}

func fishScript(list []completable) string {
	var b strings.Builder
	b.WriteString("# Completion of lockstep for fish.\n")
	for _, c := range list {
		fmt.Fprintf(&b, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d %s\n", c.name, quoted(c.summary))
		for _, word := range c.words {
			fmt.Fprintf(&b, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -a %s\n", c.name, word)
		}
		for _, flag := range c.flags {
			fmt.Fprintf(&b, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -o %s\n", c.name, strings.TrimPrefix(flag, "-"))
		}
	}
	return b.String()
}

// quoted is a word in single quotes, for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
