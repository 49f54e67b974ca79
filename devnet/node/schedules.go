package node

import (
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func scheduleID(id hedera.ID) *hapi.ScheduleID {
	return &hapi.ScheduleID{ShardNum: &id.Shard, RealmNum: &id.Realm, ScheduleNum: id.Num}
}

func (q *asked) scheduleInfo(query *hapi.ScheduleGetInfoQuery) *hapi.Response {
	answer := &hapi.ScheduleGetInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_ScheduleGetInfo{ScheduleGetInfo: answer}}
	if q.answered() {
		return response
	}
	id := query.GetScheduleID()
	s, known := q.view.Schedule(hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetScheduleNum()})
	if !known || s.Expires.Compare(hedera.TimestampOf(q.node.ledger.Now())) <= 0 {
		q.refuse(hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID)
		return response
	}
	answer.ScheduleInfo = &hapi.ScheduleInfo{
		ScheduleID: scheduleID(s.ID), ExpirationTime: timestamp(s.Expires), ScheduledTransactionBody: s.Body, Memo: s.Memo,
		AdminKey: s.AdminKey, Signers: &hapi.KeyList{Keys: s.Signatories}, CreatorAccountID: accountID(s.Creator),
		PayerAccountID: accountID(s.Payer), ScheduledTransactionID: transactionIDOf(s.Transaction), LedgerId: []byte{ledgerID},
		WaitForExpiry: s.WaitForExpiry,
	}
	switch {
	case !s.DeletedAt.IsZero():
		answer.ScheduleInfo.Data = &hapi.ScheduleInfo_DeletionTime{DeletionTime: timestamp(s.DeletedAt)}
	case !s.Executed.IsZero():
		answer.ScheduleInfo.Data = &hapi.ScheduleInfo_ExecutionTime{ExecutionTime: timestamp(s.Executed)}
	}
	return response
}
