package core

import (
	"crypto/sha512"
	"encoding/binary"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Submission is a transaction that a node accepted.
type Submission struct {
	Body       *hapi.TransactionBody
	ID         hedera.TransactionID
	Payer      hedera.ID    // of ID, with an alias resolved
	Hash       state.Hash48 // SHA-384 of the signed transaction bytes
	Size       int          // bytes of the whole transaction
	Signatures *hapikey.Signatures
	Node       hedera.ID // node account that accepted it
	Ethereum   *eth.Tx   // of an Ethereum transaction whose call data is inline, decoded once

	Impersonated bool // its sender has not signed it

	// Refusal, where set, is what consensus answers instead of handling it: the
	// network's own reasons, such as throttling, for tests that need them.
	Refusal hedera.Status
}

// Work is what a transaction changes together with those that its contracts ask for.
type Work struct {
	*state.Overlay
	ID       hedera.TransactionID // of the transaction; zero in a simulation
	Ready    []int64              // schedules that may have all their signatures now
	Children []*history.Record    // of what contracts asked for, reverted ones included
}

// NewWork begins changes on top of the state at a time; shared has them take the lock of the store for what they read.
func NewWork(store *state.Store, asOf int64, shared bool) *Work {
	return &Work{Overlay: state.NewOverlay(store, asOf, shared)}
}

// Handling is one transaction while it is handled.
type Handling struct {
	Net    *Network
	Sub    *Submission
	At     int64 // consensus time, ns
	State  *Work
	Record *history.Record

	Preceding []*history.Record // children without times yet
	Following []*history.Record
	Files     []state.File // new versions of files
	DataFile  hedera.ID    // where the call data of an Ethereum transaction was; zero for in it

	Approved []int64          // accounts whose hbar was spent from an allowance
	Child    bool             // one that a contract asked for
	Failure  *history.Effects // what the record tells although the transaction failed

	Batch []*Submission // inner transactions, which are still to be handled

	// authorizes tells whether a key agrees to the transaction; nil: the signatures say.
	Authorizes func(*hapi.Key) bool
}

// Handle is a transaction that is to be handled at a time.
func (n *Network) Handle(sub *Submission, at int64) *Handling {
	body, o := sub.Body, NewWork(n.Store, at, false)
	o.ID = sub.ID
	return &Handling{
		Net: n, Sub: sub, At: at, State: o,
		Record: &history.Record{
			Consensus: hedera.FromNanos(at), ID: sub.ID, Hash: sub.Hash, Node: sub.Node,
			Memo: body.GetMemo(), MaxFee: hedera.Tinybar(body.GetTransactionFee()),
			ValidDuration: body.GetTransactionValidDuration().GetSeconds(),
			Seed:          n.Chain.Seed(),
		},
	}
}

// Run dispatches by the kind of transaction. A failing one changes nothing but
// what its handler did on purpose before it settled. One that panics, which is a bug
// here, changes nothing at all and ends as the network ends such: FAIL_INVALID.
func (h *Handling) Run() {
	h.Record.Kind = h.Net.KindOf(h.Sub.Body)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *facts.Missing[state.FactKey]: // Prepare fetches it
			panic(p)
		case *facts.UpstreamError:
			h.Net.Log.Warn("a transaction was not executed", "transaction", h.Sub.ID.String(), "error", p.Error())
			h.Reset()
			h.Sub.Refusal = hapi.ResponseCodeEnum_BUSY
			h.refuse()
		default:
			h.Net.Log.Error("panic while a transaction was handled",
				"transaction", h.Sub.ID.String(), "panic", p, "stack", string(debug.Stack()))
			h.Reset()
			h.Record.Status = hapi.ResponseCodeEnum_FAIL_INVALID
		}
	}()
	if h.duplicate() {
		h.Record.Status = hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
		return
	}
	if status := h.completePayer(); status != hapi.ResponseCodeEnum_SUCCESS {
		h.Record.Status = status
		return
	}
	if h.Sub.Refusal != 0 {
		h.refuse()
		return
	}
	if status := h.charge(); status != okay {
		h.Record.Status = status
		return
	}
	snapshot, before := h.State.Snapshot(), len(h.Preceding)
	h.Record.Status = h.Serve()
	if h.Record.Status != hapi.ResponseCodeEnum_SUCCESS && h.Record.Result == nil {
		h.State.RevertTo(snapshot)
		h.Files, h.Following, h.Record.Effects = nil, nil, h.Failure
		h.Preceding = h.Preceding[:before]
	}
}

// refuse ends a transaction as one that the network would not handle.
func (h *Handling) refuse() {
	h.Record.Status = h.Sub.Refusal
	if s, _ := h.service(); s.Refused != nil {
		s.Refused(h)
	}
}

// Reset forgets all that handling has come to.
func (h *Handling) Reset() {
	h.State = NewWork(h.Net.Store, h.At, false)
	h.State.ID = h.Sub.ID
	h.Preceding, h.Following, h.Files = nil, nil, nil
	r := h.Record
	h.Record = &history.Record{
		Consensus: r.Consensus, ID: r.ID, Hash: r.Hash, Node: r.Node, Kind: r.Kind,
		Memo: r.Memo, MaxFee: r.MaxFee, ValidDuration: r.ValidDuration, Seed: r.Seed,
	}
}

// duplicate tells whether a transaction with this id was handled already.
func (h *Handling) duplicate() bool { return len(h.Net.Chain.Named(h.Sub.ID)) > 0 }

// completePayer gives a hollow payer the key it signed with.
func (h *Handling) completePayer() hedera.Status {
	payer := h.Account(h.Sub.Payer)
	if payer == nil {
		if h.State.EntityAccount(h.Sub.Payer.Num).Deleted() {
			return hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED
		}
		return hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND
	}
	if IsHollow(payer) {
		if public, ok := h.Sub.Signatures.Completes(payer.Address); ok {
			h.Complete(payer, public)
		}
	}
	return hapi.ResponseCodeEnum_SUCCESS
}

// Complete sets the key of a hollow account, as a preceding child.
func (h *Handling) Complete(a *state.Party, public []byte) {
	m := *a.CurrentMeta()
	m.Key = hapikey.Secp256k1(public)
	h.State.PutMeta(a, &m)
	h.Preceding = append(h.Preceding, &history.Record{
		Kind: history.KindCryptoUpdate, Status: hapi.ResponseCodeEnum_SUCCESS, Entity: hedera.Entity(a.Num),
		Account: hedera.Entity(a.Num), EVMAddress: a.Address.Bytes(),
	})
}

// Account returns an existing account or contract, nil when there is none.
func (h *Handling) Account(id hedera.ID) *state.Party {
	if id.Shard != 0 || id.Realm != 0 || id.Num <= 0 {
		return nil
	}
	if a := h.State.EntityAccount(id.Num); a.Exists {
		return a
	}
	return nil
}

// NewNum gives out the next entity number.
func (h *Handling) NewNum() int64 { return h.State.NewNum() }

// Signed tells whether a key agrees to the transaction.
func (h *Handling) Signed(key *hapi.Key) bool {
	if h.Authorizes != nil {
		return h.Authorizes(key)
	}
	return h.Sub.Signatures.Signed(key)
}

// SignedBy tells whether an account's key has signed. The payer's was checked by
// the node.
func (h *Handling) SignedBy(a *state.Party) bool {
	return a.Num == h.Sub.Payer.Num || h.Signed(a.Key()) || h.completed(a)
}

// Records puts the transaction and its children in consensus order and fills what
// children share with their parent.
func (h *Handling) Records() []*history.Record {
	r := h.Record
	all := make([]*history.Record, 0, 1+len(h.Preceding)+len(h.Following))
	all = append(append(append(all, h.Preceding...), r), h.Following...)
	if len(all) == 1 {
		return all
	}
	at := h.At - int64(len(h.Preceding))
	nonce := int32(0)
	for _, child := range all {
		if child != r {
			nonce++
			child.Consensus, child.Parent = hedera.FromNanos(at), r.Consensus
			child.ID, child.Node, child.ValidDuration = r.ID, r.Node, r.ValidDuration
			child.ID.Nonce = nonce
			child.Hash = childHash(r.Hash, nonce)
			r.Children = append(r.Children, child)
		}
		at++
	}
	return all
}

func childHash(parent state.Hash48, nonce int32) state.Hash48 {
	var fixed [4]byte
	binary.BigEndian.PutUint32(fixed[:], uint32(nonce))
	return sha512.Sum384(append(parent[:], fixed[:]...))
}

// Did returns the effects of the transaction to add to.
func (h *Handling) Did() *history.Effects {
	if h.Record.Effects == nil {
		h.Record.Effects = &history.Effects{}
	}
	return h.Record.Effects
}

// Network is what handlers of transactions find around them.
type Network struct {
	Store    *state.Store
	Chain    *history.Chain
	Nodes    []hedera.ID
	Fees     bool // what transactions cost is charged
	Rate     ExchangeRate
	Price    atomic.Int64 // of a unit of gas, tinybars
	Services Services
	Wake     func() // something has a time now
	Log      *slog.Logger
}

// ExchangeRate is the price of hbar: Hbar ℏ cost Cents US cents, until Expires.
type ExchangeRate struct {
	Hbar, Cents int32
	Expires     int64 // seconds since the Unix epoch
}

// GasPrice is the price of a unit of gas.
func (n *Network) GasPrice() hedera.Tinybar { return hedera.Tinybar(n.Price.Load()) }
