package mirrorrest_test

import (
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// makeTopic makes a topic with all that a topic has, and messages in it, one in chunks.
func (s *scene) makeTopic() {
	s.t.Helper()
	key := operatorKey(s.network)
	rec := s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusCreateTopic{ConsensusCreateTopic: &hapi.ConsensusCreateTopicTransactionBody{
		Memo: "a topic", AdminKey: key, SubmitKey: key, FeeScheduleKey: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		AutoRenewAccount: accountID(2), FeeExemptKeyList: []*hapi.Key{key},
		CustomFees: []*hapi.FixedCustomFee{{FixedFee: &hapi.FixedFee{Amount: 3}, FeeCollectorAccountId: accountID(account(0).ID.Num)}},
	}}}, nil)
	s.mustSucceed(rec)
	s.topic = rec.Did().Topic
	for i, text := range []string{"one", "two", "\xff three"} {
		s.message = s.submitMessage(text, i > 0)
	}
}

// submitMessage submits a message, or the first chunk of one.
func (s *scene) submitMessage(text string, chunked bool) *ledger.Record {
	s.t.Helper()
	body := &hapi.ConsensusSubmitMessageTransactionBody{TopicID: topicID(s.topic), Message: []byte(text)}
	if chunked {
		start := hedera.FromNanos(s.genesis.UnixNano() - int64(60e9) + s.starts + 1) // that of this very transaction
		body.ChunkInfo = &hapi.ConsensusMessageChunkInfo{
			Total: 2, Number: 1,
			InitialTransactionID: &hapi.TransactionID{
				AccountID: accountID(2), TransactionValidStart: &hapi.Timestamp{Seconds: start.Seconds, Nanos: start.Nanos},
				Scheduled: proto.Bool(false),
			},
		}
	}
	rec := s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_ConsensusSubmitMessage{ConsensusSubmitMessage: body}}, nil)
	s.mustSucceed(rec)
	return rec
}

func topicID(id hedera.ID) *hapi.TopicID { return &hapi.TopicID{TopicNum: id.Num} }
