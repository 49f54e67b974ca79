// Package mirror is a client of the Hedera mirror node's REST interface: typed
// calls for what a relay reads, over pooled connections, with bounded answers.
//
// # Use
//
//	client, err := mirror.New(config, mirror.Options{Log: log})
//	block, err := client.BlockByNumber(ctx, 17)
//	for result, err := range client.ContractResults(ctx, mirror.ResultsQuery{Window: block.Window()}) { … }
//
// Single things that do not exist are ErrNotFound. Lists that do not exist are
// empty. Anything else that goes wrong is an *Error with the upstream's status, or
// with one of two statuses made here: 504 when no answer came in time and 567 when
// there was no HTTP answer at all. The context's own error is returned as it is when
// the caller gave up.
//
// # Lists
//
// Lists are iterators that read page after page while they are consumed. They end
// with a *PagesError only if the mirror node has more pages than the cap allows. A
// link to the next page is followed on the configured host, whatever host it names.
// A page is decoded item by item, straight from its bytes into structs, so a block
// of ten thousand transactions costs its decoded size once.
//
// # Sharing
//
// Identical reads that are under way at the same time are one request; a caller that
// gives up does not take it from the others. The newest block and the fees are shared
// for a short interval as well. What can never change is kept in a cache bounded by
// entries and bytes: a block and a complete contract result are final on Hedera. Errors
// and absence are never kept.
//
// Invalidate keeps reads after a write honest: every call that starts after it sees
// answers that were asked for after it. A newer block seen in any answer outdates the
// shared newest block in the same way, so that an answer never lies beyond the head.
//
// # Immature records
//
// The mirror node can publish a contract result before it knows the result's block.
// ContractResult and Logs ask again until the record is complete, and give up with
// ErrImmature.
package mirror
