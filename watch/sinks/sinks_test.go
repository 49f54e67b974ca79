package sinks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/secret"
	"lockstep/internal/webhook"
	"lockstep/watch"
	"lockstep/watch/sinks"
	"lockstep/watch/watchtest"
)

// messages makes n messages about each of some contracts, in turns.
func messages(contracts, n int) (batch []watch.Message) {
	for seq := range n {
		for c := range contracts {
			m := watch.Message{Event: watch.Event{Watch: "w", Event: "E", Address: fmt.Sprintf("0x%02d", c), Seq: int64(seq + 1)}}
			m.Delivery = fmt.Sprintf("%s:%d", m.Address, m.Seq)
			m.Body, _ = json.Marshal(m.Event)
			batch = append(batch, m)
		}
	}
	return batch
}

// inOrder checks that the bodies are all messages, in the order of each contract. Where an answer was late, messages come again.
func inOrder(t *testing.T, bodies [][]byte, contracts, n int) {
	t.Helper()
	last := map[string]int64{}
	total := 0
	for _, body := range bodies {
		var e watch.Event
		if err := json.Unmarshal(body, &e); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if e.Seq > 0 && e.Seq <= last[e.Address] {
			continue
		}
		if e.Seq != last[e.Address]+1 {
			t.Errorf("%s: message %d after %d", e.Address, e.Seq, last[e.Address])
		}
		last[e.Address] = e.Seq
		total++
	}
	if total != contracts*n || len(last) != contracts {
		t.Errorf("%d messages about %d contracts, want %d about %d", total, len(last), contracts*n, contracts)
	}
}

func deps(t *testing.T) sinks.Deps {
	t.Helper()
	guard := must.Get(webhook.NewGuard([]string{"127.0.0.0/8"}))(t)
	return sinks.Deps{Stdout: io.Discard, Guard: guard, WebhookSecrets: []secret.String{webhook.NewSecret()}, Agent: "test"}
}

func publish(t *testing.T, spec string, d sinks.Deps, batch []watch.Message) {
	t.Helper()
	sink := must.Get(sinks.New(spec, d))(t)
	defer sink.Close()
	insist(t, sink, batch)
}

// offer publishes messages, and returns how many were taken from the first one on, and why the next one was not.
func offer(ctx context.Context, sink watch.Sink, batch []watch.Message) (taken int, err error) {
	for i, err := range sink.Publish(ctx, batch) {
		if err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

// insist publishes messages as the watchers do: what was not taken, which may be so because the machine is busy, is published again.
func insist(t *testing.T, sink watch.Sink, batch []watch.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	taken := 0
	watchtest.Until(t, "the messages are taken", func() (bool, error) {
		n, err := offer(ctx, sink, batch[taken:])
		if (err == nil) != (n == len(batch)-taken) {
			t.Fatalf("%d of %d taken, %v", n, len(batch)-taken, err)
		}
		taken += n
		return err == nil, err
	})
}

func TestStdout(t *testing.T) {
	var out bytes.Buffer
	d := deps(t)
	d.Stdout = &out
	publish(t, "stdout", d, messages(3, 4))
	inOrder(t, bytes.Split(bytes.Trim(out.Bytes(), "\n"), []byte("\n")), 3, 4)
	if out.Bytes()[0] != '\n' {
		t.Error("the first line does not begin on a fresh one")
	}
}

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var bodies [][]byte
	refuse := map[string]bool{"0x01:3": true}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if refuse[r.Header.Get("webhook-id")] {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		bodies = append(bodies, body)
	}))
	defer receiver.Close()
	sink := must.Get(sinks.New("webhook:"+receiver.URL+"/hook", deps(t)))(t)
	batch := messages(3, 4)
	watchtest.Until(t, "seven messages are taken", func() (bool, error) { // fewer where an answer is late
		taken, err := offer(t.Context(), sink, batch)
		if err == nil || taken > 7 { // 0x01's third is the eighth
			t.Fatalf("%d taken, %v", taken, err)
		}
		return taken == 7, err
	})
	mu.Lock()
	for _, body := range bodies {
		if strings.Contains(string(body), `"address":"0x01"`) && strings.Contains(string(body), `"seq":4`) {
			t.Error("a message overtook the one before")
		}
	}
	clear(refuse)
	bodies = nil
	mu.Unlock()
	publish(t, "webhook:"+receiver.URL+"/hook", deps(t), batch)
	mu.Lock()
	defer mu.Unlock()
	inOrder(t, bodies, 3, 4)
}

func TestRedisStream(t *testing.T) {
	redis := redistest.Start(t)
	publish(t, "redis://"+redis.Addr()+"/events", deps(t), messages(5, 6))
	client := redis.Client()
	var bodies [][]byte
	watchtest.Until(t, "the entries are read", func() (bool, error) {
		entries, err := client.XRange(t.Context(), "events", "-", "+").Result()
		for _, e := range entries {
			bodies = append(bodies, []byte(e.Values["event"].(string)))
		}
		return err == nil, err
	})
	inOrder(t, bodies, 5, 6)
}

func TestNATS(t *testing.T) {
	s := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}))(t)
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server is not ready")
	}
	conn := must.Get(nats.Connect(s.ClientURL(), nats.Timeout(2*time.Minute)))(t)
	defer conn.Close()
	js := must.Get(jetstream.New(conn))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // without one the library has its own, which is short
	defer cancel()
	stream := must.Get(js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}, Duplicates: time.Hour}))(t)
	batch := messages(5, 6)
	publish(t, s.ClientURL()+"/events", deps(t), batch)
	publish(t, s.ClientURL()+"/events", deps(t), batch) // again, as after a crash: the server drops them
	var bodies [][]byte
	info := must.Get(stream.Info(ctx))(t)
	for seq := range info.State.LastSeq {
		m := must.Get(stream.GetMsg(ctx, seq+1))(t)
		bodies = append(bodies, m.Data)
	}
	inOrder(t, bodies, 5, 6)
}

func TestPubSub(t *testing.T) {
	fake := pstest.NewServer()
	defer fake.Close()
	must.Get(fake.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/p/topics/events"}))(t)
	d := deps(t)
	d.PubSub = []option.ClientOption{option.WithEndpoint(fake.Addr), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
	publish(t, "pubsub:p/events", d, messages(5, 6))
	var bodies [][]byte
	for _, m := range fake.Messages() {
		bodies = append(bodies, m.Data)
		if m.OrderingKey == "" || m.Attributes["id"] == "" {
			t.Errorf("a message without key or id: %+v", m)
		}
	}
	inOrder(t, bodies, 5, 6)
}

func TestNobodyThere(t *testing.T) {
	for _, spec := range []string{"webhook:http://127.0.0.1:1/x", "redis://127.0.0.1:1/events", "nats://127.0.0.1:1/events", "kafka://127.0.0.1:1/events"} {
		sink := must.Get(sinks.New(spec, deps(t)))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if taken, err := offer(ctx, sink, messages(1, 2)); taken != 0 || err == nil {
			t.Errorf("%s: %d taken, %v", spec, taken, err)
		}
		cancel()
		sink.Close()
	}
}

func TestNewRefuses(t *testing.T) {
	private := deps(t)
	private.Guard = webhook.Guard{}
	for spec, d := range map[string]sinks.Deps{
		"": deps(t), "webhook:ftp://x": deps(t), "webhook:http://127.0.0.1/x": private, "redis://host": deps(t), "redis:nowhere": deps(t), "nats://host/": deps(t), "pubsub:only": deps(t),
		"kafka:x": deps(t), "kafka://host/topic": deps(t), "kafka://host:1/": deps(t), "kafka://host:1/a b": deps(t), "kafka://user:hunter2@host:1/topic": deps(t), "kafka://user:hunter2@host:1/topic?sasl=gssapi": deps(t),
		"kafka://host:1/topic?sasl=plain": deps(t), "kafka://user@host:1/topic?sasl=plain": deps(t), "kafka://user:hunter2@host:1/topic?sasl=plain&acks=1": deps(t),
	} {
		if _, err := sinks.New(spec, d); err == nil {
			t.Errorf("%q was accepted", spec)
		} else if strings.Contains(err.Error(), "hunter2") || strings.HasSuffix(spec, "127.0.0.1/x") && !strings.Contains(err.Error(), "WATCH_WEBHOOK_ALLOW") {
			t.Error(err)
		}
	}
}
