// Package submit is the path of a raw transaction: decode, place in line,
// prechecks, sending to a consensus node, release, verdict.
//
//	submit.go     what callers see: Enter, Begin, Finish
//	entry.go      a transaction on its way, the stages of its life, and what its client was promised
//	gate.go       call data that travels in a file, and those that wait behind it
//	facts.go      what is looked up, and what is known while the mirror node fails
//	turn.go       the way from the line to the verdict: run, the wait for the turn, may it go now, its way to a node
//	allowance.go  what a sender may cost the operator, and whether it can pay: both may keep the turn waiting
//	verdict.go    what became of it, and its end
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
// An entry is at one stage, which one method changes; entry.go checks each change by this table.
//
//	stage      what it is doing                                           goes to
//	entered    it has its place, or waits for it at its gate              begun; left: its caller gives it up
//	begun      its look-ups are under way                                 waiting; over: a precheck refuses it, its look-ups fail, or it gets no place; left: too many are in progress
//	waiting    it waits for its turn                                      granted; waiting: it takes a new place; over: the turn does not come
//	granted    it has the turn                                            following; waiting: what it follows is missing; over: no node has it
//	following  a node has it, or may have it; its verdict is awaited      over: the verdict; waiting: it was certainly not executed
//	over       it has its Result                                          -
//	left       its place was given up before anything began               -
//
// What another relay had promised and could not end enters at begun. A panic ends an entry at any stage.
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
// turn.go has what is decided in the turn, verdict.go what follows.
//
// # Promises
//
// In asynchronous mode the hash that a client got is a promise. While no node takes the transaction, for a reason that
// passes, it is tried again, for NONCE_PROMISE_MS. When this relay dies, another one goes on with it (TakeOver).
// entry.go has both.
package submit
