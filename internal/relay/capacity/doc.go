// Package capacity bounds what requests take of this process: bytes and processor time. What clients cost the operator, tinybars and
// calls, is bounded by package limit.
//
// # Bytes
//
// Memory is what all requests may hold together. Each request has a Holding with it, and takes from it
// before it holds something large: the room for the body, what the mirror node answers, as text
// and as values, what a simulation returns, the room for the answer.
//
//	holding := memory.Open(ip)
//	defer holding.Close()             // everything goes back
//	if err := holding.Take(len(text)); err != nil { … }
//	holding.Give(len(text))           // or a part of it, earlier
//
// Three limits hold: one for a request, one for all requests of a client, one for the
// process. Whoever would go over one of them is told so by an *Exceeded and holds nothing
// more. Nobody waits for bytes: two requests that wait for each other's would wait for ever.
// Unless its limit is set (MEMORY_CLIENT_MB), a client may hold as much as is free for all others: the first one half, the next one
// half of the rest, and so on. So something is always free.
//
// A Part is what one call of a request holds. It counts for the request, too, and goes back
// when the call's answer is written.
//
// The first bytes of a request are free (freeBytes), so that the usual request touches
// nothing that it shares with others. Contexts carry the holding (FromContext), and a nil
// Holding takes everything, for work that belongs to no client.
//
// What is taken is an estimate of what is held. So memory is a quarter of the process's limit
// (Config), and the collector keeps the process at half of that limit (Collect): garbage fits
// beside what is held, and what is not heap, or comes while the collector gets too little of the
// processor, fits into the other half.
//
// # Permits
//
// Permits lets a number of pieces of work run at the same time and the others wait. The next
// one is the client's that has used least, so that a client with one small call does not
// wait behind another's thousand large ones. What a client has used is remembered until the
// others have used as much.
//
// A Permit can be left for a while (Pause), as for a look into the network, and can be
// offered to others (Yield) by work that may take long.
//
// # Words
//
//	memory   the bytes that all requests may hold together
//	holding  the bytes that one request has taken from memory; a part of it belongs to one call
//	client   whoever calls from one address; of IPv6 from one /64
//	permit   the right of one piece of work to run now
//	weight   how many of the places of Permits a piece of work takes
package capacity
