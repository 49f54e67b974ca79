// Package harness runs the real program for end-to-end tests.
//
// A test package calls Main in its TestMain, which builds the program once, and starts
// processes with Command.Start. A process ends with its test, whatever happens, and with the
// test process even if that is killed; when the test has failed, the end of its log is shown.
// Nothing of the developer's environment reaches it.
//
// # Words
//
//	overlooked  of a transaction on anvil: it waits for a predecessor that is mined already
//	patient     of settings: nothing ends by itself, however slow the machine is
//	process     one start of it, which ends with its test
//	program     lockstep, built once for a test package
package harness
