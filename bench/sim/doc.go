// Package sim simulates a fleet of relays that order transactions over Redis, as events on a
// clock of its own. It has no socket and no real clock: the same seed gives the same result.
// The suite's row "scaling" gives it costs that were measured, compares it with relays that
// run, and writes what it says of fleets that are larger than the machine to docs/internals/SCALING.md.
//
// # The model
//
// A transaction takes these steps. Each step waits in the line of the station that does it.
//
//	relay   half of the relay's work: parse, recover the sender, check, join the line
//	Redis   half of Redis's work: the place is in the sender's queue
//	        the mirror node answers meanwhile
//	relay   a quarter of the work, when the turn has come and the facts are there
//	node    a delay: from the request to the answer, the way there and back included
//	relay   an eighth, the node has accepted it
//	Redis   the other half: the turn goes to the next nonce of the sender, if it is in the queue;
//	        each other shard hears of that, since a Cluster passes on what is published
//	        the verdict, outside the turn
//	relay   an eighth: the answer
//
// The shares are an assumption. They move waiting times, not the rate at which a station is full.
//
// # Words
//
//	station      what works, with a number of processors and one line in front of them, first come first served
//	fleet        relays, and the servers of Redis, among which senders are shared by a hash
//	Redis shard  one Redis server; it works on one command at a time
//	together     all stations share one machine's processors, as in the suite, with the load and the network beside
//	             them
package sim
