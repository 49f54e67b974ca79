// Package signers holds the keys with which the transaction manager signs, or the
// way to them. One interface, [Signer], stands before all of them: it tells an
// address, and signs the hash of a transaction. There is no way to read a key back.
//
//	local       keys from the environment and from files (RELAYER_PRIVATE_KEYS and others)
//	keystore    key files of version 3, as geth and its relatives write them
//	aws         keys in AWS KMS: the private key never leaves the service
//	google      keys in Google Cloud KMS
//	vault       keys in a transit engine of Vault
//	web3signer  keys behind Web3Signer's HTTP interface, which has them in Azure, an HSM or wherever
//
// [Open] reads all of them at start, derives each address, asks each key that is
// somewhere else for a signature and checks it, and refuses to go on when one key
// is wrong or given twice.
//
// Key services answer a signature as DER with whatever s the curve gave. Ethereum
// wants r, s and v with the lower of the two possible s; this package makes that, and
// finds v by recovering the public key. A signature that recovers to another key is
// an error: it never reaches a chain.
//
// A service that hashes what it signs, as Web3Signer does, has to be given the transaction, and one that
// signs a digest the digest; so a [Signer] is handed the transaction's bytes and makes of them what its service wants.
//
// No error, log line or printed value of this package contains a key or a part of
// one. A key that cannot be read is named by its setting and position.
//
// # Words
//
//	signer      see package txmgr; here it signs for one address
//	key source  where its key is: env, keystore, aws, google, vault, web3signer
//	unsigned    a transaction without its signature, as bytes; this package does not look into it
//	digest      its Keccak-256 hash, which is what a signature is of
//	low s       the smaller of s and n-s; the other one is malleable and refused by chains
package signers
