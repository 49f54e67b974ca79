package naive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

const (
	maxBody     = 1 << 20
	maxGasLimit = 15_000_000 // what the operator is ready to pay for
)

// Relay answers eth_sendRawTransaction. It is an http.Handler.
type Relay struct {
	Lock   Lock
	Nodes  *consensus.Client
	Mirror *mirror.Client
}

// call is a JSON-RPC request.
type call struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []hexutil.Bytes `json:"params"`
}

// answer is a JSON-RPC response.
type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  *common.Hash    `json:"result,omitempty"`
	Error   *failed         `json:"error,omitempty"`
}

type failed struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// ServeHTTP implements http.Handler.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var c call
	err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody)).Decode(&c)
	if err != nil || c.Method != "eth_sendRawTransaction" || len(c.Params) != 1 {
		http.Error(w, "only eth_sendRawTransaction is served here", http.StatusBadRequest)
		return
	}
	a := answer{Version: "2.0", ID: c.ID}
	// As in the design, a client that goes away changes nothing.
	if hash, err := r.Send(context.WithoutCancel(req.Context()), c.Params[0]); err != nil {
		a.Error = &failed{Code: -32000, Message: err.Error()}
	} else {
		a.Result = &hash
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // a client that went away needs no answer
}

// Send takes one raw transaction through the lock and to its receipt.
func (r *Relay) Send(ctx context.Context, raw []byte) (common.Hash, error) {
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return common.Hash{}, err
	}
	release, err := r.Lock.Acquire(ctx, tx.From())
	if err != nil {
		return common.Hash{}, err
	}
	defer release()
	price, err := r.check(ctx, tx)
	if err != nil {
		return common.Hash{}, err
	}
	pending, err := r.Nodes.Submit(ctx, consensus.Submission{
		Ethereum: raw, Sender: tx.From(), MaxFee: max(price, 1) * maxGasLimit,
	})
	if err != nil {
		return common.Hash{}, err
	}
	receipt, err := pending.Receipt(ctx)
	if err != nil {
		return common.Hash{}, err
	}
	if !hedera.Succeeded(receipt.Status) {
		return common.Hash{}, fmt.Errorf("transaction rejected: %s", receipt.Status)
	}
	return tx.Hash(), nil
}

// check makes the look-ups of a submission, one after the other, and returns the price
// of gas.
func (r *Relay) check(ctx context.Context, tx *eth.Tx) (hedera.Tinybar, error) {
	fees, err := r.Mirror.Fees(ctx)
	if err != nil {
		return 0, err
	}
	sender, err := r.Mirror.Account(ctx, tx.From())
	if err != nil {
		return 0, err
	}
	if sender.Nonce != nil && tx.Nonce() < *sender.Nonce {
		return 0, fmt.Errorf("nonce too low: have %d, want %d", tx.Nonce(), *sender.Nonce)
	}
	if to := tx.To(); to != nil {
		if _, err := r.Mirror.Account(ctx, *to); err != nil && !errors.Is(err, mirror.ErrNotFound) {
			return 0, err
		}
	}
	return fees.EthereumTransaction, nil
}
