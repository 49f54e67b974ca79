package watch

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.yaml.in/yaml/v3"

	"lockstep/internal/clip"
	"lockstep/internal/secret"
	"lockstep/watch/body"
	"lockstep/watch/decode"
	"lockstep/watch/filter"
	"lockstep/watch/source"
)

// maxFile bounds watch.yaml and the ABI files that it names, in bytes.
const maxFile = 16 << 20

// ReadFile reads a plan from watch.yaml. All that is wrong with it is in one error, a line each, with line numbers. Files
// that it names are looked for beside it. ${NAME} in a value is a variable of the environment, a list of NAME=value.
func ReadFile(path string, environ ...string) (*Plan, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	return Read(text, path, environ...)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := clip.ReadAll(f, maxFile)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return text, err
}

// Read reads a plan from the text of watch.yaml. The path is for error texts and for files named in it.
func Read(text []byte, path string, environ ...string) (*Plan, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &reader{path: path}
	r.expand(&document, environ)
	plan := &Plan{}
	if len(document.Content) == 1 {
		r.plan(document.Content[0], plan)
	}
	r.validate(plan)
	if len(r.mistakes) == 0 {
		return plan, nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var errs []error
	for _, m := range r.mistakes {
		errs = append(errs, fmt.Errorf("%s:%d: %w", path, m.line, r.hidden(m.err)))
	}
	return nil, errors.Join(errs...)
}

// mistake is something that is wrong in a line.
type mistake struct {
	line int
	err  error
}

// reader walks the nodes of the file and collects what is wrong.
type reader struct {
	path            string
	mistakes        []mistake
	secrets         map[string]string // values with variables, and how they are written
	misread         int               // mistakes that leave out a part of the plan
	chains, watches []passage         // as in the plan
	tables          bool              // of watches that do not say
}

// passage is where something of the plan stands in the file.
type passage struct {
	line    int
	misread bool // a mistake was found in it
}

// validate adds what is wrong with the plan as a whole, but for what may follow from a mistake that was found already.
func (r *reader) validate(plan *Plan) {
	misread := func(w passage) bool { return w.misread }
	for _, wrong := range plan.problems() {
		line := 1
		switch {
		case wrong.others && slices.ContainsFunc(r.chains, misread):
			continue
		case wrong.watch >= 0:
			line = r.watches[wrong.watch].line
			if wrong.inside && r.watches[wrong.watch].misread {
				continue
			}
		case wrong.chain >= 0:
			line = r.chains[wrong.chain].line
			if r.chains[wrong.chain].misread {
				continue
			}
		}
		r.mistakes = append(r.mistakes, mistake{line, wrong.err})
	}
}

// fail notes a mistake that leaves out a part of the plan.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.misread++
	r.mistakes = append(r.mistakes, mistake{n.Line, fmt.Errorf(format, args...)})
}

// note notes a mistake in a value that nothing else depends on.
func (r *reader) note(n *yaml.Node, err error) {
	if err != nil {
		r.mistakes = append(r.mistakes, mistake{n.Line, err})
	}
}

// variable is ${NAME}, ${NAME:-what else}, or $${, which stands for ${ itself.
var variable = regexp.MustCompile(`\$?\$\{[^}]*\}`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces the variables in all values. What they hold stays one value, whatever is in it, and is shown in no error: it may be a secret.
func (r *reader) expand(n *yaml.Node, environ []string) {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	r.secrets = map[string]string{}
	var walk func(n *yaml.Node, key bool)
	walk = func(n *yaml.Node, key bool) {
		if n.Kind == yaml.ScalarNode && !key && strings.Contains(n.Value, "${") {
			text := n.Value
			n.Value = variable.ReplaceAllStringFunc(text, func(found string) string {
				if escaped, is := strings.CutPrefix(found, "$$"); is {
					return "$" + escaped
				}
				name, otherwise, has := strings.Cut(found[2:len(found)-1], ":-")
				value, set := values[name]
				switch {
				case !variableName.MatchString(name):
					r.fail(n, "%s is not a variable: want ${NAME}, ${NAME:-what else}, or $${ for ${ itself", found)
				case set && value != "":
					return value
				case has:
					return otherwise
				default:
					r.fail(n, "%s is not set in the environment", found)
				}
				return ""
			})
			if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
				n.Tag = "" // start: ${BLOCK} is a number
			}
			if len(n.Value) >= shortestSecret && n.Value != text {
				r.secrets[n.Value] = text
			}
		}
		for i, c := range n.Content { // what an alias stands for is elsewhere in the file
			walk(c, n.Kind == yaml.MappingNode && i%2 == 0)
		}
	}
	walk(n, false)
}

// shortestSecret is how many letters a value has at least that is worth hiding.
const shortestSecret = 4

// hidden is an error that shows variables instead of what they hold.
func (r *reader) hidden(err error) error {
	text := err.Error()
	for value, written := range r.secrets {
		text = strings.ReplaceAll(strings.ReplaceAll(text, value, written), strings.Trim(strconv.Quote(value), `"`), written)
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// aliased is what an alias stands for: the value of an anchor.
func aliased(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// pairs are the keys and values of a mapping. A key may stand there once; what "<<" merges goes behind what stands there itself.
func (r *reader) pairs(n *yaml.Node) (list [][2]*yaml.Node) {
	seen := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], aliased(n.Content[i+1])
		switch {
		case key.Tag == "!!merge":
			if value.Kind == yaml.SequenceNode {
				merged = append(merged, value.Content...)
			} else {
				merged = append(merged, value)
			}
		case seen[key.Value]:
			r.fail(key, "%q is set twice", key.Value)
		default:
			seen[key.Value] = true
			list = append(list, [2]*yaml.Node{key, value})
		}
	}
	for _, m := range merged {
		m = aliased(m)
		for i := 0; i+1 < len(m.Content) && m.Kind == yaml.MappingNode; i += 2 {
			if key := m.Content[i]; !seen[key.Value] && key.Tag != "!!merge" {
				seen[key.Value] = true
				list = append(list, [2]*yaml.Node{key, aliased(m.Content[i+1])})
			}
		}
	}
	return list
}

// fields calls a function for each known key of a mapping, and complains of the others.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s must be a list of names and values", what)
		return
	}
	for _, p := range r.pairs(n) {
		key, value := p[0], p[1]
		if read := known[key.Value]; read != nil {
			read(value)
			continue
		}
		r.fail(key, "%s has no setting %q: want one of %s", what, key.Value, strings.Join(sortedKeys(known), ", "))
	}
}

// each reads a list, or a value that stands for a list of one.
func each[T any](r *reader, what string, into *[]T, read func(*yaml.Node) T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch n.Kind {
		case yaml.ScalarNode:
			*into = append(*into, read(n))
		case yaml.SequenceNode:
			for _, entry := range n.Content {
				*into = append(*into, read(aliased(entry)))
			}
		default:
			r.fail(n, "%s must be a list", what)
		}
	}
}

// as reads a value that has another type than text.
func as[T any](r *reader, what string, into *T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if err := n.Decode(into); err != nil {
			r.fail(n, "%s cannot be %q", what, n.Value)
		}
	}
}

// texts reads a text.
func (r *reader) texts(what string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) { *into = r.text(n, what) }
}

// numbers reads a number.
func (r *reader) numbers(what string, into *uint64) func(*yaml.Node) {
	return func(n *yaml.Node) { *into = r.number(n, what) }
}

func (r *reader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode {
		r.fail(n, "%s must be a text", what)
	}
	return n.Value
}

func (r *reader) number(n *yaml.Node, what string) uint64 {
	v, err := strconv.ParseUint(n.Value, 0, 64)
	if err != nil {
		r.fail(n, "%s must be a number, not %q", what, n.Value)
	}
	return v
}

func (r *reader) address(n *yaml.Node) common.Address {
	a, err := parseAddress(n.Value)
	switch {
	case err != nil && n.Tag == "!!int":
		r.fail(n, "%q is a number without quotes: want an address, 0x and 40 digits, in quotes", n.Value)
	case err != nil:
		r.fail(n, "%v", err)
	}
	return a
}

func (r *reader) signature(n *yaml.Node) *decode.Signature {
	s, err := decode.Parse(n.Value)
	if err != nil {
		r.fail(n, "%v", err)
		return &decode.Signature{}
	}
	return s
}

func (r *reader) sink(n *yaml.Node) string {
	spec := r.text(n, "a sink")
	_, err := ParseSink(spec)
	r.note(n, err)
	return spec
}

func (r *reader) depth(n *yaml.Node) Depth {
	d, err := ParseDepth(n.Value)
	if err != nil {
		r.fail(n, "%v", err)
	}
	return d
}

func (r *reader) plan(n *yaml.Node, p *Plan) {
	for i := 0; i+1 < len(n.Content); i += 2 { // it counts for watches that stand before it, too
		if n.Content[i].Value == "tables" {
			as(r, "tables", &r.tables)(aliased(n.Content[i+1]))
		}
	}
	r.fields(n, "the file", map[string]func(*yaml.Node){
		"chains":    each(r, "chains", &p.Chains, inPassage(r, &r.chains, r.chain)),
		"watches":   each(r, "watches", &p.Watches, inPassage(r, &r.watches, r.watch)),
		"templates": func(n *yaml.Node) { p.Templates = r.templates(n) },
		"tables":    func(*yaml.Node) {},
	})
}

// inPassage notes where what it reads stands.
func inPassage[T any](r *reader, all *[]passage, read func(*yaml.Node) T) func(*yaml.Node) T {
	return func(n *yaml.Node) T {
		before := r.misread
		one := read(n)
		*all = append(*all, passage{n.Line, r.misread > before})
		return one
	}
}

// templates reads "name: text".
func (r *reader) templates(n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "templates must be a list of names and texts")
		return nil
	}
	all := map[string]string{}
	for _, p := range r.pairs(n) {
		all[p[0].Value] = r.text(p[1], "a template")
		if !namePattern.MatchString(p[0].Value) {
			r.fail(p[0], "template %q: a name has 1 to 64 letters, digits, - and _", p[0].Value)
		} else if err := body.Check(p[1].Value); err != nil {
			r.note(p[1], fmt.Errorf("template %s: %w", p[0].Value, err))
		}
	}
	return all
}

func (r *reader) chain(n *yaml.Node) Chain {
	c := Chain{Finality: defaultFinality, Setting: fmt.Sprintf("the id of a chain in %s, line %d,", filepath.Base(r.path), n.Line)}
	r.fields(n, "a chain", map[string]func(*yaml.Node){
		"id": r.numbers("id", &c.ID),
		"urls": each(r, "urls", &c.URLs, func(n *yaml.Node) secret.String {
			r.note(n, source.CheckURL(n.Value))
			return secret.String(r.text(n, "a URL"))
		}),
		"finality": r.numbers("finality", &c.Finality),
		"maxSpan":  r.numbers("maxSpan", &c.MaxSpan),
		"poll": func(n *yaml.Node) {
			if as(r, "poll", &c.Poll)(n); c.Poll < 0 || c.Poll > time.Minute {
				r.fail(n, "poll is a time like 2s, at most 1m")
			}
		},
		"headers": as(r, "headers", &c.Headers),
		"dev":     as(r, "dev", &c.Dev),
	})
	return c
}

func (r *reader) watch(n *yaml.Node) Watch {
	var where *yaml.Node
	w := Watch{Tables: r.tables, Status: Status{Initial: activeStatus, On: map[string]string{}}}
	r.fields(n, "a watch", map[string]func(*yaml.Node){
		"name":      r.texts("name", &w.Name),
		"chain":     r.numbers("chain", &w.Chain),
		"start":     func(n *yaml.Node) { r.start(n, &w) },
		"end":       func(n *yaml.Node) { w.End = new(r.number(n, "end")) },
		"where":     func(n *yaml.Node) { where = n },
		"depth":     func(n *yaml.Node) { w.Depth = r.depth(n) },
		"factory":   func(n *yaml.Node) { w.Factory = r.factory(n) },
		"addresses": each(r, "addresses", &w.Addresses, r.address),
		"events":    each(r, "events", &w.Events, r.signature),
		"abi":       func(n *yaml.Node) { w.Events = append(w.Events, r.abi(n, abiEvents)...) },
		"sinks":     each(r, "sinks", &w.Sinks, r.sink),
		"actions":   each(r, "actions", &w.Actions, r.action),
		"fields":    func(n *yaml.Node) { w.Fields = r.businessFields(n) },
		"status":    func(n *yaml.Node) { r.status(n, &w.Status) },
		"raw":       as(r, "raw", &w.Raw),
		"tables":    as(r, "tables", &w.Tables),
		"transactions": func(n *yaml.Node) {
			if n.Kind == yaml.MappingNode { // one rule
				w.Transactions = append(w.Transactions, r.transactions(n))
				return
			}
			each(r, "transactions", &w.Transactions, r.transactions)(n)
		},
	})
	if where != nil {
		r.where(where, &w) // it is about the events, which may stand behind it
	}
	return w
}

// start reads a block, "latest", or "-1000".
func (r *reader) start(n *yaml.Node, w *Watch) {
	if _, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "-"), 10, 63); n.Value == "latest" || strings.HasPrefix(n.Value, "-") && err == nil {
		w.Since = n.Value
		return
	}
	var err error
	if w.Start, err = strconv.ParseUint(n.Value, 0, 64); err != nil {
		r.fail(n, "start must be a block, latest, or a number like -1000 for so many blocks before that, not %q", n.Value)
	}
}

// where reads one condition for all events of a watch, or "Event: condition".
func (r *reader) where(n *yaml.Node, w *Watch) {
	w.Where = map[*decode.Signature]*filter.Filter{}
	if n.Kind != yaml.MappingNode {
		if len(w.Events) == 0 {
			r.fail(n, "where is about the events of a watch, and there are none")
		}
		r.condition(n, w, w.Events)
		return
	}
	for _, p := range r.pairs(n) {
		event := canonical(p[0].Value)
		events := slices.DeleteFunc(slices.Clone(w.Events), func(e *decode.Signature) bool { return !means(event, e.String()) })
		if len(events) == 0 {
			r.fail(p[0], "where: there is no event %s among those of the watch", event)
		}
		r.condition(p[1], w, events)
	}
}

func (r *reader) condition(n *yaml.Node, w *Watch, events []*decode.Signature) {
	expression, err := filter.Parse(r.text(n, "where"), func(name string) (string, error) {
		text, err := readBounded(r.beside(name))
		return string(text), err
	})
	if err != nil {
		r.fail(n, "where: %v", err)
		return
	}
	for _, e := range events {
		if w.Where[e] != nil {
			r.fail(n, "where: %s has two conditions", e)
		}
		if w.Where[e], err = expression.Bind(e); err != nil {
			r.fail(n, "where: %v", err)
			return
		}
	}
}

// beside is the path of a file that this one names.
func (r *reader) beside(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.path), path)
}

func (r *reader) transactions(n *yaml.Node) (t Transactions) {
	r.fields(n, "a rule for transactions", map[string]func(*yaml.Node){
		"to":       each(r, "to", &t.To, r.address),
		"from":     each(r, "from", &t.From, r.address),
		"function": each(r, "function", &t.Functions, r.signature),
		"abi":      func(n *yaml.Node) { t.Functions = append(t.Functions, r.abi(n, abiFunctions)...) },
		"failed":   as(r, "failed", &t.Failed),
	})
	return t
}

func (r *reader) factory(n *yaml.Node) *Factory {
	f := &Factory{Event: &decode.Signature{}}
	r.fields(n, "a factory", map[string]func(*yaml.Node){
		"address": func(n *yaml.Node) { f.Address = r.address(n) },
		"event":   func(n *yaml.Node) { f.Event = r.signature(n) },
		"child":   r.texts("child", &f.Child),
	})
	return f
}

func (r *reader) action(n *yaml.Node) Action {
	var a Action
	r.fields(n, "an action", map[string]func(*yaml.Node){
		"on":   func(n *yaml.Node) { a.On = canonical(r.text(n, "on")) },
		"to":   r.texts("to", &a.To),
		"call": r.texts("call", &a.Call),
		"args": each(r, "args", &a.Args, func(n *yaml.Node) string { return r.text(n, "an argument") }),
		"pool": r.texts("pool", &a.Pool),
	})
	return a
}

// canonical is an event's name as it is, and the signature of one overload as the rest of the program writes it.
func canonical(event string) string {
	if s, err := decode.Parse(event); err == nil {
		return s.String()
	}
	return event
}

// cutLast cuts at the last dot: there may be more in a signature's place, but none in an argument's name.
func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// businessFields reads "name: Event.argument".
func (r *reader) businessFields(n *yaml.Node) []Field {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "fields must be a list of names and values")
		return nil
	}
	var fields []Field
	for _, p := range r.pairs(n) {
		event, arg, ok := cutLast(p[1].Value)
		event = canonical(event)
		if !ok || !namePattern.MatchString(p[0].Value) {
			r.fail(p[1], "a field is written as name: Event.argument")
			continue
		}
		fields = append(fields, Field{Name: p[0].Value, Event: event, Arg: arg})
	}
	return fields
}

// status reads "initial: active" and "Released: released".
func (r *reader) status(n *yaml.Node, s *Status) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "status must be a list of events and values")
		return
	}
	for _, p := range r.pairs(n) {
		if key := p[0].Value; key == "initial" {
			s.Initial = p[1].Value
		} else {
			s.On[canonical(key)] = p[1].Value
		}
	}
}

// part is what is taken of an ABI.
type part struct {
	called string
	of     func(*decode.ABI) []*decode.Signature
}

var (
	abiEvents    = part{"event", func(a *decode.ABI) []*decode.Signature { return a.Events }}
	abiFunctions = part{"function", func(a *decode.ABI) []*decode.Signature { return a.Functions }}
)

// abi reads files: "path.json", some events (or functions) of them, "path.json: [Approved, Released]", or a list of both.
func (r *reader) abi(n *yaml.Node, p part) (all []*decode.Signature) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, entry := range n.Content {
			all = append(all, r.abi(aliased(entry), p)...)
		}
	case yaml.MappingNode:
		for _, pair := range r.pairs(n) {
			var only []string
			each(r, "the "+p.called+"s of an abi", &only, func(n *yaml.Node) string { return n.Value })(pair[1])
			all = append(all, r.abiFile(pair[0], only, p)...)
		}
	default:
		all = r.abiFile(n, nil, p)
	}
	return all
}

func (r *reader) abiFile(n *yaml.Node, only []string, p part) []*decode.Signature {
	path := r.beside(n.Value)
	text, err := readBounded(path)
	if err != nil {
		r.fail(n, "%v", err)
		return nil
	}
	signatures, err := fromABI(text, only, p)
	if err != nil {
		r.fail(n, "%s: %v", path, err)
	}
	return signatures
}

// fromABI takes events or functions from an ABI, or from a compiler's artefact. Anonymous events have to be named: they have every log of
// the contract read.
func fromABI(text []byte, only []string, p part) ([]*decode.Signature, error) {
	all, err := decode.ReadABI(text)
	if err != nil {
		return nil, err
	}
	if p.called == abiEvents.called && len(only) > 0 {
		all.Events = append(all.Events, all.Anonymous...)
	}
	list := slices.DeleteFunc(p.of(&all), func(s *decode.Signature) bool { return len(only) > 0 && !slices.Contains(only, s.Name) })
	for _, name := range only {
		if slices.ContainsFunc(list, func(s *decode.Signature) bool { return s.Name == name }) {
			continue
		}
		if err := all.Unread[name]; err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.called, name, err)
		}
		return nil, fmt.Errorf("it has no %s %s", p.called, name)
	}
	slices.SortFunc(list, func(a, b *decode.Signature) int { return strings.Compare(a.String(), b.String()) })
	return list, nil
}

// Kinds of sinks.
const (
	SinkStdout  = "stdout"
	SinkWebhook = body.Webhook // and the other kinds of package body: chats and the like
	SinkManager = "manager"
	SinkRedis   = "redis"
	SinkNATS    = "nats"
	SinkPubSub  = "pubsub"
	SinkKafka   = "kafka"
)

// SinkSpec is an entry of a watch's sinks, taken apart.
type SinkSpec struct {
	Called string // its name in the ledger: "name=" before the text, or its kind and place without what may be a secret
	Kind   string
	Target string // URL, or the project of pubsub; empty for stdout and kafka
	Name   string // of the stream, subject or topic
	Kafka  KafkaCluster
	// Template is the name of the plan's template that makes the bodies of a webhook; "": the kind's own.
	Template string
}

// KafkaCluster says how the brokers of a sink of Kafka are reached.
type KafkaCluster struct {
	Brokers  []string // host:port of some of them; they name the others
	TLS      bool
	User     string        // "": nobody logs in
	Password secret.String // "": it is set elsewhere
	SASL     string        // how the user logs in: one of SASLMechanisms
}

// SASLMechanisms are the ways to log in to brokers of Kafka.
var SASLMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// ParseSink takes an entry of a watch's sinks apart. Its errors show no URL, which may hold a password.
func ParseSink(text string) (SinkSpec, error) {
	called, target, named := strings.Cut(text, "=")
	if named = named && namePattern.MatchString(called); named {
		text = target
	}
	spec, err := parseTarget(text)
	if spec.Called = called; !named {
		spec.Called = spec.place()
	}
	return spec, err
}

// place tells a sink from others: by host, and by the name of a stream, subject or topic. A path may be a secret.
func (s SinkSpec) place() string {
	switch s.Kind {
	case SinkStdout:
		return s.Kind
	case SinkPubSub:
		return s.Kind + ":" + s.Target + "/" + s.Name
	case SinkKafka: // brokers come and go
		return s.Kind + ":" + s.Name
	}
	host := s.Target
	if u, err := url.Parse(s.Target); err == nil {
		host = u.Host
	}
	return strings.TrimSuffix(s.Kind+":"+host+"/"+s.Name, "/")
}

func parseTarget(text string) (SinkSpec, error) {
	kind, rest, _ := strings.Cut(text, ":")
	receiver, template, templated := strings.Cut(kind, "+")
	switch {
	case text == SinkStdout:
		return SinkSpec{Kind: SinkStdout}, nil
	case slices.Contains(body.Kinds(), receiver):
		spec := SinkSpec{Kind: receiver, Target: rest, Template: template}
		return spec, spec.checkReceiver(templated)
	case kind == SinkManager:
		if !strings.HasPrefix(rest, "http://") && !strings.HasPrefix(rest, "https://") {
			return SinkSpec{}, fmt.Errorf("sink %s: want %s:http://host:port", kind, kind)
		}
		return SinkSpec{Kind: kind, Target: rest}, nil
	case strings.HasPrefix(kind, SinkRedis):
		return named(SinkRedis, kind, rest, text)
	case kind == SinkNATS, kind == "tls":
		return named(SinkNATS, kind, rest, text)
	case kind == SinkPubSub:
		project, topic, ok := strings.Cut(rest, "/")
		if !ok || project == "" || topic == "" {
			return SinkSpec{}, errors.New("sink pubsub: want pubsub:project/topic")
		}
		return SinkSpec{Kind: SinkPubSub, Target: project, Name: topic}, nil
	case kind == SinkKafka, kind == SinkKafka+"+tls":
		return kafka(kind, rest)
	default:
		return SinkSpec{}, fmt.Errorf("sink %q is not known: want stdout, webhook:URL, redis://host/stream, nats://host/subject, pubsub:project/topic, kafka://host:port/topic, slack:, discord:, telegram: or pagerduty: and a URL, or manager:URL", kind)
	}
}

// checkReceiver tells whether a webhook's URL is what its receiver asks for.
func (s SinkSpec) checkReceiver(templated bool) error {
	switch {
	case !strings.HasPrefix(s.Target, "http://") && !strings.HasPrefix(s.Target, "https://"):
		return fmt.Errorf("sink %s: want %s:http://host:port", s.Kind, s.Kind)
	case templated && !namePattern.MatchString(s.Template):
		return fmt.Errorf("sink %s: want the name of a template behind +", s.Kind)
	}
	if _, err := body.New(s.Kind, "", s.Target); err != nil {
		return fmt.Errorf("sink %s: %w", s.Kind, err)
	}
	return nil
}

var (
	kafkaTopic = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	errKafka   = errors.New("sink kafka: want kafka://user:password@host:port,host:port/topic?sasl=scram-sha-512 (kafka+tls:// with TLS; user, password and sasl where brokers ask for them)")
)

// kafka reads a URL with several hosts.
func kafka(kind, rest string) (SinkSpec, error) {
	spec := SinkSpec{Kind: SinkKafka, Kafka: KafkaCluster{TLS: kind != SinkKafka}}
	rest, slashes := strings.CutPrefix(rest, "//")
	rest, query, _ := strings.Cut(rest, "?")
	slash := strings.LastIndexByte(rest, '/')
	options, err := url.ParseQuery(query)
	if !slashes || slash < 0 || err != nil {
		return SinkSpec{}, errKafka
	}
	hosts := rest[:slash]
	if spec.Name = rest[slash+1:]; !kafkaTopic.MatchString(spec.Name) {
		return SinkSpec{}, errors.New("sink kafka: a topic has 1 to 249 letters, digits, dots, - and _")
	}
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, password, _ := strings.Cut(hosts[:at], ":")
		hosts = hosts[at+1:]
		if spec.Kafka.User, err = url.PathUnescape(user); err != nil || user == "" {
			return SinkSpec{}, errKafka
		}
		text, err := url.PathUnescape(password)
		if err != nil {
			return SinkSpec{}, errKafka
		}
		spec.Kafka.Password = secret.String(text)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil || name == "" || port == "" {
			return SinkSpec{}, errKafka
		}
		spec.Kafka.Brokers = append(spec.Kafka.Brokers, host)
	}
	spec.Kafka.SASL = options.Get("sasl")
	options.Del("sasl")
	switch known := slices.Contains(SASLMechanisms, spec.Kafka.SASL); {
	case len(options) > 0:
		return SinkSpec{}, errKafka
	case spec.Kafka.User == "" && spec.Kafka.SASL != "":
		return SinkSpec{}, errors.New("sink kafka: sasl without a user")
	case spec.Kafka.User != "" && !known:
		return SinkSpec{}, fmt.Errorf("sink kafka: say how the user logs in: sasl=%s", strings.Join(SASLMechanisms, ", sasl="))
	}
	return spec, nil
}

// named takes the last part of a URL's path as the name of a stream or subject.
func named(sink, scheme, rest, text string) (SinkSpec, error) {
	target := text
	if !strings.HasPrefix(rest, "//") {
		target = rest // redis:redis://…
	}
	host := strings.Index(target, "://")
	slash := strings.LastIndexByte(target, '/')
	if host < 0 || slash < host+3 || slash == len(target)-1 {
		return SinkSpec{}, fmt.Errorf("sink %s: want a URL with the name at its end, like %s://host:port/name", scheme, scheme)
	}
	return SinkSpec{Kind: sink, Target: target[:slash], Name: target[slash+1:]}, nil
}
