// Package hederachain drives Hedera for the transaction manager: straight to the consensus
// nodes over gRPC, with transaction ids, valid starts and nodes that the ledger holds before a
// byte leaves.
//
// # The tag of an attempt
//
// An attempt is a signed Ethereum transaction and a tag. The tag is drawn when the transaction
// is signed and stored with it:
//
//	payer@validStart node [payer@validStart node]
//
// The first pair is the id and the node of the attempt, the second those of the transaction
// that its lane sent before it and whose fate was open then. The same attempt is always offered
// as the same bytes, by any process, however often: what it may cost follows from the Ethereum
// transaction. Only the node inside the wrapper changes when the tag's node cannot take it; the
// network executes one id once, whoever brings it.
//
// # Order
//
// Hedera has no pool: a nonce that is not the account's next one fails, and the operator pays.
// By default one transaction of a signer is on its way, and the next one is signed when the mirror
// node shows that one. A setting allows more. Then the manager signs the next one when a node
// has accepted the one before; all that are behind a lost one fail. A node keeps the order of what it
// accepted; two nodes do not. So Send looks once more before the bytes leave:
//
//	the one before   what Send does
//	was executed     offers; any node will do
//	is at its node   offers to that node alone
//	anything else    offers only if the mirror node shows this very nonce as the next
//
// A transaction without one before it, whose lane has nothing on its way, leaves only if the
// mirror node shows its nonce as the next. What was offered before is asked for by its id first,
// at its node and at two more, and offered again only where it is unknown.
//
// # Fates
//
// A receipt of a node tells early that a transaction was executed or refused; the mirror node's
// result gives block and price. Until both are there, nothing is known: a mirror node that is
// late shows nothing. A transaction that is in consensus with a status that does not spend the
// nonce was refused. It has expired when the mirror node's own newest block is later than its
// valid start plus its validity, and shows no record of it, neither by id nor by hash. Both
// are the word of the network about one id; the Ethereum bytes stay valid for ever, and anybody
// who has seen them may offer them. So the manager offers the same bytes under a new id
// (Renew). If the network's price has risen above what they offer, it signs the same call with
// the same nonce for more, and asks for both hashes. The nonce lets one of them through.
//
// # Words
//
//	id        a Hedera transaction id: payer and valid start
//	validity  120 s from the valid start
//	operator  see package internal/operator; it pays for wrapping a transaction, the signer pays for the gas. Run
//	          checks once a minute whether its account exists and has the configured key
package hederachain
