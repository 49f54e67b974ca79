// Package sinks hands events on to where they are wanted. New makes a sink from its text:
//
//	stdout                      a line of JSON for each event
//	webhook:https://host/path   a POST for each event, signed as Standard Webhooks says
//	redis://host:6379/stream    an entry of a Redis stream for each event (rediss, redis+sentinel, redis+cluster, too)
//	nats://host:4222/subject    a message to a JetStream subject for each event
//	pubsub:project/topic        a message to a Google Pub/Sub topic for each event
//	manager:http://host:7550    an intent of a transaction manager for each event that a watch's actions name
//
// The longer forms redis:redis://…, nats:nats://… are read, too.
//
// # What a receiver can rely on
//
// The messages of one contract come in their order: the next one goes when the other side has confirmed the one before.
// A message may come twice, when a process ended between a confirmation and the note of it; then both have
// the same delivery id, which is the webhook's id, the field "id" of a stream's entry, the Nats-Msg-Id, or the attribute "id". Where
// the other side drops duplicates by itself (JetStream within its window), it does.
//
// # Words
//
// message: one event, or its removal. taken: confirmed by the other side.
package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/api/option"

	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch"
)

// Deps are what sinks use.
type Deps struct {
	Stdout io.Writer
	// WebhookSecrets sign webhooks: one, or two while the secret is rotated.
	WebhookSecrets []secret.String
	// Guard says which addresses webhooks may reach.
	Guard webhook.Guard
	// PubSub are options of Google's client: credentials, endpoint.
	PubSub []option.ClientOption
	Agent  string
	// Plan says what events trigger, for transaction managers.
	Plan *watch.Plan
	// ManagerKey is the API key for transaction managers, "" for none.
	ManagerKey secret.String
	Log        *slog.Logger
}

// New makes the sink that a text describes. It contacts nobody.
func New(spec string, deps Deps) (watch.Sink, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	switch {
	case spec == "stdout":
		return &stdout{out: deps.Stdout}, nil
	case kind == "webhook":
		return newWebhook(rest, deps)
	case kind == "manager":
		return newManager(rest, deps)
	case strings.HasPrefix(kind, "redis"):
		url, stream, err := splitTarget(kind, rest, spec)
		if err != nil {
			return nil, err
		}
		return newStream(url, stream)
	case kind == "nats" || kind == "tls":
		url, subject, err := splitTarget(kind, rest, spec)
		if err != nil {
			return nil, err
		}
		return newNATS(url, subject), nil
	case kind == "pubsub":
		project, topic, ok := strings.Cut(rest, "/")
		if !ok || project == "" || topic == "" {
			return nil, errors.New("sink pubsub: want pubsub:project/topic")
		}
		return newPubSub(project, topic, deps.PubSub), nil
	default:
		return nil, fmt.Errorf("sink %q is not known: want stdout, webhook:URL, redis://host/stream, nats://host/subject, pubsub:project/topic or manager:URL", kind)
	}
}

// splitTarget takes the last part of a URL's path as the name of a stream or subject.
func splitTarget(kind, rest, spec string) (url, name string, err error) {
	full := spec
	if !strings.HasPrefix(rest, "//") {
		full = rest // redis:redis://…
	}
	scheme := strings.Index(full, "://")
	slash := strings.LastIndexByte(full, '/')
	if scheme < 0 || slash < scheme+3 || slash == len(full)-1 {
		return "", "", fmt.Errorf("sink %s: want a URL with the name at its end, like %s://host:port/name", kind, kind)
	}
	return full[:slash], full[slash+1:], nil
}

// stdout writes lines of JSON. One write is one batch, so that lines of processes that share a terminal do not mix.
type stdout struct {
	mu    sync.Mutex
	out   io.Writer
	begun bool
}

// Publish implements watch.Sink.
func (s *stdout) Publish(_ context.Context, batch []watch.Message) (int, error) {
	var text bytes.Buffer
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun { // a process that was killed may have left half a line
		text.WriteByte('\n')
	}
	for _, m := range batch {
		text.Write(m.Body)
		text.WriteByte('\n')
	}
	if _, err := s.out.Write(text.Bytes()); err != nil {
		return 0, fmt.Errorf("standard output: %w", err)
	}
	s.begun = true
	return len(batch), nil
}

// Close implements watch.Sink.
func (s *stdout) Close() {}
