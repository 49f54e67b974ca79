package sinks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lockstep/watch"
)

// subject publishes messages to a JetStream subject.
type subject struct {
	url, name string

	mu     sync.Mutex
	conn   *nats.Conn
	stream jetstream.JetStream
}

func newNATS(url, name string) *subject { return &subject{url: url, name: name} }

// connected returns the connection, which reconnects by itself once it has been made.
func (s *subject) connected() (jetstream.JetStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return s.stream, nil
	}
	conn, err := nats.Connect(s.url, nats.Name("lockstep watch"), nats.MaxReconnects(-1), nats.Timeout(2*time.Second), nats.ReconnectWait(500*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, errors.New("NATS cannot be reached") // the library's text may show the URL
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	s.conn, s.stream = conn, stream
	return stream, nil
}

// Publish implements watch.Sink. Each message waits for the confirmation of the one before. The server drops
// messages whose id it has seen within its window of duplicates.
func (s *subject) Publish(ctx context.Context, batch []watch.Message) []error {
	stream, err := s.connected()
	if err != nil {
		return all(batch, err)
	}
	return perContract(batch, 1, func(i int) error {
		_, err := stream.Publish(ctx, s.name, batch[i].Body, jetstream.WithMsgID(batch[i].Delivery))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrMaxPayload):
			return fmt.Errorf("%w: JetStream subject %s: %w", watch.ErrSettled, s.name, err)
		default:
			return fmt.Errorf("JetStream subject %s: %w", s.name, err)
		}
	})
}

// Close implements watch.Sink.
func (s *subject) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
}
