// Package history is what happened in the development network: records of transactions, the blocks that they are in, and the
// ways to find them.
//
// A [Chain] has closed blocks and the one that is being filled. It keeps so many blocks and so many bytes of them; with a
// block go its records and every version of the state that only the block could show.
package history
