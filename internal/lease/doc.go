// Package lease says which process owns a thing, by a row of the ledger.
//
// A lease row has an owner, a term and an expiry. The term grows by one at each change of
// the owner, and every write of an owner carries it (Fence): a write with an old term
// changes nothing. A Holder holds all leases of one process and renews them in one
// statement.
//
//	          Acquire                      not renewed in time
//	free ───────────────▶ held, trusted ───────────────────────▶ held, not trusted
//	  ▲                     │     ▲  └──────────── renewed ◀───────────┘   │
//	  └──── Release ────────┘     │                                        │ another owner took it
//	                              └── never again with this term ◀── lost ◀┘
//
// Two clocks judge. The database's clock says when a lease has expired and others may take
// it. The holder's own clock says until when it may trust the lease: from before the renewal
// was sent, less a margin, so that the holder stops before anyone else may start. That
// clock is CLOCK_BOOTTIME, which goes on while a machine is suspended; Go's monotonic clock
// does not.
//
// What nobody works on is given back. A lease that could not be released, or was acquired by a commit whose answer was lost, is
// this owner's in the ledger and nobody's here: the next renewal ends it instead of renewing it.
//
// A lease cannot stop bytes that are already on their way. A holder therefore asks Trusted
// for as much time as its send may take, last thing before it sends.
//
// # Words
//
//	lease row        the row of the ledger that says who owns a thing; here it is a lease for short, which package lock has, too
//	owner            a process, as INSTANCE_ID and a random boot id
//	term             the number of an ownership: it grows by one when the owner changes
//	ownership fence  a term as a value, which is checked inside the transaction that it guards
//	living process   a process that says it lives, as a lease "node:KIND:INSTANCE_ID"
//	preferred owner  the living process that rendezvous hashing picks for a name
package lease
