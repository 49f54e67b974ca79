// Package limit bounds what clients may cost the operator: money (Budget), calls (Calls), transactions with a wrong nonce
// (WrongNonces), and what the owner of an API key may use (Quotas). All count in Redis for a whole fleet, or in each
// process. What requests take of this process, bytes and processor time, is bounded by package capacity.
//
// # Money
//
// Whoever relays a transaction pays for it, at least when the network refuses it. A
// Budget says how much that may be in a window of time:
//
//	reservation, ok := budget.Reserve(ctx, limit.Spending{Sender: …, IP: …, Amount: …})
//	if !ok { … }                    // -32606; nothing is held
//	reservation.Release()           // it was certainly not sent
//	reservation.Settle(id)          // or it may cost what the network says
//
// The expected amount is set aside before anything is sent, in every budget it counts
// against, in all or in none. The fee takes its place when the mirror node shows it,
// which is some seconds after consensus. Files with call data are paid for in the same way,
// by an estimate of their own (FileCost). So however many transactions are under way, in
// however many processes, together they never reserve more than there is. What the network
// charges above the estimate is charged to the budget, too, and may overdraw it by that
// much. If the fee cannot be found within a minute and a half, the estimate counts as spent. Fees
// are asked of the mirror node alone: a record from a consensus node, which other relays can
// be told to ask for (GET_RECORD_DEFAULT_TO_CONSENSUS_NODE), would cost a fee itself.
//
// A paymaster's allowance for gas is part of the estimate, by the gas limit of the
// transaction. A budget below what one such transaction may take lets none of them pass.
//
// These budgets exist, all of them per window (HBAR_RATE_LIMIT_DURATION):
//
//	total        HBAR_RATE_LIMIT_TINYBAR, for everybody; 0 switches all of this off
//	a plan       HBAR_RATE_LIMIT_BASIC, _EXTENDED or _PRIVILEGED by its tier; OPERATOR has the total
//	a sender     HBAR_RATE_LIMIT_BASIC, for one without a plan
//	an address   HBAR_RATE_LIMIT_BASIC_PER_IP, for its senders without a plan together
//
// A sender is whoever signed, so a client can be as many senders as it likes. The budget
// of its address stops that; the total stops those who have many addresses, or who name
// them themselves where proxy headers are trusted (TRUST_PROXY_HEADERS). A full IPv6 /64
// counts as one address.
//
// # Plans
//
// HBAR_SPENDING_PLANS_CONFIG is JSON, or the name of a file with it; a relative name is one
// in the working directory:
//
//	[{"id": "7f1c", "name": "the exchange", "subscriptionTier": "PRIVILEGED",
//	  "evmAddresses": ["0x…"], "ipAddresses": ["192.0.2.7"]}]
//
// A sender has the plan of its EVM address, else that of its client's IP address. One that
// is in several plans has the last. A mistake in the plans stops the start of the relay,
// and so no plan is ignored in silence.
//
// # Windows
//
// A window begins when its length divides the time since the Unix epoch. All processes
// have the same windows without talking about it; each window has books of its own, so
// that no counter is ever set back. What is settled late belongs to the window in which
// it was reserved.
//
// # Stores
//
// A maximum of 100,000 books is kept per window; senders and addresses for whom there is no room share
// one book of theirs, with the limit of one. Books without spending are dropped.
//
// In Redis, {scope} being the chain id:
//
//	hbarlimit:{scope}:<window>:spent   hash, tinybars by book; and #process, its last message
//	ratelimit:<address>:<method>       number, calls; expires with its window
//	quota:{<holder>}:<what>            number, what the holder of a key has used; expires with its window
//
// A reservation is one script. What becomes of it is told a second later at the most, with all else that changed
// meanwhile. A window's key expires a quarter of an hour after it. No key is ever searched for. What a process had
// reserved when it was killed counts as spent.
//
// # When Redis does not answer
//
// Nobody waits for it longer than LIMIT_REDIS_TIMEOUT_MS, and while it is known to be away one caller a second tries; see
// redisx.Asker. Each process then goes on from the sums it saw last: it can spend
// what was left for the fleet, not more. What it spends is entered in Redis when that is
// back. A reservation whose answer was lost may be counted twice in its window, but it is always
// counted. A Redis that has lost its data has lost the window's sums.
//
// # Calls
//
// Calls limits how often an address may call a method per window (LIMIT_DURATION), Quotas what the holder of an API key may
// use in a minute. While Redis is away each process limits for itself; rpc_relay_rate_limit_store_failures and
// lockstep_api_key_store_failures_total count that. Who is over a limit costs Redis one call a second.
//
// # Words
//
//	book           the tinybars that have been counted against one limit of spending
//	settle         to put what the network charged in the place of what was set aside
//	budget         what may be used in a window: tinybars, or, of wrong nonces, a number of transactions
//	window         the time that a limit is for, after which it begins again
//	risk           see package submit; its number is the budget of wrong nonces
//	spending plan  the limit of spending that the operator gives to some senders and addresses
package limit
