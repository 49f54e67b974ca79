package mirrorrest

import (
	"net/http"
	"unicode/utf8"

	"lockstep/devnet/ledger"
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
func messageOf(rec *ledger.Record, encoding string) object {
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
	rows := where(r.records(&times, q.desc), func(rec *ledger.Record) bool {
		m := rec.Did().Message
		return m != nil && m.Topic == t.ID && numbers.allows(m.Sequence)
	})
	return list(r, q, "messages", rows, func(rec *ledger.Record) any { return messageOf(rec, encoding) }, consensusTimes()), nil
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
