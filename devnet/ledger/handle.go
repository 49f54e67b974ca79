package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"runtime/debug"

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

	impersonated bool // its sender has not signed it

	// Refusal, where set, is what consensus answers instead of handling it: the
	// network's own reasons, such as throttling, for tests that need them.
	Refusal hedera.Status
}

// Handle brings a transaction to consensus: it gets the next consensus time, takes
// effect or fails, and leaves a record either way.
func (l *Ledger) Handle(sub *Submission) *history.Record {
	l.handling.Lock()
	defer l.handling.Unlock()
	if tx := sub.Ethereum; tx != nil && l.cfg.Deterministic {
		sub.Hash, sub.Size = sha512.Sum384(tx.Hash().Bytes()), len(tx.Raw())
	}
	l.executeDue(l.upcoming())
	h := l.begin(sub)
	if h.run(); h.batch != nil && h.r.Status == okay {
		return l.finishBatch(h)
	}
	return l.finish(h)
}

// spacing keeps consensus times apart: preceding children take the nanoseconds
// before their parent, following ones those after it.
const spacing = 100

// work is what a transaction changes together with those that its contracts ask for.
type work struct {
	*state.Overlay
	id       hedera.TransactionID // of the transaction; zero in a simulation
	ready    []int64              // schedules that may have all their signatures now
	children []*history.Record    // of what contracts asked for, reverted ones included
}

func newWork(store *state.Store, asOf int64, shared bool) *work {
	return &work{Overlay: state.NewOverlay(store, asOf, shared)}
}

// handling is one transaction while it is handled.
type handling struct {
	l   *Ledger
	sub *Submission
	at  int64 // consensus time, ns
	o   *work
	r   *history.Record

	preceding []*history.Record // children without times yet
	following []*history.Record
	files     []state.File // new versions of files
	dataFile  hedera.ID    // where the call data of an Ethereum transaction was; zero for in it

	approved []int64          // accounts whose hbar was spent from an allowance
	child    bool             // one that a contract asked for
	failure  *history.Effects // what the record tells although the transaction failed

	batch []*Submission // inner transactions, which are still to be handled

	// authorizes tells whether a key agrees to the transaction; nil: the signatures say.
	authorizes func(*hapi.Key) bool
}

func (l *Ledger) begin(sub *Submission) *handling {
	at := l.tick()
	if open := l.chain.Open; open != nil && l.over(open, at) {
		l.closeBlock()
	}
	return l.handle(sub, at)
}

// handle is a transaction that is to be handled at a time.
func (l *Ledger) handle(sub *Submission, at int64) *handling {
	body, o := sub.Body, newWork(l.store, at, false)
	o.id = sub.ID
	return &handling{
		l: l, sub: sub, at: at, o: o,
		r: &history.Record{
			Consensus: hedera.FromNanos(at), ID: sub.ID, Hash: sub.Hash, Node: sub.Node,
			Memo: body.GetMemo(), MaxFee: hedera.Tinybar(body.GetTransactionFee()),
			ValidDuration: body.GetTransactionValidDuration().GetSeconds(),
			Seed:          l.chain.Seed(),
		},
	}
}

// run dispatches by the kind of transaction. A failing one changes nothing but
// what its handler did on purpose before it settled. One that panics, which is a bug
// here, changes nothing at all and ends as the network ends such: FAIL_INVALID.
func (h *handling) run() {
	h.r.Kind = h.l.kindOf(h.sub.Body)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *facts.Missing[state.FactKey]: // Prepare fetches it
			panic(p)
		case *facts.UpstreamError:
			h.l.cfg.Log.Warn("a transaction was not executed", "transaction", h.sub.ID.String(), "error", p.Error())
			h.reset()
			h.sub.Refusal = hapi.ResponseCodeEnum_BUSY
			h.refuse()
		default:
			h.l.cfg.Log.Error("panic while a transaction was handled",
				"transaction", h.sub.ID.String(), "panic", p, "stack", string(debug.Stack()))
			h.reset()
			h.r.Status = hapi.ResponseCodeEnum_FAIL_INVALID
		}
	}()
	if h.duplicate() {
		h.r.Status = hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
		return
	}
	if status := h.completePayer(); status != hapi.ResponseCodeEnum_SUCCESS {
		h.r.Status = status
		return
	}
	if h.sub.Refusal != 0 {
		h.refuse()
		return
	}
	if status := h.charge(); status != okay {
		h.r.Status = status
		return
	}
	snapshot, before := h.o.Snapshot(), len(h.preceding)
	h.r.Status = h.serve()
	if h.r.Status != hapi.ResponseCodeEnum_SUCCESS && h.r.Result == nil {
		h.o.RevertTo(snapshot)
		h.files, h.following, h.r.Effects = nil, nil, h.failure
		h.preceding = h.preceding[:before]
	}
}

// refuse ends a transaction as one that the network would not handle.
func (h *handling) refuse() {
	h.r.Status = h.sub.Refusal
	tx := h.sub.Ethereum
	if body := h.sub.Body.GetEthereumTransaction(); tx == nil && body != nil {
		tx, _ = h.hydrate(body) // its call data is in a file; without it there is no record of a run
	}
	if tx != nil {
		h.r.EthereumHash = tx.Hash()
		e := &ethereumCall{handling: h, tx: tx}
		e.refuse(h.r.Status)
		h.r.Result.From = h.sub.Payer
	}
}

// reset forgets all that handling has come to.
func (h *handling) reset() {
	h.o = newWork(h.l.store, h.at, false)
	h.o.id = h.sub.ID
	h.preceding, h.following, h.files = nil, nil, nil
	r := h.r
	h.r = &history.Record{
		Consensus: r.Consensus, ID: r.ID, Hash: r.Hash, Node: r.Node, Kind: r.Kind,
		Memo: r.Memo, MaxFee: r.MaxFee, ValidDuration: r.ValidDuration, Seed: r.Seed,
	}
}

// duplicate tells whether a transaction with this id was handled already.
func (h *handling) duplicate() bool { return len(h.l.chain.Named(h.sub.ID)) > 0 }

// completePayer gives a hollow payer the key it signed with.
func (h *handling) completePayer() hedera.Status {
	payer := h.account(h.sub.Payer)
	if payer == nil {
		if h.o.EntityAccount(h.sub.Payer.Num).Deleted() {
			return hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED
		}
		return hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND
	}
	if isHollow(payer) {
		if public, ok := h.sub.Signatures.Completes(payer.Address); ok {
			h.complete(payer, public)
		}
	}
	return hapi.ResponseCodeEnum_SUCCESS
}

// complete sets the key of a hollow account, as a preceding child.
func (h *handling) complete(a *state.Party, public []byte) {
	m := *a.CurrentMeta()
	m.Key = hapikey.Secp256k1(public)
	h.o.PutMeta(a, &m)
	h.preceding = append(h.preceding, &history.Record{
		Kind: history.KindCryptoUpdate, Status: hapi.ResponseCodeEnum_SUCCESS, Entity: hedera.Entity(a.Num),
		Account: hedera.Entity(a.Num), EVMAddress: a.Address.Bytes(),
	})
}

// account returns an existing account or contract, nil when there is none.
func (h *handling) account(id hedera.ID) *state.Party {
	if id.Shard != 0 || id.Realm != 0 || id.Num <= 0 {
		return nil
	}
	if a := h.o.EntityAccount(id.Num); a.Exists {
		return a
	}
	return nil
}

// newNum gives out the next entity number.
func (h *handling) newNum() int64 { return h.o.NewNum() }

// signed tells whether a key agrees to the transaction.
func (h *handling) signed(key *hapi.Key) bool {
	if h.authorizes != nil {
		return h.authorizes(key)
	}
	return h.sub.Signatures.Signed(key)
}

// signedBy tells whether an account's key has signed. The payer's was checked by
// the node.
func (h *handling) signedBy(a *state.Party) bool {
	return a.Num == h.sub.Payer.Num || h.signed(a.Key()) || h.completed(a)
}

// finish commits the overlay, gives the records their places and publishes the
// block when it is complete.
func (l *Ledger) finish(h *handling) *history.Record {
	l.enter(h)
	l.executeReady(h)
	l.entered()
	return h.r
}

// enter is the part of finish that readers must see at once.
func (l *Ledger) enter(h *handling) {
	l.store.Lock()
	defer l.store.Unlock()
	h.settle()
	l.list(h)
}

// settle brings what a transaction did into the world. The caller holds both locks.
func (h *handling) settle() {
	if logs := h.syntheticLogs(); len(logs) > 0 {
		h.did().Logs = logs
	}
	h.commit()
}

// list enters the records of a transaction. The caller holds both locks.
func (l *Ledger) list(h *handling) {
	r := h.r
	records := h.records()
	l.chain.Enter(records, h.sub.Size)
	if tx := h.sub.Ethereum; tx != nil {
		l.order.Add(history.ConsensusEntry{
			Sender: tx.From(), Nonce: tx.Nonce(), Hash: tx.Hash(),
			Node: r.Node, Status: r.Status, Time: r.Consensus,
		})
	}
}

// records puts the transaction and its children in consensus order and fills what
// children share with their parent.
func (h *handling) records() []*history.Record {
	r := h.r
	all := make([]*history.Record, 0, 1+len(h.preceding)+len(h.following))
	all = append(append(append(all, h.preceding...), r), h.following...)
	if len(all) == 1 {
		return all
	}
	at := h.at - int64(len(h.preceding))
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

// did returns the effects of the transaction to add to.
func (h *handling) did() *history.Effects {
	if h.r.Effects == nil {
		h.r.Effects = &history.Effects{}
	}
	return h.r.Effects
}
