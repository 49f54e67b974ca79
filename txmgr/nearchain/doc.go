// Package nearchain is the driver of NEAR: a txmgr.Chain that speaks to nodes of nearcore
// over JSON-RPC.
//
// A signer is an access key of an account, and its name is both: "relayer.near/ed25519:…".
// Nonces belong to the key. They must rise, and a higher one that is executed ends those
// below it, so transactions of a key leave in their order, through one node, and a gap needs
// no filling.
//
// A key's permission is asked for. A function-call key is given only calls that it may sign (MaySign).
//
// A call without data transfers its value to the receiver. With data, the data is a list of
// actions in Borsh (internal/near), and the value is the sum of their deposits.
//
// A transaction names a recent block and can be executed for some time after it (the
// network says how long); its tag is that block's height. When a final state is past it and
// its key has not come to its nonce, an attempt is dead.
//
// Everything is read at final blocks, of which NEAR never takes one back, so that a receipt
// is final when it is seen: after the last receipt of the transaction, not after the
// transaction. A receipt that failed makes the whole a failure, with its reason.
// The reason is in nearcore's names.
//
// A delegate action (NEP-366) is somebody else's, and whoever carries it pays its gas and deposits. So none is carried
// before Delegates says for whom: its receiver, deposits and gas are bounded, and its signature, last block and nonce are
// checked. Its hash (NEP-461) is claimed in the ledger, so that one intent carries it, whichever process is asked.
//
// Offers do not wait for a block. A node says nothing against such an offer, so the driver
// looks at the key's nonce first; an offer that is repeated waits for the node's answer.
//
// # Words
//
//	signer           see package txmgr; here an access key
//	height tag       the height of the block that a transaction names
//	offer            see package consensus; here no answer tells of a block
//	delegate action  see package internal/near; delegates are the bounds for carrying them
//	final            see package devnet/near
package nearchain
