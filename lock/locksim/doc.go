// Package locksim runs the real lock of several relays against a Redis, a network and a clock that are simulated, and
// judges what they did. A seed decides everything that happens; docs/internals/PROOF.md says what is simulated, and how to repeat a seed.
//
// # Words
//
//	scenario         what a seed has drawn: relays, transactions, faults, the network
//	scene            the kind of a scenario: which faults it may have
//	simulated world  one simulation while it runs
//	relay            a process: a real lock.Service with a simulated way to Redis
//	stand            to wait, as the goroutines of a stopped process do
//	fate of a call   what becomes of one call: its delays, whether it is lost, or executed twice
//	absence          a time in which a relay may be taken for dead
//	history          what the transactions of one sender did, as operations of a FIFO lock
//
// # Where
//
//	scenario.go                what a seed draws
//	world.go               relays, clients, faults, and the order of the whole
//	wire.go                the network: a hook of the Redis client in place of connections, and one connection for Pub/Sub
//	server.go, script.go, store.go  Redis: the lock's own Lua scripts, by an interpreter, on the commands they use
//	window.go              with a window: clients, and the network and the mirror node that know the nonces
//	judge.go, history.go   what must hold
//	judgewindow.go         what must hold with a window, where nonces decide
//	run.go                 one simulation from a seed to its report
//
// # Why a seed repeats
//
// A bubble of testing/synctest has a clock that goes on when everybody waits. What becomes of a call is drawn from the seed,
// the relay, the kind of the call and how many of that kind there were, never from a source that goroutines share; the delays
// have nanoseconds, so that hardly two things happen in the same instant. A simulation runs on one processor, without
// garbage collection.
//
// # How a process stands still
//
// The lock asks a clock that the simulation gives it (lock.Deps.Clock). While a process is stopped, whoever asks for the
// time waits there; so does whatever comes from the network, and its clients. Timers come due meanwhile, and what they start
// stops at its first look at the clock, which then shows how late it is: as after SIGSTOP and SIGCONT.
package locksim
