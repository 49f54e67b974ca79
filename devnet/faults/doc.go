// Package faults lets people and tests in other processes spoil calls to the development
// network while it runs: rules in JSON, from a file or over a control port.
//
//	[
//	  {"at": "submit", "times": 3, "status": "BUSY"},
//	  {"at": "submit", "body": "ethereumTransaction", "chance": 0.1, "dropAfter": true},
//	  {"at": "receipt", "node": 1, "delay": "2s"},
//	  {"at": "mirror", "path": "/contracts/results/", "skip": 5, "httpStatus": 429, "retryAfter": "1s"}
//	]
//
// For each call the first rule that fits and is not used up decides. A rule fits by:
//
//	at      submit, receipt (receipt queries), query (other queries) or mirror
//	node    index of the consensus node, from 0; left out: any
//	body    what the transaction is, by its name in HAPI; left out: any
//	path    a part of the path of the mirror node's URL; left out: any
//	skip    how many calls that fit are left alone first
//	times   how many calls it spoils; 0 or left out: all
//	chance  with what probability it spoils a call, 0 to 1; left out: always
//
// and does, at a consensus node:
//
//	delay       wait before anything happens, such as "2s"
//	goAway      send all clients of the node away with HTTP/2 GOAWAY; this call is finished
//	dropBefore  break the connection, nothing taken
//	grpc        answer with this error of gRPC, such as "INTERNAL", nothing taken
//	status      answer with this status, nothing taken
//	vanish      answer OK, and consensus never sees the transaction
//	lose        answer OK, and forget the transaction, as a node does that is killed before it passes it on
//	outcome     answer OK, and consensus refuses the transaction with this status
//	dropAfter   take the transaction, then break the connection
//
// at the mirror node:
//
//	delay, pause         wait before the answer, or in the middle of it
//	hang, drop, cut      no answer; connection broken before the answer, or in its middle
//	httpStatus           answer with this status; retryAfter adds the header
//	garbage              answer with what is no JSON
//
// The control port (GET, PUT and DELETE of /faults) gives the rules with how often each fitted
// and spoiled, replaces them all, or removes them. It listens on loopback only.
//
// # Words
//
//	call        a submission, a query, or a request to the mirror node
//	fault rule  which calls are spoiled, and how
package faults
