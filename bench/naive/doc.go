// Package naive is a baseline to measure against, and nothing else: the obvious design of
// a relay that keeps each sender's transactions in order. No part of the product uses it.
//
// The design is the one that hiero-json-rpc-relay has published:
//
//   - a lock for each sender: SET NX with a time to live for ownership, a list for the queue,
//     or inside one process a first-in-first-out mutex;
//   - whoever waits looks every PollInterval whether it is first in the list and the lock is free;
//   - each waiter keeps a key alive that says so, and the first in the list is thrown out
//     when its key has expired;
//   - look-ups, submission and the wait for the receipt all happen inside the lock;
//   - when Redis fails, the transaction goes ahead without a lock;
//   - the lock of a process that died is free when its time to live is over.
//
// A Relay answers eth_sendRawTransaction over HTTP in that way and nothing else, with the
// same clients of mirror node and consensus nodes that the product has, so that the
// difference between the two is the lock and what is done inside it.
//
// # Words
//
//	baseline   a design to compare with, which is not the product
//	place      see package lock; here it is an entry in a list
//	heartbeat  the key that each waiter keeps alive
package naive
