// Package webhooks tells the outside what becomes of intents: it turns the stream of the
// ledger into messages for the URLs that tenants have registered, and sends each until it
// is taken or given up.
//
// # How it works
//
//	outbox ──expand──▶ deliveries ──due──▶ claimed ──2xx──▶ delivered
//	                                  ▲        │
//	                                  └─retry──┤ another answer, or none
//	                                           └─ after 24 h ──▶ dead ──redeliver──▶ pending
//
// Expand: each webhook has a cursor in the stream. One transaction reads the events after
// it, writes a delivery for each that the webhook wants, and moves the cursor. A crash
// leaves either all of it or nothing, and no event gets two deliveries.
//
// Send: a worker claims a due delivery by moving its next time behind the time-out of one
// attempt, so a process that dies with a claim leaves it to the others. A delivery may
// therefore be sent twice, always with the same webhook-id, by which receivers drop the second.
//
// Order: deliveries of one subject go one after the other, each with a sequence number
// that starts at 1 and counts up by one. A delivery waits for the earlier ones of its
// subject that are pending, and for no other subject. One that is given up (a dead letter)
// lets its successors go; the receiver sees the missing number, and a redelivery keeps it.
//
// Any number of processes may run this on one ledger. There is no job library under it: the
// rows above are the queue, in the ledger's own transaction and on every database that the
// ledger runs on, the one in memory included.
//
// # Words
//
//	webhook           a URL of a tenant and the kinds of events that it wants
//	webhook delivery  one event for one webhook
//	subject           what orders deliveries: the caller's own word for it, or else the intent's id
//	dead letter       a delivery that was given up
package webhooks
