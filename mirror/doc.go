// Package mirror is a client of the Hedera mirror node's REST interface: typed calls for what a relay reads.
// Package fetch reaches and chooses mirror nodes.
//
// # Use
//
//	client, err := mirror.New(config, mirror.Options{Log: log})
//	block, err := client.BlockByNumber(ctx, 17)
//	for result, err := range client.ContractResults(ctx, mirror.ResultsQuery{Period: block.Period}) { … }
//
// Single things that do not exist are ErrNotFound. Lists that do not exist are
// empty. An answer that is not about what was asked for proves neither. Anything else that goes wrong is an *Error, as package fetch says.
//
// # Lists
//
// Lists are iterators that read page after page while they are consumed. They end
// with a *PagesError only if the mirror node has more pages than the cap allows. A
// link to the next page is followed on the configured host, whatever host it names.
// text.go says in which form the mirror node writes values.
//
// # Sharing
//
// Identical reads that are under way at the same time are one request, made by the first caller; if that caller
// gives up, another one makes it again. The newest block and the fees are shared for a short interval as well.
// What can never change is kept in a cache bounded by entries and bytes: a block and a complete contract result
// are final on Hedera. Neither errors nor ErrNotFound are kept, nor is a list that the mirror node does not know. A
// Store behind the cache shares the same records with other relays.
//
// Invalidate lets reads see a write: every call that starts after it gets answers that were asked for after it. A
// newer block seen in any answer outdates the shared newest block in the same way, so that an answer never lies
// beyond the head. LatestBlock never returns an older block than before. After a chain reset the client forgets
// everything that it kept. A development network tells by itself when it has gone back: then the client forgets
// everything at once, does not use answers of the old history, and calls WentBack.
//
// # Immature records
//
// The mirror node can publish a contract result before it knows the result's block.
// ContractResult and Logs ask again until the record is complete, and give up with
// ErrImmature. So does BlockResults while results of a new block are missing.
//
// # Words
//
//	REST endpoint     a path of the REST interface, and the call that reads it
//	result record     a contract result; immature while it lacks its block
//	sequential reads  blocks asked for one after the other, which are then read in pages
//	period            a closed interval of consensus time
//	slice             a part of a block's time, read at the same time as the others
//	record store      what keeps final records for several relays
//	head              the newest block, shared for a short interval
package mirror
