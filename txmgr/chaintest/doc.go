// Package chaintest is the contract of txmgr.Chain as one set of tests that every driver passes
// on a real chain. What a chain may do otherwise its traits tell; the tests read them.
//
// # Words
//
//	driver  see package txmgr/service
//	trait   a way in which chains may differ
package chaintest
