package mirrorrest

import (
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func scheduleOf(s *state.Schedule) any {
	body, _ := proto.Marshal(s.Body) // as the network has taken it
	out := object{
		"admin_key": keyOf(s.AdminKey), "consensus_timestamp": s.Created.String(), "creator_account_id": s.Creator.String(),
		"deleted": !s.DeletedAt.IsZero(), "executed_timestamp": timeText(s.Executed), "expiration_time": nil, "memo": s.Memo,
		"payer_account_id": s.Payer.String(), "schedule_id": s.ID.String(), "transaction_body": base64Text(body), "wait_for_expiry": s.WaitForExpiry,
		"signatures": each(s.Signatures, func(signature state.ScheduleSignature) object {
			prefix, kind := signer(signature.Key)
			return object{
				"consensus_timestamp": signature.At.String(), "public_key_prefix": base64Text(prefix),
				"signature": base64Text(signature.Signature), "type": kind,
			}
		}),
	}
	if s.ExpiryGiven {
		out["expiration_time"] = timeText(s.Expires)
	}
	return out
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
	return scheduleOf(&s), nil
}

// listSchedules answers schedules.
func listSchedules(r *request, q *query) (any, error) {
	ids, creators := q.bounds("schedule.id", parseEntity), q.bounds("account.id", parseEntity)
	low, high := ids.span()
	rows := where(r.view.Schedules(low, high, q.desc), func(s *state.Schedule) bool { return creators.allows(s.Creator.Num) })
	return list(r, q, "schedules", rows, scheduleOf, byID("schedule.id", parseEntity, func(s *state.Schedule) hedera.ID { return s.ID })), nil
}
