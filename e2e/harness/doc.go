// Package harness runs the real program for end-to-end tests.
//
// A test package calls Main in its TestMain, which builds the program once, and starts
// processes with Command.Start. A process ends with its test, whatever happens, and with the
// test process even if that is killed; when the test has failed, the end of its log is shown.
// Nothing of the developer's environment reaches it.
//
// # Words
//
//	program  lockstep, built once for a test package
//	process  one start of it, which ends with its test
//	tail     the end of a log, which a test that fails shows
//	patient  of settings: nothing ends by itself, however slow the machine is
package harness
