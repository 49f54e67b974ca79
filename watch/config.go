package watch

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch/decode"
	"lockstep/watch/filter"
	"lockstep/watch/source"
)

// Plan is everything that is followed: what watch.yaml says, or the older environment.
type Plan struct {
	Chains  []Chain
	Watches []Watch
	// Templates make bodies of webhooks, by the names that sinks call them.
	Templates map[string]string
}

// watch is the watch of a name, nil for none.
func (p *Plan) watch(name string) *Watch {
	at := slices.IndexFunc(p.Watches, func(w Watch) bool { return w.Name == name })
	if at < 0 {
		return nil
	}
	return &p.Watches[at]
}

// Chain is a network and where it is read from.
type Chain struct {
	ID   uint64
	URLs []secret.String // of JSON-RPC endpoints, the preferred one first; they may hold keys
	// Finality is how many blocks below the head a block cannot be replaced any more, where the chain
	// itself does not say what is final.
	Finality uint64
	// MaxSpan is the maximum of blocks that one query for logs covers.
	MaxSpan uint64
	// Poll is the shortest time between two questions for the newest block, where none is announced; 0: as the chain's blocks come.
	Poll time.Duration
	// Headers has the filter of each block prove that a range has no events, where the chain has one endpoint.
	Headers bool
	// Dev says whether blocks come only when somebody wants them and the chain may begin anew at any time; nil: by the id.
	Dev *bool
	// Setting is what says its id, for errors.
	Setting string
}

// dev tells whether a chain is a developer's: nobody is told when it makes no blocks, and when it begins anew so does what is read.
func (c Chain) dev() bool {
	if c.Dev != nil {
		return *c.Dev
	}
	return c.ID == 31337 || c.ID == 1337
}

// Source opens the pool of the chain's endpoints, which connects to nobody yet.
func (c Chain) Source(deps source.Deps) (*source.Pool, error) {
	urls := make([]string, len(c.URLs))
	for i, u := range c.URLs {
		urls[i] = u.Reveal()
	}
	return source.New(source.Config{ChainID: c.ID, URLs: urls, MaxSpan: c.MaxSpan, Headers: c.Headers}, deps)
}

// Watch says what to follow on a chain and where its events go.
type Watch struct {
	Name  string // letters, digits, '-' and '_'
	Chain uint64
	Start uint64 // first block
	// Since says where to begin before anybody knows the block: "latest", or "-1000", so many blocks before it. It is settled once, in the ledger. "": at Start.
	Since     string
	End       *uint64  // last block; nil: none
	begun     bool     // Start was settled from Since
	Factory   *Factory // nil: only Addresses
	Addresses []common.Address
	Events    []*decode.Signature
	Depth     Depth
	Fields    []Field
	Status    Status
	Sinks     []string // as in WATCH_SINKS
	Actions   []Action // for a sink that is a transaction manager
	Raw       bool     // hand on topics and data, too
	Tables    bool     // each event has a table of its own
	// Where are the conditions that an event's arguments must meet, by the entries of Events. One without is handed on whatever its arguments are.
	Where map[*decode.Signature]*filter.Filter
	// Transactions are those that are events, too.
	Transactions []Transactions
}

// Factory says which event announces a contract that is to be followed, too.
type Factory struct {
	Address common.Address
	Event   *decode.Signature
	Child   string // the event's argument that is the contract
}

// Field copies an argument of an event to the row of the contract it is about. The event is a name, or the signature of one overload.
type Field struct {
	Name       string
	Event, Arg string
}

// Status says what state a contract is in, by the last event that names one.
type Status struct {
	Initial string
	On      map[string]string // event to status
}

// Depth is how far an event must be below the head before it is handed on.
type Depth struct {
	Blocks    uint64
	Finalized bool // as deep as the chain itself calls final
}

// parseAddress reads an address as people write it. One with small and large letters has a checksum in them (EIP-55), and a wrong digit
// rarely keeps it.
func parseAddress(text string) (common.Address, error) {
	if !common.IsHexAddress(text) || !strings.HasPrefix(text, "0x") {
		return common.Address{}, fmt.Errorf("%q is not an address: want 0x and 40 digits", text)
	}
	a := common.HexToAddress(text)
	if digits := text[2:]; digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && text != a.Hex() {
		return common.Address{}, fmt.Errorf("%s has a checksum that does not fit: is a digit wrong? %s would be right", text, a.Hex())
	}
	return a, nil
}

// ParseDepth reads a number of blocks, or "finalized".
func ParseDepth(text string) (Depth, error) {
	if text == "finalized" {
		return Depth{Finalized: true}, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return Depth{}, fmt.Errorf("%q is not a depth: want a number of blocks, or finalized", text)
	}
	return Depth{Blocks: n}, nil
}

// String is the form that ParseDepth reads.
func (d Depth) String() string {
	if d.Finalized {
		return "finalized"
	}
	return strconv.FormatUint(d.Blocks, 10)
}

const (
	defaultFinality = 64
	activeStatus    = "active"
)

// Bounds of a plan.
const (
	maxWatches   = 256
	maxAddresses = 100_000
	maxEvents    = 64
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns everything that is wrong with a plan.
func (p *Plan) Validate() error {
	var errs []error
	for _, wrong := range p.problems() {
		errs = append(errs, wrong.err)
	}
	return errors.Join(errs...)
}

// problem is something that is wrong with a plan.
type problem struct {
	chain, watch int // index of what it is about; -1 for neither
	// inside says that it follows from the watch's own parts; others follows from what else there is.
	inside, others bool
	err            error
}

func (p *Plan) problems() (all []problem) {
	add := func(where problem, format string, args ...any) {
		where.err = fmt.Errorf(format, args...)
		all = append(all, where)
	}
	chains := map[uint64]bool{}
	for i, c := range p.Chains {
		here := problem{chain: i, watch: -1}
		switch {
		case chains[c.ID]:
			add(here, "chain %d is described twice", c.ID)
		case c.ID == 0:
			add(here, "a chain has no id")
		case len(c.URLs) == 0:
			add(here, "chain %d has no URL", c.ID)
		}
		chains[c.ID] = true
	}
	called := map[string]string{}
	for i := range p.Watches {
		for _, spec := range p.Watches[i].Sinks {
			name := SinkName(spec)
			if other, twice := called[name]; twice && other != spec {
				add(problem{chain: -1, watch: i}, "two sinks are called %s: name them, as first=%s:…", name, sinkKind(spec))
			}
			called[name] = spec
			if parsed, err := ParseSink(spec); err == nil && parsed.Template != "" {
				if _, there := p.Templates[parsed.Template]; !there {
					add(problem{chain: -1, watch: i}, "sink %s: there is no template %s", name, parsed.Template)
				}
			}
		}
	}
	names := map[string]bool{}
	whole := problem{chain: -1, watch: -1}
	if len(p.Watches) == 0 {
		add(whole, "there is nothing to follow: no watch")
	}
	if len(p.Watches) > maxWatches {
		add(whole, "%d watches, the maximum is %d", len(p.Watches), maxWatches)
	}
	for i := range p.Watches {
		w, here := &p.Watches[i], problem{chain: -1, watch: i}
		if !namePattern.MatchString(w.Name) {
			add(here, "watch %q: a name has 1 to 64 letters, digits, - and _", w.Name)
		}
		if names[w.Name] {
			add(here, "watch %s is described twice", w.Name)
		}
		names[w.Name] = true
		if !chains[w.Chain] {
			add(problem{chain: -1, watch: i, others: true}, "watch %s: chain %d is not described", w.Name, w.Chain)
		}
		for _, err := range w.validate() {
			all = append(all, problem{chain: -1, watch: i, inside: true, err: err})
		}
	}
	return all
}

func (w *Watch) validate() []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("watch %s: "+format, append([]any{w.Name}, args...)...))
	}
	for _, err := range w.validateTransactions() {
		bad("%w", err)
	}
	if w.Factory == nil && len(w.Addresses) == 0 && len(w.Transactions) == 0 {
		bad("it follows nothing: it needs a factory or addresses")
	}
	if len(w.Addresses) > maxAddresses {
		bad("%d addresses, the maximum is %d", len(w.Addresses), maxAddresses)
	}
	if len(w.Events) == 0 && w.Factory == nil && len(w.Transactions) == 0 {
		bad("it names no events")
	}
	if len(w.Events) > maxEvents {
		bad("%d events, the maximum is %d", len(w.Events), maxEvents)
	}
	if f := w.Factory; f != nil {
		if typ := f.Event.TypeOf(f.Child); typ != "address" {
			bad("the factory's event %s has no argument %s of type address", f.Event.Name, f.Child)
		}
	}
	seen, topics := map[string]bool{}, map[int]string{}
	for _, e := range w.Events {
		if seen[e.String()] {
			bad("event %s is named twice", e)
		}
		seen[e.String()] = true
		if other, twice := topics[e.Indexed()]; twice && e.Anonymous && !strings.HasPrefix(other, e.String()) {
			bad("%s and %s have as many topics, and no log of theirs says which event it is", other, e)
		}
		if e.Anonymous {
			topics[e.Indexed()] = e.String()
		}
	}
	if w.Factory != nil && w.Factory.Event.Anonymous {
		bad("the factory's event is anonymous: any log of the factory could announce a contract")
	}
	if w.End != nil && w.Since == "" && *w.End < w.Start {
		bad("it ends at block %d and begins at %d", *w.End, w.Start)
	}
	for _, f := range w.Fields {
		if list := w.eventsOf(f.Event); len(list) == 0 {
			bad("field %s: there is no event %s", f.Name, f.Event)
		} else if !slices.ContainsFunc(list, func(s *decode.Signature) bool { return s.TypeOf(f.Arg) != "" }) {
			bad("field %s: event %s has no argument %s", f.Name, f.Event, f.Arg)
		}
	}
	for event := range w.Status.On {
		if len(w.eventsOf(event)) == 0 {
			bad("a status is set by event %s, which is not followed", event)
		}
	}
	for _, err := range w.validateActions() {
		bad("%w", err)
	}
	return errs
}

// eventsOf finds the followed events, the factory's included, that a name or a signature means.
func (w *Watch) eventsOf(event string) (list []*decode.Signature) {
	if w.Factory != nil && means(event, w.Factory.Event.String()) {
		list = append(list, w.Factory.Event)
	}
	for _, e := range w.Events {
		if means(event, e.String()) && (len(list) == 0 || list[0].String() != e.String()) {
			list = append(list, e)
		}
	}
	return list
}

// over tells whether a block is behind the last one of a watch.
func (w *Watch) over(block uint64) bool { return w.End != nil && block > *w.End }

// anonymous tells whether any log of a contract may be an event.
func (w *Watch) anonymous() bool {
	return slices.ContainsFunc(w.Events, func(e *decode.Signature) bool { return e.Anonymous })
}

// selectors are the first topics of all logs that a watch wants of a factory or a contract.
func (w *Watch) selectors() []common.Hash {
	list := make([]common.Hash, 0, len(w.Events)+1)
	for _, e := range w.Events {
		if !e.Anonymous {
			list = append(list, e.Selector)
		}
	}
	if w.Factory != nil {
		list = append(list, w.Factory.Event.Selector)
	}
	return list
}

// Settings are those of a process of watchers. Without a file they describe one factory, under the names of older services.
type Settings struct {
	// File with what to follow. Without it the settings below describe one factory.
	File string `env:"WATCH_FILE"`
	// Id of the chain, decimal or 0x-hexadecimal.
	ChainID envx.ChainID `env:"CHAIN_ID" envDefault:"0x12a"`
	// JSON-RPC endpoints of the chain, the preferred one first; a WebSocket (ws://, wss://) tells of new blocks, too. mirror+https://host is the REST interface of a Hedera mirror node. Each process may have its own.
	URLs []secret.String `env:"RPC_URL"`
	// Contract whose events announce the contracts to follow.
	Factory string `env:"FACTORY_ADDRESS"`
	// The factory's event. Its first argument that is an address is the contract.
	FactoryEvent string `env:"FACTORY_EVENT" envDefault:"EscrowDeployed(address indexed escrow, address indexed payer, address indexed payee, uint256 amount)"`
	// Events of those contracts, separated by commas or semicolons. The number of a log's topics tells which arguments are indexed.
	Events string `env:"WATCH_EVENTS" envDefault:"Approved(address),Released(address,uint256),Refunded(address,uint256)"`
	// First block to read.
	Start uint64 `env:"START_BLOCK" envDefault:"0"`
	// How far an event must be below the head before it is handed on: 0 as soon as it is seen, a number of blocks, or finalized.
	Depth string `env:"WATCH_DEPTH" envDefault:"0"`
	// Where events go: stdout, webhook:URL, redis:URL/stream, nats:URL/subject, pubsub:project/topic, kafka://host:port/topic; in a file manager:URL, too. Empty: standard output, or the Pub/Sub topic if one is named.
	Sinks []secret.String `env:"WATCH_SINKS"`
	// Google Cloud project of the Pub/Sub topic.
	PubSubProject string `env:"PUBSUB_PROJECT_ID"`
	// Pub/Sub topic that events go to.
	PubSubTopic string `env:"PUBSUB_TOPIC_ID"`
	// Name of this process, unique in its fleet. Empty: the host's name.
	Instance string `env:"INSTANCE_ID"`
	// Share of the shards that this process owns, counted from 0, where TOTAL_PARTITIONS divides them by hand.
	Partition int `env:"PARTITION_NUMBER" envDefault:"0"`
	// How many parts the shards are divided into by hand. 0: the processes divide them by themselves.
	Partitions int `env:"TOTAL_PARTITIONS" envDefault:"0"`
	// Database with cursors and events: sqlite:FILE for one process, postgres:// for several.
	Database secret.String `env:"DATABASE_URL" envDefault:"sqlite:lockstep.db"`
	// File with that URL.
	DatabaseFile secret.String `env:"DATABASE_URL_FILE,file"`
	// How long the database may be away before the process ends with an error.
	Patience envx.Millis `env:"WATCH_DB_PATIENCE" envDefault:"5m"`
	// How long messages are kept for readers of the stream once all sinks have taken them.
	Retention envx.Millis `env:"WATCH_RETENTION" envDefault:"168h"`
	// How many blocks a process may be behind and still be ready, for GET /health/readiness; 0 for any number.
	ReadyLag uint64 `env:"WATCH_READY_LAG" envDefault:"1000"`
	// Address of the watchers' own listener: metrics, health and the REST API; off for none. Processes on one host need different ones.
	Address string `env:"WATCH_ADDRESS" envDefault:"127.0.0.1:7551"`
	// While there is no key, draw a token at each start and print it with the page's address. With false whoever reaches the address is an administrator, and so is a stranger behind a proxy in front of it.
	LoopbackToken bool `env:"WATCH_LOOPBACK_TOKEN" envDefault:"true"`
	clientip.Config

	// Secrets that sign webhooks (whsec_…): one, or two while the secret is rotated.
	WebhookSecrets []secret.String `env:"WATCH_WEBHOOK_SECRET"`
	// API key for the transaction manager that sinks of the form manager:URL name; it needs the role send.
	ManagerKey secret.String `env:"WATCH_MANAGER_KEY"`
	// File with that key.
	ManagerKeyFile secret.String `env:"WATCH_MANAGER_KEY_FILE,file"`
	// Password of the user that a sink of the form kafka://user@host:port/topic names.
	KafkaPassword secret.String `env:"WATCH_KAFKA_PASSWORD"`
	// File with that password.
	KafkaPasswordFile secret.String `env:"WATCH_KAFKA_PASSWORD_FILE,file"`
	// Networks inside one's own that webhooks may reach, as CIDRs or addresses; * for all.
	WebhookAllow envx.Strings `env:"WATCH_WEBHOOK_ALLOW"`

	environ []string // variables that the file may name
}

// ManagerToken is the API key for transaction managers, "" for none.
func (s *Settings) ManagerToken() secret.String {
	if s.ManagerKey != "" {
		return s.ManagerKey
	}
	return secret.String(strings.TrimSpace(s.ManagerKeyFile.Reveal()))
}

// KafkaSecret is the password for Kafka's brokers, "" for none.
func (s *Settings) KafkaSecret() secret.String {
	return secret.String(secret.OfFile(s.KafkaPasswordFile, s.KafkaPassword.Reveal()))
}

// DatabaseURL is the URL of the database. A file with it goes before the URL itself.
func (s *Settings) DatabaseURL() string { return secret.OfFile(s.DatabaseFile, s.Database.Reveal()) }

// Know gives the settings the environment, whose variables the file may name.
func (s *Settings) Know(environ []string) { s.environ = environ }

// Validate checks what can be checked without a network, all at once. What to follow is checked by Plan.
func (s *Settings) Validate() error {
	_, networks := webhook.NewGuard(s.WebhookAllow)
	if networks != nil {
		networks = fmt.Errorf("WATCH_WEBHOOK_ALLOW: %w", networks)
	}
	var address error
	if _, _, err := net.SplitHostPort(s.Address); err != nil && s.Address != "off" {
		address = fmt.Errorf("WATCH_ADDRESS: want host:port, or off, is %q", s.Address)
	}
	return errors.Join(ledger.CheckURL(s.DatabaseURL()), networks, address, s.Config.Validate())
}

// Plan reads what to follow: from the file, or from the settings.
func (s *Settings) Plan() (*Plan, error) {
	if s.File != "" {
		return ReadFile(s.File, s.environ...)
	}
	var errs []error
	if len(s.URLs) == 0 {
		errs = append(errs, errors.New("RPC_URL is missing: the endpoint to read from, like http://127.0.0.1:8545 (or WATCH_FILE=watch.yaml describes everything)"))
	}
	address, err := parseAddress(s.Factory)
	if err != nil {
		errs = append(errs, fmt.Errorf("FACTORY_ADDRESS: %w", err))
	}
	factory, err := decode.Parse(s.FactoryEvent)
	if err != nil {
		errs = append(errs, fmt.Errorf("FACTORY_EVENT: %w", err))
	}
	events, err := decode.ParseList(s.Events)
	if err != nil {
		errs = append(errs, fmt.Errorf("WATCH_EVENTS: %w", err))
	}
	depth, err := ParseDepth(s.Depth)
	if err != nil {
		errs = append(errs, fmt.Errorf("WATCH_DEPTH: %w", err))
	}
	if s.Partitions < 0 || s.Partitions > shards {
		errs = append(errs, fmt.Errorf("TOTAL_PARTITIONS is %d: want 0 to %d", s.Partitions, shards))
	} else if s.Partitions > 0 && (s.Partition < 0 || s.Partition >= s.Partitions) {
		errs = append(errs, fmt.Errorf("PARTITION_NUMBER is %d: want 0 to %d", s.Partition, s.Partitions-1))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	w := Watch{
		Name: "escrows", Chain: uint64(s.ChainID), Start: s.Start, Events: events, Depth: depth,
		Factory: &Factory{Address: address, Event: factory, Child: firstAddress(factory)},
		Status:  Status{Initial: activeStatus, On: map[string]string{}},
	}
	for _, name := range []string{"payer", "payee", "amount"} {
		if factory.TypeOf(name) != "" {
			w.Fields = append(w.Fields, Field{Name: name, Event: factory.Name, Arg: name})
		}
	}
	for _, e := range events {
		if e.Name == "Released" || e.Name == "Refunded" {
			w.Status.On[e.Name] = strings.ToLower(e.Name)
		}
	}
	for _, sink := range s.sinks() {
		w.Sinks = append(w.Sinks, sink.Reveal())
	}
	plan := &Plan{Chains: []Chain{{ID: uint64(s.ChainID), URLs: s.URLs, Finality: defaultFinality, Setting: "CHAIN_ID"}}, Watches: []Watch{w}}
	return plan, plan.Validate()
}

func (s *Settings) sinks() []secret.String {
	list := s.Sinks
	if s.PubSubProject != "" && s.PubSubTopic != "" {
		list = append(list[:len(list):len(list)], secret.String("pubsub:"+s.PubSubProject+"/"+s.PubSubTopic))
	}
	if len(list) == 0 {
		return []secret.String{"stdout"}
	}
	return list
}

// firstAddress is the first argument of an event that is an address.
func firstAddress(s *decode.Signature) string {
	for _, name := range s.Args() {
		if s.TypeOf(name) == "address" {
			return name
		}
	}
	return "arg" + strconv.Itoa(len(s.Args()))
}
