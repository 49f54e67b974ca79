package ethapi

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
)

// pendingFeed passes accepted transactions to the subscribers, in the order in which they were accepted. It never
// makes the submitting code wait.
type pendingFeed struct {
	hub     *hub
	metrics *subscriptionMetrics
	wake    chan struct{}

	mu    sync.Mutex
	queue [][]byte // raw transactions; guarded by mu
}

// maxPending bounds the transactions on their way to subscribers.
const maxPending = 16384

func newPendingFeed(h *hub, m *subscriptionMetrics) *pendingFeed {
	return &pendingFeed{hub: h, metrics: m, wake: make(chan struct{}, 1)}
}

func (f *pendingFeed) add(raw []byte) {
	if f.hub.pendingStreams.Load() == 0 {
		return
	}
	f.mu.Lock()
	room := len(f.queue) < maxPending
	if room {
		f.queue = append(f.queue, raw)
	}
	f.mu.Unlock()
	if !room {
		f.metrics.dropped.Inc()
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *pendingFeed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		f.mu.Lock()
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, raw := range queue {
			f.hub.pending(raw)
		}
	}
}

// pending tells of one transaction.
func (h *hub) pending(raw []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[interest{event: eventPending}.key()]; s != nil {
		h.publish([]byte(`"`+crypto.Keccak256Hash(raw).Hex()+`"`), s)
	}
	if s := h.streams[interest{event: eventPending, full: true}.key()]; s != nil {
		if whole := pendingJSON(raw); whole != nil {
			h.publish(whole, s)
		}
	}
}

// pendingJSON is the JSON of a raw transaction that is in no block yet.
func pendingJSON(raw []byte) []byte {
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return nil // it would not have been accepted
	}
	text, err := json.Marshal(pendingTransaction(tx.From(), tx.Fields()))
	if err != nil {
		return nil
	}
	return text
}

// pendingTransaction is a transaction that is in no block yet.
func pendingTransaction(from common.Address, tx *types.Transaction) *eth.Transaction {
	v, r, s := tx.RawSignatureValues()
	t := &eth.Transaction{
		Hash: tx.Hash(), Type: hexutil.Uint64(tx.Type()), From: from, To: tx.To(), Nonce: hexutil.Uint64(tx.Nonce()), Value: eth.Number(tx.Value()),
		Input: tx.Data(), Gas: hexutil.Uint64(tx.Gas()), GasPrice: eth.Number(tx.GasFeeCap()), V: eth.Number(v), R: eth.Number(r), S: eth.Number(s),
	}
	if tx.Type() != types.LegacyTxType || tx.Protected() {
		t.ChainID = eth.Number(tx.ChainId())
	}
	if tx.Type() != types.LegacyTxType {
		t.AccessList, t.YParity = eth.Accesses(tx.AccessList()), t.V
	}
	if tx.Type() == types.SetCodeTxType {
		t.Authorizations = append([]types.SetCodeAuthorization{}, tx.SetCodeAuthorizations()...)
	}
	if tx.Type() == types.DynamicFeeTxType || tx.Type() == types.SetCodeTxType {
		t.MaxFee, t.MaxTip = eth.Number(tx.GasFeeCap()), eth.Number(tx.GasTipCap())
	}
	return t
}
