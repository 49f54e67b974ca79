// Package lock gives every sender's transactions their turn, one at a time, in the order
// in which they arrived: inside one process always, and across processes through Redis.
//
// # Use
//
//	ticket, err := locks.Enter(sender, nonce) // the order is fixed here, before any wait
//	if err != nil { … }                       // the sender's queue is full
//	defer ticket.Leave()
//	go lookUp(func(nonce uint64) { ticket.Observe(nonce) })
//	lease, err := ticket.Wait(ctx)
//	if err != nil { … }
//	defer lease.Release()
//	next := lease.Next(known)                 // what is next, how sure that is, how the holder's nonce stands to it, what to do
//	switch next.Step {
//	case lock.Look:
//		…                                     // first look again; then ask with what is known now
//	case lock.GiveWay, lock.Early, lock.PutBack:
//		lease.PutBack(left)                  // not now: Wait again
//	case lock.Await:
//		…                                     // first the verdict on next.Predecessor
//	}
//	if err := lease.Check(); err != nil { … } // last, before the bytes leave
//	… send, under lease.Context() …
//	sent := lease.Report(lock.Report{Outcome: lock.Accepted, Submission: lock.Submission{…}})
//	lease.Release()
//	sent.Conclude(ctx, lock.Verdict{…})       // when the network has a verdict
//
// A Service is made by New, which starts nothing, and lives while Run runs. Without Redis
// it works without Run, too. Ask Enabled before Enter.
//
// # Words
//
//	lane              the queue of one sender, and what is known of its nonces
//	ticket            a transaction in it, from Enter to the end of its turn
//	place             where a ticket stands in its sender's line; in Redis, too, once it was sent there
//	lease             the holder's handle of a turn; it ends by Release, at the hold limit, or when the lock is lost
//	fence             the number of a turn; of two turns of one sender the later has the higher one
//	instance          a process as Redis knows it; one that others may have taken for dead goes on as a new instance
//	nonce chain       the next nonce that a lane expects, and whether its own transactions lead to it
//	predecessor       the transaction with the nonce before
//	hole              a transaction that is missing in the chain
//	hold-back window  how long a ticket that is ahead waits for its predecessor, without holding the turn; in this
//	                  package a window is always this one
//	kept              of a ticket: a gap is no reason to refuse it, because it was put back, was sent and came back,
//	                  or was promised
//	failure           why no node took a transaction of the lane; those that follow it hear that
//	link              the part of a lane that speaks with Redis
//	relation          how a lane stands to Redis: one of seven states
//	jobs              what a lane still has to send to Redis
//	patience          how long a lane that others share waits for a Redis that went away
//	Pub/Sub message   what another process sends to this one
//	transport         the calls to Redis, without a lane's logic
//	lock value        what the lock key in Redis says: the owner, and the state of the lane
//	handback          a turn or a place that is given back to Redis
//	turn              the right of one ticket to go now, and the time in which it has it; its ticket is the holder
//	session           the name of a ticket in Redis
//
// # Where
//
//	service.go    Enter, Run, and which lanes there are
//	ticket.go     a ticket and its lease: what callers see of a transaction
//	submitted.go  what nodes have, until its verdict
//	lane.go       the queue, the turn, the order inside this process
//	policy.go     the nonce policy, pure: what is next, and what a holder is to do
//	link.go       what the lane and Redis tell each other
//	wire.go, lua  one script a call, and its formats
//	health.go     whether Redis answers, and who lives
//
// Only the code in this list locks lane.mu:
//
//	lane Ticket Lease Submitted  their methods
//	Service                      lane; each, which calls a function under it for each lane
//	registry                     sweep
//	remote                       watchSome
//
// All other code that uses guarded fields is called by one of them, with mu locked. Only logAcquired and logReleased read what does not
// change any more.
//
// While mu is locked nothing goes to the network or to the log (note keeps a line until the end), and no caller's code runs but in a
// goroutine of its own; lane.unlock ends it, not mu.Unlock. registry.mu may be locked inside of it, never the other way round.
//
// # A ticket's life
//
//	       Enter                  turn comes                Release
//	───────────────▶  waiting  ───────────────▶  granted  ───────────▶  over
//	                     │                          │                    ▲
//	                     │ Leave, ctx ends,         │ hold limit, lock   │
//	                     │ its limit passes,        │ taken by another,  │
//	                     │ service stops            │ service stops      │
//	                     └──────────────────────────┴────────────────────┘
//
// A caller limits the waiting with WaitWithin or Notify, whose limit depends on a timer alone; Wait has no limit.
// MaxHold limits how long a ticket has the turn, counted from each ticket's own turn. At that limit the turn is taken, the lease's
// context ends with ErrLost, and the next goes.
//
// # Who decides
//
//	         a heartbeat is answered                a heartbeat is not
//	local  ──────────────────────────▶  redis  ──────────────────────────▶  local
//
// All tickets of a process stand in its own lanes, whoever decides. While Redis decides, one worker per lane
// sends their places to Redis in ticket order, and a place is answered by a grant: in the reply of the script
// that made it, or over Pub/Sub. While it does not, the lane's own order decides. So the order
// inside the process stays when Redis fails; when it returns, the turn in progress is adopted and all places are sent
// again, in ticket order. While Redis is silent, a lane of this process alone waits for a maximum of two
// deadlines: that of its call and that of a heartbeat. A lane that others share waits for LOCK_REDIS_PATIENCE_MS more. No
// lane waits for longer, and none refuses a ticket because of Redis. But while Redis is away there is no order between
// processes, and the network can refuse a transaction whose predecessor is at another relay (docs/ORDERING.md).
//
// A call that fails pauses its own lane, and a heartbeat is sent at once, whose verdict holds for all. A late
// heartbeat is waited for while Redis answers anything else, or if this process itself stood still; else Redis
// counts as down. A lane whose calls fail although heartbeats succeed, as when one shard of a cluster is out, is
// kept off Redis alone, and tries again each second. Calls wait for a free connection outside their deadlines, so
// that a burst is not taken for an outage.
//
// Another server may take over so fast that no call fails, and it may lack the last writes. Two signs show this: the
// connection of Pub/Sub breaks, or a turn which ends here was not in Redis. Then all places are sent again. A
// turn that Redis shows as this process's own, and that has ended here, is given back.
//
// After an outage or a loss of data a lock that is free in Redis may have a holder, which needs time to adopt it. So for
// one heartbeat interval and one deadline nobody takes a free lock.
//
// # In Redis
//
// Each sender has four keys, whose common hash tag keeps them in one slot of a cluster:
//
//	lock:{0xaddress}          the owner and the state of the lane; SET NX with the hold limit as TTL
//	lock:queue:{0xaddress}    list: the places in order
//	lock:waiting:{0xaddress}  sorted set: the places that are still taken, by nonce
//	lock:memory:{0xaddress}   the state of the lane while nobody owns it
//
// and each instance has lock:heartbeat:<instance>, which expires after HeartbeatMissed intervals, and a field of the hash
// lock:instances with its settings, by which processes warn of each other's. Joining or
// acquiring is one script; releasing is one, which also makes the next place the owner and tells
// its process. Each looks at the first place and at the one with the lowest nonce, and removes, once, each place that
// was given up; so the work does not grow with the queue. Every script may be repeated without harm, so that a lost
// reply can be asked for again. The scripts and their formats are in the lua directory.
//
// # Death
//
// A process with waiting tickets looks at the owner of each lane whose owner has not changed for a heartbeat
// interval. If the owner's heartbeat is missing in two looks, about an interval apart, it removes that instance's lock
// and places, by a script that does nothing if the owner has changed by then. In return, a process relies on what
// it owns only while its own last confirmed heartbeat guarantees, by its monotonic clock, that nobody can take it
// for dead. A process that stood still for longer finds its leases lost and goes on as a new instance, whose
// tickets join again in their order. Places of a dead process that stand in the middle of a queue are removed
// together with its lock, or when they come to the front.
//
// A holder that was removed, by force or as dead, cannot adopt its turn again: the fence in Redis is higher.
//
// # Nonces
//
// The lane tracks the sender's next nonce from what its holders report, what the mirror node shows (Observe) and
// later verdicts (Conclude). It passes with the turn, through Redis too, and is kept for Memory after the lane
// has emptied. While Redis is away another process may have gone on. So this process uses what it concludes alone
// only to order the tickets that wait here; it refuses none because of it.
//
// A turn goes to a ticket whose nonce is expected or lower, wherever it stands, in other processes too. A ticket that
// is ahead waits for its predecessor until its window ends, without holding the turn. With a window and no known
// nonce, the head waits for one to be observed. Without a window the oldest goes, unless it is known to be ahead while another
// ticket of this process carries the expected nonce.
//
// # Flowing and recovering
//
//	          a hole: WRONG_NONCE or another verdict that it was not executed, an unclear submission,
//	          a lost turn, places of a dead process, Redis back with what it may have missed,
//	          a shared lane that goes on without Redis
//	flowing ────────────────────────────────────────────────────────────────────────▶ recovering
//	        ◀────────────────────────────────────────────────────────────────────────
//	          a node accepts what is proven next, and no submission of this process is open
//
// In a flowing lane a transaction goes when a node has accepted the one before. In a recovering lane only what
// verdicts or the mirror node show to be next goes, after the verdict on the one before (Await); what is ahead is
// put back in line (PutBack), and goes when its predecessor has been executed. The mode passes with the turn, through Redis
// too.
//
//	holder's nonce is                                         flowing   recovering
//	too low                                                   Go        Go: the precheck refuses it
//	next                                                      Go        Go
//	next, its predecessor is open                             Go        Await its verdict, then Go
//	ahead, predecessor is here                                GiveWay   GiveWay
//	ahead, in its window                                      Early     Early
//	ahead, after others here                                  PutBack   PutBack; once for Config.Late where the lane flows
//	ahead, chain is sure                                      Refuse    PutBack; where the lane flows only if it came after others
//	ahead, it came alone, and the missing one was answered    Go        Refuse
//	ahead, the network refused one ahead                      Refuse    PutBack; for Config.Late from that verdict on it is put back, too
//	ahead, while it judges one                                PutBack   PutBack
//	ahead, nothing is sure                                    Go        PutBack; the network judges
//
// # How a lane stands to Redis
//
//	relation  who decides the order                goes to
//	unlinked  this process: there is no Redis      -
//	linked    Redis                                doubted: a call failed; failing: for the third time in a row;
//	                                               foreign: somebody else's values are in its keys; patient: a heartbeat failed
//	doubted   Redis; nothing is sent               linked: a later heartbeat was answered; foreign; patient
//	failing   this process, for a second           linked: it tries again; foreign; patient
//	foreign   this process, for a second           linked: it tries again, or has emptied; patient
//	patient   nobody, if others shared the lane    alone: LOCK_REDIS_PATIENCE_MS are over, at once if nobody shared it; linked: Redis is back
//	alone     this process                         linked: Redis is back
//
// The values in the keys of a foreign lane are removed once nobody can own them: they have no time to live, which
// all of ours have, or they outlive the hold limit and name no living instance.
//
// A lane is shared if another process had turns in it in the last minute. One that goes on alone then recovers.
// While a shared lane is patient nobody gets a turn in it, and windows do not run.
//
// # What it does not guarantee
//
// The order between processes is lost while Redis is away. After a failover that loses writes two processes may hold
// one lock, until the next look, which comes within one heartbeat interval. A process that is stopped
// between Check and the write of its bytes may still send them after its turn; the fence in the logs
// shows it, and the network's nonce check is the last defence. Processes with different settings do not share an
// order; they warn of each other. Equal nonces that wait together take their turn in order of arrival
// inside a process, and by their clocks between processes.
package lock
