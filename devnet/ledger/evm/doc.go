// Package evm executes contracts in go-ethereum's EVM, under Hedera's rules rather than Ethereum's: Ethereum transactions, those
// that create, call, change and delete contracts, simulations, and what was executed once more for its steps.
//
// The EVM sees an overlay as its state database (statedb.go), which a
// differential test and a fuzz target hold against go-ethereum's state.StateDB, operation by operation.
//
// # Differences from Ethereum
//
//   - Amounts inside the EVM are tinybar. A value in weibar loses what is below one.
//   - The price of gas is the network's; an offer above it is not charged.
//   - Transfers to unknown addresses create accounts and cost the gas of it.
//   - Addresses up to 0.0.750 are the system's: they take no value and have no balance.
//   - Access lists cost nothing and warm nothing, and the coinbase is cold.
//   - Contract creations get entity numbers; so do accounts.
//
// Transactions with authorizations (EIP-7702, type 4) are refused, as they are by the network
// so far; Config.SetCode executes them in the way that HIP-1340 plans: delegations stay
// although the transaction fails, what is not valid is passed over, and an account that
// there is none of yet is created for its usual gas.
//
// # Tokens, accounts and schedules in the EVM
//
// The token service (hts.go), the account service (has.go) and the schedule service (hss.go) turn a call into the transaction
// that it stands for (syscall.go) and handle that on the overlay of the call, with the caller in place of the payer and its
// keys in place of signatures. It leaves a child record, REVERTED_SUCCESS where a frame
// around it reverts. At a token's own address the service answers as ERC-20, ERC-721 and
// HRC-719, at a schedule's as HRC-755, at an account's as HRC-632 and HRC-904. Token code is a delegation to the service, as the network shows it.
package evm
