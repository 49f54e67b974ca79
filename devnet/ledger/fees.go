package ledger

import (
	"lockstep/devnet/ledger/fees"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Fee is what the network asks of a transaction besides gas, and what must be offered for it. Without Config.Fees
// it is the same for all, and is not charged.
func (l *Ledger) Fee(sub *Submission) hedera.Tinybar {
	if !l.cfg.Fees || waived(sub.Payer) {
		return Required
	}
	h := &handling{l: l, sub: sub, o: newOverlay(l, l.Handled().asOf, true)}
	return h.fee()
}

// waived tells whether an account pays nothing: the network's own do not.
func waived(payer hedera.ID) bool { return payer.Num <= 100 }

func (h *handling) fee() hedera.Tinybar {
	rate := h.l.rate()
	tinycents := fees.Of(h.sub.Body, h.sub.Size, h.sub.Signatures.Count(), h.o)
	return hedera.Tinybar(tinycents * int64(rate.Hbar) / int64(rate.Cents))
}

// TokenHasFees tells whether transfers of a token cost more than others.
func (o *overlay) TokenHasFees(num int64) bool {
	t := o.tokens.get(num)
	return t != nil && len(t.Fees) > 0
}

// TopicHasFees tells whether messages to a topic cost more than others.
func (o *overlay) TopicHasFees(num int64) bool {
	t := o.topics.get(num)
	return t != nil && len(t.Fees) > 0
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
	case payer.tinybar() < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	h.o.move(payer, h.o.entityAccount(feeCollector), fee)
	h.r.Fee = fee
	return okay
}
