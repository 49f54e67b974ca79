package mirrorrest

import (
	"iter"
	"slices"

	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

// records yields those of a view that lie within the bounds on consensus time. The ledger keeps so few that who wants
// those of one entity looks through them all.
func (r *request) records(times *bounds, desc bool) iter.Seq[*history.Record] {
	low, high := times.span()
	records := r.view.Records(fromNanos(low), fromNanos(min(high, r.view.Time().UnixNano())), desc)
	return where(records, func(rec *history.Record) bool { return times.allows(rec.Consensus.UnixNano()) })
}

// fromNanos is hedera.FromNanos for bounds, which may be open: time starts at 0.
func fromNanos(ns int64) hedera.Timestamp { return hedera.FromNanos(max(ns, 0)) }

// concerns tells whether an account paid for a transaction, or the transaction moved what it has.
func concerns(rec *history.Record, account hedera.ID) bool {
	return rec.ID.Payer == account ||
		slices.ContainsFunc(rec.Transfers, func(t history.Transfer) bool { return t.Account == account }) ||
		slices.ContainsFunc(rec.Did().Tokens, func(t history.TokenTransfer) bool { return t.Account == account }) ||
		slices.ContainsFunc(rec.Did().NFTs, func(t history.NFTTransfer) bool { return t.Sender == account || t.Receiver == account })
}
