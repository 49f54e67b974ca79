// Package chaintest is the contract of txmgr.Chain as one set of tests that every driver passes
// on a real chain. What a chain may do otherwise its traits tell; the tests read them.
//
// # Words
//
//	driver  what speaks to one kind of chain: a txmgr.Chain
//	trait   a way in which chains may differ
package chaintest
