// Package proctest runs other programs for tests and benchmarks: they end with the program that started them, the end of their log is
// kept, they are waited for until they are ready or gone, killed, and stopped as a paused machine is. It finds ports that nobody
// else takes.
//
// # Words
//
//	tail  the end of a log, which a test that fails shows
package proctest
