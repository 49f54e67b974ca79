// Package submit is the path of a raw transaction: decode, place in line,
// prechecks, sending to a consensus node, release, verdict.
//
//	submit.go     what it works with, and the bound of all that is in progress
//	entry.go      a transaction from Enter to its Result, and what its client is told
//	gate.go       call data that travels in a file, and those that wait behind it
//	facts.go      what is looked up, and what is known while the mirror node fails
//	turn.go       the path: run, the wait for the turn and how long it lasts, may it go now, its way to a node, or back to its line
//	allowance.go  what a sender may cost the operator, and whether it can pay: both may keep the turn waiting
//	verdict.go    what became of it
//	result.go     what is told: clients, the log, metrics, the trace
//
// A submission has several parts, because order is decided before anything waits:
//
//	entry, err := submitter.Enter(raw)  // never blocks: decoded, checked, in line
//	err = entry.Begin(ctx)              // never blocks: the look-ups are under way
//	result := entry.Finish(ctx)         // waits for the turn, submits, follows
//
// Callers that hold several transactions at once (a batch, a connection) call Enter in their order and may finish
// them concurrently. Whoever got an Entry must call Finish or Leave; Begin may be left out. Submit does all for a
// caller with one transaction. Notify tells callers with thousands when to call Finish, so that a waiting
// transaction needs no goroutine.
//
// # Words
//
//	entry          a transaction on its way, from its arrival to its Result
//	gate           where an entry waits for its ticket, while call data before it is put into a file
//	last word      the latest moment for a client's answer, whatever its transaction waits for
//	sender's line  the sender's lane in package lock
//	facts          what the prechecks need: the sender's nonce and balance, the gas price, the receiver
//	turn           see package lock
//	acceptance     a consensus node's OK; it says nothing about the nonce
//	verdict        see package consensus
//	unclear        see package consensus
//	vanished       a node accepted it, and consensus never saw it
//	promised       the client has got the hash, before or after a node took the transaction, and was told of no
//	               doubt
//	risk           the right of a sender to send one transaction that the network may refuse for its nonce or for want
//	               of funds, or to have one file written for it; a sender has a number of them
//	return         the way back to its line of a transaction that was certainly not executed
//
// # An entry's life
//
// It is entered, and either left before anything began, or begun and then over, once. In between run takes it, from top to
// bottom, through:
//
//	Enter       decoded, checked, in line or at its gate
//	Begin       its look-ups are under way, and its call data is put into a file
//	waitAtGate  until its ticket is drawn
//	wait        until it has the turn, or will not get it
//	decide      may it go now? The lane and the prechecks say
//	handOver    a risk and the budget are taken, a node takes it, the lane is told
//	settle      its verdict is awaited; a client that waits for too long is told of the doubt
//	finish      all is given back, and the Result is told
//
// From wait on it may go back to wait: its turn was not the time to go, or was lost; or it certainly was not executed.
// What another relay had promised comes in at Begin (TakeOver). A panic ends it anywhere.
//
// # What is certain
//
// Every submission ends in a Result, which has exactly one Outcome:
//
//	NotSent   nothing left this process; the sender may send it again
//	Rejected  the network refused it before executing it; the nonce is not spent
//	Unknown   it left, and no verdict came; it may still be executed
//	Reverted  it reached consensus and failed; the nonce is spent, unless it is in a block without having been run.
//	          Many statuses do not say which of the two: then the mirror node's record does (judge)
//	Executed  executed
//
// Result.Err is what a client is told. It is nil for Reverted and Executed: the client gets the hash. It is also nil
// for a transaction that a node accepted if its client did not want to wait; such a Result is Unknown. In all other
// cases it is an *eth.Error. A time-out is Unknown, never Rejected. Nothing goes to a second node while a first one
// may have it.
//
// A second transaction id is used only when the first one has failed, and nothing that follows can be executed before
// it: a node refused its valid start; consensus refused its nonce, which is too high; or it vanished from a
// node that keeps the order. In the last case its receipt is looked for again before a client is told that it failed.
//
// What consensus refuses temporarily, such as with THROTTLED_AT_CONSENSUS, is Rejected and told to the client.
// The relay does not send it again under a new id: the sender's later transactions may be at the node already,
// and sending this one after them would change the order that the client asked for. The client decides, with the
// nonce unspent.
//
// # Order
//
// With ordering on, one transaction of a sender is between "its turn" and "the node accepted it" at a time, and
// all of a sender's transactions go to one node, which keeps their order to consensus. The receipt is awaited
// outside the turn. If the sender's node cannot take the next one, the next one waits for its predecessor's
// verdict before it goes to another node. If no verdict comes, it and those behind it fail without having been
// sent.
//
// # Facts
//
// Look-ups at the mirror node begin before the turn, and run while the transaction waits. If the mirror node does not
// answer, remembered accounts and prices take their place, if they are not older than STALE_FACTS_MAX_AGE_MS. On such
// facts only a transaction that is surely next is sent; the facts of others are looked up again in their turn. If
// nothing was known, the look-up is repeated for two seconds. If none succeeds, the transaction is not sent, and its
// client hears why.
//
// # Recovery
//
// A transaction may come back from its turn, or from the network, to its sender's line, and wait
// for another turn, until NONCE_RECOVERY_MS after its arrival: see package lock, and docs/internals/LANES.md.
// The end of turn.go has the ways back.
//
// # Promises
//
// In asynchronous mode the hash that a client got is a promise. While no node takes the transaction, for a reason that
// passes, it is tried again, for NONCE_PROMISE_MS. When this relay dies, another one goes on with it (TakeOver).
// turn.go has the one (retries), entry.go the other.
package submit
