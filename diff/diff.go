package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// maxTrouble is how many requests in a row may go without an answer before Run gives up.
const maxTrouble = 20

var errGaveUp = errors.New("too many requests in a row without an answer")

// outcome is what became of one request.
type outcome struct {
	request
	skipped bool
	trouble error // why it could not be compared
	found   []Difference
	more    int   // differences that are not in found
	fatal   error // of the input; there is no request
}

// runner is one comparison of two relays.
type runner struct {
	Config
	a, b  *peer
	rules *rules
	head  uint64 // if Pin
}

// Run sends every request to both relays and writes to out what differs, in the order
// of the input, and the summary at the end.
//
// The error says what kept it from finishing: a line of the input that is no request, a
// head that could not be asked, out that cannot be written to, the end of ctx, or too
// many requests in a row without an answer. The summary counts what was compared until
// then; differences and single requests without an answer are no error.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) (Summary, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Summary{}, err
	}
	shape := slices.Concat(alwaysShape, c.Shape)
	if c.Pin {
		shape = append(shape, "eth_blockNumber:result")
	}
	r := &runner{
		Config: c, a: newPeer("a", c.A, c), b: newPeer("b", c.B, c),
		rules: &rules{ignore: parsePatterns(c.Ignore), shape: parsePatterns(shape), shown: c.MaxShown},
	}
	defer r.a.http.CloseIdleConnections()
	defer r.b.http.CloseIdleConnections()
	if c.Pin {
		if r.head, err = lowerHead(ctx, r.a, r.b); err != nil {
			return Summary{}, err
		}
	}
	report := newReport(out, c.JSON)
	err = r.all(ctx, readRequests(in), report)
	return report.summary, errors.Join(err, report.end())
}

// all runs the requests. The queue keeps the outcomes in the order of the input and
// bounds how many are under way.
func (r *runner) all(ctx context.Context, requests iter.Seq2[request, error], report *report) error {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan chan outcome, r.Concurrency-1)
	group.Go(func() error {
		defer close(queue)
		pace := rate.NewLimiter(rate.Inf, 1)
		if r.RPS > 0 {
			pace.SetLimit(rate.Limit(r.RPS))
		}
		for q, fatal := range requests {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
			done := make(chan outcome, 1)
			select {
			case queue <- done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if fatal != nil {
				done <- outcome{fatal: fatal}
				return nil
			}
			group.Go(func() error {
				done <- r.one(ctx, q)
				return nil
			})
		}
		return nil
	})
	group.Go(func() error {
		inRow := 0
		for done := range queue {
			o := <-done
			if ctx.Err() != nil {
				return ctx.Err() // what went wrong now is no relay's fault
			}
			if o.fatal != nil {
				return o.fatal
			}
			if err := report.add(o); err != nil {
				return err
			}
			if inRow++; o.trouble == nil {
				inRow = 0
			}
			if inRow == maxTrouble {
				return errGaveUp
			}
		}
		return nil
	})
	return group.Wait()
}

// one asks both relays at the same time and compares what they say.
func (r *runner) one(ctx context.Context, q request) outcome {
	if !r.Writes && q.writes() {
		return outcome{request: q, skipped: true}
	}
	if r.Pin {
		q = pin(q, r.head)
	}
	var a, b answer
	var errA, errB error
	var both errgroup.Group
	both.Go(func() error { a, errA = r.a.ask(ctx, q.body); return nil })
	both.Go(func() error { b, errB = r.b.ask(ctx, q.body); return nil })
	_ = both.Wait() // the errors are in errA and errB
	if err := errors.Join(errA, errB); err != nil {
		return outcome{request: q, trouble: err}
	}
	found, more := r.rules.compare(q, a, b)
	return outcome{request: q, found: found, more: more}
}

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
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, defaultMaxAnswer)
	c.MaxShown = cmp.Or(c.MaxShown, defaultMaxShown)
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
