// Package lifecycle keeps the lifecycle record of raw transactions: what happened to a
// hash, step by step, for as long as somebody may ask.
//
//	received → queued → submitted (node, attempt, transaction id) → accepted
//	         → consensus (status) → mirror
//	         → rejected | unknown
//
// A Record also has the one-word status that established clients know: pending, sent,
// validated, rejected or timedout.
//
// # What a record may say
//
// One hash may be on its way more than once: a client sends it again, or sends it
// through two relays. What is certain then wins over what is not: a transaction that
// was executed is never called rejected because a second attempt was refused, and a
// fresh attempt clears only a record that says rejected.
//
// # Where records are
//
// In this process, a maximum of TX_STATUS_TRACING_MAX_ENTRIES of them and
// TX_STATUS_TRACING_MAX_BYTES, and with Redis, within a bound of bytes for the fleet, also
// there, shared by a fleet, each under
//
//	txtrace:hash:<hash in lower case>   JSON; expires after TX_STATUS_TRACING_TTL_MS
//
// Record never blocks: writes go to Redis behind the caller's back, many at a time, and
// one that fails is lost and counted. Get asks Redis with a short deadline and falls
// back to what this process knows.
//
// # Words
//
//	step              one thing that happened to a transaction, with its time
//	lifecycle record  the steps of one hash, and its status
//	rank              how certain the status of a lifecycle record is; a lower rank does not replace a higher one
package lifecycle
