// Package lockstep is the root of a JSON-RPC relay for Hedera in one Go binary.
// The program is in cmd/lockstep; ARCHITECTURE.md shows the rooms and the path of
// a transaction. This folder holds only the tests that keep the tree in shape.
//
// # Words
//
//	room   a package, or a package with those below it
//	floor  a level of rooms; a room imports rooms of lower floors and, where the table says so, of its own
//	tower  the rooms of the devnet: they stand on no floor
package lockstep
