package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/config"
	"lockstep/internal/clip"
	"lockstep/internal/secret"
	"lockstep/lock"
)

// adminAbout says to whom the commands speak that use the console.
const adminAbout = `The relay must run with ADMIN_ADDRESS. Without --admin that address is taken from the environment,
the .env file or the file that LOCKSTEP_ENV_FILE names, as "lockstep serve" does, and so is the token, if any:
ADMIN_TOKEN or ADMIN_TOKEN_FILE. With --admin the token is taken from the environment alone.`

const adminTimeout = 10 * time.Second

// adminClient follows no redirect: what was to be done here would be asked for elsewhere, or not be done at all.
var adminClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// admin talks to the console of a running relay.
type admin struct {
	url    string
	origin string // says of the URL where it comes from
	token  secret.String
}

func adminFlag(flags *flag.FlagSet) *string {
	return flags.String("admin", "", "`URL` of the relay's console (default: ADMIN_ADDRESS of the settings, or else http://"+devUI+")")
}

// newAdmin finds the console: where the flag says, else where a relay with the settings of this process has it. A token
// out of a file of settings goes nowhere else than to the address of these settings.
func newAdmin(named string, std streams) (admin, error) {
	a := admin{url: named, origin: "is what --admin says"}
	environ := std.env
	if named == "" {
		var file string
		var err error
		if environ, file, err = completed(std); err != nil {
			return a, err
		}
		if a.url, a.origin, err = consoleOf(environ, std.env, file); err != nil {
			return a, err
		}
	}
	a.url = asURL(strings.TrimRight(a.url, "/"))
	var err error
	a.token, err = secretOf(environ, "ADMIN_TOKEN")
	return a, err
}

// asURL is the URL of what listens at an address, which may be one already.
func asURL(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}

// consoleOf is the address of the console in these settings, and where it stands. own is the environment without the file.
func consoleOf(environ, own []string, file string) (address, origin string, err error) {
	return addressOf("ADMIN_ADDRESS", "--admin", devUI, environ, own, file)
}

// addressOf is where a process with these settings listens by the named one, and where that stands; without it the usual address.
func addressOf(setting, flag, usual string, environ, own []string, file string) (address, origin string, err error) {
	text := variable(environ, setting)
	if text == "" {
		return usual, "is the default, since there is no " + flag + " and no " + setting, nil
	}
	where := "the environment"
	if variable(own, setting) == "" {
		where = file
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" || port == "0" {
		return "", "", fmt.Errorf("%s in %s is %q, which does not tell the port: say with %s where it listens", setting, where, text, flag)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), "is " + setting + " in " + where, nil
}

// unreachable says of a console that cannot be asked where it was looked for, and why there.
func (a admin) unreachable(err error) error {
	return fmt.Errorf("%w (%s %s; a relay has its console where its own ADMIN_ADDRESS says, and none without it)", err, a.url, a.origin)
}

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
	response, err := adminClient.Do(request)
	if err != nil {
		return nil, a.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := clip.ReadAll(response.Body, longestState)
	if err != nil {
		return nil, fmt.Errorf("the relay's answer: %w", err)
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

const healthTimeout = 5 * time.Second

func runHealth(ctx context.Context, args []string, std streams) error {
	flags := newFlags("health", "Asks a running relay whether it is ready; exit code 0 if it is. For container health checks.", std)
	url := flags.String("url", "", "the relay's RPC `URL` (default: 127.0.0.1 with SERVER_PORT of the environment or of the .env file)")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *url == "" {
		own, err := ownURL(std)
		if err != nil {
			return err
		}
		*url = own
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(*url, "/")+"/health/readiness", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return err
	}
	why := reasons(said)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: HTTP status %d%s", response.StatusCode, why)
	}
	_, err = fmt.Fprintln(std.out, "ready"+why)
	return err
}

// ownURL is where a relay with the settings of this process answers probes. Mistakes in other settings do not matter.
func ownURL(std streams) (string, error) {
	environ, _, err := completed(std)
	if err != nil {
		return "", err
	}
	c, _ := config.Load(environ)
	host, port := c.Server.Host, c.Server.Port
	if !c.Server.HTTP {
		port = c.Server.StatusPort
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// reasons are those of a relay's or a manager's report, for people; "" if it gives none.
func reasons(report []byte) string {
	var r struct {
		Reasons []struct {
			Upstream, Cause string
			Since           time.Time
		}
	}
	if json.Unmarshal(report, &r) != nil {
		return ""
	}
	var b strings.Builder
	for _, one := range r.Reasons {
		since := "" // a manager does not tell
		if !one.Since.IsZero() {
			since = " since " + one.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "\n  %s%s: %s", one.Upstream, since, one.Cause)
	}
	return b.String()
}
