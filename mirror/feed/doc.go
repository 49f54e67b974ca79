// Package feed follows the blocks of a chain, each once and
// in order. A relay has one follower, for all its subscriptions (ethapi/subscribe_blocks.go). Watchers have their own
// (package watch), since the blocks of their chains may be replaced, and these never are. The follower knows no mirror
// node: a Source gives blocks, and a Sink uses them.
//
// # Use
//
//	follower := feed.New(feed.Config{Interval: time.Second, Log: log}, source, sink)
//	err := follower.Run(ctx, wake)
//
// Run sleeps until something comes on wake, then reads blocks while the sink is active. While
// nobody needs blocks it asks for none.
//
// # What it promises
//
//   - Blocks are told in order, each once, from the sink's position, which moves only when a block
//     was told. What fails is tried again; after an outage everything that was missed comes in order.
//   - Two looks for blocks are never further apart than the interval, unless the source fails: then the pause grows to five seconds. Where blocks come at an even pace, three
//     intervals apart or more, the follower looks more often while one is due, and finds it within an eighth of the interval.
//   - Several blocks of a backlog are read at the same time, and told one after the other.
//   - Who came while the source was waiting for a block gets that block: what the sink wants is
//     asked after the blocks are known.
//   - A block that the source lists, and whose content it does not give, holds up all later ones
//     for a number of attempts. Then it is given up: what was read of it is told.
//   - A mistake in how a block is read ends neither the process nor the blocks after it.
//
// # Words
//
//	source    gives blocks by number; it may push, which means that it waits for a block
//	sink      says from where on blocks are wanted, reads what is wanted of each, and is told of it
//	look      one question for new blocks
//	due       of a block: expected about now, if the chain keeps its pace
//	position  the next block to tell of, and the epoch in which that was said
//	epoch     the time in which a position goes on without a new beginning; what was read in an earlier one is not
//	          told
//	backlog   blocks that exist and were not told of yet
//	give up   tell of a block without what could not be read
package feed
