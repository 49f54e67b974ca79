package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
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

// Impersonate handles an Ethereum transaction of an account whose key nobody has shown, a
// contract's included, as tools for development may. Nothing in it but the signature is made
// up: the account must exist, and its nonce, its balance and the price of gas count. The
// treasury takes the place of the relay that would pay.
func (l *Ledger) Impersonate(tx *types.Transaction, from common.Address) (*history.Record, error) {
	claimed, err := eth.Unproven(tx, from)
	if err != nil {
		return nil, err
	}
	sub := &core.Submission{
		Body:  core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: claimed.Raw()}),
		Payer: hedera.Entity(state.Treasury), Ethereum: claimed, Size: len(claimed.Raw()),
		Signatures: hapikey.NewSignatures(nil, nil), Node: l.cfg.Nodes[0], Impersonated: true,
	}
	if err := l.Prepare(sub); err != nil {
		return nil, err
	}
	l.handling.Lock()
	defer l.handling.Unlock()
	h := l.begin(sub)
	sub.ID = hedera.TransactionID{Payer: sub.Payer, ValidStart: h.Record.Consensus}
	sub.Hash = sha512.Sum384(binary.BigEndian.AppendUint64(claimed.Hash().Bytes(), uint64(h.At)))
	h.Record.ID, h.Record.Hash = sub.ID, sub.Hash
	h.Run()
	return l.finish(h), nil
}

// execute brings a scheduled transaction to consensus where all who must agree do. The caller
// holds handling, and has the block closed afterwards.
func (l *Ledger) execute(num int64) {
	s := l.store.World.Schedules.Now(num)
	if s == nil || !s.Executed.IsZero() || !s.DeletedAt.IsZero() {
		return
	}
	body := schedules.Body(s.Body)
	h := l.begin(&core.Submission{
		Body: body, ID: s.Transaction, Payer: s.Payer, Hash: sha512.Sum384([]byte(s.Transaction.String())), Signatures: hapikey.NewSignatures(nil, nil),
	})
	h.Authorizes = s.Agrees
	if payer := h.State.EntityAccount(s.Payer.Num); !s.Agrees(payer.Key()) {
		return
	}
	if h.Run(); h.Record.Status == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		return // it waits on; the state that it was handled on is dropped
	}
	done := *s
	done.Executed = h.Record.Consensus
	h.State.Schedules.Set(num, &done)
	h.Did().ScheduleRef = s.ID
	l.enter(h)
}

// executeReady tries the schedules that a transaction created or signed. Those that one of them
// creates in turn wait for a signing or for their time, so that no chain of them is endless.
func (l *Ledger) executeReady(h *core.Handling) {
	for _, num := range h.State.Ready {
		l.execute(num)
	}
}

// executeDue executes the schedules whose time has come by a consensus time, and returns how
// long it is until the next one's; any is false where there is none. The caller holds handling.
func (l *Ledger) executeDue(now int64) (left time.Duration, any bool) {
	last := state.ExpiryKey{At: now, Schedule: state.Last}
	if now > l.settled {
		due := slices.Collect(l.store.World.Expiries.Between(state.ExpiryKey{At: l.settled, Schedule: state.Last}, last))
		l.settled = now
		for _, key := range due {
			if s := l.store.World.Schedules.Now(key.Schedule); s != nil && s.WaitForExpiry {
				l.execute(key.Schedule)
				l.entered()
			}
		}
	}
	for later := range l.store.World.Expiries.Between(last, state.ExpiryKey{At: state.Last, Schedule: state.Last}) {
		return time.Duration(later.At - now), true
	}
	return 0, false
}

// executeWaiting executes what is due by the clock, as Run does.
func (l *Ledger) executeWaiting() (left time.Duration, any bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	return l.executeDue(l.Now().UnixNano())
}
