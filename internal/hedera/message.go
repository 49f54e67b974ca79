package hedera

import "lockstep/internal/hapi"

// The forms that ids and times have in HAPI's messages.

// AccountID is the id as an account's.
func (id ID) AccountID() *hapi.AccountID {
	return &hapi.AccountID{ShardNum: &id.Shard, RealmNum: &id.Realm, Account: &hapi.AccountID_AccountNum{AccountNum: id.Num}}
}

// ContractID is the id as a contract's.
func (id ID) ContractID() *hapi.ContractID {
	return &hapi.ContractID{ShardNum: &id.Shard, RealmNum: &id.Realm, Contract: &hapi.ContractID_ContractNum{ContractNum: id.Num}}
}

// FileID is the id as a file's.
func (id ID) FileID() *hapi.FileID {
	return &hapi.FileID{ShardNum: &id.Shard, RealmNum: &id.Realm, FileNum: id.Num}
}

// TokenID is the id as a token's.
func (id ID) TokenID() *hapi.TokenID {
	return &hapi.TokenID{ShardNum: &id.Shard, RealmNum: &id.Realm, TokenNum: id.Num}
}

// TopicID is the id as a topic's.
func (id ID) TopicID() *hapi.TopicID {
	return &hapi.TopicID{ShardNum: &id.Shard, RealmNum: &id.Realm, TopicNum: id.Num}
}

// ScheduleID is the id as a schedule's.
func (id ID) ScheduleID() *hapi.ScheduleID {
	return &hapi.ScheduleID{ShardNum: &id.Shard, RealmNum: &id.Realm, ScheduleNum: id.Num}
}

// IDOf reads the id of a kind that has numbers only.
func IDOf(m interface {
	GetShardNum() int64
	GetRealmNum() int64
}, num int64,
) ID {
	return ID{Shard: m.GetShardNum(), Realm: m.GetRealmNum(), Num: num}
}

// Message is the time in a message.
func (t Timestamp) Message() *hapi.Timestamp {
	return &hapi.Timestamp{Seconds: t.Seconds, Nanos: t.Nanos}
}

// TimestampIn reads a time in a message; none is zero.
func TimestampIn(m *hapi.Timestamp) Timestamp {
	return Timestamp{Seconds: m.GetSeconds(), Nanos: m.GetNanos()}
}
