// Package cache keeps values that never change in Redis, where all relays of a fleet
// find what one of them has read.
//
//	store := cache.New(config, client, log)
//	go store.Run(ctx)                // writes
//	value := store.Get(ctx, "b:17")  // nil: not there, or not to be had in time
//	store.Put("b:17", value)         // does not wait
//
// It is a convenience and behaves like one. A read has a short deadline of its own.
// Writes wait in a bounded queue; when that is full they are dropped. When Redis fails
// some times in a row nothing is asked of it for a while, so that a dead one costs
// nothing; reads and writes are counted apart, because one that is full can still be
// read. No failure reaches the caller: what cannot be had is not there.
//
// There is no store of the same form in the process: what is nearest to a caller is kept
// decoded, by package mirror, which would otherwise decode it at every read. That both
// keep one contract is tested there.
//
// Values longer than a bound are neither written nor read. All of them expire, because
// Redis has to get rid of them somehow: they would stay true for ever. A fleet writes so many
// bytes and no more, and nothing while Redis is short of memory: what clients have the relays
// read must not take the memory that the locks need.
//
// The filters of clients are here as well, because they are shared in the same way, but
// they are no convenience: see Filters.
//
// # Words
//
//	kept value  bytes that never change, so that every copy is as good as another
//	filter      what a client asked to be told of (eth_newFilter); those of this package are in Redis alone
//	poll        a request for what is new to a filter; it moves the filter on
package cache
