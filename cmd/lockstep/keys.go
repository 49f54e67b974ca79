package main

import (
	"context"
	"fmt"
	"strconv"

	"lockstep/internal/relay/apikey"
)

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
