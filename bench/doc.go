// Package bench is a load generator for any Ethereum JSON-RPC endpoint that takes raw
// transactions, and above all for relays of Hedera, where the order of a sender's
// transactions is the relay's business: a consensus node refuses a nonce that is not
// next. It measures how fast a target takes transactions, and finds out from the chain
// what really became of them.
//
//	key, err := bench.ParseKey(os.Getenv("FUNDER_KEY"))
//	report, err := bench.Run(ctx, bench.Config{
//		URLs:    []string{"http://127.0.0.1:7546"},
//		Senders: 50, Count: 20, Spacing: time.Millisecond,
//		Funder: key,
//	})
//	report.Write(os.Stdout, false)
//
// # A run
//
// A run makes Senders × Count EIP-1559 transfers, signed before the clock starts.
// The senders' keys are derived from the funder's key and Seed, so a second run uses
// the same accounts, from the nonces that they have then; the funder tops up those that
// could not pay for a run. What they have left stays with them.
//
// The k-th transactions of all senders leave before their k+1-th, Spacing apart, and Spacing
// is staggered among the senders: 50 senders at 1 ms offer 50,000 requests per second. With
// several URLs consecutive transactions of a sender go to them in turn, unless Sticky.
// Nothing waits for answers: the load is open, as long as there are connections left.
// A request that is late leaves at once, and the report has the lag.
//
// # Connections
//
// The order on the wire is the order of the schedule: a request is written before the next one is begun.
// Over HTTP/1.1 a connection carries one request at a time, so each request that is
// being answered needs its own. They are opened before the clock starts and reused.
// If all are busy the load waits, which the report shows as lag
// behind the schedule. Over WebSocket the requests share a few connections, each sender
// on one. Proxies from the environment are not used, redirects not followed.
//
// # What is counted
//
// Every transaction sent was either accepted (answered with its hash), refused (answered
// with an error) or unanswered. Independently of that, when the chain has stood still
// for the Settle time or everything has executed:
//
//   - executed: there is a receipt, and the nonce of the sender went past it. Each nonce
//     has one transaction in a run, so the chain cannot mean another one;
//   - lost: accepted but not executed;
//   - wrong nonce: refused because of the nonce, by the answer or by consensus;
//   - out of order: reached the chain after a higher nonce of its sender;
//   - duplicated: reached the chain once more than it should.
//
// The last two need an order. A development network that publishes what its consensus
// saw (ConsensusLog) gives the true one, including the refused. Elsewhere it is
// taken from the places in receipts, and from the blocks of the run for repetitions;
// what consensus refused is then visible only if the target gives receipts for it.
//
// # Bounds
//
// A run may need a maximum of 512 MB for its transactions; Validate refuses more. Answers are
// read up to 32 MB, error messages fall into a maximum of 64 classes. Reports show scheme and
// host of URLs only, and never a key. The keys of the senders are worth what the senders
// hold: use a funder and a network made for tests.
//
// # Words
//
//	measured target  what is measured: one or several URLs of the same network
//	funder           the account that pays for the senders of a run
//	plan             all requests of a run, in the order in which they leave
//	spacing          the time between two transactions of one sender
//	schedule lag     how much later than planned a request left
//	settle time      how long the chain has to stand still before a run is counted
package bench
