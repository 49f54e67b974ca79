// Package body makes of an event the body that a receiver of webhooks takes: what Slack, Discord, Telegram and PagerDuty ask for, or what a
// template of one's own says.
//
//	m, err := body.New(body.Slack, "", url)
//	text, err := m.Make(event)                  // the event as JSON, as sinks have it
//	verdict := m.Judge(status, answer)          // of an answer that is not 2xx
//
// A template is one of text/template, of which a part is allowed: fields of the event by the names that its JSON has, if, range, with, variables,
// comparisons, index, len, and the functions short, units, time and json. For a chat it says the text, in the chat's markup; for PagerDuty the
// summary; for any other receiver the whole body, which must be JSON.
//
// # Data from strangers
//
// Anybody can write an event's text. So each value that a template prints is escaped for where it goes, as html/template
// does: it can be no markup, no mention, no link, no new line, no end of a JSON text. What the template itself says is left as it is.
//
// # Limits
//
// A receiver refuses what is too long. Then values are cut until it fits, and in the end arguments are left out; nothing is cut in the
// middle of markup. A template that is too long without arguments makes an error.
//
// # Words
//
//	receiver  who is posted to, and what it asks for
//	verdict   what an answer means for a message: it can never be taken, or it is taken later, and when
package body

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf16"

	"lockstep/watch/decode"
)

// Kinds of receivers.
const (
	Webhook   = "webhook"
	Slack     = "slack"
	Discord   = "discord"
	Telegram  = "telegram"
	PagerDuty = "pagerduty"
)

// receiver says what a kind of receivers asks for.
type receiver struct {
	escape   func(string) string
	limit    int                 // of the text, in UTF-16 units
	template string              // the default
	options  map[string][]string // parts of the URL's query that go into the body, with the values that they may have; nil: any
	needed   []string            // those that must be there
	path     string              // end of the URL's path; "": any
	query    url.Values          // added to the URL
	envelope func(text string, event map[string]any, options url.Values) any
	judge    func(status int, answer []byte) Verdict
}

// Verdict says what an answer means for a message.
type Verdict struct {
	Settled bool          // this message can never be taken
	Why     string        // in the receiver's words, short
	Wait    time.Duration // when to come again; 0: nothing was said
}

// Kinds returns the kinds of receivers, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(receivers)) }

// Maker makes bodies for one receiver. It is safe for concurrent use.
type Maker struct {
	receiver
	options  url.Values
	url      string
	template *template.Template
}

// New makes a Maker. An empty template is the kind's own. Parts of the URL's query that belong into the body are taken out of it. Errors show no URL.
func New(kind, text, target string) (*Maker, error) {
	r, known := receivers[kind]
	if !known {
		return nil, fmt.Errorf("there is no receiver of the kind %q", kind)
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	if !strings.HasSuffix(u.Path, r.path) {
		return nil, fmt.Errorf("the URL's path does not end with %s", r.path)
	}
	m := &Maker{receiver: r, options: url.Values{}}
	query := u.Query()
	for name, values := range r.options {
		value := query.Get(name)
		if query.Del(name); value == "" {
			continue
		}
		if values != nil && !slices.Contains(values, value) {
			return nil, fmt.Errorf("%s is one of %s", name, strings.Join(values, ", "))
		}
		m.options.Set(name, value)
	}
	for _, name := range r.needed {
		if !m.options.Has(name) {
			return nil, fmt.Errorf("the URL lacks ?%s=…", name)
		}
	}
	maps.Copy(query, r.query)
	u.RawQuery = query.Encode()
	m.url = u.String()
	text = cmp.Or(text, r.template)
	m.template, err = compile(text)
	return m, err
}

// URL is where bodies are posted.
func (m *Maker) URL() string { return m.url }

// Judge says what an answer other than 2xx means.
func (m *Maker) Judge(status int, answer []byte) Verdict {
	if m.judge == nil {
		return Verdict{}
	}
	v := m.judge(status, answer)
	v.Why = clip(plain(v.Why), 200)
	return v
}

// ErrTooLong says that a template makes more than the receiver takes, whatever is left out of the event.
var ErrTooLong = errors.New("the template makes more than the receiver takes, even without the event's arguments")

// shorter are the lengths to which values are cut, one after the other, until the text fits.
var shorter = []int{512, 160, 80}

// Make makes the body for an event, which is JSON.
func (m *Maker) Make(event []byte) ([]byte, error) {
	data, err := decode.FromJSON(event)
	if err != nil {
		return nil, fmt.Errorf("the event: %w", err)
	}
	text, err := m.text(data, m.limit)
	for i := 0; errors.Is(err, ErrTooLong) && i < len(shorter); i++ {
		text, err = m.text(data, shorter[i])
	}
	if errors.Is(err, ErrTooLong) {
		data["args"] = map[string]any{}
		text, err = m.text(data, shorter[len(shorter)-1])
	}
	if err != nil {
		return nil, err
	}
	if m.envelope == nil {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("what the template makes of this event is no JSON")
		}
		return []byte(text), nil
	}
	return json.Marshal(m.envelope(text, data, m.options))
}

// text executes the template with values of a maximum length.
func (m *Maker) text(data map[string]any, longest int) (string, error) {
	t, err := m.template.Clone()
	if err != nil {
		return "", err
	}
	t.Funcs(template.FuncMap{printed: func(v any) string {
		if j, ok := v.(jsonText); ok && m.envelope == nil {
			return string(j)
		}
		return m.escape(clip(plain(said(v)), longest))
	}})
	out := bounded{left: 8 * m.limit} // bytes: three for a UTF-16 unit, and some that is trimmed
	if err := t.Execute(&out, data); err != nil {
		return "", err
	}
	text := strings.TrimSpace(out.String())
	if units(text) > m.limit {
		return "", ErrTooLong
	}
	if text == "" {
		return "", errors.New("the template makes nothing of this event")
	}
	return text, nil
}

// bounded is a buffer that takes so many bytes.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, ErrTooLong
	}
	return b.Buffer.Write(p)
}

// units is the length of a text as JavaScript, Telegram and the like count it: never less than its characters.
func units(text string) (n int) {
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// clip cuts a text to a number of UTF-16 units.
func clip(text string, longest int) string {
	if len(text) <= longest || units(text) <= longest {
		return text
	}
	n := 1 // the mark
	for i, r := range text {
		if n += max(utf16.RuneLen(r), 1); n > longest {
			return text[:i] + "…"
		}
	}
	return text
}
