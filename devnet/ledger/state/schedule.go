package state

import (
	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Schedule is a transaction that waits for signatures or for its time, as it was at one moment.
// The slices and messages in it are shared and must not be changed.
type Schedule struct {
	ID            hedera.ID
	Creator       hedera.ID // who paid for the creation
	Payer         hedera.ID // who pays for the scheduled transaction
	Memo          string
	AdminKey      *hapi.Key // nil for none
	Body          *hapi.SchedulableTransactionBody
	Transaction   hedera.TransactionID // of the scheduled transaction
	Signatories   []*hapi.Key          // the primitive keys that agreed, in the order of agreement
	Signatures    []ScheduleSignature  // what they agreed with
	WaitForExpiry bool                 // it executes when it expires, not when the signatures are there
	ExpiryGiven   bool                 // its creator said when it expires
	Expires       hedera.Timestamp
	Created       hedera.Timestamp
	Executed      hedera.Timestamp // zero for not yet
	DeletedAt     hedera.Timestamp // zero for never
}

// ScheduleSignature is one signature below the creation or a later signing of a schedule.
type ScheduleSignature struct {
	At        hedera.Timestamp
	Key       *hapi.Key
	Signature []byte // empty for a contract, which agrees by its call
}

// ExpiredBy tells whether the schedule is no longer known to consensus nodes at a time.
func (s *Schedule) ExpiredBy(ns int64) bool { return s.Expires.UnixNano() <= ns }

// Agrees tells whether those who signed so far satisfy a key.
func (s *Schedule) Agrees(key *hapi.Key) bool {
	return hapikey.Satisfied(key, func(one *hapi.Key) bool { return hapikey.Contains(s.Signatories, one) })
}
