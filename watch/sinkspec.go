package watch

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"lockstep/internal/secret"
	"lockstep/watch/body"
)

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
