package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

const locksAbout = `Shows the senders' lanes of a running relay: who holds the lock, for how long, how
many wait, which nonce is next and which node the last transaction went to.

  lockstep locks                      list
  lockstep locks release ADDRESS      end the holder's turn; the next in line goes
  lockstep locks on | off             switch ordering at run time

` + adminAbout + `
Where relays share an order, each shows who waits in it, and a holder
in another one by the name that the log of that one gives its instance; any can release.`

func runLocks(ctx context.Context, args []string, std streams) error {
	flags := newFlags("locks", locksAbout, std)
	url := adminFlag(flags)
	asJSON := flags.Bool("json", false, "print the answer as JSON")
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	a, err := newAdmin(*url, std)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	switch {
	case len(words) == 0:
		return a.list(ctx, std.out, *asJSON)
	case len(words) == 2 && words[0] == "release" && common.IsHexAddress(words[1]):
		return a.print(ctx, std.out, http.MethodPost, "/locks/"+common.HexToAddress(words[1]).Hex()+"/release", "")
	case len(words) == 1 && words[0] == "on":
		return a.print(ctx, std.out, http.MethodPut, "/ordering", `{"enabled":true}`)
	case len(words) == 1 && words[0] == "off":
		return a.print(ctx, std.out, http.MethodPut, "/ordering", `{"enabled":false}`)
	case len(words) == 2 && words[0] == "release":
		fmt.Fprintf(std.err, "%s: %q is not an address\n", flags.Name(), words[1])
		return errUsage
	default:
		flags.Usage()
		return errUsage
	}
}

// parseAnywhere reads flags before, between and behind other words, and returns those.
func parseAnywhere(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return nil, err
		case err != nil:
			return nil, errUsage
		case flags.NArg() == 0:
			return words, nil
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

// call makes one request and returns the body of a good answer.
func (a admin) call(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token.Reveal())
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, a.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(content)))
	}
	return content, nil
}

func (a admin) print(ctx context.Context, out io.Writer, method, path, body string) error {
	content, err := a.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}

func (a admin) list(ctx context.Context, out io.Writer, asJSON bool) error {
	if asJSON {
		return a.print(ctx, out, http.MethodGet, "/locks", "")
	}
	content, err := a.call(ctx, http.MethodGet, "/locks", "")
	if err != nil {
		return err
	}
	var answer struct {
		Lanes []lock.LaneInfo `json:"lanes"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return fmt.Errorf("the answer is not a list of lanes: %w", err)
	}
	return printLanes(out, answer.Lanes)
}

func printLanes(out io.Writer, lanes []lock.LaneInfo) error {
	if len(lanes) == 0 {
		_, err := fmt.Fprintln(out, "no sender has a transaction in progress")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "SENDER\tHOLDER\tHELD\tWAITING\tNEXT NONCE\tNODE\tSTRATEGY")
	for _, l := range lanes {
		next, holder, node := "-", "-", "-"
		if l.Expected != nil {
			next = strconv.FormatUint(*l.Expected, 10)
		}
		held := "-"
		switch {
		case l.Held:
			holder, held = fmt.Sprintf("nonce %d, fence %d", l.Nonce, l.Fence), l.HeldFor.Round(time.Millisecond).String()
		case l.HeldBy != "":
			holder = "process " + l.HeldBy
		}
		if l.Last != nil {
			node = l.Last.Node
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			l.Sender.Hex(), holder, held, l.Waiting, next, node, l.Strategy)
	}
	return table.Flush()
}
