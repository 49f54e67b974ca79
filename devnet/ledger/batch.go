package ledger

import (
	"crypto/sha512"
	"encoding/binary"
	"maps"
	"time"

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
