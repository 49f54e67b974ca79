// Package ledger is the state and the history of the development network:
// accounts, contracts, files, blocks and records. It executes transactions one at a
// time in go-ethereum's EVM, under Hedera's rules rather than Ethereum's.
//
// # Writing
//
// [Ledger.Handle] brings one accepted transaction to consensus. It always leaves a
// [Record]: what a client got wrong after a node accepted it (a wrong nonce, too
// little balance, a revert) shows there and nowhere else. Records carry consensus
// times that strictly increase, with room for the children of a transaction:
// accounts that came into being come before their parent, created contracts after.
//
// # Reading
//
// [Ledger.View] is the newest closed block and the state at its end, what a mirror
// node shows; [Ledger.ViewBefore] is the same with a delay; [Ledger.Handled] is what
// consensus nodes answer from. A [View] never changes. [View.At] goes back in time:
// entities and storage keep a version for every consensus time at which they changed.
// Simulations ([View.Call], [View.Estimate], [View.Opcodes]) run on a view and
// change nothing.
//
// # How state is kept
//
// The world is a plain map of entities with versions by consensus time, and every
// transaction runs on an overlay above it that the EVM sees as its state database.
// There are no tries and no state roots: the network has none, commits stay cheap,
// and long-zero addresses and aliases lead to the same account. An overlay that
// failed is dropped, whole or back to a snapshot; one that worked is committed
// together with its record and, without a block time, its block.
//
// # Differences from Ethereum that live here
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
// Known simplifications: HAPI fees are checked against the offer and not charged,
// tokens do not exist (the token service answers isToken and halts on the rest),
// allowances do not either, a self-destruct in favour of an address that cannot
// receive fails the transaction rather than the frame, CREATE inside the EVM keeps
// Ethereum's limit on init code, and the gas of system contracts and account creation
// is near the network's default rather than derived from a fee schedule.
//
// # Memory
//
// Config.History and Config.HistoryBytes bound blocks, records and old versions of
// state. What exists now (accounts, contracts, files, storage) is kept for ever.
package ledger
