package mirrorrest_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// makeTopic makes a topic with all that a topic has, and messages in it, one in chunks.
func (s *scene) makeTopic() {
	s.t.Helper()
	key := operatorKey(s.network)
	rec := s.mustSucceed(s.handle(core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{
		Memo: "a topic", AdminKey: key, SubmitKey: key, FeeScheduleKey: key, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		AutoRenewAccount: accountID(2), FeeExemptKeyList: []*hapi.Key{key},
		CustomFees: []*hapi.FixedCustomFee{{FixedFee: &hapi.FixedFee{Amount: 3}, FeeCollectorAccountId: accountID(account(0).ID.Num)}},
	}), nil))
	s.topic = rec.Did().Topic
	for i, text := range []string{"one", "two", "\xff three"} {
		s.message = s.submitMessage(text, i > 0)
	}
}

// submitMessage submits a message, or the first chunk of one.
func (s *scene) submitMessage(text string, chunked bool) *history.Record {
	s.t.Helper()
	body := &hapi.ConsensusSubmitMessageTransactionBody{TopicID: topicID(s.topic), Message: []byte(text)}
	if chunked {
		start := hedera.FromNanos(s.genesis.UnixNano() - int64(60e9) + s.starts + 1) // that of this very transaction
		body.ChunkInfo = &hapi.ConsensusMessageChunkInfo{
			Total: 2, Number: 1,
			InitialTransactionID: &hapi.TransactionID{
				AccountID: accountID(2), TransactionValidStart: &hapi.Timestamp{Seconds: start.Seconds, Nanos: start.Nanos},
				Scheduled: new(false),
			},
		}
	}
	rec := s.mustSucceed(s.handle(core.BodyOf(body), nil))
	return rec
}

func topicID(id hedera.ID) *hapi.TopicID { return &hapi.TopicID{TopicNum: id.Num} }

// makeSchedules makes a schedule that executes and one that waits for a signature.
func (s *scene) makeSchedules() {
	s.t.Helper()
	s.schedule = s.scheduleTransfer(2, account(0).ID.Num, true)
	s.scheduleTransfer(account(0).ID.Num, 2, false)
}

func (s *scene) scheduleTransfer(from, to int64, expiry bool) *history.Record {
	s.t.Helper()
	body := &hapi.ScheduleCreateTransactionBody{
		Memo: "a schedule", AdminKey: operatorKey(s.network),
		ScheduledTransactionBody: &hapi.SchedulableTransactionBody{Data: &hapi.SchedulableTransactionBody_CryptoTransfer{
			CryptoTransfer: &hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
				{AccountID: accountID(from), Amount: -5}, {AccountID: accountID(to), Amount: 5},
			}}},
		}},
	}
	if expiry {
		body.ExpirationTime = &hapi.Timestamp{Seconds: s.ledger.Now().Unix() + 3600}
	}
	rec := s.mustSucceed(s.handle(core.BodyOf(body), nil))
	return rec
}

func TestSchedules(t *testing.T) {
	s := newTokenScene(t)
	executed := s.ledger.View().Time()
	got := s.get("schedules?order=desc", http.StatusOK)["schedules"].([]any)
	if len(got) != 2 {
		t.Fatalf("schedules %v", got)
	}
	waiting, done := got[0].(map[string]any), got[1].(map[string]any)
	if waiting["executed_timestamp"] != nil || waiting["expiration_time"] != nil || done["expiration_time"] == nil {
		t.Errorf("waiting %v, done %v", waiting, done)
	}
	raw, err := base64.StdEncoding.DecodeString(done["transaction_body"].(string))
	body := new(hapi.SchedulableTransactionBody)
	if err != nil || proto.Unmarshal(raw, body) != nil || body.GetCryptoTransfer() == nil {
		t.Errorf("body %x", raw)
	}
	at, _ := done["executed_timestamp"].(string)
	list := s.get("transactions/"+s.schedule.ID.Mirror(), http.StatusOK)["transactions"].([]any)
	if len(list) != 2 {
		t.Fatalf("transactions %v", list)
	}
	first, second := list[0].(map[string]any), list[1].(map[string]any)
	if first["name"] != "SCHEDULECREATE" || first["entity_id"] != done["schedule_id"] || second["name"] != "CRYPTOTRANSFER" ||
		second["scheduled"] != true || second["consensus_timestamp"] != at || second["node"] != nil || at > executed.String() {
		t.Errorf("first %v, second %v", first, second)
	}
	one := s.get("transactions/"+s.schedule.ID.Mirror()+"?scheduled=false", http.StatusOK)["transactions"].([]any)
	if len(one) != 1 {
		t.Errorf("not scheduled: %v", one)
	}
}
