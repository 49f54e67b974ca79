package core

import (
	"lockstep/devnet/ledger/fees"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Required is what the network wants to be offered as a fee for any transaction. It
// asks for the limit to be high enough and then charges gas only.
const Required hedera.Tinybar = 83_333

// waived tells whether an account pays nothing: the network's own do not.
func waived(payer hedera.ID) bool { return payer.Num <= 100 }

func (h *Handling) fee() hedera.Tinybar {
	rate := h.Net.Rate
	tinycents := fees.Of(h.Sub.Body, h.Sub.Size, h.Sub.Signatures.Count(), h.State)
	return hedera.Tinybar(tinycents * int64(rate.Hbar) / int64(rate.Cents))
}

// charge takes the fee from the payer, whatever becomes of the transaction.
func (h *Handling) charge() hedera.Status {
	if !h.Net.Fees || h.Child || waived(h.Sub.Payer) {
		return okay
	}
	fee, payer := h.fee(), h.Account(h.Sub.Payer)
	switch {
	case h.Record.MaxFee > 0 && h.Record.MaxFee < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case payer.Tinybar() < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	h.State.Move(payer, h.State.EntityAccount(state.FeeCollector), fee)
	h.Record.Fee = fee
	return okay
}

// Quote is what a transaction would be charged besides gas, or Required where nothing is charged. It reads the state at a time.
func (n *Network) Quote(sub *Submission, asOf int64) hedera.Tinybar {
	if !n.Fees || waived(sub.Payer) {
		return Required
	}
	h := &Handling{Net: n, Sub: sub, State: NewWork(n.Store, asOf, true)}
	return h.fee()
}
