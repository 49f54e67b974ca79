// Package outage tells the log when something behind the relay is lost and when it is back.
//
// Whoever uses an upstream reports every failure (Down) and every success (Up). The log gets
// one line for the loss, with its cause and what it means for clients, one when another cause takes its place, and one for the end,
// with how long it lasted. An upstream that comes and goes gets a maximum of one line of loss in
// an Interval; the next line says how many losses had none.
//
// # Words
//
//	upstream  a mirror node, a consensus node or a Redis server
//	loss      the change of an upstream from usable to not usable
//	rest      the time after a failure in which another upstream is asked first
package outage
