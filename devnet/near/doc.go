// Package near is a small model of a NEAR chain behind one node's JSON-RPC, to develop and
// test against where no nearcore runs. It is a model: it was written from nearcore's rules,
// and no nearcore was asked.
//
// What it has: accounts and access keys; the nonce of a key, which must rise and stay below
// the block's height times a million; the block hash by which a transaction expires;
// transactions that become receipts, and receipts that are executed in a later block; the
// actions that create, fund, call and delete accounts, add and delete keys, and delegate
// actions; fees and refunds; a head that is final some blocks later, without forks. A
// transaction that is no longer valid when its turn comes is dropped without a word, as a
// node drops it.
//
// What it has not: WebAssembly. Contracts are those of contracts.go: a registrar of
// accounts, a counter, one that panics. Other code can be deployed and read, and its calls
// fail. Staking and global contracts are refused as features of another protocol version.
// There is one shard.
//
// Faults make a node that misbehaves: replies that are lost after the node has acted,
// requests that are lost before it, replies that are late, congestion.
//
// # Words
//
//	NEAR access key  see package internal/near
//	NEAR receipt     what a transaction becomes; it is executed at its receiver's account
//	delegate         a list of actions that its account signed and another account pays for
//	final            of a block: nothing takes it back
//	level            how far a transaction must have come before a request for it is answered
package near
