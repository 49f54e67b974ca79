package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/accounts"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/devnet/ledger/topics"
	"lockstep/devnet/ledger/transfers"
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

const okay = hapi.ResponseCodeEnum_SUCCESS

const maxBatch = 50 // inner transactions

// innerOf opens an inner transaction of a batch.
func innerOf(signedBytes []byte) (*core.Submission, hedera.Status) {
	signed, body := new(hapi.SignedTransaction), new(hapi.TransactionBody)
	if proto.Unmarshal(signedBytes, signed) != nil || proto.Unmarshal(signed.GetBodyBytes(), body) != nil || body.GetData() == nil ||
		len(signed.GetSigMap().GetSigPair()) > hapikey.Max {
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	id, start := body.GetTransactionID(), body.GetTransactionID().GetTransactionValidStart()
	if start == nil || start.GetNanos() < 0 || start.GetNanos() >= int32(time.Second) || start.GetSeconds() < 0 || id.GetAccountID().GetAccountNum() <= 0 {
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID
	}
	payer := hedera.ID{Shard: id.GetAccountID().GetShardNum(), Realm: id.GetAccountID().GetRealmNum(), Num: id.GetAccountID().GetAccountNum()}
	return &core.Submission{
		Body: body, Payer: payer, Hash: sha512.Sum384(signedBytes), Size: len(signedBytes),
		ID:         hedera.TransactionID{Payer: payer, ValidStart: hedera.Timestamp{Seconds: start.GetSeconds(), Nanos: start.GetNanos()}},
		Signatures: hapikey.NewSignatures(signed.GetBodyBytes(), signed.GetSigMap().GetSigPair()),
	}, okay
}

// unbatched tells whether a body is of a kind that no batch takes.
func unbatched(body *hapi.TransactionBody) bool { return body.GetAtomicBatch() != nil }

// pureBatch checks every inner transaction as a node checks one that is sent by itself.
func pureBatch(n *core.Network, body *hapi.AtomicBatchTransactionBody) hedera.Status {
	list := body.GetTransactions()
	if len(list) == 0 {
		return hapi.ResponseCodeEnum_BATCH_LIST_EMPTY
	}
	seen := map[hedera.TransactionID]bool{}
	for _, inner := range list {
		sub, status := innerOf(inner)
		if status != okay {
			return status
		}
		node := sub.Body.GetNodeAccountID()
		switch {
		case seen[sub.ID]:
			return hapi.ResponseCodeEnum_BATCH_LIST_CONTAINS_DUPLICATES
		case sub.Body.GetBatchKey() == nil:
			return hapi.ResponseCodeEnum_MISSING_BATCH_KEY
		case node == nil || node.GetShardNum() != 0 || node.GetRealmNum() != 0 || node.GetAccountNum() != 0:
			return hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT_ID
		case unbatched(sub.Body): // consensus says so
		default:
			if status := n.PureCheck(sub.Body); status != okay {
				return status
			}
		}
		seen[sub.ID] = true
	}
	return okay
}

// atomicBatch sees that the inner transactions may be handled together: those whose keys
// they name agree to the batch.
func atomicBatch(h *core.Handling, body *hapi.AtomicBatchTransactionBody) hedera.Status {
	if len(body.GetTransactions()) > maxBatch {
		return hapi.ResponseCodeEnum_BATCH_SIZE_LIMIT_EXCEEDED
	}
	for _, inner := range body.GetTransactions() {
		sub, status := innerOf(inner)
		switch {
		case status != okay:
			return status
		case sub.ID == h.Sub.ID:
			return hapi.ResponseCodeEnum_BATCH_LIST_CONTAINS_DUPLICATES
		case unbatched(sub.Body):
			return hapi.ResponseCodeEnum_BATCH_TRANSACTION_IN_BLACKLIST
		case !hapikey.Valid(sub.Body.GetBatchKey()):
			return hapi.ResponseCodeEnum_INVALID_BATCH_KEY
		case !h.Signed(sub.Body.GetBatchKey()):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		}
		sub.Node = h.Sub.Node
		if e := sub.Body.GetEthereumTransaction(); e != nil && e.GetCallData() == nil {
			if tx, err := eth.DecodeTx(e.GetEthereumData()); err == nil {
				sub.Ethereum = tx
			}
		}
		h.Batch = append(h.Batch, sub)
	}
	return okay
}

// finishBatch handles the inner transactions of a batch one after another, each on what the
// one before it left. Where one fails, all that the others did is taken back. The records of
// all of them are entered at once: readers see the batch whole or not at all, since what is
// not entered yet lies after the time of every view.
func (l *Ledger) finishBatch(batch *core.Handling) *history.Record {
	l.store.Lock()
	settle(batch)
	l.store.Unlock()
	before, all := l.moment(), []*core.Handling{batch}
	for _, sub := range batch.Batch {
		inner := l.beginInner(batch, sub)
		all = append(all, inner)
		if inner.Record.Status != okay {
			batch.Record.Status = hapi.ResponseCodeEnum_INNER_TRANSACTION_FAILED
			l.takeBack(before, all[1:])
			break
		}
		l.store.Lock()
		settle(inner)
		l.store.Unlock()
	}
	l.store.Lock()
	for _, h := range all {
		l.list(h)
	}
	l.store.Unlock()
	for _, h := range all {
		if batch.Record.Status == okay {
			l.executeReady(h)
		}
	}
	l.entered()
	return batch.Record
}

// beginInner handles an inner transaction as far as its own overlay goes.
func (l *Ledger) beginInner(batch *core.Handling, sub *core.Submission) *core.Handling {
	l.lastTime += spacing
	h := l.net.Handle(sub, l.lastTime)
	h.Record.Batch, h.Record.BatchKey = batch.Record.Consensus, sub.Body.GetBatchKey()
	if status := acceptable(h, l.byMachine(h.At)); status != okay {
		h.Record.Kind, h.Record.Status = l.net.KindOf(sub.Body), status
		return h
	}
	h.Run()
	return h
}

// acceptable is what a node would have looked at now, had the transaction been sent by itself.
func acceptable(h *core.Handling, now int64) hedera.Status {
	start := h.Sub.ID.ValidStart.UnixNano()
	payer := h.Account(h.Sub.Payer)
	switch {
	case start > now:
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_START
	case start+h.Sub.Body.GetTransactionValidDuration().GetSeconds()*int64(time.Second) < now:
		return hapi.ResponseCodeEnum_TRANSACTION_EXPIRED
	case payer == nil || payer.Contract:
		return hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND
	case core.IsHollow(payer):
		if _, ok := h.Sub.Signatures.Completes(payer.Address); !ok {
			return hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE
		}
	case !h.Signed(payer.Key()):
		return hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE
	}
	return okay
}

// moment is what takeBack needs to go back within the open block.
type moment struct {
	at      int64
	touched int // in the open block
	nextNum int64
	files   map[int64]*state.File
}

func (l *Ledger) moment() moment {
	return moment{at: l.lastTime, touched: l.chain.TouchedSoFar(), nextNum: l.store.NextNum, files: maps.Clone(l.store.World.Files)}
}

// takeBack undoes what was settled since a moment. The last of the inner transactions is the one
// that failed; the records of the others say that they were reverted.
func (l *Ledger) takeBack(to moment, inner []*core.Handling) {
	l.store.Lock()
	defer l.store.Unlock()
	l.chain.TakeBack(to.touched, to.at)
	l.store.NextNum, l.store.World.Files = to.nextNum, to.files
	for i, h := range inner {
		r := h.Record
		h.Reset()
		h.Record.Batch, h.Record.BatchKey, h.Record.Status = r.Batch, r.BatchKey, r.Status
		if i < len(inner)-1 {
			h.Record.Status = hapi.ResponseCodeEnum_REVERTED_SUCCESS
		}
	}
}

// newServices lists the kinds of transactions that this network handles.
func newServices(net *core.Network, e *evm.Engine) core.Services {
	all := core.Services{
		"atomic_batch": core.ServiceOf(atomicBatch, func(body *hapi.AtomicBatchTransactionBody) hedera.Status { return pureBatch(net, body) }),
		"util_prng":    core.ServiceOf(utilPrng, nil),
	}
	for _, some := range []core.Services{
		accounts.Services(), tokens.Services(), transfers.Services(), topics.Services(), files.Services(), schedules.Services(net), e.Services(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// utilPrng draws a number, or 48 bytes where there is no range for it.
func utilPrng(h *core.Handling, body *hapi.UtilPrngTransactionBody) hedera.Status {
	if body.GetRange() < 0 {
		return hapi.ResponseCodeEnum_INVALID_PRNG_RANGE
	}
	seed := h.Record.Seed
	if body.GetRange() == 0 {
		h.Record.PRNG = seed[:]
		return okay
	}
	n := int32(uint64(binary.BigEndian.Uint32(seed[:4])) * uint64(body.GetRange()) >> 32)
	h.Did().Number = &n
	return okay
}
