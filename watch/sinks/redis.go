package sinks

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
	"lockstep/watch"
)

// stream appends messages to a Redis stream.
type stream struct {
	client redis.UniversalClient
	name   string
}

func newStream(url, name string) (*stream, error) {
	client, err := redisx.Open(url, redisx.Options{Timeout: postTimeout}) // an answer that is not waited for repeats a batch
	if err != nil {
		return nil, fmt.Errorf("sink redis: %w", err)
	}
	return &stream{client: client, name: name}, nil
}

// Publish implements watch.Sink. A batch is one transaction: all of it is appended, or nothing.
func (s *stream) Publish(ctx context.Context, batch []watch.Message) []error {
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, m := range batch {
			p.XAdd(ctx, &redis.XAddArgs{Stream: s.name, Values: []any{"id", m.Delivery, "event", m.Body}})
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("stream %s of Redis: %w", s.name, err)
	}
	return all(batch, err)
}

// Close implements watch.Sink.
func (s *stream) Close() { _ = s.client.Close() }
