// Package lockstep is the root of a JSON-RPC relay for Hedera in one Go binary.
// The program is in cmd/lockstep; ARCHITECTURE.md shows the rooms and the path of
// a transaction. This folder holds only the tests that keep the tree in shape.
//
// # Words
//
//	room   a package, or a package with those below it
//	floor  the number of the rooms that a room may import
//	tower  the rooms of the devnet, which stand aside
package lockstep
