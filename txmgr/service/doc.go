// Package service puts a transaction manager together: the ledger, the signers, the chains'
// drivers, the manager itself, its guard, webhooks, treasury and listener, and runs them
// until they are told to stop. `lockstep txm` and `lockstep dev --tx` are this package.
//
// Everything stops in one order: the listener first, so that nothing new comes; the
// manager, whose owners finish what they send and give their leases back; the ledger last.
//
// # Words
//
//	service   a whole manager in this process
//	spec      one chain of the configuration: its kind, where its endpoints are, its settings
//	driver    what speaks to one kind of chain: it makes a txmgr.Chain of a spec
//	treasury  the account that keeps the balances of signers up
package service
