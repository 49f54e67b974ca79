// Package state is what exists in the development network, with its history: accounts, contracts, storage words, tokens,
// topics, schedules, files.
//
// All but files is in [Tables]. A row is immutable, has a key, and keeps a version for every consensus time at which it
// changed (package versions). A transaction or a simulation runs on an [Overlay] above the tables: it has each table with
// what it changes there, and a journal of how to undo each step, so that a frame of the EVM that reverts takes back what it did
// to tokens as it takes back storage. A new kind of state is a new table; history, reverts, pruning and saving come with it.
//
// There are no tries and no state roots: the network has none, commits stay cheap, and long-zero addresses and aliases lead to
// the same account.
//
// A fork has rows of its own and those of its [Upstream], which are facts: they are fetched when they are needed, kept
// while there is room, and forgotten. The [World] has only what was changed since, in versions that are all later.
package state
