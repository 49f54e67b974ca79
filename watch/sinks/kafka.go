package sinks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"google.golang.org/api/option"

	"lockstep/internal/redisx"
	"lockstep/watch"
)

// kafkaTopic produces messages to a topic of Kafka. The key of a record is watch/contract, so that those of one contract are in one partition, and all
// replicas that are in sync have a record before it counts.
//
// The client asks again by itself where an answer is lost or a partition has another leader, and the brokers drop what they have already. When the time
// for a batch is over it gives up what is on its way, so that nothing is sent after the right to send has ended; whether that was stored is
// unknown then, and it comes again with the same id.
type kafkaTopic struct {
	name   string
	client *kgo.Client
	// alone is held by whoever produces, and by one who wants a batch for one record for itself.
	alone sync.RWMutex
}

const (
	// kafkaBatch bounds a batch of records, in bytes: above what brokers take, who say what they do not take.
	kafkaBatch = 64 << 20
	// kafkaTimeout bounds one request to a broker, twice: what the broker may use, and what the network may add.
	kafkaTimeout = 3 * time.Second
)

func newKafka(spec watch.SinkSpec, deps Deps) (*kafkaTopic, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(spec.Kafka.Brokers...), kgo.DefaultProduceTopic(spec.Name), kgo.ClientID("lockstep-watch"), kgo.SoftwareNameAndVersion("lockstep", "1"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.AllowIdempotentProduceCancellation(), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(kafkaBatch), kgo.BrokerMaxWriteBytes(kafkaBatch + 1<<20),
		kgo.DialTimeout(kafkaTimeout), kgo.ProduceRequestTimeout(kafkaTimeout), kgo.RequestTimeoutOverhead(kafkaTimeout), kgo.DisableClientMetrics(),
	}
	if spec.Kafka.TLS {
		options = append(options, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if user, password := spec.Kafka.User, cmp.Or(spec.Kafka.Password, deps.KafkaPassword).Reveal(); user != "" {
		if password == "" {
			return nil, errors.New("sink kafka: the user has no password: set WATCH_KAFKA_PASSWORD or WATCH_KAFKA_PASSWORD_FILE")
		}
		switch spec.Kafka.SASL {
		case "plain":
			options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "scram-sha-256":
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
		default:
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
		}
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("sink kafka: %w", err)
	}
	return &kafkaTopic{name: spec.Name, client: client}, nil
}

// Publish implements watch.Sink.
func (t *kafkaTopic) Publish(ctx context.Context, batch []watch.Message) []error {
	return perContract(batch, posters, func(i int) error {
		m := &batch[i]
		err := t.produce(ctx, m, t.alone.RLocker())
		if tooLarge(err) { // or what shared its batch
			err = t.produce(ctx, m, &t.alone)
		}
		switch {
		case err == nil:
			return nil
		case tooLarge(err):
			return fmt.Errorf("%w: topic %s of Kafka: %w", watch.ErrSettled, t.name, err)
		default:
			return fmt.Errorf("topic %s of Kafka: %w", t.name, err)
		}
	})
}

// produce hands one message on, and waits until the brokers have it.
func (t *kafkaTopic) produce(ctx context.Context, m *watch.Message, turn sync.Locker) error {
	turn.Lock()
	defer turn.Unlock()
	return t.client.ProduceSync(ctx, &kgo.Record{
		Key: []byte(m.Watch + "/" + m.Address), Value: m.Body, // its time is now: brokers delete what is old
		Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(m.Delivery)}, {Key: "event_id", Value: []byte(m.EventID)}, {Key: "event", Value: []byte(m.Event.Event)}, {Key: "watch", Value: []byte(m.Watch)}},
	}).FirstErr()
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// Close implements watch.Sink.
func (t *kafkaTopic) Close() { t.client.Close() }

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

// cloudTopic publishes messages to a Google Pub/Sub topic. The ordering key is the contract.
type cloudTopic struct {
	project, name string
	options       []option.ClientOption

	mu        sync.Mutex
	client    *pubsub.Client
	publisher *pubsub.Publisher
}

func newPubSub(project, name string, options []option.ClientOption) *cloudTopic {
	return &cloudTopic{project: project, name: name, options: options}
}

func (t *cloudTopic) connected(ctx context.Context) (*pubsub.Publisher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.publisher != nil {
		return t.publisher, nil
	}
	client, err := pubsub.NewClient(context.WithoutCancel(ctx), t.project, t.options...)
	if err != nil {
		return nil, fmt.Errorf("Pub/Sub: %w", err)
	}
	t.client, t.publisher = client, client.Publisher(t.name)
	t.publisher.EnableMessageOrdering = true
	return t.publisher, nil
}

// Publish implements watch.Sink. After a failure the client holds the later messages of that contract back, so that their
// order stays; they are sent again from the one that failed.
func (t *cloudTopic) Publish(ctx context.Context, batch []watch.Message) []error {
	publisher, err := t.connected(ctx)
	if err != nil {
		return all(batch, err)
	}
	results := make([]*pubsub.PublishResult, len(batch))
	for i, m := range batch {
		results[i] = publisher.Publish(ctx, &pubsub.Message{
			Data: m.Body, OrderingKey: m.Address, Attributes: map[string]string{"id": m.Delivery, "event_id": m.EventID, "event": m.Event.Event, "watch": m.Watch},
		})
	}
	publisher.Flush()
	errs := make([]error, len(batch))
	for i, r := range results {
		_, err := r.Get(ctx)
		if err == nil {
			continue
		}
		if errors.Is(err, pubsub.ErrOversizedMessage) {
			err = fmt.Errorf("%w: %w", watch.ErrSettled, err)
		}
		errs[i] = fmt.Errorf("Pub/Sub topic %s: %w", t.name, err)
		defer publisher.ResumePublish(batch[i].Address)
	}
	return errs
}

// Close implements watch.Sink.
func (t *cloudTopic) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != nil {
		t.publisher.Stop()
		_ = t.client.Close()
	}
}

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
