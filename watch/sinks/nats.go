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
func (s *subject) Publish(ctx context.Context, batch []watch.Message) (int, error) {
	stream, err := s.connected()
	if err != nil {
		return 0, err
	}
	for i, m := range batch {
		if _, err := stream.Publish(ctx, s.name, m.Body, jetstream.WithMsgID(m.Delivery)); err != nil {
			if errors.Is(err, nats.ErrMaxPayload) {
				err = fmt.Errorf("%w: %w", watch.ErrSettled, err)
			}
			return i, fmt.Errorf("JetStream subject %s: %w", s.name, err)
		}
	}
	return len(batch), nil
}

// Close implements watch.Sink.
func (s *subject) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
}
