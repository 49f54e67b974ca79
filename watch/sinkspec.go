package watch

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Kinds of sinks.
const (
	SinkStdout  = "stdout"
	SinkWebhook = "webhook"
	SinkManager = "manager"
	SinkRedis   = "redis"
	SinkNATS    = "nats"
	SinkPubSub  = "pubsub"
)

// SinkSpec is an entry of a watch's sinks, taken apart.
type SinkSpec struct {
	Called string // its name in the ledger: "name=" before the text, or its kind and place without what may be a secret
	Kind   string
	Target string // URL, or the project of pubsub; empty for stdout
	Name   string // of the stream, subject or topic
}

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
	}
	host := s.Target
	if u, err := url.Parse(s.Target); err == nil {
		host = u.Host
	}
	return strings.TrimSuffix(s.Kind+":"+host+"/"+s.Name, "/")
}

func parseTarget(text string) (SinkSpec, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == SinkStdout:
		return SinkSpec{Kind: SinkStdout}, nil
	case kind == SinkWebhook, kind == SinkManager:
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
	default:
		return SinkSpec{}, fmt.Errorf("sink %q is not known: want stdout, webhook:URL, redis://host/stream, nats://host/subject, pubsub:project/topic or manager:URL", kind)
	}
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
