package submit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/submit"
)

// About the operator or the envelope, by their names.
var aboutPayer = []hedera.Status{
	hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE,
	hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND, hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED,
	hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE, hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION,
	hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE,
	hapi.ResponseCodeEnum_WRONG_CHAIN_ID, hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT,
	hapi.ResponseCodeEnum_ACCESS_LIST_UNSUPPORTED, hapi.ResponseCodeEnum_CONTRACT_FILE_EMPTY,
	hapi.ResponseCodeEnum_FILE_DELETED,
}

// The record decides what became of a transaction, and not the name of its status: what was run has spent its nonce,
// what is in a block has its hash, and what no record tells is not known where the name can mean both.
func TestProofBeatsNames(t *testing.T) {
	var names []hedera.Status
	for _, name := range hedera.NeverExecuted() {
		if status, _ := hedera.ParseStatus(name); status != hapi.ResponseCodeEnum_WRONG_NONCE { // which is a proof
			names = append(names, status)
		}
	}
	names = append(names, aboutPayer...)
	names = append(names, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY)
	for _, status := range names {
		refusal := slices.Contains(hedera.NeverExecuted(), status.String()) || slices.Contains(aboutPayer, status)
		for record, want := range map[submit.Record]submit.Outcome{
			submit.RecordRan: submit.Reverted, submit.RecordInBlock: submit.Reverted,
			submit.RecordRefused: submit.Rejected, submit.RecordOpen: submit.Rejected,
		} {
			switch {
			case !refusal:
				want = submit.Reverted
			case record == submit.RecordOpen && hedera.AlsoFromRun(status):
				want = submit.Unknown
			}
			synctest.Test(t, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				sent := time.Now()
				n.verdict = func(nonce uint64) (hedera.Status, error) {
					if nonce > 0 {
						return hapi.ResponseCodeEnum_SUCCESS, nil
					}
					return status, nil
				}
				n.record = func(hedera.TransactionID) (submit.Record, error) {
					if time.Since(sent) < 3*time.Second { // the mirror node lags
						return submit.RecordOpen, nil
					}
					return record, nil
				}
				n.shows = behind(0, time.Minute)
				s := newSubmitter(t, n, nil)
				r := s.Submit(t.Context(), transfer(t, key, 0))
				var told *eth.Error
				if (r.Err == nil) != (want == submit.Reverted) || r.Outcome != want || errors.As(r.Err, &told) && strings.Contains(told.Message, "did not accept") {
					t.Errorf("%s, record %d: %s, %v; want %s", status, record, r.Outcome, r.Err, want)
				}
				if record != submit.RecordRan {
					return
				}
				// The right next nonce goes, although the mirror node does not show the old one as spent.
				n.change(func() { n.nonces[senderOf(key)] = 1 })
				if r := s.Submit(t.Context(), transfer(t, key, 1)); r.Outcome != submit.Executed {
					t.Errorf("after %s, which was run: %s, %v", status, r.Outcome, r.Err)
				}
			})
		}
	}
}
