package ethchain

import (
	"errors"
	"regexp"

	"lockstep/txmgr"
)

// rule gives the answers that a pattern matches a class. Codes are no help: geth uses -32000
// for all of them.
type rule struct {
	class   txmgr.Class
	pattern *regexp.Regexp
}

func is(class txmgr.Class, pattern string) rule {
	return rule{class, regexp.MustCompile(`(?i)` + pattern)}
}

// rules are tried in order: what is refused for ever comes first, then known, then nonces,
// then what may pass. A text that none matches is ambiguous.
var rules = []rule{
	is(txmgr.ClassFatal, `intrinsic gas too (low|high)|intrinsic gas exceeds gas limit|intrinsicgas|gas limit is below (the )?intrinsic`),
	is(txmgr.ClassFatal, `invalid chain id|wrong chain ?id|incorrect chain ?id|chain id (none|mismatch)|does not match the target chain`),
	is(txmgr.ClassFatal, `invalid (sender|signature|transaction v, r, s)|transaction type not supported|max initcode size exceeded|exceeds? max.*initcode`),
	is(txmgr.ClassFatal, `max priority fee per gas higher than max fee|tip (above|higher than) fee ?cap|rlp: |undecodable|failed to decode`),
	is(txmgr.ClassFatal, `floor data gas|insufficient gas for floor`),

	is(txmgr.ClassKnown, `already known|known transaction|already imported|alreadyknown|already in (the )?(mem)?pool|already exists`),

	is(txmgr.ClassSlotTaken, `replacement transaction|underpriced replacement|feetoolowtocompete|could not replace`),
	is(txmgr.ClassNonceUsed, `nonce too low|nonce is too low|oldnonce|invalid transaction nonce|nonce already|nonce has already been used|wrong_nonce|invalid nonce`),
	is(txmgr.ClassGap, `nonce too (high|far)|noncegap|nonce gap|nonce too distant|future nonce`),

	is(txmgr.ClassFunds, `insufficient funds|insufficient balance|upfront cost exceeds|insufficientfunds|insufficient_payer_balance|not enough funds|balance too low|funds for (transfer|gas)`),
	is(txmgr.ClassFeeTooLow, `underpriced|below (the )?(configured )?minimum|minimum needed|less than block base fee|feetoolow|fee too low|gas price too low|max fee per gas less|below current base|gas tip cap|insufficient_tx_fee`),
	is(txmgr.ClassPoolPolicy, `address already reserved|in-?flight transaction limit|account limit|txpool is full|pool is full|exceeds the configured cap|transaction limit|rate limit|too many|oversized data|size exceeds|exceeds block gas limit|exceeds maximum per-transaction gas limit|gas limit reached|busy|throttled|temporarily|not allowed|blacklist|denied|unauthorized|method not found|unsupported`),
}

// classify names what a node said.
func classify(name string, err error) *txmgr.SendError {
	if err == nil {
		return nil
	}
	out := &txmgr.SendError{Class: txmgr.ClassAmbiguous, Endpoint: name, Text: err.Error()}
	var answer *callError
	if !errors.As(err, &answer) {
		out.Class = txmgr.ClassTransport
		return out
	}
	out.Text = answer.Message
	for _, r := range rules {
		if r.pattern.MatchString(answer.Message) {
			out.Class = r.class
			break
		}
	}
	return out
}
