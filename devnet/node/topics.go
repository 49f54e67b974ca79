package node

import (
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func topicID(id hedera.ID) *hapi.TopicID {
	return &hapi.TopicID{ShardNum: &id.Shard, RealmNum: &id.Realm, TopicNum: id.Num}
}

func (q *asked) topicInfo(query *hapi.ConsensusGetTopicInfoQuery) *hapi.Response {
	answer := &hapi.ConsensusGetTopicInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_ConsensusGetTopicInfo{ConsensusGetTopicInfo: answer}}
	if q.answered() {
		return response
	}
	id := query.GetTopicID()
	t, known := q.view.Topic(hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetTopicNum()})
	if !known || t.Deleted {
		q.refuse(hapi.ResponseCodeEnum_INVALID_TOPIC_ID)
		return response
	}
	answer.TopicID = topicID(t.ID)
	answer.TopicInfo = &hapi.ConsensusTopicInfo{
		Memo: t.Memo, RunningHash: t.RunningHash[:], SequenceNumber: uint64(t.Sequence), ExpirationTime: timestamp(t.Expires),
		AdminKey: t.AdminKey, SubmitKey: t.SubmitKey, AutoRenewPeriod: &hapi.Duration{Seconds: t.AutoRenewPeriod},
		LedgerId: []byte{ledgerID}, FeeScheduleKey: t.FeeScheduleKey, FeeExemptKeyList: t.ExemptKeys, CustomFees: t.Fees,
	}
	if !t.AutoRenewAccount.IsZero() {
		answer.TopicInfo.AutoRenewAccount = accountID(t.AutoRenewAccount)
	}
	return response
}
