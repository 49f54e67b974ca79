// Package devnet is a whole Hedera network for development in one process: a ledger
// that executes transactions in the EVM, consensus nodes that speak HAPI over gRPC,
// and a mirror node's REST API.
//
//	network, err := devnet.New(ctx, devnet.Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0"})
//	…
//	go network.Run(ctx)
//	network.Nodes()  // map from host:port to node account, for a client's configuration
//	network.Mirror() // base URL of the mirror node
//
// New opens the sockets, so that addresses are known and connections wait before
// Run serves them. The network has the ecosystem's fixed development accounts
// ([Network.Accounts]); their keys are public and worth nothing anywhere else.
//
// The parts, each with a manual of its own, are devnet/ledger (state and history),
// devnet/node (consensus), devnet/mirrorrest and devnet/mirrorgrpc (the mirror node's APIs), devnet/upstream (the network
// that this one is a fork of), devnet/faults, and devnet/near (a development network of NEAR). The network speaks
// only its wire formats: it shares no code with the clients it is there to test
// beyond the vocabulary of addresses, ids and messages.
//
// By default the network is as fast and as orderly as it can be: a block for every
// transaction, receipts at once, a mirror node without delay. Config makes it more
// like the real one: blocks by time, latency to consensus, several nodes whose
// transactions overtake each other, a mirror node that lags.
//
// # Words
//
//	network               the whole of it: ledger, consensus nodes and mirror node
//	fork                  a network that goes on from the state of another one
//	development accounts  accounts with fixed keys, which everybody knows
//	lag                   how much later than consensus the mirror node shows a block
package devnet
