package watch

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch/decode"
)

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
