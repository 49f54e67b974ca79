// Package node is the consensus side of the development network: gRPC servers that
// speak HAPI, the Hedera API, over one [ledger.Ledger].
//
// A [Network] has one or more nodes, each with its own port and its own account
// (0.0.3, 0.0.4, …). A node checks what it is given in the order a real one does,
// answers with the status of the first check that fails, and accepts what passes.
// What is wrong with a transaction beyond that (its Ethereum nonce, say) shows at
// consensus, in its receipt.
//
// # Order
//
// Accepted transactions travel to consensus for Config.Latency and a random part of
// Config.Jitter. Those given to one node reach consensus in the order the node
// accepted them; those given to different nodes may overtake each other. That is what
// a real network promises, and no more. Without latency and jitter a transaction is
// handled before its submission is answered, so that its receipt is there at once.
//
// # Queries
//
// Queries see everything handled. Paid ones tell a price when asked for it
// (COST_ANSWER) and then answer without looking at the payment. The answer to a
// query always has the form that belongs to the query, with the status in its header.
//
// # Signatures
//
// The payer's signature is verified before anything is accepted: Ed25519, secp256k1,
// key lists and threshold keys. It is verified over the body bytes as they came,
// since clients write explicit zeros that another encoder would drop. Other required
// signatures are verified at consensus.
//
// # Faults
//
// Config.Fault can delay a call, answer it with another status, lose an accepted
// transaction, have consensus refuse it, break the connection before or after it
// was taken, or send all clients of the node away with HTTP/2 GOAWAY, as real nodes do
// every few seconds. Package devnet/faults makes such faults of rules in JSON.
//
// # TLS
//
// With Config.TLS every node has a second port, which speaks TLS with a certificate that the
// node signed itself. Its SHA-384 is in the address book.
//
// # Words
//
//	development node  one gRPC server with an account of its own
//	node precheck     see package internal/hapi; the first check that fails gives the answer's status
//	accepted          see package consensus
//	Hedera receipt    the status at consensus
//	cost answer       the price of a query, in place of its answer
package node
