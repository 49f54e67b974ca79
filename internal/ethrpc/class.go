package ethrpc

import (
	"regexp"
	"strings"
)

// Class is what an answer that is an error means.
type Class string

// About the call: no other endpoint would say anything else, unless it has seen more or less of the chain.
const (
	Reverted  Class = "reverted"    // the EVM ran it and it failed; with Error.Data if it gave any
	Known     Class = "known"       // the endpoint has these very bytes already
	SlotTaken Class = "slot_taken"  // another transaction waits at this nonce
	NonceUsed Class = "nonce_used"  // the nonce is consumed, by whom it does not say
	Gap       Class = "gap"         // a lower nonce is missing
	FeeTooLow Class = "fee_too_low" // refused for its fees
	Funds     Class = "funds"       // the account cannot pay
	Fatal     Class = "fatal"       // a transaction that no endpoint of this chain can ever execute
	Malformed Class = "malformed"   // not a call that can be answered
	TooMuch   Class = "too_much"    // it covers too much for this endpoint; less of it may succeed
)

// About what this endpoint does for such calls: another may do more. It need not rest.
const (
	Policy      Class = "pool_policy" // it does not take this transaction now
	Unsupported Class = "unsupported" // it does not have the method
	Missing     Class = "missing"     // it lacks the block or the state that is asked about
	Unknown     Class = "ambiguous"   // a text that nobody knows
)

// About the endpoint: it says nothing of the call.
const (
	Limited    Class = "limited"     // we ask too often, or the quota is used up
	Denied     Class = "denied"      // our key, or our address, is refused
	Broken     Class = "broken"      // it, or what is behind it, is in trouble
	WrongChain Class = "wrong_chain" // it serves another chain
	OtherFork  Class = "other_fork"  // it has another block where the chain's cannot be replaced
	Lost       Class = "lost"        // the question or the answer was lost
	Unsent     Class = "unsent"      // certainly no byte of the question has reached it
)

// AboutEndpoint reports whether nothing follows from the answer for the call.
func (c Class) AboutEndpoint() bool {
	switch c {
	case Limited, Denied, Broken, WrongChain, OtherFork, Lost, Unsent:
		return true
	default:
		return false
	}
}

// doubtful reports whether another endpoint may have a better answer, although this one is not in trouble.
func (c Class) doubtful() bool {
	switch c {
	case Policy, Unsupported, Missing, Unknown:
		return true
	default:
		return false
	}
}

// closed reports whether the endpoint is better left alone while it rests.
func (c Class) closed() bool { return c == Limited || c == Denied || c == WrongChain || c == OtherFork }

// rule gives the texts that a pattern matches a class.
type rule struct {
	class   Class
	pattern *regexp.Regexp
}

func is(class Class, patterns ...string) rule {
	return rule{class, regexp.MustCompile(`(?i)` + strings.Join(patterns, "|"))}
}

// reverts are the texts of an execution that failed. What follows them is the contract's own words, so they come before all
// others but one: a node that gave up was not done.
var reverts = []rule{
	is(Broken, `^(err: )?execution aborted`, `^(err: )?execution timeout`, `evm timeout`),
	is(Funds, `gas required exceeds allowance \(0\)`),
	is(
		Reverted, `^([\w ]{0,40}: ){0,3}execution reverted`, `^vm exception while processing transaction: (revert|invalid opcode|out of gas|stack)`, `^(error: )?transaction reverted`,
		`^reverted(:|$| 0x)`, `reverted with (reason string|panic code|custom error|an unrecognized custom error)`, `contract_revert_executed|contract revert executed`,
		`^([\w ]{0,40}: ){0,3}(invalid opcode|evm error: (invalid|out|stack|revert)|out of gas|stack (under|over)flow|(invalid|bad) jump destination|write protection|max code size exceeded|contract address collision|return data out of bounds)`,
		`gas required exceeds allowance`, `always failing transaction`, `^transaction execution fails|^execution failed: reverted`,
		`error occurred during transaction simulation: (invalid|contract|token|account)_[a-z_]+$`, // a Hedera relay, with the network's name for it
	),
}

// rules are tried in order over a text.
var rules = []rule{
	// Of the endpoint, in words that no transaction's answer has. A range whose end the endpoint does not have yet is not too long.
	is(Missing, `range extends beyond|range .{0,40}beyond (the )?(latest|current|head)|^invalid block range params`),
	is(
		TooMuch, `block range|range (is )?too (large|wide|big)|range limit|(max|maximum|exceeds?)( the| allowed)? range|returned more than|exceeds? max results|(response|result)s? (size )?(is |was )?too (large|big|many)`,
		`response size (should|exceed)|size (is larger|exceed)\w* (than )?.{0,20}response|query (returned|exceeds?|timeout)|too many (logs|results|blocks|topics|addresses)|specify less number of address|limited to a? ?[\d, ]+ (block|range)|logs? (are |is )?limited|eth_getlogs (is |are )?limited|eth_getlogs .{0,30}range|ranges? over`,
		`limit the query|up to a [\d,]+ block|\d+ blocks? (range|limit)|please narrow|max(imum)? (is|block)`,
	),
	is(
		Limited, `rate.?limit|ratelimit|(request|call|usage|bandwidth|throughput|connection)s?( count| rate)? limit|too many (requests|connections|calls)|too requests|limit (of )?requests|requests?.{0,20}limited|quota|compute units?|cu/s`,
		`(daily|monthly|hourly|per.second|per.minute).{0,30}(limit|exceeded|capacity|count)|(capacity|throughput|credits?|free tier|plan).{0,30}(exceed|limit|exhaust|reached|upgrade)|reached.{0,20}(free tier|quota|limit of)|out of credits|/second|retry in \d+|upgrade (your|to)|exceeded.{0,20}(requests|calls|capacity)`,
		`under too much load|payment required|over capacity|request (count|rate) exceeded`,
	),
	is(
		Denied, `must be authenticated|unauthori[sz]ed|not authori[sz]ed|authentication (required|failed)|(invalid|missing|unknown|expired|disabled|no) (api|project|access|auth)\w*[ -]?(key|id|token)|api.?key|project id|access denied|forbidden(?: *$|:)|jwt|not allowed to access|tenant disabled|origin not allowed|ip .{0,30}not (allowed|whitelisted)`,
	),
	is(WrongChain, `invalid chain.?id|wrong chain.?id|incorrect chain.?id|chain.?id (none|mismatch|does not match)|does not match the target chain|invalid sender chain`),

	// Of a transaction: what is refused for ever, then known, then nonces, then what may pass.
	is(
		Fatal, `intrinsic ?gas|gas limit is below|not enough gas (for transaction validation|to cover minimal cost)|floor data gas|insufficient gas for floor`,
		`invalid (sender|signature|transaction v, r, s)|max initcode size exceeded|exceeds? max.*initcode|gas uint64 overflow|negative value|int256overflow|failedtoresolvesender|senderiscontract|sender not an eoa|sender is not eoa`,
		`max priority fee per gas higher than max fee|tip (above|higher than) fee ?cap|higher than 2\^64-1`,
	),
	is(Known, `already known|(^|[^n])known transaction|already imported|alreadyknown|pool\(alreadyimported\)|already in (the )?(mem)?pool|same hash was already|existing tx with same hash|transaction already exists|already exists in|is already in the system`),

	is(SlotTaken, `replacement transaction|underpriced replacement|feetoolowtocompete|replacementnotallowed|ownnoncealreadyused|could not replace|transaction with (the )?same nonce|another tx which has the same nonce|not sufficient to replace`),
	is(NonceUsed, `nonce (is )?too low|oldnonce|old nonce|invalid transaction nonce|nonce already|nonce has already been used|wrong_nonce|invalid nonce|pool\(stale\)|already finalized`),
	is(Gap, `nonce (is )?too (high|far)|noncegap|nonce ?gap|gapped.nonce|nonce too distant|is too distant|future ?nonce|expected nonce to be`),

	is(
		Funds, `insufficient ?funds|insufficient balance (for|of|to)|upfront cost exceeds|insufficient_payer_balance|not enough (funds|balance)|balance too low|funds for (transfer|gas)|lack of funds|sender (doesn't|does not) have enough funds|would cause overdraft|exceeds transaction sender account balance|total cost .{0,40}exceeds the balance`,
	),
	is(
		FeeTooLow, `underpriced|below (the )?(configured |current )?(minimum|base)|minimum needed|less than (the )?block('s)? base|feetoolow|fee ?too ?low|gas ?price (is |.{0,30})?too low|max fee per gas (less|lower|too low)|maxfeepergas .{0,60}too low|gas tip cap|insufficient_tx_fee|unacceptable gas price|less than gas price minimum|gas fee cap too low|effective ?priority ?fee.{0,20}too low`,
	),
	is(
		Policy, `address already reserved|in-?flight transaction limit|account limit|(tx|transaction|mem) ?pool.{0,20}full|queue full|pool is full|exceeds the configured cap|fee cap exceeded|transaction limit|too many (pending|transactions)|oversized|size exceeds|exceeds? block gas limit|exceeds maximum per-transaction gas limit|gaslimitexceeded|gas limit (reached|exceeded)|transaction gas limit|busy|throttled|l2 congestion|blacklist|banned|not permitted|forbidden sender|denylist|conditional|only replay-protected|nonce lock|transactions? (are|is) not (allowed|accepted)|fee too high`,
		`transaction type (is )?not supported|tx type .{0,20}not supported|unsupported transaction type|transactions? of type .{0,10} (are|is) not supported|rlp: |invalid rlp|undecodable|failed to decode (signed )?transaction`, // by this node or provider, which may be older than others

	),

	// Of the endpoint.
	is(
		Unsupported, `method .{0,60}(not found|not supported|does not exist|not available|not whitelisted|is not allowed|disabled)|(unsupported|unknown|no such|unrecognized) method|not supported|not implemented|method is not|rpc method|module .{0,30}(disabled|not)|is disabled`,
	),
	is(
		Missing, `(header|block|state|parent|ancestor|receipt)s? .{0,80}(not found|not available|unavailable|pruned|unknown|does not exist)|(header|block) not found|missing trie node|unknown (block|header|ancestor)|pruned|historical (state|data)|old data not available|state (is )?not|missing (block|state)|no state available|could not find block|not yet (been )?(indexed|available)|indexing is in progress|block .{0,40}(out of range|is in the future)|cannot query unfinalized|after last accepted block|resource not found|genesis is not traceable|archive|distance to target block|proof window|blockoutofrange`,
	),
	is(
		Broken, `no (healthy )?(backend|upstream|node|endpoint|server)s?|backend|upstream|bad gateway|gateway time.?out|service (temporarily )?unavailable|internal (server )?error|internal json-rpc|internal_error|temporarily|try again|timed? ?out|timeout|connection (reset|refused|closed)|cannot fulfill|failed to (fetch|forward|proxy)|overloaded|syncing|not (yet )?(ready|synced|connected)|unexpected status|econn|socket hang up|context (canceled|deadline)|server error|something went wrong upstream|unavailable|could not be processed`,
	),
}

// codes say what an answer means whose text no rule knows. For the most part codes are no help: geth uses -32000 for anything, and
// zkSync has code 3, which is a revert elsewhere.
var codes = map[int]Class{
	429: Limited, -32005: Limited, -32007: Limited, -32016: Limited, -32029: Limited, -32090: Limited, -32097: Limited, -32098: Limited,
	401: Denied, 403: Denied, -32052: Denied, -32053: Denied,
	-32601: Unsupported, -32004: Unsupported, -32604: Unsupported,
	-32602: Malformed, -32600: Malformed, -32700: Malformed,
	-32001: Missing, -32014: Missing,
	-32603: Broken, -32002: Broken, -32010: Broken, -32011: Broken, -32012: Broken, -32046: Broken, -32080: Broken, 500: Broken, 502: Broken, 503: Broken, 504: Broken,
}

// maxJudged bounds the bytes of a text that the table is held against.
const maxJudged = 2 << 10

// Judge says what an answer means: its HTTP status (200, or 0 over a WebSocket), the code and text of its JSON-RPC error, and the error's
// data if that is a text. It is a pure function. An answer that is no error has no class.
func Judge(status, code int, text, data string) Class {
	text, data = strings.TrimSpace(clip(text)), strings.TrimSpace(clip(data))
	if revertData(data) && (code == 3 || code == -32015 || of(reverts, text) == Reverted) {
		return Reverted // proved, whatever the status is
	}
	switch {
	case status == 401 || status == 402 || status == 403 || status == 407 || status == 451:
		if class := of(rules, text); class == Limited || class == TooMuch {
			return class
		}
		return Denied
	case status == 429:
		return Limited
	case status == 413:
		return TooMuch
	case status >= 500:
		if class := of(rules, text); class == TooMuch || class == Limited {
			return class
		}
		return Broken
	}
	if class := of(reverts, text); class != "" {
		return class
	}
	if code == -32015 && strings.HasPrefix(strings.ToLower(data), "revert") {
		return Reverted
	}
	if class := of(rules, text); class != "" {
		return class
	}
	if class, found := codes[code]; found {
		return class
	}
	if data != "" && !strings.HasPrefix(data, "0x") {
		if class := of(rules, data); class != "" && class != TooMuch {
			return class
		}
	}
	if status >= 300 {
		return Broken
	}
	return Unknown
}

func of(list []rule, text string) Class {
	for _, r := range list {
		if r.pattern.MatchString(text) {
			return r.class
		}
	}
	return ""
}

// revertData reports whether an error's data is what a contract returned.
func revertData(data string) bool {
	_, hex, found := strings.Cut(strings.ToLower(data), "0x")
	if !found || len(hex) < 8 {
		return false
	}
	return strings.Trim(hex, "0123456789abcdef") == ""
}

// clip bounds a text that came from an endpoint.
func clip(text string) string {
	if len(text) > maxJudged {
		text = text[:maxJudged]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// vague reports whether nothing but a code says that we ask too often. It stands for whatever limit an endpoint has, that of a query's blocks among them.
func (e *Error) vague() bool {
	return e.Class == Limited && e.Code == -32005 && e.Status < 300 && of(rules, strings.TrimSpace(e.Text)) == ""
}

// timeWords are in the answers of endpoints that ran out of time.
var timeWords = regexp.MustCompile(`(?i)timed? ?-?out|deadline exceeded`)

// batchWords are in the answers of endpoints that take fewer calls in one batch, or none.
var batchWords = regexp.MustCompile(`(?i)batch|array|multiple requests|single request`)

// tooLongBatch is what endpoints say of each call of a batch that is too long.
var tooLongBatch = regexp.MustCompile(`(?i)batch.{0,60}(too|exceed|limit|more than|maximum|large|not)|(too|exceed|limit|maximum|more than|many).{0,60}batch|in batch`)
