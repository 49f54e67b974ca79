// Package source reads blocks and logs of one chain from several endpoints, and believes none of them more than it
// has proved. An endpoint speaks Ethereum JSON-RPC, over HTTP or WebSocket, or is the REST interface of a Hedera mirror node.
//
//	pool, err := source.New(source.Config{URLs: urls, ChainID: 31337}, deps)
//	head, err := pool.Head(ctx)
//	logs, err := pool.LogsOfBlock(ctx, block, query)      // near the head: by the block's hash
//	logs, last, err := pool.LogsOfRange(ctx, 1, 9999, query) // long past blocks: as far as one call gets
//
// # What is proved
//
// An empty list of logs may be the truth, or may come from an endpoint that has not seen the blocks or has not
// indexed them. So each query travels in one batch with a question for the last block's header, and counts only
// if that endpoint has the header. Near the head the block is asked for by its hash, so that a reorganisation
// between two calls cannot mix two chains, and the header's bloom filter is held against an empty list. Where the filter says that there
// may be logs, and for each empty range, another endpoint has to say the same, if there is one. If there is none, all logs of the block are
// read: together they make up the filter, or the answer counts as none.
//
// An endpoint that is silent for three seconds has the next one asked beside it. If it was asked for a second opinion of one block, and
// there is nobody else, all logs of the block are read as if it were not there; a second opinion of a range is waited for.
//
// A block is the one of the hash or the number that was asked for. The logs of a range name their blocks themselves, so the headers of
// those blocks are read too, and a log whose block has another hash is no answer.
//
// # Who tells of new blocks
//
// A WebSocket endpoint answers calls as any other does, and Announce has it tell of new heads. That is a hint: the head is asked for then, and
// now and then without it, so that a subscription that dies costs time and no block.
//
// # A mirror node
//
// Its URL begins with mirror+. It is read without a relay, and the logs are the same. The extent's last block is asked for first, because a
// mirror node publishes a block together with its logs. A block is final when it is listed. Which chain it
// serves can be read of contract results alone, so it is known when there is one. It looks for topics in seven days at a
// time; a range of blocks that is longer counts as refused.
//
// # Transactions
//
// They are read with whole blocks, of those who ask for it: near the head by the block's hash, long past ones in batches whose parents must fit. Of
// those that are wanted the receipts are read, which must be of the same block. A block that used gas and has no transactions is not believed.
//
// # Limits of endpoints
//
// Package internal/ethrpc tells a limit from trouble: an endpoint in trouble rests, and its range stays as it is. Which limit an endpoint
// means is not read from its words, which each has of its own: when a query over several blocks is refused, half the range is asked. What an endpoint accepts is
// remembered, and grows again with each success. Lists of addresses are cut into pieces; beyond
// a few pieces the query names only the events and the addresses are compared here, so that the number of calls
// does not grow with the number of contracts.
//
// # Words
//
//	RPC endpoint         one URL; it rests for a while after it failed, and the next one is asked. One that
//	                     falls behind is asked after the others, until it has caught up
//	reader               how an endpoint is asked, whatever it speaks
//	head of an endpoint  its newest block
//	extent               the blocks of a query: one by its hash, or a range
//	block span           how many blocks one query may cover
package source
