// Package precheck says what can be said about a transaction before it is sent.
// Its functions are pure: a transaction, the rules and, for some, facts that
// somebody else looked up go in; nil or an *eth.Error comes out.
//
// The three checks belong to three moments:
//
//   - Stateless before anything else, so that nothing malformed ever queues.
//   - Nonce in the sender's turn, against the nonce that the network expects next.
//   - Stateful in the sender's turn, against balance, gas price and receiver.
//
// Within each, the order of the checks is part of the contract: clients see the
// first failure.
//
// # Words
//
//	precheck  a check of this package, which refuses by an *eth.Error; what a consensus node checks is the node precheck
package precheck
