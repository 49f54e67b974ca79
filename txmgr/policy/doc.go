// Package policy decides whether a request may become an intent: whom it may pay and
// call, how much it may carry, how often callers may ask, and what they may spend on gas
// in a day. It is the manager's guard.
//
// A policy is for one tenant or, without a tenant, for all, and for the chains it names or
// for all. Every policy that fits must allow a request; fields that are not set allow
// everything. Without policies nothing is limited.
//
// Budgets are exact: the guard names the maximum that an intent can cost, and the limit, and the
// ledger holds it in the transaction that accepts the intent, or refuses that. When the
// receipt is final, what was not spent is given back. A day is one of UTC, that of acceptance.
//
// Rates are counted in each process by itself, since they protect it and not the money: a
// caller who reaches N processes gets N times as much.
//
// The manager's own transactions, which fill up signers from the treasury, are not asked for.
//
// # Words
//
//	policy  what one tenant, or all, may have sent on some chains, or all
//	guard   what the manager asks about every request: all policies together
//	rate    how often a caller may ask in a length of time, counted in each process
package policy
