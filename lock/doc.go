// Package lock gives every sender's transactions their turn, one at a time: by nonce where the next one is known, else in the
// order in which they arrived. Inside one process that holds always, across processes through Redis. docs/ORDERING.md is the
// page to read first.
//
//	ticket, err := locks.Enter(sender, nonce) // the order of arrival is fixed here, before any wait
//	if err != nil { … }                       // the sender's queue is full
//	defer ticket.Leave()
//	go lookUp(func(nonce uint64) { ticket.Observe(nonce) })
//	lease, err := ticket.Wait(ctx)
//	if err != nil { … }
//	defer lease.Release()
//	next := lease.Next(known)                 // what is next, how sure that is, and what the holder is to do
//	switch next.Step {
//	case lock.Look:
//		…                                     // look again; then ask with what is known now
//	case lock.GiveWay, lock.Early, lock.PutBack:
//		lease.PutBack(left)                   // not now: Wait again
//	case lock.Await:
//		…                                     // first the verdict on next.Predecessor
//	}
//	if err := lease.Check(); err != nil { … } // last, before the bytes leave
//	… send, under lease.Context() …
//	sent := lease.Report(lock.Report{Outcome: lock.Accepted, Submission: lock.Submission{…}})
//	lease.Release()
//	sent.Conclude(ctx, lock.Verdict{…})       // when the network has a verdict
//
// New starts nothing; the Service lives while Run runs, and without Redis it works without Run, too. Ask Enabled first.
//
// # Words
//
//	lane      the queue of one sender, and what is known of its nonces
//	ticket    a transaction in it, from Enter to the end of its turn
//	turn      the right of one ticket, the holder, to go now; its lease is the holder's handle of it
//	fence     the number of a turn; of two turns of one sender the later has the higher one
//	claim     what a process tells Redis of a sender's tickets that wait: the lowest nonce, when the oldest came, when the first window ends
//	statement one call: the claim, the turn that the process has, and up to which fence all its other turns have ended
//	instance  a process as Redis knows it
//	session   the key of a claim, and of the turn that it is given
//	window    how long a ticket that is ahead waits for its predecessor, without the turn; it begins anew while a burst arrives out of order
//	chain     the next nonce that a lane expects, and whether its own transactions lead to it
//	hole      a transaction that is missing in the chain
//	orphan    a ticket whose predecessor failed unsent; it is told so
//	outlasts  (a gap) of a ticket: it is no reason to refuse it, because it was put back, came back, or was promised
//	link      a lane's side of Redis
//
// # Where
//
//	service.go    Enter, Run, and which lanes there are (registry)
//	ticket.go     a ticket and its lease: what callers see of a transaction
//	submitted.go  what nodes have, until its verdict
//	lane.go       the queue, the turn, the order inside this process
//	policy.go     the nonce policy, pure: what is next, and what a holder is to do; its tables
//	fleet.go      what the lane and Redis tell each other
//	wire.go, lua  one script a call, and its formats
//	health.go     whether Redis answers, and who lives (remote)
//
// Who may touch a lane's fields? Whoever has locked lane.mu, and only these do:
//
//	lane Ticket Lease Submitted  their methods
//	Service                      lane; each, which calls a function under it for each lane
//	registry                     sweep
//	remote                       watchSome
//
// All other code that uses those fields is called by one of them, with mu locked; only logAcquired and logReleased read what does
// not change any more. While mu is locked nothing goes to the network or to the log (note keeps a line until the end), and no
// caller's code runs but in a goroutine of its own. It is unlocked by lane.unlock, never by mu.Unlock. registry.mu may be locked inside of it, never
// the other way round.
//
// # A ticket's life
//
//	       Enter                  turn comes                Release
//	───────────────▶  waiting  ───────────────▶  granted  ───────────▶  over
//	                     │                          │                    ▲
//	                     │ Leave, ctx or its limit  │ hold limit, lock   │
//	                     │ ends, service stops      │ lost, service stops│
//	                     └──────────────────────────┴────────────────────┘
//
// PutBack has a granted ticket wait again, at its place.
//
// A hold limit (MaxHold, counted from each ticket's own turn) ends the turn, the lease's context with ErrLost, and the next goes.
//
// # Who decides
//
// All tickets of a process stand in its own lanes, whose order decides between them, always. While Redis answers heartbeats, it decides which
// process has the turn: one worker for each lane states everything that is to be true there, whenever something has changed, and the answer says
// whose turn it is. While it doesn't, the lane's own order decides alone, from two deadlines on, or LOCK_REDIS_PATIENCE_MS later where others
// shared the lane in the last minute; then each process has a holder. When it is back, everything is stated again: that is the whole of recovery. For a heartbeat after an outage
// or a loss of data nobody is given a free lock, because its holder may still have to state that it has it, and nobody is taken for dead. Redis
// trouble refuses no ticket; what goes in the wrong order meanwhile, the network may refuse.
//
// A call that fails pauses its lane until the next heartbeat, sent at once, whose verdict holds for all. A lane whose calls fail
// although heartbeats succeed is kept off Redis alone for a second. Another server may take over so fast that no call fails: if the
// connection of Pub/Sub breaks, everything is stated again. A message says "look at this lane", or shows this process its turn, which saves the
// look if it was given after all that is known here; lost ones are found by the watch, a heartbeat later. A call that Redis executes late can cost a turn, which is given back, and never an order.
//
// In Redis each sender has lock:{0xaddress} (owner and state of the lane, with the hold limit as TTL), lock:queue:{…} (list: one claim for each
// process) and lock:memory:{…} (the state while nobody owns it); each
// instance has lock:heartbeat:<instance> and a field of lock:instances with its settings. Every script may be repeated.
//
// # Death
//
// A process that waits looks at an owner that has not changed for a heartbeat interval. If the heartbeat is missing in two looks, it ends that
// instance's turn, up to the fence that it saw, and removes its claims. In return a process relies on what it owns only while its own last confirmed
// heartbeat guarantees, by its monotonic clock, that nobody can take it for dead; one that stood still for longer has lost its leases. A heartbeat
// that lapsed ends all turns that came before it, but for one that is stated again before anybody took it: that gets a higher fence. A turn that was taken cannot be
// stated again: the fence in Redis is higher.
//
// # Nonces
//
// What is next comes from what holders report, what the mirror node shows (Observe) and verdicts (Conclude), and passes with the turn.
// The turn goes to a nonce that is expected or lower, in whichever process; one that is ahead waits for its window's end. A lane flows: each
// goes once a node has accepted the one before. After a hole it recovers: only what is proven next goes, after the verdict on the one
// before, until a node accepts it and nothing is open. What a process concludes while Redis is away orders its tickets, and refuses none.
//
// # What it does not guarantee
//
// Order between processes while Redis is away, or with other settings; one holder while a failover that lost writes is not yet noticed (a
// heartbeat); and that a process stopped between Check and the write does not send after its turn. The network's nonce check is last.
package lock
