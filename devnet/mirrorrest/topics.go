package mirrorrest

import (
	"net/http"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// runningHashVersion is how the running hashes of topics are made.
const runningHashVersion = 3

// topicArg finds the topic that the path names.
func (r *request) topicArg() (state.Topic, error) {
	num, ok := parseEntity(r.args[0])
	if !ok {
		return state.Topic{}, invalidParameter("topicId")
	}
	return found(r.view.Topic(hedera.Entity(num)))
}

// getTopic answers topics/{topicId}.
func getTopic(r *request) (any, error) {
	t, err := r.topicArg()
	if err != nil {
		return nil, err
	}
	return object{
		"admin_key": keyOf(t.AdminKey), "auto_renew_account": idText(t.AutoRenewAccount), "auto_renew_period": positive(t.AutoRenewPeriod),
		"created_timestamp": timeText(t.Created), "deleted": t.Deleted, "fee_exempt_key_list": each(t.ExemptKeys, keyOf), "fee_schedule_key": keyOf(t.FeeScheduleKey),
		"memo": t.Memo, "submit_key": keyOf(t.SubmitKey), "timestamp": rangeJSON{From: t.Modified.String()}, "topic_id": t.ID.String(),
		"custom_fees": object{"created_timestamp": t.FeesSince.String(), "fixed_fees": each(t.Fees, func(fee *hapi.FixedCustomFee) object {
			return object{
				"amount": fee.GetFixedFee().GetAmount(), "denominating_token_id": denomination(fee.GetFixedFee()),
				"collector_account_id": hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()).String(),
			}
		})},
	}, nil
}

// messageOf writes a message; as text where the encoding asks for it and it is text.
func messageOf(rec *history.Record, encoding string) object {
	m := rec.Did().Message
	out := object{
		"chunk_info": nil, "consensus_timestamp": rec.Consensus.String(), "message": base64Text(m.Contents), "payer_account_id": rec.ID.Payer.String(),
		"running_hash": base64Text(m.RunningHash[:]), "running_hash_version": runningHashVersion, "sequence_number": m.Sequence, "topic_id": m.Topic.String(),
	}
	if encoding == "utf-8" && utf8.Valid(m.Contents) {
		out["message"] = string(m.Contents)
	}
	if c := m.Chunk; c != nil {
		id := c.GetInitialTransactionID()
		start := hedera.Timestamp{Seconds: id.GetTransactionValidStart().GetSeconds(), Nanos: id.GetTransactionValidStart().GetNanos()}
		out["chunk_info"] = object{
			"number": c.GetNumber(), "total": c.GetTotal(),
			"initial_transaction_id": object{
				"account_id": hedera.Entity(id.GetAccountID().GetAccountNum()).String(), "nonce": id.GetNonce(), "scheduled": id.GetScheduled(),
				"transaction_valid_start": start.String(),
			},
		}
	}
	return out
}

// listMessages answers topics/{topicId}/messages.
func listMessages(r *request, q *query, t state.Topic) (any, error) {
	times, numbers := q.timestamps(), q.bounds("sequencenumber", parseCount)
	encoding, _ := q.last("encoding")
	rows := where(r.records(&times, q.desc), func(rec *history.Record) bool {
		m := rec.Did().Message
		return m != nil && m.Topic == t.ID && numbers.allows(m.Sequence)
	})
	return list(r, q, "messages", rows, func(rec *history.Record) any { return messageOf(rec, encoding) }, consensusTimes()), nil
}

// getMessage answers topics/{topicId}/messages/{sequenceNumber}.
func getMessage(r *request) (any, error) {
	t, err := r.topicArg()
	if err != nil {
		return nil, err
	}
	sequence, ok := parseCount(r.args[1])
	if !ok {
		return nil, invalidParameter("sequenceNumber")
	}
	always := unbounded()
	for rec := range r.records(&always, false) {
		if m := rec.Did().Message; m != nil && m.Topic == t.ID && m.Sequence == sequence {
			return messageOf(rec, ""), nil
		}
	}
	return nil, notFound()
}

// getMessageAt answers topics/messages/{timestamp}.
func getMessageAt(r *request) (any, error) {
	at, ok := parseNanos(r.args[0])
	if !ok {
		return nil, detailed(http.StatusBadRequest, "Invalid parameter: timestamp")
	}
	rec, ok := r.view.RecordAt(hedera.FromNanos(at))
	if !ok || rec.Did().Message == nil {
		return nil, notFound()
	}
	return messageOf(rec, ""), nil
}

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
