package ledger

import (
	"crypto/sha512"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Handle brings a transaction to consensus: it gets the next consensus time, takes
// effect or fails, and leaves a record either way.
func (l *Ledger) Handle(sub *core.Submission) *history.Record {
	l.handling.Lock()
	defer l.handling.Unlock()
	if tx := sub.Ethereum; tx != nil && l.cfg.Deterministic {
		sub.Hash, sub.Size = sha512.Sum384(tx.Hash().Bytes()), len(tx.Raw())
	}
	l.executeDue(l.upcoming())
	h := l.begin(sub)
	if h.Run(); h.Batch != nil && h.Record.Status == okay {
		return l.finishBatch(h)
	}
	return l.finish(h)
}

// spacing keeps consensus times apart: preceding children take the nanoseconds
// before their parent, following ones those after it.
const spacing = 100

func (l *Ledger) begin(sub *core.Submission) *core.Handling {
	at := l.tick()
	if open := l.chain.Open; open != nil && l.over(open, at) {
		l.closeBlock()
	}
	return l.net.Handle(sub, at)
}

// finish commits the overlay, gives the records their places and publishes the
// block when it is complete.
func (l *Ledger) finish(h *core.Handling) *history.Record {
	l.enter(h)
	l.executeReady(h)
	l.entered()
	return h.Record
}

// enter is the part of finish that readers must see at once.
func (l *Ledger) enter(h *core.Handling) {
	l.store.Lock()
	defer l.store.Unlock()
	settle(h)
	l.list(h)
}

// settle brings what a transaction did into the world. The caller holds both locks.
func settle(h *core.Handling) {
	if logs := evm.SyntheticLogs(h); len(logs) > 0 {
		h.Did().Logs = logs
	}
	h.Commit()
}

// list enters the records of a transaction. The caller holds both locks.
func (l *Ledger) list(h *core.Handling) {
	r := h.Record
	records := h.Records()
	l.chain.Enter(records, h.Sub.Size)
	if tx := h.Sub.Ethereum; tx != nil {
		l.order.Add(history.ConsensusEntry{
			Sender: tx.From(), Nonce: tx.Nonce(), Hash: tx.Hash(),
			Node: r.Node, Status: r.Status, Time: r.Consensus,
		})
	}
}

// Fee is what the network asks of a transaction besides gas, and what must be offered for it. Without Config.Fees
// it is the same for all, and is not charged.
func (l *Ledger) Fee(sub *core.Submission) hedera.Tinybar {
	return l.net.Quote(sub, l.Handled().reader.AsOf)
}

// PureCheck is what a node finds wrong with a body by itself, before it looks at
// any account: SUCCESS means nothing. NOT_SUPPORTED is a kind of transaction that
// this network does not have.
func (l *Ledger) PureCheck(body *hapi.TransactionBody) hedera.Status { return l.net.PureCheck(body) }
