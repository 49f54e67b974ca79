package devnet

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

// TestSubscription: messages come once and in order, over a turn back too; what cannot be is refused.
func TestSubscription(t *testing.T) {
	n := must.Get(New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", MirrorGRPC: "127.0.0.1:0"}))(t)
	must.Run(t, n.Run)
	w := newWorld(t, 1, false)
	w.use(n)
	created := w.submit(0, core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
		AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
	}))
	w.must(created)
	topic := &hapi.TopicID{TopicNum: created.Did().Topic.Num}
	say := func(text string) {
		t.Helper()
		w.must(w.submit(0, core.BodyOf(&hapi.ConsensusSubmitMessageTransactionBody{
			TopicID: topic, Message: []byte(text),
		})))
	}
	conn := must.Get(grpc.NewClient(n.MirrorGRPC(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	subscribe := func(query *hapi.ConsensusTopicQuery) grpc.ClientStream {
		t.Helper()
		stream := must.Get(conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, hapi.MethodSubscribeTopic))(t)
		must.Do(t, stream.SendMsg(query))
		must.Do(t, stream.CloseSend())
		return stream
	}
	hears := func(stream grpc.ClientStream, want string, sequence uint64) {
		t.Helper()
		got := new(hapi.ConsensusTopicResponse)
		if err := stream.RecvMsg(got); err != nil || string(got.GetMessage()) != want || got.GetSequenceNumber() != sequence {
			t.Errorf("%v, %v; not %s, number %d", got, err, want, sequence)
		}
	}
	beginning := &hapi.Timestamp{Seconds: 1}
	say("one")
	snapshot := n.Ledger().Snapshot()
	say("two")
	stream := subscribe(&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusStartTime: beginning})
	hears(stream, "one", 1)
	hears(stream, "two", 2)
	if !n.Ledger().Revert(snapshot) {
		t.Fatal("the ledger does not go back")
	}
	say("another two")
	hears(stream, "another two", 2)

	// The same where the chain is longer again before the subscription looks.
	for round := range 20 {
		snapshot := n.Ledger().Snapshot()
		say(fmt.Sprint("gone ", round))
		hears(stream, fmt.Sprint("gone ", round), 3)
		for range 2 {
			if !n.Ledger().Revert(snapshot) {
				t.Fatal("the ledger does not go back")
			}
			say(fmt.Sprint("passing ", round))
		}
		if !n.Ledger().Revert(snapshot) {
			t.Fatal("the ledger does not go back")
		}
		n.Ledger().Mine(1, 0)
		say(fmt.Sprint("stays ", round))
		for heard := ""; heard != fmt.Sprint("stays ", round); {
			got := new(hapi.ConsensusTopicResponse)
			if err := stream.RecvMsg(got); err != nil || got.GetSequenceNumber() != 3 {
				t.Fatalf("%v, %v", got, err)
			}
			heard = string(got.GetMessage())
		}
		n.Ledger().Revert(snapshot)
	}

	for name, c := range map[string]struct {
		query *hapi.ConsensusTopicQuery
		want  codes.Code
	}{
		"none":              {&hapi.ConsensusTopicQuery{TopicID: &hapi.TopicID{TopicNum: 999_999}}, codes.NotFound},
		"another realm":     {&hapi.ConsensusTopicQuery{TopicID: &hapi.TopicID{RealmNum: proto.Int64(1), TopicNum: topic.GetTopicNum()}}, codes.NotFound},
		"no topic":          {&hapi.ConsensusTopicQuery{}, codes.InvalidArgument},
		"a negative start":  {&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusStartTime: &hapi.Timestamp{Seconds: -1}}, codes.InvalidArgument},
		"an end before now": {&hapi.ConsensusTopicQuery{TopicID: topic, ConsensusEndTime: beginning}, codes.InvalidArgument},
	} {
		if err := subscribe(c.query).RecvMsg(new(hapi.ConsensusTopicResponse)); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
