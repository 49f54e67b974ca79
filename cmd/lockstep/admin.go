package main

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"lockstep/internal/secret"
)

// adminAbout says to whom the commands speak that use the console.
const adminAbout = `The relay must run with ADMIN_ADDRESS. Without --admin that address is taken from the environment,
the .env file or the file that LOCKSTEP_ENV_FILE names, as "lockstep serve" does, and so is the token, if any:
ADMIN_TOKEN or ADMIN_TOKEN_FILE. With --admin the token is taken from the environment alone.`

const adminTimeout = 10 * time.Second

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
