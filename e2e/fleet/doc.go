// Package fleet runs several relays on one Redis, as an operator would, and does
// to them what operators fear: it kills and freezes relays and Redis, cuts and
// slows the lines between them, and empties the store, all while clients send.
//
// Everything is a real process: `lockstep devnet` with four consensus nodes whose
// gossip changes the order between nodes, redis-server, and `lockstep serve` as
// often as a test wants. Each relay reaches Redis, the consensus nodes and the
// mirror node through proxies of its own (toxiproxy as a library), so that a test
// can spoil the lines of one relay and leave the others alone. Nothing of ours is
// imported but the helper that starts Redis.
//
// # Evidence
//
// The devnet keeps a log of every Ethereum transaction in the order in which
// consensus saw it, whatever became of it. After each scenario that log is
// compared with what the clients were told:
//
//   - per sender, nonces reached consensus in order, and none out of turn;
//   - a transaction whose hash was answered was executed, exactly once;
//   - a transaction that was refused never reached a node;
//   - every request was answered, within the time that is normal without trouble;
//   - afterwards no lock, place or gauge is left behind in Redis or any relay.
//
// A scenario that makes one of these impossible (a killed relay answers nobody)
// says so by an allowance. The checker has tests of its own, and one scenario runs
// without ordering to show that this network does punish a wrong order.
//
// # Arrival
//
// Where the order of arrival must be known, the consensus nodes are first made
// to answer nobody, so that the first transaction keeps the turn; each further one
// is sent when the place of the one before can be seen in Redis. On a WebSocket
// connection the order of frames is the order of arrival.
//
// # Running
//
//	go test ./e2e/fleet                                # everything once
//	go test ./e2e/fleet -run TestRedisTrouble -v       # one family
//	LOCKSTEP_SOAK=20 go test ./e2e/fleet -timeout 1h   # the races that many times
//	LOCKSTEP_CHAOS_TIME=10m go test ./e2e/fleet -run TestEveryFault -v -timeout 24h # every fault, table at the end
//	LOCKSTEP_BINARY=/tmp/lockstep go test ./e2e/fleet  # a binary built elsewhere
//
// With LOCKSTEP_LOG_LEVEL=debug a test that fails shows all that its relays logged: who
// had which turn, when, and which node was offered what.
//
// Names like L7 in comments are numbers of schedules in which a per-sender lock
// over Redis can go wrong; each is explained where it stands.
package fleet
