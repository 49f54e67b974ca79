// Package eth is the vocabulary of Ethereum clients: the raw transaction, decoded
// once; the gas rules a relay can check by itself; block references; the objects
// of JSON-RPC results; and the catalogue of every error a client can see.
//
// Nothing here does I/O. A Tx is immutable after DecodeTx and may be shared.
//
// # Words
//
//	raw transaction  the bytes that a client signed; Tx is the same, decoded
//	sender           the address that the signature of a transaction proves
//	block reference  how a client names a block: by a tag, its number or its hash
//	tag              a name for a block that moves: latest, pending, safe, finalized; and earliest
//	catalogue        all errors that a client can be told, each with its code and its texts
package eth
