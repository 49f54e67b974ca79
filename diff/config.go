package diff

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Endpoint is one of the two relays.
type Endpoint struct {
	URL    string      // http or https
	Header http.Header // sent with every request, for example Authorization; may be nil
}

// Config is what Run works by. The zero value of a field means its default.
type Config struct {
	A, B Endpoint

	Ignore []string // paths that are not compared
	Shape  []string // paths of which only the JSON type is compared
	Pin    bool     // replace "latest" by the lower of the two heads
	Writes bool     // send requests that change something, too

	Concurrency int           // requests under way; 4
	RPS         float64       // maximum of requests per second to each relay; 0: no limit
	Timeout     time.Duration // for one answer; 30 s
	MaxAnswer   int64         // bytes of one answer; 64 MiB
	MaxShown    int           // differences shown for one request; 20

	JSON bool // report as JSON lines
}

const (
	defaultConcurrency = 4
	defaultTimeout     = 30 * time.Second
	defaultMaxAnswer   = 64 << 20
	defaultMaxShown    = 20
)

// withDefaults fills in what is missing and checks the rest, all mistakes at once.
func (c Config) withDefaults() (Config, error) {
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = defaultMaxAnswer
	}
	if c.MaxShown == 0 {
		c.MaxShown = defaultMaxShown
	}
	var errs []error
	for _, e := range []struct{ name, url string }{{"a", c.A.URL}, {"b", c.B.URL}} {
		if err := checkURL(e.url); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
		}
	}
	if c.Concurrency < 1 || c.Concurrency > 1024 {
		errs = append(errs, errors.New("concurrency: want 1 to 1024"))
	}
	if c.RPS < 0 || c.Timeout < 0 || c.MaxAnswer < 0 || c.MaxShown < 0 {
		errs = append(errs, errors.New("rate, time-out and limits cannot be negative"))
	}
	return c, errors.Join(errs...)
}

// checkURL does not repeat the URL, which may hold a password or an access key.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("want the URL of a relay, http://… or https://…")
	}
	return nil
}

// ParseHeader reads "Name: value".
func ParseHeader(h http.Header, line string) error {
	name, value, found := strings.Cut(line, ":")
	name = strings.TrimSpace(name)
	if !found || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
		return errors.New("want a header as Name: value") // the line may be a secret
	}
	h.Add(name, strings.TrimSpace(value))
	return nil
}
