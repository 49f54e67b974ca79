// Package ledger is the state and the history of the development network:
// accounts, contracts, tokens, files, blocks and records. It executes transactions one at a
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
// Package state has all that exists, in tables of rows with their history. Every
// transaction runs on an overlay above them. An overlay that
// failed is dropped, whole or back to a snapshot; one that worked is committed
// together with its record (package history) and, without a block time, its block.
//
// # Packages below it
//
// This package has the clock, blocks, views, snapshots, saving, batches and the schedules that are due, and makes the table of services.
// Package core handles a transaction of any kind; the services are accounts, tokens, transfers, topics, files, schedules and evm.
// ARCHITECTURE.md says which of them may import which.
//
// # Schedules
//
// A schedule (package schedules) executes in the block of
// the signing that completed it; one that waits for its time executes before the next
// transaction, or by [Ledger.Run].
//
// # Forks
//
// With Config.Fork the ledger goes on from the state of another network, its upstream (package state). Who does not find a
// thing in the world asks the upstream, without locks but for handling. [Ledger.Prepare] rehearses a transaction on an overlay that is thrown away and fetches
// what it lacks meanwhile, so that a slow upstream holds up nobody else. A failing upstream is a panic
// with an UpstreamError (package facts), since the EVM's state has no errors; the transaction or request then ends with it.
//
// # Going back
//
// [Ledger.Snapshot] names the newest block, and [Ledger.Revert] takes back what every block
// after it touched: versions of entities, slots and rows, records and their indexes. Numbers
// of blocks and entities are then used again, and the clock goes on from the snapshot. [Ledger.Reset]
// begins again. Either is a new [Generation].
//
// # Saving
//
// [Ledger.Save] writes everything while transactions go on: state has history, so that it
// reads what there was at its beginning, some of it at a time. Blocks come last: versions that
// are pruned meanwhile belong to blocks that are gone by then. [Ledger.Load] makes indexes and the
// lists of what blocks touched again.
//
// # Batches
//
// The inner transactions of a batch are handled one after another, each on an overlay of its
// own above what the one before it committed. Their records are entered together, and views
// show nothing that lies after the newest record: readers see a batch whole or not at all.
// Where one fails, versions of state after the batch's own time are taken back, as
// [Ledger.Revert] does it.
//
// # Fees
//
// Gas is always charged. With Config.Fees the payer is charged what the network asks of a transaction (package fees), whatever
// becomes of it; without, an offer of core.Required is enough and nothing is taken. The network's own accounts, up to 0.0.100, pay nothing.
//
// Known simplifications: queries, pending airdrops, hooks and high volumes cost nothing,
// whoever sends a transaction on that is too large or has a wrong nonce pays for an empty one,
// a batch that fails charges no gas and keeps no EVM result of the inner transaction that failed,
// a self-destruct in favour of an address that cannot
// receive, or a value sent to the system from inside a call, fails the transaction
// rather than the frame, CREATE inside the EVM keeps
// Ethereum's limit on init code, and the gas of system contracts and account creation
// is near the network's default rather than derived from a fee schedule.
//
// # Memory
//
// Config.History and Config.HistoryBytes bound blocks, records and old versions of
// state. What exists now (accounts, contracts, files, storage) is kept for ever.
//
// # Words
//
//	transaction record  what consensus made of one transaction: its status, its effects, its children
//	child               a record that another one caused: an account that came into being, a contract, a system
//	                    contract's transaction
//	entity              see package internal/hedera
//	version             what an entity, a slot or a row was from one consensus time on
//	state row           what exists beside entities, such as an allowance; it has a table and a key
//	world               all versions of everything
//	overlay             changes above the world that are committed or dropped as a whole
//	ledger view         the ledger at one consensus time, for readers
//	open block          the one that may still get transactions; views do not show it
//	generation          one history of the ledger; going back begins the next one
//	hollow              of an account that was made for an address alone: it has no key before it first signs
package ledger
