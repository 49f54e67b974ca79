// Package app puts the relay together and runs it. wire.go is the map: every
// constructor call, in order of dependency, on one screen. app.go is its life:
// listen, run, and stop in the order in which nothing is lost:
//
//  1. stop accepting, finish what clients wait for
//  2. wait for the verdict on every transaction that a node accepted
//  3. hand the senders' locks over, close connections
//
// Nothing below app starts a goroutine at construction, registers a metric or reads
// a setting by itself.
package app
