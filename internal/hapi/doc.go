// Package hapi holds the Go form of the Hedera API (HAPI) messages: the subset
// that Lockstep's consensus client sends and its devnet answers.
//
// hapi.pb.go is generated from hapi.proto (`make generate`; `make verify` fails
// when it is stale). methods.go lists the gRPC paths, whose spelling is
// irregular and case-sensitive.
//
// Two facts shape the use of these types:
//
//   - What is signed is the bytes of TransactionBody as they were received,
//     never a re-marshalled body: SDKs write explicit zero values that a
//     canonical proto3 encoder would drop.
//   - AccountAmount.amount is zig-zag coded (sint64), everything else signed is
//     a plain varint.
//
// # Words
//
//	body           what of a transaction is signed, as bytes
//	node precheck  what a node says of a transaction before consensus, as a ResponseCodeEnum
//	method path    the gRPC name of a call
package hapi
