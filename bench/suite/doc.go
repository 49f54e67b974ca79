// Command suite measures what the ordering of transactions costs and is worth and what reads
// cost, and prints the figures as one table:
//
//	go run ./bench/suite -lockstep bin/lockstep [-rows reads-limit,burst] [-runs 5] [-doc docs]
//
// It starts everything by itself on free ports of loopback: in its own process a development network with set
// delays, and in processes of their own relays (the lockstep program), Redis (redis-server), and the naive baseline of
// package bench/naive. It ends them all when it ends.
//
// # Reading the table
//
// Every figure is a median over runs with the least and the greatest value. "ours" is the lockstep program; "naive"
// the baseline in the same run, on the same network, with the same load; "ours ÷ naive" is the ratio run by run, which
// what else happens on the machine touches least. "TypeScript relay" is what hiero-json-rpc-relay showed earlier on such
// a machine, as published numbers: they are not measured here.
//
// A target that is met or missed is said so and nothing more: the suite asserts nothing, and its exit code says only
// whether the figures could be taken. Counts (wrong nonce, lost, duplicated, unanswered) come from the chain and count
// every run, not the median.
//
// # The network
//
// One consensus node. A submission takes 5 to 10 ms at the node, each answer of the mirror node 5 to 10 ms, a receipt
// query 2 ms; a row says if it is otherwise. The delays are off while accounts are funded and the chain is read. The
// network notes when each submission arrived and left, so hand-offs are also known from outside the relay.
//
// The rows of reads have another one: a mirror node that answers without delay from a ledger of blocks with 20
// transactions and 20 logs each, and counts its requests. Every answer of a load is looked at; one without a result ends
// the row.
//
// CPU times are user and system time of the relay's process, from /proc; without it they are left out.
//
// # Many connections
//
// A process may have no more open files than the system says, which are 20,000 where these rows were made. The row
// listeners therefore has six relays and six processes of clients, each pair with 16,667 connections from addresses
// below 127.16.0.0, a thousand from each. A process of clients reads all its connections with one goroutine,
// because it shares the processors with what it measures, and counts for each connection and each head how often it
// came. The row runs on Linux only; everything together needs about 4 GB. The row queued has one relay, and the
// clients of package bench. With -short both are over in seconds, and their counts are a test.
package main
