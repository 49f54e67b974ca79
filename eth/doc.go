// Package eth is the vocabulary of Ethereum clients: the raw transaction, decoded
// once; the gas rules a relay can check by itself; block references; the objects
// of JSON-RPC results; and the catalogue of every error a client can see.
//
// Nothing here does I/O. A Tx is immutable after DecodeTx and may be shared.
package eth
