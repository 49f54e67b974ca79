// Package devnet measures the development network as a process: how long it takes to start, what it
// weighs, and how many transfers it takes through the whole relay.
//
//	make bench-dev
package devnet
