package mirrorrest_test

import (
	"encoding/base64"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
)

// makeSchedules makes a schedule that executes and one that waits for a signature.
func (s *scene) makeSchedules() {
	s.t.Helper()
	s.schedule = s.scheduleTransfer(2, account(0).ID.Num, true)
	s.scheduleTransfer(account(0).ID.Num, 2, false)
}

func (s *scene) scheduleTransfer(from, to int64, expiry bool) *ledger.Record {
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
	rec := s.handle(&hapi.TransactionBody{Data: &hapi.TransactionBody_ScheduleCreate{ScheduleCreate: body}}, nil)
	s.mustSucceed(rec)
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
