// Package sinks hands events on to where they are wanted. New makes a sink from its text:
//
//	stdout                      a line of JSON for each event
//	webhook:https://host/path   a POST for each event, signed as Standard Webhooks says
//	redis://host:6379/stream    an entry of a Redis stream for each event (rediss, redis+sentinel, redis+cluster, too)
//	nats://host:4222/subject    a message to a JetStream subject for each event
//	pubsub:project/topic        a message to a Google Pub/Sub topic for each event
//	kafka://host:9092/topic     a record of a Kafka topic for each event (kafka+tls, too)
//	slack:https://…             a message in a chat, or an alert: slack, discord, telegram, pagerduty (see package body)
//	manager:http://host:7550    an intent of a transaction manager for each event that a watch's actions name
//
// The longer forms redis:redis://…, nats:nats://… are read, too.
//
// # What a receiver can rely on
//
// The messages of one contract come in their order: the next one goes when the other side has confirmed the one before.
// A message may come twice, when a process ended between a confirmation and the note of it; then both have
// the same delivery id, which is the webhook's id, the field "id" of a stream's entry, the Nats-Msg-Id, or the attribute or header "id". Where
// the other side drops duplicates by itself (JetStream within its window), it does.
//
// # Words
//
//	event message  see package watch
//	taken          of a message: confirmed by the other side
package sinks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/api/option"

	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch"
	"lockstep/watch/body"
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
	// KafkaPassword is that of users of Kafka who have none in their URL.
	KafkaPassword secret.String
	Log           *slog.Logger
}

// New makes the sink that a text describes. It contacts nobody.
func New(spec string, deps Deps) (watch.Sink, error) {
	parsed, err := watch.ParseSink(spec)
	if err != nil {
		return nil, err
	}
	if slices.Contains(body.Kinds(), parsed.Kind) {
		return newWebhook(parsed, deps)
	}
	switch parsed.Kind {
	case watch.SinkStdout:
		return &stdout{out: deps.Stdout}, nil
	case watch.SinkManager:
		return newManager(parsed.Target, deps), nil
	case watch.SinkRedis:
		return newStream(parsed.Target, parsed.Name)
	case watch.SinkNATS:
		return newNATS(parsed.Target, parsed.Name), nil
	case watch.SinkKafka:
		return newKafka(parsed, deps)
	default: // watch.SinkPubSub
		return newPubSub(parsed.Target, parsed.Name, deps.PubSub), nil
	}
}

// stdout writes lines of JSON. One write is one batch, so that lines of processes that share a terminal do not mix.
type stdout struct {
	mu    sync.Mutex
	out   io.Writer
	begun bool
}

// Publish implements watch.Sink.
func (s *stdout) Publish(_ context.Context, batch []watch.Message) []error {
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
		return all(batch, fmt.Errorf("standard output: %w", err))
	}
	s.begun = true
	return all(batch, nil)
}

// all is what became of a batch of which all is taken, or nothing.
func all(batch []watch.Message, err error) []error { return slices.Repeat([]error{err}, len(batch)) }

// Close implements watch.Sink.
func (s *stdout) Close() {}
