package ledger

import (
	"lockstep/devnet/ledger/fees"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Required is what the network wants to be offered as a fee for any transaction. It
// asks for the limit to be high enough and then charges gas only.
const Required hedera.Tinybar = 83_333

// Fee is what the network asks of a transaction besides gas, and what must be offered for it. Without Config.Fees
// it is the same for all, and is not charged.
func (l *Ledger) Fee(sub *Submission) hedera.Tinybar {
	if !l.cfg.Fees || waived(sub.Payer) {
		return Required
	}
	h := &handling{l: l, sub: sub, o: newWork(l.store, l.Handled().reader.AsOf, true)}
	return h.fee()
}

// waived tells whether an account pays nothing: the network's own do not.
func waived(payer hedera.ID) bool { return payer.Num <= 100 }

func (h *handling) fee() hedera.Tinybar {
	rate := h.l.rate()
	tinycents := fees.Of(h.sub.Body, h.sub.Size, h.sub.Signatures.Count(), h.o)
	return hedera.Tinybar(tinycents * int64(rate.Hbar) / int64(rate.Cents))
}

// charge takes the fee from the payer, whatever becomes of the transaction.
func (h *handling) charge() hedera.Status {
	if !h.l.cfg.Fees || h.child || waived(h.sub.Payer) {
		return okay
	}
	fee, payer := h.fee(), h.account(h.sub.Payer)
	switch {
	case h.r.MaxFee > 0 && h.r.MaxFee < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case payer.Tinybar() < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	h.o.Move(payer, h.o.EntityAccount(state.FeeCollector), fee)
	h.r.Fee = fee
	return okay
}
