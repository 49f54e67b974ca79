package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// A Report is the result of Run. Counts are transactions, rates transactions per second.
type Report struct {
	Started time.Time `json:"started"`
	Load    LoadShape `json:"load"`
	Hosts   []string  `json:"hosts"`
	ChainID *big.Int  `json:"chain_id"`
	// Partial tells that Run was stopped before the end.
	Partial bool `json:"partial"`

	Planned int `json:"planned"`
	Sent    int `json:"sent"`
	// Sent = Accepted + Refused + Unanswered: answered with the hash, with an error, or
	// with nothing that could be used.
	Accepted   int `json:"accepted"`
	Refused    int `json:"refused"`
	Unanswered int `json:"unanswered"`

	// OfferedTPS is how fast the load left: from the first to the last send.
	OfferedTPS float64 `json:"offered_tps"`
	// AnsweredTPS counts acceptances and errors, AcceptedTPS only the former; both from
	// the start of the run to the last of what they count.
	AnsweredTPS float64 `json:"answered_tps"`
	AcceptedTPS float64 `json:"accepted_tps"`

	// Latency is of acceptances, from the write of the request to the end of the answer.
	Latency *Histogram `json:"latency"`
	// RefusalLatency is of errors.
	RefusalLatency *Histogram `json:"refusal_latency"`
	// Lag is of requests behind their schedule: the generator, or its connections, could
	// not keep up. Latency does not contain it.
	Lag *Histogram `json:"lag"`

	Errors []ErrorClass `json:"errors,omitempty"`
	// Chain is nil if the chain could not be asked; ChainError says why.
	Chain      *Chain `json:"chain,omitempty"`
	ChainError string `json:"chain_error,omitempty"`
}

// LoadShape repeats what was asked for.
type LoadShape struct {
	Senders       int     `json:"senders"`
	Count         int     `json:"count"`
	SpacingMS     float64 `json:"spacing_ms"`
	Sticky        bool    `json:"sticky"`
	ShuffleWindow int     `json:"shuffle_window"`
	Seed          string  `json:"seed"`
}

// Clean tells whether everything planned was accepted and executed once, in order.
func (r Report) Clean() bool {
	c := r.Chain
	return !r.Partial && c != nil && r.Accepted == r.Planned && c.Executed == r.Planned &&
		c.OutOfOrder == 0 && c.WrongNonce == 0 && c.Lost == 0 && c.Duplicated == 0
}

// Bounds of what a target's error messages may add to a report.
const (
	maxClasses    = 64
	maxMessageLen = 160
)

// An ErrorClass counts the transactions that ended in the same way. Numbers and hex in
// the message are replaced, so that nonces and hashes do not make classes of their own.
type ErrorClass struct {
	Code    int    `json:"code,omitempty"` // JSON-RPC error code; 0 for failures of the transport
	Message string `json:"message"`
	Count   int    `json:"count"`
}

type classKey struct {
	code    int
	message string
}

// count sums up what a target said of the transactions.
func (r *Report) count(txs []transfer, start time.Time) {
	r.Latency, r.RefusalLatency = new(Histogram), new(Histogram)
	var answered, ok time.Time // the latest
	classes := map[classKey]int{}
	for _, t := range txs {
		switch t.verdict {
		case accepted:
			r.Accepted++
			r.Latency.Record(t.took)
			ok, answered = later(ok, t.at), later(answered, t.at)
			continue
		case refused:
			r.Refused++
			r.RefusalLatency.Record(t.took)
			answered = later(answered, t.at)
		case unanswered:
			r.Unanswered++
		case planned:
			continue
		}
		classes[t.class]++
	}
	r.AnsweredTPS = rate(r.Accepted+r.Refused, answered.Sub(start))
	r.AcceptedTPS = rate(r.Accepted, ok.Sub(start))
	r.Errors = errorClasses(classes)
}

// errorClasses lists the classes, the most frequent first, and the rest of many as one.
func errorClasses(classes map[classKey]int) (list []ErrorClass) {
	for key, n := range classes {
		list = append(list, ErrorClass{Code: key.code, Message: key.message, Count: n})
	}
	slices.SortFunc(list, func(a, b ErrorClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Message, b.Message))
	})
	if len(list) > maxClasses {
		others := ErrorClass{Message: "other errors"}
		for _, c := range list[maxClasses:] {
			others.Count += c.Count
		}
		list = append(list[:maxClasses], others)
	}
	return list
}

// variables of messages: how relays name requests, hex, and numbers.
var (
	uuids   = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)
	hexes   = regexp.MustCompile(`0x[0-9a-fA-F]+`)
	numbers = regexp.MustCompile(`[0-9]+`)
)

// normalise makes a class of a message: hex becomes 0x…, numbers and UUIDs #.
func normalise(message string) string {
	message = uuids.ReplaceAllString(printable(message), "#")
	parts := strings.Split(hexes.ReplaceAllString(message, "\x00"), "\x00") // which printable leaves out
	for i, part := range parts {
		parts[i] = numbers.ReplaceAllString(part, "#")
	}
	return strings.Join(parts, "0x…")
}

// printable is what a terminal may show of a target's message: no control characters,
// and not more than a line or two.
func printable(message string) string {
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, message)
	for i := range message {
		if i >= maxMessageLen {
			return message[:i]
		}
	}
	return message
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// rate is n per second; 0 when there is nothing to divide.
func rate(n int, in time.Duration) float64 {
	if n <= 0 || in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}

// Write writes the report as indented JSON, or as text for people.
func (r Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var out strings.Builder
	r.text(&out)
	_, err := io.WriteString(w, out.String())
	return err
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (r Report) text(out *strings.Builder) {
	l := r.Load
	fmt.Fprintf(out, "%s × %s, spacing %s", plural(l.Senders, "sender"), plural(l.Count, "transaction"), time.Duration(l.SpacingMS*float64(time.Millisecond)))
	if l.ShuffleWindow > 1 {
		fmt.Fprintf(out, ", shuffled in windows of %d", l.ShuffleWindow)
	}
	if l.Sticky {
		out.WriteString(", sticky")
	}
	fmt.Fprintf(out, "\n\n%s (chain %s)\n", strings.Join(r.Hosts, "+"), r.ChainID)
	if r.Latency == nil {
		out.WriteString("  nothing was sent\n")
	} else {
		r.figures(out)
	}
	for _, e := range r.Errors {
		if e.Code == 0 {
			fmt.Fprintf(out, "  %d × %s\n", e.Count, e.Message)
		} else {
			fmt.Fprintf(out, "  %d × %d %s\n", e.Count, e.Code, e.Message)
		}
	}
	if r.ChainError != "" {
		fmt.Fprintf(out, "  chain state unknown: %s\n", r.ChainError)
	}
	if r.Chain != nil {
		for _, note := range r.Chain.Notes {
			fmt.Fprintf(out, "  %s\n", note)
		}
	}
	if r.Partial {
		fmt.Fprintf(out, "\nPARTIAL: stopped before the end; %d of %d sent\n", r.Sent, r.Planned)
	}
}

// figures writes a table of what was measured. NaN stands for what is not known.
func (r Report) figures(out *strings.Builder) {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(label string, value float64) {
		text := "–"
		if !math.IsNaN(value) {
			text = number(value)
		}
		_, _ = fmt.Fprintf(tw, "  %s\t%s\n", label, text) // a strings.Builder does not fail
	}
	row("offered rate, tx/s", r.OfferedTPS)
	row("answered rate, tx/s", r.AnsweredTPS)
	row("accepted rate, tx/s", r.AcceptedTPS)
	row("latency p50, ms", millis(r.Latency.Quantile(.5)))
	row("latency p90, ms", millis(r.Latency.Quantile(.9)))
	row("latency p99, ms", millis(r.Latency.Quantile(.99)))
	row("latency max, ms", millis(r.Latency.Max()))
	row("schedule lag p99, ms", millis(r.Lag.Quantile(.99)))
	row("sent, tx", float64(r.Sent))
	row("accepted, tx", float64(r.Accepted))
	row("refused, tx", float64(r.Refused))
	row("unanswered, tx", float64(r.Unanswered))
	if c := r.Chain; c != nil {
		refused := func(n int) float64 {
			if !c.tells(n) {
				return math.NaN()
			}
			return float64(n)
		}
		row("executed, tx", float64(c.Executed))
		row("executed, unconfirmed, tx", float64(c.ExecutedUnconfirmed))
		row("out of order, tx", refused(c.OutOfOrder))
		row("wrong nonce, tx", float64(c.WrongNonce))
		row("wrong nonce at consensus", refused(c.WrongNonceAtConsensus))
		row("lost, tx", float64(c.Lost))
		row("duplicated", float64(c.Duplicated))
	}
	_ = tw.Flush()
}

// number prints whole numbers without decimals and others with three digits that count.
func number(v float64) string {
	if v == math.Trunc(v) || v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// A Histogram has durations. The zero value is empty and ready to use; it is not safe for concurrent use.
type Histogram struct {
	all    []time.Duration
	sorted bool
}

// Record counts d; a negative d counts as zero.
func (h *Histogram) Record(d time.Duration) { h.all, h.sorted = append(h.all, max(d, 0)), false }

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return uint64(len(h.all)) }

// Max is the longest duration recorded.
func (h *Histogram) Max() time.Duration { return h.Quantile(1) }

// Quantile returns the duration that the fraction q of the records (0 to 1) does not exceed; 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if len(h.all) == 0 {
		return 0
	}
	if !h.sorted {
		slices.Sort(h.all)
		h.sorted = true
	}
	return h.all[max(int(math.Ceil(q*float64(len(h.all))))-1, 0)]
}

// MarshalJSON writes the count and the quantiles, in milliseconds.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count uint64  `json:"count"`
		P50   float64 `json:"p50_ms"`
		P90   float64 `json:"p90_ms"`
		P99   float64 `json:"p99_ms"`
		Max   float64 `json:"max_ms"`
	}{h.Count(), millis(h.Quantile(.5)), millis(h.Quantile(.9)), millis(h.Quantile(.99)), millis(h.Max())})
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
