// Package submit is the path of a raw transaction: decode, place in line,
// prechecks, hand-over to a consensus node, release, verdict. submit.go tells the
// whole story on one screen; the other files are its words.
//
// A submission has several parts, because order is decided before anything waits:
//
//	entry, err := submitter.Enter(raw)  // never blocks: decoded, checked, in line
//	err = entry.Begin(ctx)              // never blocks: the look-ups are under way
//	hash, err := entry.Finish(ctx)      // waits for the turn, submits, follows
//
// Callers that hold several transactions at once (a batch, a connection) call
// Enter in their order and may finish them concurrently. Whoever got an Entry must
// call Finish or Leave; Begin may be left out. Submit does all for a caller with one
// transaction. Callers with thousands have Notify tell them when to call Finish, so that
// what waits needs no goroutine.
//
// # What is certain
//
// Every submission ends in exactly one Outcome:
//
//	NotSent   nothing left this process; the sender may send it again
//	Rejected  the network refused it before executing it; the nonce is not spent
//	Unknown   it left, and no verdict came; it may still be executed
//	Reverted  executed and failed; the nonce is spent
//	Executed  executed
//
// A hash is returned for Reverted and Executed, and for what a node accepted when
// the caller did not ask to wait. Everything else is an *eth.Error. A time-out is
// Unknown, never Rejected. Nothing is ever sent twice under two transaction ids, nor
// to a second node while a first one may have it.
//
// What consensus refuses for the moment, such as THROTTLED_AT_CONSENSUS, is Rejected and told
// to the client. It is not sent again by itself under a new id: the sender's later transactions
// may be at the node already, and sending this one after them would change the order that
// the client asked for. The client decides, with the nonce unspent.
//
// # Order
//
// With ordering on, one transaction of a sender is between "its turn" and "the
// node accepted it" at a time, and all of a sender's transactions go to one node,
// which keeps their order to consensus. The receipt is awaited outside the turn.
// If the sender's node cannot take the next one, the next one waits for its
// predecessor's verdict before it goes to another node. If that does not come, it and
// those behind it fail without having been sent.
package submit
