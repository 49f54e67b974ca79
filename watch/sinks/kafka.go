package sinks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

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
