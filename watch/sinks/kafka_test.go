package sinks_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/sinks"
)

// deafListener is that of a broker whose next answer can be lost on its way: the connection ends instead.
type deafListener struct {
	net.Listener
	lose *atomic.Int32
}

func (l deafListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return deafConn{conn, l.lose}, err
}

type deafConn struct {
	net.Conn
	lose *atomic.Int32
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.lose.Add(-1) >= 0 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.lose.Store(0)
	return c.Conn.Write(b)
}

// kafka starts brokers of Kafka with a topic of four partitions.
func kafka(t *testing.T, lose *atomic.Int32, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	cluster := must.Get(kfake.NewCluster(append(options, kfake.NumBrokers(3), kfake.SeedTopics(4, "events"), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return deafListener{l, lose}, err
	}))...))(t)
	t.Cleanup(cluster.Close)
	return cluster
}

// records reads a topic until it has had so many records.
func records(t *testing.T, cluster *kfake.Cluster, n int) (list []*kgo.Record) {
	t.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("events")))(t)
	defer client.Close()
	for len(list) < n {
		fetched := client.PollFetches(t.Context())
		must.Do(t, fetched.Err())
		list = append(list, fetched.Records()...)
	}
	return list
}

// TestKafka has brokers lose answers, move partitions, say that they lead none, and die, while messages are handed on. All of them come, those of a
// contract in its partition and order, and none twice: the brokers know those that they have.
func TestKafka(t *testing.T) {
	var lose atomic.Int32
	cluster := kafka(t, &lose)
	var produced, trouble atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		switch produced.Add(1) {
		case 3:
			trouble.Add(1)
			lose.Store(1) // the records are stored, and nobody hears of it
		case 8:
			trouble.Add(1)
			answer := request.ResponseKind().(*kmsg.ProduceResponse)
			for _, topic := range request.(*kmsg.ProduceRequest).Topics {
				to := kmsg.NewProduceResponseTopic()
				to.Topic, to.TopicID = topic.Topic, topic.TopicID
				for _, p := range topic.Partitions {
					at := kmsg.NewProduceResponseTopicPartition()
					at.Partition, at.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code
					to.Partitions = append(to.Partitions, at)
				}
				answer.Topics = append(answer.Topics, to)
			}
			return answer, nil, true
		}
		return nil, nil, false
	})
	sink := must.Get(sinks.New("kafka://"+strings.Join(cluster.ListenAddrs(), ",")+"/events", deps(t)))(t)
	defer sink.Close()
	batch := messages(5, 12)
	insist(t, sink, batch[:20])
	for p := range int32(4) {
		must.Do(t, cluster.MoveTopicPartition("events", p, (cluster.LeaderFor("events", p)+1)%3))
	}
	insist(t, sink, batch[20:40])
	must.Do(t, cluster.RemoveNode(cluster.LeaderFor("events", 0)))
	insist(t, sink, batch[40:])
	if trouble.Load() != 2 {
		t.Errorf("there was trouble %d times in %d requests, want two times", trouble.Load(), produced.Load())
	}
	list := records(t, cluster, len(batch))
	check := func(list []*kgo.Record) {
		t.Helper()
		var bodies [][]byte
		partitions := map[string]int32{}
		for _, r := range list {
			bodies = append(bodies, r.Value)
			address, seq, _ := strings.Cut(string(r.Headers[0].Value), ":")
			if string(r.Key) != "w/"+address || r.Headers[0].Key != "id" || !bytes.Contains(r.Value, []byte(`"seq":`+seq)) {
				t.Errorf("key %s, headers %v, value %s", r.Key, r.Headers, r.Value)
			}
			if at, known := partitions[address]; known && at != r.Partition {
				t.Errorf("%s is in partitions %d and %d", address, at, r.Partition)
			}
			partitions[address] = r.Partition
		}
		inOrder(t, bodies, 5, 12)
	}
	if len(list) != len(batch) {
		t.Errorf("%d records of %d messages", len(list), len(batch))
	}
	check(list)
	publish(t, "kafka://"+cluster.ListenAddrs()[0]+"/events", deps(t), batch[40:]) // again, as after a crash: with the same ids
	again := records(t, cluster, len(batch)+20)
	check(again)
	ids := map[string]int{}
	for _, r := range again {
		ids[string(r.Headers[0].Value)]++
	}
	if len(again) != len(batch)+20 || len(ids) != len(batch) {
		t.Errorf("%d records with %d ids", len(again), len(ids))
	}
}

// TestKafkaRefuses has one message that no broker ever takes among others of its partition: it alone is passed over.
func TestKafkaRefuses(t *testing.T) {
	cluster := kafka(t, new(atomic.Int32), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000"}))
	sink, err := sinks.New("kafka://"+cluster.ListenAddrs()[0]+"/events", deps(t))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	batch := messages(8, 2)
	noise := make([]byte, 30_000)
	for i := range noise { // that does not compress
		noise[i] = byte(i*i>>7 ^ i*31 ^ i>>3)
	}
	batch[3].Body = []byte(strconv.QuoteToASCII(string(noise)))
	for i, err := range sink.Publish(t.Context(), batch) {
		if (i == 3) != errors.Is(err, watch.ErrSettled) || i != 3 && err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	list := records(t, cluster, len(batch)-1)
	if slices.ContainsFunc(list, func(r *kgo.Record) bool { return string(r.Headers[0].Value) == batch[3].Delivery }) {
		t.Error("it was taken")
	}
}

// TestKafkaLogsIn holds the three ways to log in, with the password in the URL or beside it, against brokers who ask for it.
func TestKafkaLogsIn(t *testing.T) {
	for _, way := range watch.SASLMechanisms {
		cluster := kafka(t, new(atomic.Int32), kfake.EnableSASL(), kfake.Superuser(strings.ToUpper(way), "us:er", "p@ss/word"))
		host := cluster.ListenAddrs()[0] + "/events?sasl=" + way
		publish(t, "kafka://us%3Aer:p%40ss%2Fword@"+host, deps(t), messages(1, 1))
		d := deps(t)
		d.KafkaPassword = secret.String("p@ss/word")
		publish(t, "kafka://us%3Aer@"+host, d, messages(1, 1))
		sink := must.Get(sinks.New("kafka://us%3Aer:hunter2@"+host, d))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		n, err := offer(ctx, sink, messages(1, 1))
		cancel()
		if n != 0 || err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s with a wrong password: %d, %v", way, n, err)
		}
		sink.Close()
	}
}
