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
// Identical reads that are under way at the same time are one request, made by the
// first caller; if that gives up, another makes it anew. The newest block and the fees are shared
// for a short interval as well. What can never change is kept in a cache bounded by
// entries and bytes: a block and a complete contract result are final on Hedera. Errors
// and absence are never kept, nor is a list that the mirror node does not know. A Store
// behind the cache shares the same records with other relays.
//
// Invalidate keeps reads after a write honest: every call that starts after it sees
// answers that were asked for after it. A newer block seen in any answer outdates the
// shared newest block in the same way, so that an answer never lies beyond the head.
//
// # Connections
//
// Mirror nodes that are reached over plain HTTP, such as those of the same cluster, are
// asked over connections of our own, where a caller writes and reads by itself. TLS,
// HTTP/2 and proxies are left to net/http.
//
// # Several mirror nodes
//
// The first mirror node of the list is used as long as it answers and does not lag;
// the others stand by. Run asks each for its newest block in every interval.
//
//   - An address that fails some times in a row is left alone for a pause that grows
//     with each try. This holds for a single mirror node, too: while it is left alone
//     requests fail at once, with what was wrong with it last.
//   - One that says Retry-After is not asked for so long, a minute at most. If that is true
//     of all that are well, requests wait for the first of them, as long as one request may
//     take, and up to a thousand of them; others fail at once.
//   - A request that a mirror node failed goes to the next one at once. All of these
//     are reads, simulated calls included, so that nothing happens twice.
//   - With HedgeDelay, a request that takes longer than most of its kind is made again;
//     the first answer counts. How long that is follows the recent answers.
//   - Repetitions, changes of the mirror node and hedges have a budget in proportion to
//     all requests.
//
// Answers do not go back in time when the mirror node changes. The highest block that
// any answer told of is a floor: only a mirror node that has it is used, and when there
// is none, requests wait until the nearest one has it, for CatchUp at most; then they
// fail with status 503, because a list could lack something without anybody knowing.
// LatestBlock never returns an older block than before, not even when several mirror
// nodes that differ stand behind one address. What else those differ in cannot be seen
// from here.
//
// A test network can be reset. That is noticed when a block turns out to be another one
// than it was, or when the floor was not seen for HeadHold; then everything that was
// kept is forgotten.
//
// # Immature records
//
// The mirror node can publish a contract result before it knows the result's block.
// ContractResult and Logs ask again until the record is complete, and give up with
// ErrImmature.
package mirror
