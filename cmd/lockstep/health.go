package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lockstep/config"
)

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
