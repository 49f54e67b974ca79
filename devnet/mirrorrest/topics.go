package mirrorrest

import (
	"net/http"
	"unicode/utf8"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type topicJSON struct {
	AdminKey         *keyJSON      `json:"admin_key"`
	AutoRenewAccount *string       `json:"auto_renew_account"`
	AutoRenewPeriod  *int64        `json:"auto_renew_period"`
	CreatedTimestamp *string       `json:"created_timestamp"`
	CustomFees       topicFeesJSON `json:"custom_fees"`
	Deleted          bool          `json:"deleted"`
	FeeExemptKeyList []*keyJSON    `json:"fee_exempt_key_list"`
	FeeScheduleKey   *keyJSON      `json:"fee_schedule_key"`
	Memo             string        `json:"memo"`
	SubmitKey        *keyJSON      `json:"submit_key"`
	Timestamp        sinceJSON     `json:"timestamp"`
	TopicID          string        `json:"topic_id"`
}

type topicFeesJSON struct {
	CreatedTimestamp string         `json:"created_timestamp"`
	FixedFees        []topicFeeJSON `json:"fixed_fees"`
}

type topicFeeJSON struct {
	Amount              int64   `json:"amount"`
	CollectorAccountID  string  `json:"collector_account_id"`
	DenominatingTokenID *string `json:"denominating_token_id"`
}

type messageJSON struct {
	ChunkInfo          *chunkJSON `json:"chunk_info"`
	ConsensusTimestamp string     `json:"consensus_timestamp"`
	Message            string     `json:"message"`
	PayerAccountID     string     `json:"payer_account_id"`
	RunningHash        string     `json:"running_hash"`
	RunningHashVersion int        `json:"running_hash_version"`
	SequenceNumber     int64      `json:"sequence_number"`
	TopicID            string     `json:"topic_id"`
}

type chunkJSON struct {
	InitialTransactionID initialJSON `json:"initial_transaction_id"`
	Number               int32       `json:"number"`
	Total                int32       `json:"total"`
}

type initialJSON struct {
	AccountID             string `json:"account_id"`
	Nonce                 int32  `json:"nonce"`
	Scheduled             bool   `json:"scheduled"`
	TransactionValidStart string `json:"transaction_valid_start"`
}

// runningHashVersion is how the running hashes of topics are made.
const runningHashVersion = 3

// topicArg finds the topic that the path names.
func (r *request) topicArg() (ledger.Topic, error) {
	num, ok := parseEntity(r.args[0])
	if !ok {
		return ledger.Topic{}, invalidParameter("topicId")
	}
	return found(r.view.Topic(hedera.Entity(num)))
}

// getTopic answers topics/{topicId}.
func getTopic(r *request) (any, error) {
	t, err := r.topicArg()
	if err != nil {
		return nil, err
	}
	out := topicJSON{
		AdminKey: keyOf(t.AdminKey), AutoRenewAccount: idText(t.AutoRenewAccount), AutoRenewPeriod: positive(t.AutoRenewPeriod),
		CreatedTimestamp: timeText(t.Created), Deleted: t.Deleted, FeeExemptKeyList: []*keyJSON{}, FeeScheduleKey: keyOf(t.FeeScheduleKey),
		Memo: t.Memo, SubmitKey: keyOf(t.SubmitKey), Timestamp: sinceJSON{From: t.Modified.String()}, TopicID: t.ID.String(),
		CustomFees: topicFeesJSON{CreatedTimestamp: t.FeesSince.String(), FixedFees: []topicFeeJSON{}},
	}
	for _, key := range t.ExemptKeys {
		out.FeeExemptKeyList = append(out.FeeExemptKeyList, keyOf(key))
	}
	for _, fee := range t.Fees {
		out.CustomFees.FixedFees = append(out.CustomFees.FixedFees, topicFeeJSON{
			fee.GetFixedFee().GetAmount(), hedera.Entity(fee.GetFeeCollectorAccountId().GetAccountNum()).String(), denomination(fee.GetFixedFee()),
		})
	}
	return out, nil
}

// messageOf writes a message; as text where the encoding asks for it and it is text.
func messageOf(rec *ledger.Record, encoding string) messageJSON {
	m := rec.Did().Message
	out := messageJSON{
		ConsensusTimestamp: rec.Consensus.String(), Message: base64Text(m.Contents), PayerAccountID: rec.ID.Payer.String(),
		RunningHash: base64Text(m.RunningHash[:]), RunningHashVersion: runningHashVersion, SequenceNumber: m.Sequence, TopicID: m.Topic.String(),
	}
	if encoding == "utf-8" && utf8.Valid(m.Contents) {
		out.Message = string(m.Contents)
	}
	if c := m.Chunk; c != nil {
		id := c.GetInitialTransactionID()
		start := hedera.Timestamp{Seconds: id.GetTransactionValidStart().GetSeconds(), Nanos: id.GetTransactionValidStart().GetNanos()}
		out.ChunkInfo = &chunkJSON{
			Number: c.GetNumber(), Total: c.GetTotal(),
			InitialTransactionID: initialJSON{
				AccountID: hedera.Entity(id.GetAccountID().GetAccountNum()).String(), Nonce: id.GetNonce(), Scheduled: id.GetScheduled(),
				TransactionValidStart: start.String(),
			},
		}
	}
	return out
}

// listMessages answers topics/{topicId}/messages.
func listMessages(r *request) (any, error) {
	q, err := r.query(params{
		"encoding": oneOf("base64", "utf-8"), "sequencenumber": isCount, "timestamp": isTime,
	}, ascending)
	if err != nil {
		return nil, err
	}
	t, err := r.topicArg()
	if err != nil {
		return nil, err
	}
	times, numbers := q.timestamps(), q.bounds("sequencenumber", parseCount)
	encoding, _ := q.last("encoding")
	out := struct {
		Messages []messageJSON `json:"messages"`
		paged
	}{Messages: []messageJSON{}}
	for rec := range ordered(r.index.topic(r.view, t.ID.Num), &times, q.desc) {
		if !numbers.allows(rec.Did().Message.Sequence) {
			continue
		}
		if out.Messages = append(out.Messages, messageOf(rec, encoding)); len(out.Messages) == q.limit {
			full := !times.ends(rec.Consensus.UnixNano(), q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "timestamp", value: rec.Consensus.String()})
			break
		}
	}
	return out, nil
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
	for _, rec := range r.index.topic(r.view, t.ID.Num) {
		if rec.Did().Message.Sequence == sequence {
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
