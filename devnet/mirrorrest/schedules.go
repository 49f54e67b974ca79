package mirrorrest

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

type scheduleJSON struct {
	AdminKey           *keyJSON                `json:"admin_key"`
	ConsensusTimestamp string                  `json:"consensus_timestamp"`
	CreatorAccountID   string                  `json:"creator_account_id"`
	Deleted            bool                    `json:"deleted"`
	ExecutedTimestamp  *string                 `json:"executed_timestamp"`
	ExpirationTime     *string                 `json:"expiration_time"`
	Memo               string                  `json:"memo"`
	PayerAccountID     string                  `json:"payer_account_id"`
	ScheduleID         string                  `json:"schedule_id"`
	Signatures         []scheduleSignatureJSON `json:"signatures"`
	TransactionBody    string                  `json:"transaction_body"`
	WaitForExpiry      bool                    `json:"wait_for_expiry"`
}

type scheduleSignatureJSON struct {
	ConsensusTimestamp string `json:"consensus_timestamp"`
	PublicKeyPrefix    string `json:"public_key_prefix"`
	Signature          string `json:"signature"`
	Type               string `json:"type"`
}

func scheduleOf(s *ledger.Schedule) (scheduleJSON, error) {
	body, err := proto.Marshal(s.Body)
	if err != nil {
		return scheduleJSON{}, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	out := scheduleJSON{
		AdminKey: keyOf(s.AdminKey), ConsensusTimestamp: s.Created.String(), CreatorAccountID: s.Creator.String(),
		Deleted: !s.DeletedAt.IsZero(), ExecutedTimestamp: timeText(s.Executed), Memo: s.Memo, PayerAccountID: s.Payer.String(),
		ScheduleID: s.ID.String(), Signatures: []scheduleSignatureJSON{}, TransactionBody: base64Text(body), WaitForExpiry: s.WaitForExpiry,
	}
	if s.ExpiryGiven {
		out.ExpirationTime = timeText(s.Expires)
	}
	for _, signature := range s.Signatures {
		prefix, kind := signer(signature.Key)
		out.Signatures = append(out.Signatures, scheduleSignatureJSON{
			signature.At.String(), base64Text(prefix), base64Text(signature.Signature), kind,
		})
	}
	return out, nil
}

// signer is the public key that signed, or the id of the contract, and its kind.
func signer(key *hapi.Key) (prefix []byte, kind string) {
	switch k := key.GetKey().(type) {
	case *hapi.Key_Ed25519:
		return k.Ed25519, "ED25519"
	case *hapi.Key_ECDSASecp256K1:
		return k.ECDSASecp256K1, "ECDSA_SECP256K1"
	default:
		prefix, err := proto.Marshal(key)
		if err != nil {
			return nil, "UNKNOWN"
		}
		return prefix, "CONTRACT"
	}
}

// getSchedule answers schedules/{scheduleId}.
func getSchedule(r *request) (any, error) {
	num, ok := parseEntity(r.args[0])
	if !ok {
		return nil, invalidParameter("scheduleId")
	}
	s, err := found(r.view.Schedule(hedera.Entity(num)))
	if err != nil {
		return nil, err
	}
	return scheduleOf(&s)
}

// listSchedules answers schedules.
func listSchedules(r *request) (any, error) {
	q, err := r.query(params{"account.id": isEntity, "schedule.id": isEntity}, ascending)
	if err != nil {
		return nil, err
	}
	ids, creators := q.bounds("schedule.id", parseEntity), q.bounds("account.id", parseEntity)
	out := struct {
		Schedules []scheduleJSON `json:"schedules"`
		paged
	}{Schedules: []scheduleJSON{}}
	low, high := ids.span()
	for s := range r.view.Schedules(low, high, q.desc) {
		if !ids.allows(s.ID.Num) || !creators.allows(s.Creator.Num) {
			continue
		}
		row, err := scheduleOf(s)
		if err != nil {
			return nil, err
		}
		if out.Schedules = append(out.Schedules, row); len(out.Schedules) == q.limit {
			out.Links = q.next(r.self(), !ids.ends(s.ID.Num, q.desc), cursor{name: "schedule.id", value: s.ID.String()})
			break
		}
	}
	return out, nil
}
