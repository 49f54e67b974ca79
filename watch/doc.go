// Package watch follows contracts on a chain and hands every event on, however many processes share the work and whichever of
// them dies. A Plan says what to follow; a Service is one process of the fleet; package sinks has the places where events go, package
// source reads the chain, package decode the logs.
//
//	service, err := watch.New(watch.Config{Plan: plan, Instance: "a"}, watch.Deps{…})
//	err = service.Run(ctx)
//
// # Words
//
//	watch              what to follow: a factory, addresses, events
//	followed contract  an address that a watch follows, given or announced by a factory's event
//	shard              one of 1,024 parts of a chain's contracts
//	unit               what one process owns at a time: the head of a chain, a factory, or a shard; a lease says
//	                   which process does (see package internal/lease)
//	cursor             the next block of a unit and the hash of the block before it
//	merged             of a newly found contract, which has a position of its own until that reaches its unit's
//	                   cursor: it moves with the cursor from then on
//	announced          of an event: its message stands in the outbox
//	event message      one event, or its removal, for the sinks
//	outbox             see package internal/ledger; messages of one unit keep their order there
//	fork number        how often a chain was reorganised
//	backfill           blocks that are read again for the contracts of a watch
//	triggered action   the transaction that an event triggers
//
// # How a block becomes messages
//
//	head of the chain (one process)      units of a process                            sinks
//	───────────────────────────────      ──────────────────                            ─────
//	newest block, its parents       ──▶  logs of all contracts, one query         ┌──▶ 32 messages at a time
//	rows of blocks, row of a fork        one transaction: events, contracts,      │    note how far, under the
//	                                     cursors, outbox                      ────┘    right to write for the unit
//
// All units of a process advance together: those that are at about the same block are in one query and one transaction, so that
// the number of calls depends on blocks and not on contracts. Blocks that can still be replaced are read one by one, by their hashes;
// older ones in ranges (package source says what makes an empty answer believable).
//
// A contract that is discovered starts with a position of its own, at the block of the factory's event, because its shard
// may be past that block already, in another process. It takes part in steps from there, and is merged when it meets its unit.
//
// The head has a follower of its own, not that of the relay (ethapi/subscribe_follow.go): that one tells of blocks of a chain which never replaces any, from a position
// in memory. Here blocks are replaced, and what was read of them is in the ledger under a fence.
//
// # What is written together
//
// One transaction holds the new events, the rows of contracts, the cursors and the messages. It changes nothing unless the
// rows of the cursors name this process: taking a lease writes the new owner's name there in the transaction that takes it. A process
// that stood still and goes on therefore writes nothing, whatever it believes. An event that stands in the ledger already is not inserted
// again, and has no second message.
//
// # Reorganisations
//
// The head's owner keeps the blocks that can still be replaced. When a new block stands on another parent, it looks for the common
// ancestor and writes a row with it. Each unit compares the chain's fork number with its own before each step: if it is behind, it goes back to the
// lowest ancestor that it has missed, marks its events above it that are not on the chain any more, and tells the sinks that they are
// removed, newest first; an event that was not announced yet is only marked. A factory's event that is removed takes its contract's row with it. A fork below what was final ends
// the process with ErrDeepFork.
//
// # Delivery
//
// Each message has a number (seq) per watch and contract, and an id that is the same when it comes again. A process hands on a maximum of 32 messages to
// a sink before it notes how far it is, and only while it can trust its lease for longer than a send may take; so a kill repeats
// no more than those. So delivery is at least once: a consumer recognises a message by its id. A sink that refuses a contract's message holds up that unit, and nothing else.
//
// A message that a sink can never take is noted and passed over. Where messages behind a refused one were taken, that is remembered for as long as the lease
// lives, so that nothing comes twice without a death.
//
// # What was not told
//
// An endpoint may answer that a new block has no logs of ours, and be wrong. So blocks that were read while they could be replaced are read
// once more, as a range, when they cannot be any more (secondPass); what is found then is handed on late, and counted.
//
// # Which plan
//
// The ledger has the plan that the fleet follows, and each watch as it was followed last. A process that starts with another plan compares it with
// those (Plan.Changes), and does in one transaction what the differences mean; cursors are nobody's from then on, so that processes with
// the older plan write nothing more and are given nothing. What a plan does not name any more keeps its place.
//
// # Backfills
//
// A backfill has a row for each unit of its watch. The owner of a unit works it off when there are no new blocks, in the goroutine that reads those, so that the
// numbers of messages stay in one hand. What the unit has still to read is left to it.
//
// # Who owns what
//
// worker (units, contracts) and headFollower are used by one goroutine each. fleet.mu guards which leases are ours;
// publisher.mu guards which units may have messages.
//
// # Tables and conditions
//
// A watch may have a table for each of its events (tables.go): rows are written and removed in the transactions that store and remove the events. Conditions on
// arguments are package filter's; a log that does not meet one is passed over where it is decoded, and where all events of a query allow only given topics, so does the query.
//
// # What it does not do
//
// It reads logs, and transactions where a watch asks for them: no traces, no state. What an endpoint does not say in a partial answer cannot be noticed when it is the only
// endpoint. Two liars who agree are believed.
package watch
