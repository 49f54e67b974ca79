package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"lockstep/config"
	"lockstep/internal/relay/apikey"
	"lockstep/txmgr/service"
)

const configAbout = `Prints every setting with the value it has here, also while something is wrong or
missing, which it then says: those of the relay, then those of "lockstep txm" alone.
Secrets are masked.

  lockstep config check         checks the settings of the relay, and opens no connection
  lockstep config check txm     the same for those of "lockstep txm"
  lockstep config check watch   the same for those of "lockstep watch"

The exit code of a check is 0 if nothing is wrong, and it says so. It is 1 if there is a mistake, a
name that is no setting and is similar to one, or a doubt, such as a CHAIN_ID that is not that of
HEDERA_NETWORK; all of them are named. A process starts in spite of such names and doubts, with
warnings in its log.`

func runConfig(ctx context.Context, args []string, std streams) error {
	if len(args) > 0 && args[0] == "check" {
		return checkConfig(ctx, args[1:], std)
	}
	if err := parse(newFlags("config", configAbout, std), args); err != nil {
		return err
	}
	cfg, wrong := loadConfig(std)
	tellOf(std, cfg.Misspelt, cfg.Doubts)
	if wrong != nil {
		fmt.Fprintf(std.err, "%v\n", wrong)
	}
	environ, _, err := completed(std)
	if err != nil {
		return err
	}
	manager, wrong := config.LoadManager(environ)
	if wrong != nil && manager.TXM.Chains.Chains != "" { // else nobody wants one here
		fmt.Fprintf(std.err, "lockstep txm: %v\n", wrong)
	}
	return printConfig(std.out, append(cfg.Effective(), manager.Effective()...))
}

// checkConfig is for scripts that let nothing start whose settings are wrong.
func checkConfig(ctx context.Context, args []string, std streams) error {
	flags := newFlags("config check", configAbout, std)
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	environ, _, err := completed(std)
	if err != nil {
		return err
	}
	var misspelt []config.Misspelt
	var doubts []string
	switch strings.Join(words, " ") {
	case "", "serve":
		var cfg config.Config
		cfg, err = config.Load(environ)
		misspelt, doubts = cfg.Misspelt, cfg.Doubts
	case "txm":
		var cfg config.Manager
		if cfg, err = config.LoadManager(environ); err == nil {
			err = service.Check(ctx, cfg.TXM, drivers(cfg, slog.New(slog.DiscardHandler)))
		}
		misspelt = cfg.Misspelt
	case "watch":
		var cfg config.Watchers
		if cfg, err = config.LoadWatchers(environ); err == nil {
			err = checkWatch(std, cfg.Watch)
		}
		misspelt = cfg.Misspelt
	default:
		fmt.Fprintf(std.err, "%s: unexpected argument %q\n", flags.Name(), words[len(words)-1])
		return errUsage
	}
	tellOf(std, misspelt, doubts)
	switch {
	case err != nil:
		return fmt.Errorf("configuration:\n%w", err)
	case len(misspelt) > 0:
		return fmt.Errorf("names that may be misspelt: %d", len(misspelt))
	case len(doubts) > 0:
		return fmt.Errorf("settings that hardly go together: %d", len(doubts))
	}
	_, err = fmt.Fprintln(std.out, "the settings are good")
	return err
}

// tellOf names what may be misspelt or not be meant so.
func tellOf(std streams, misspelt []config.Misspelt, doubts []string) {
	for _, m := range misspelt {
		fmt.Fprintln(std.err, m)
	}
	for _, d := range doubts {
		fmt.Fprintln(std.err, d)
	}
}

func printConfig(w io.Writer, settings []config.Setting) error {
	seen := map[string]bool{}
	for _, s := range settings {
		if seen[s.Name] { // several parts read it
			continue
		}
		seen[s.Name] = true
		if _, err := fmt.Fprintf(w, "%s=%s\n", s.Name, s.Value); err != nil {
			return err
		}
	}
	return nil
}

const keysAbout = `Makes and checks API keys of the relay. docs/KEYS.md says how to use them.

  lockstep keys new NAME      print a key, which is shown this once, and the line for API_KEYS_FILE
  lockstep keys check FILE    say what is wrong with a file; the exit code is 0 if nothing is`

func runKeys(_ context.Context, args []string, std streams) error {
	flags := newFlags("keys", keysAbout, std)
	calls := flags.Int("calls", 0, "`number` of calls per minute; 0 for any")
	weight := flags.Int("weight", 0, "`weight` of all calls of a minute; 0 for any")
	methods := flags.String("methods", "", "`names` of the methods that the key allows, separated by commas, such as eth_call,net_*; empty for all")
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	switch {
	case len(words) == 2 && words[0] == "new":
		return newKey(std, words[1], *calls, *weight, *methods)
	case len(words) == 2 && words[0] == "check":
		var file apikey.File
		if err := file.UnmarshalText([]byte(words[1])); err != nil {
			return err
		}
		_, err := fmt.Fprintf(std.out, "the file is good; it has keys of %d holders\n", file.Holders())
		return err
	default:
		flags.Usage()
		return errUsage
	}
}

// newKey prints the key on the first line and its line of the file on the second.
func newKey(std streams, name string, calls, weight int, methods string) error {
	token, line, err := apikey.New(name)
	if err != nil {
		return err
	}
	if calls != 0 {
		line += " calls=" + strconv.Itoa(calls)
	}
	if weight != 0 {
		line += " weight=" + strconv.Itoa(weight)
	}
	if methods != "" {
		line += " methods=" + methods
	}
	if err := apikey.CheckLine(line); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s\n%s\n", token.Reveal(), line)
	return err
}
