package state

import (
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Topic is a topic as it was at one moment. The slices and messages in it are shared and
// must not be changed.
type Topic struct {
	ID               hedera.ID
	Memo             string
	AdminKey         *hapi.Key // nil for none, as the other keys
	SubmitKey        *hapi.Key
	FeeScheduleKey   *hapi.Key
	ExemptKeys       []*hapi.Key // whose signers pay no custom fees
	Fees             []*hapi.FixedCustomFee
	FeesSince        hedera.Timestamp
	AutoRenewAccount hedera.ID
	AutoRenewPeriod  int64
	Sequence         int64 // number of messages so far
	RunningHash      Hash48
	Created          hedera.Timestamp
	Modified         hedera.Timestamp // when anything but its messages last changed
	Expires          hedera.Timestamp
	Deleted          bool
}

// TopicMessage is a message as its record has it.
type TopicMessage struct {
	Topic       hedera.ID
	Contents    []byte
	Sequence    int64
	RunningHash Hash48
	Chunk       *hapi.ConsensusMessageChunkInfo // nil for a message in one piece
}
