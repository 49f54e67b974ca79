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
//	… decide on the nonce with lease.Expected() …
//	if lease.StepBack(nonce) { … }            // not next, and the one that is waits: Wait again
//	if err := lease.Check(); err != nil { … } // last, before the bytes leave
//	… send, under lease.Context() …
//	lease.Advance(nonce+1, lock.Submission{…})
//	lease.Release()
//
// A Service is made by New, which starts nothing, and lives while Run runs. Without Redis
// it works without Run, too. Ask Enabled before Enter.
//
// # Words
//
// A lane is the queue of one sender. A ticket is a place in it. A lease is the turn: an exclusive right
// that ends by Release, at the hold limit, or when the lock is lost. A fence is the number of a
// turn; of two turns of one sender the later has the higher fence. An instance is a process as Redis
// knows it; a process that others may have taken for dead goes on as a new instance.
//
// # A ticket's life
//
//	       Enter                  turn comes                Release
//	───────────────▶  waiting  ───────────────▶  holding  ───────────▶  over
//	                     │                          │                    ▲
//	                     │ Leave, ctx ends,         │ hold limit, lock   │
//	                     │ service stops            │ taken by another,  │
//	                     │                          │ service stops      │
//	                     └──────────────────────────┴────────────────────┘
//
// Waiting has no limit of time. Holding has one, MaxHold, counted from each ticket's own turn. At
// the limit the turn is taken, the lease's context ends with ErrLost, and the next goes.
//
// # Who decides
//
//	         a heartbeat is answered                a heartbeat is not
//	local  ──────────────────────────▶  redis  ──────────────────────────▶  local
//
// All tickets of a process stand in its own lanes, whoever decides. While Redis decides, one worker per
// lane sends their places to Redis in ticket order, and a place is answered by a grant: in the reply of
// the script that made it, or over Pub/Sub. While it does not, the lane's own order decides. So when Redis fails,
// nobody waits for it for longer than two deadlines, and the order inside the process stays; when it returns, the turn
// in progress is adopted and all places are sent again, in ticket order. Redis trouble never
// fails or blocks a transaction; it costs the order between processes for its duration.
//
// A call that fails pauses its own lane and has a heartbeat sent at once, whose verdict holds for all. One that
// is not answered in time is waited for while Redis answers anything else, or when this process itself stood still;
// else Redis is taken to be down. A lane whose calls fail although heartbeats succeed, as when one shard of
// a cluster is out, is kept off Redis alone, and tries again each second. Calls wait for a free connection
// outside their deadlines, so that a burst is not taken for an outage.
//
// After an outage or a loss of data nobody takes a free lock for a moment (one heartbeat interval
// and one deadline): whoever holds it has to have time to adopt it.
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
// and each instance has lock:heartbeat:<instance>, which expires after HeartbeatMissed intervals. Joining or
// acquiring is one script; releasing is one, which also makes the next place the owner and tells
// its process. Neither looks at more than the first place (plus, once, each place that was left),
// so the work does not grow with the queue. Every script may be repeated without harm, so that a lost
// reply can be asked for again. The scripts and their formats are in the lua directory.
//
// # Death
//
// A process with waiting tickets looks at the owner of each lane whose owner has not changed for a heartbeat
// interval. If the owner's heartbeat is missing in two looks an interval apart, it removes that instance's lock and
// places, by a script that does nothing if the owner is another by then. The other side of this: a process relies on
// what it owns only for as long as its own last confirmed heartbeat guarantees that nobody can take it for dead, by
// its monotonic clock. A process that stood still for longer finds its leases lost and goes on as a new instance,
// whose tickets join again in their order. Places of a dead process that stand in the middle of a queue are removed
// together with its lock, or when they come to the front.
//
// Who is removed by force or as dead cannot adopt its turn again: the fence in Redis is past it.
//
// # Nonces
//
// The lane tracks the sender's next nonce from what its holders report (Advance, Forget), what the mirror
// node shows (Observe) and later verdicts (Invalidate). It passes with the turn, through Redis too, and is
// kept for Memory after the lane has emptied. While Redis is away another process may have gone on, so
// that no nonce is Expected; what is Likely by this process alone still orders those who wait here.
//
// A turn goes to the oldest ticket, unless that is known to be ahead while another ticket of this process carries the
// expected nonce: then that one goes first. A holder whose look-ups show it to be ahead gives its turn back with StepBack,
// which changes nothing in Redis: there the turn is the process's, whichever of its tickets uses it. Nobody
// waits for a ticket that is not there, but for the one moment in which this process is behind with its work.
//
// With a hold-back window (GapHold) the turn goes to the ticket that carries the expected nonce, wherever it stands, in other
// processes too; a ticket at the head that is ahead of it waits for its predecessor until its own window ends, without
// holding the turn. With a window and no known nonce, the head waits for one to be observed.
//
// # What it does not guarantee
//
// The order between processes is lost while Redis is away, and across a failover that loses writes the holder's
// lock may exist twice until the next look, one heartbeat interval later at most. A process that is stopped
// between Check and the write of its bytes may still send them after its turn; the fence in the logs
// shows it, and the network's nonce check is the last defence. Processes with different settings do not share an
// order; they warn of each other. Equal nonces that wait together take their turn in order of arrival
// inside a process, and by their clocks between processes.
package lock
