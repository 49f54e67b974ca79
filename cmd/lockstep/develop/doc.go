// Package develop has the methods that tools for development ask of a chain of their own, under the names that Hardhat and
// anvil gave them: snapshots, time, mining, state, accounts whose keys the chain has, and impersonation.
//
// `lockstep dev` adds them to those of its relay. They change the network's ledger directly and tell the relay of it; what
// they send goes through the relay, as what anybody sends does.
package develop
