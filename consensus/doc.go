// Package consensus is the client of Hedera's consensus nodes: it wraps an
// Ethereum transaction into a HAPI transaction, signs it as the operator, gives
// it to one node over gRPC and finds out what became of it.
//
// # Use
//
//	client, err := consensus.New(cfg, logger)
//	go client.Run(ctx)    // keeps connections warm; everything works without it
//	defer client.Close()
//
//	pending, err := client.Submit(ctx, consensus.Submission{
//		Ethereum:   raw,            // the signed transaction as it was received
//		Sender:     from,           // decides the node
//		MaxFee:     maxFee,         // tinybar
//		BeforeSend: lease.Check,    // last look before the bytes leave
//	})
//	receipt, err := pending.Receipt(ctx)
//
// Submit returns when a node has accepted the transaction at its own precheck,
// which takes a round trip. Consensus, a few seconds later, is what Receipt waits
// for. A nil error from Receipt means that there is a receipt, not that the
// transaction succeeded: that is Receipt.Status.
//
// # Words
//
//	submission  an Ethereum transaction, wrapped and handed to the network once
//	delivery    a submission on its way to a node, over all attempts
//	attempt     one offer of the transaction to one node, and its answer
//	offer       the sending of the bytes to one node, whose precheck answers
//	unclear     bytes left and no answer says whether the node has them
//	accepted    a node answered OK: it has the transaction, and consensus has not seen it yet
//	pending     accepted or unclear, without a verdict from consensus
//	verdict     the receipt, or the certainty that there will be none
//	payer       see package internal/hedera; an operator is a configured one
//	healthy     of a node: it answered last time, or was not tried yet
//
// # How certain an error is
//
// The type of Submit's error says what is known, and never more than that:
//
//	*StatusError           a node said no at its precheck. Nothing was executed.
//	*NotSentError          the transaction left this process towards no node.
//	*NodeUnavailableError  Submission.SameNodeOnly, and that node cannot take it.
//	                       No node has it; it may go elsewhere.
//	*SentError             bytes left and the verdict is unknown. It may be executed
//	                       or not. SentError.Pending can still ask for the receipt.
//
// Only the last one is open. A time-out, a cut connection, a cancelled context are
// one of these four depending on whether the message had been handed to a
// connection, not on what the error text says. To know that, the stream is opened
// first, then BeforeSend is asked, then the message is written; gRPC's hidden
// retries are switched off from that point.
//
// # Retries
//
// A transaction id is given out once per submission and kept over all attempts. The
// network executes one id no more than once, but that is the last defence: a second copy
// would be paid for, and would reach consensus out of its sender's order. So what a node
// may have goes to no other until that node says that it has not got it. A new id is
// drawn only after a refusal that proves that no node has the old one
// (TRANSACTION_EXPIRED and INVALID_TRANSACTION_START, which also teach the client
// how far its clock is off).
//
//	node answers                     what happens
//	OK                               accepted
//	BUSY, PLATFORM_NOT_ACTIVE,       next node, same id; back-off once every node has been
//	PLATFORM_TRANSACTION_NOT_CREATED asked; then again, until SDK_REQUEST_TIMEOUT; so with
//	                                 CREATING_SYSTEM_ENTITIES and WAITING_FOR_LEDGER_ID
//	INVALID_NODE_ACCOUNT             the node is not who we think: unhealthy, next node;
//	                                 the address book is fetched again
//	TRANSACTION_EXPIRED,             new id, if no node can have the old one
//	INVALID_TRANSACTION_START
//	DUPLICATE_TRANSACTION            accepted, if an earlier attempt was unclear;
//	                                 else *StatusError
//	UNKNOWN                          unclear, as below
//	anything else                    *StatusError
//	no connection                    next node; then again, until SDK_REQUEST_TIMEOUT
//	error after the message left     unclear, as below
//
// After an unclear attempt its node is asked for the receipt. It knows the id from the
// moment of its OK, so its answer settles the matter:
//
//	it has it                        accepted
//	it never heard of it             offered there once more, which keeps the order and is
//	                                 refused as a duplicate if it did have it; then to the
//	                                 next node, same id
//	no answer                        asked again; another node and the source are asked,
//	                                 too: if they know it, accepted
//
// "Never heard of it" is no proof if the attempt timed out, since the node may still work on it. It is no proof
// later than ten seconds after the bytes left, since the node may have started again without it. Without proof nothing is sent any more: *SentError, and Receipt follows the
// transaction until the network has a verdict or it is no longer valid.
//
// A connection that was refused took no bytes: the next node is tried at once. A connection that
// takes long to come about is waited for briefly while there are other nodes. When time is up the error
// names the cause: *StatusError with BUSY or the like (see NotNow) if a node was there, *NotSentError
// if none could be reached.
//
// A node that was killed may come back without what it had accepted last. Then it says so to whoever waits for the
// receipt (Pending.Denied), who offers the transaction there again (Client.OfferAgain). What follows it at that node
// (Submission.After) waits for that.
//
// Once an attempt was unclear, only an acceptance ends the submission with a
// certain result; every other end is a *SentError.
//
// # Ids of one's own
//
// Whoever keeps a ledger of what it sends, and must find out after a crash what became of it, draws
// the id first, writes it down beside the bytes, and then makes single offers:
//
//	id, err := client.NewID(sender)            // stored before anything leaves
//	pending, err := client.Offer(ctx, consensus.Submission{Ethereum: raw, ID: id, Node: node, MaxFee: maxFee})
//	receipt, err := client.ReceiptAt(ctx, id, node) // or Client.Pending(id, node).Receipt(ctx), which waits
//
// Offer draws no id, chooses no node, and tries nothing again; its errors are *StatusError,
// *DuplicateError, *SentError and *NotSentError. After a crash the same Submission is offered again: it
// is the same bytes, and the network executes them once. What was offered under an id can never be
// executed any more when consensus time is past the id's valid start plus ValidDuration and no record
// exists. Nodes keep receipts and records for ReceiptKept; the mirror node keeps records for ever.
//
// # Nodes and order
//
// A node keeps the order of what it accepted, two nodes do not. So one sender's
// transactions go to one node: rendezvous hashing picks it among the
// healthy nodes, and every relay with the same node list picks the same one. A
// caller that must not lose order passes the node of the previous transaction in
// Submission.Node with SameNodeOnly, and in Free waits for the previous receipt:
// then any node will do.
//
// A node that cannot be reached, or answers that it is not active, is passed over
// for a time that grows from 250 ms to a minute. After that, while there is another node, it is
// asked for a receipt before it gets a transaction, since it might swallow that. When no node is healthy the one
// that is due first is tried all the same.
//
// SetNodes replaces the list of nodes without disturbing what is under way. Follow has Run do
// that from an address book.
//
// Each node has two connections, one for transactions and one for receipt queries:
// nodes limit the calls on a connection, and a submission must not wait for
// queries. Connections are made when first used; Run reopens those in use when the
// node closes them, which real ones do every few seconds. TLS is checked against
// the SHA-384 of the node's certificate in the address book.
//
// # Files
//
// StoreFile writes a file piece by piece, each with its receipt, for call data that is too long
// for a transaction; Submission.CallData names it, and File.Remove deletes it. What
// consensus throttled is made again, since it certainly was not executed; what was unclear is
// not, but followed to its verdict.
//
// # What it does not promise
//
// Acceptance is not execution: a node that falls behind may drop what it accepted.
// Receipt then reports ErrReceiptNotFound, but only after the transaction's
// validity is over, when it cannot be executed any more, and when up to three nodes
// know nothing of it.
package consensus
