// Package evm runs messages in this process, on a state that is read from elsewhere
// while they run: for what a mirror node cannot simulate or show.
//
//	state := evm.NewState(ctx, reader, 10_000)
//	err := state.Override(address, evm.Override{Balance: &balance})
//	result, err := state.Run(evm.Block{Number: 7, Time: now}, evm.Message{…}, nil)
//
// Messages that run on the same State see what those before them did, unless Try runs
// them; nothing of it leaves the State. The EVM is go-ethereum's with the rules of Hedera's: Cancun, and
// delegations of accounts where the network has them; amounts in tinybar; the sender
// and the receiver warm, access lists without effect or cost; no base fee; addresses
// of the system without balance and code; transfers that create accounts.
//
// # What cannot be had
//
// System contracts (0x167 to 0x16d), and tokens and schedules, whose code they are,
// run on the network only: a message that calls one ends with a *SystemContractError,
// unless the code there is overridden. Three figures are not exact: gas of a transfer
// that creates an account follows from the fee schedule and is taken as at its default
// prices; PREVRANDAO is what the block says, while the network's changes with every
// transaction; ADDRESS shows the address that was called, also where the account is
// known by another one. Init code that a contract creates from may have 49,152 bytes at
// most (EIP-3860), which the network does not insist on. Authorization lists are not applied.
//
// # Errors
//
// A message that fails as it would on the network is a Result with an Err. The error
// of Run is for a message that could not be run: *SystemContractError, *ReadsError
// when it wants to read more than it may, *GasError, ErrFunds, the context's error, or
// one of the Reader.
//
// # Words
//
//	EVM message      a call or a creation of a contract, as the EVM gets it
//	reads            what a message looks up of accounts, code and storage; their number is bounded
//	override         see package ethapi
//	system contract  an address whose code only the network has
package evm
