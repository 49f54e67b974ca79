package ethapi

import (
	"context"
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/sleep"
	"lockstep/rpc"
	"lockstep/submit"
)

// Sender takes raw transactions: package submit's Submitter.
type Sender interface {
	// Enter takes a transaction's place in line. It never blocks.
	Enter(raw []byte) (*submit.Entry, error)
}

// SendRawTransaction is the method eth_sendRawTransaction. The transaction takes its place in the sender's line
// while the request is read, so that transactions are submitted in the order of a batch, or of a connection.
func SendRawTransaction(sender Sender) rpc.Method {
	return rpc.Method{
		Name:   "eth_sendRawTransaction",
		Params: []rpc.Param{rpc.Required(rawTransactionRule())},
		Enter: func(ctx context.Context, p *rpc.Params) (rpc.Finish, error) {
			entry, err := enter(ctx, sender, p)
			if err != nil {
				return nil, err
			}
			return sending{entry}, nil
		},
	}
}

// sending makes an entry an rpc.Patient.
type sending struct{ *submit.Entry }

var _ rpc.Patient = sending{} // thousands may wait, each without a goroutine

// Run implements rpc.Finish.
func (s sending) Run(ctx context.Context) (any, error) {
	hash, err := hashOrError(s.Finish(ctx))
	if err != nil {
		return nil, err
	}
	return hash, nil
}

// hashOrError is the client's answer for a result: the hash or an error.
func hashOrError(r submit.Result) (common.Hash, error) {
	if r.Err != nil {
		return common.Hash{}, r.Err
	}
	return r.Hash, nil
}

// enter takes the place in line and starts what need not wait for the turn.
func enter(ctx context.Context, sender Sender, p *rpc.Params) (*submit.Entry, error) {
	raw, err := rawTransaction(p)
	if err != nil {
		return nil, err
	}
	entry, err := sender.Enter(raw)
	if err != nil {
		return nil, err
	}
	return entry, entry.Begin(ctx)
}

func rawTransaction(p *rpc.Params) ([]byte, error) {
	raw := p.Bytes(0)
	if raw == nil {
		return nil, eth.ErrInvalidArguments("odd number of hexadecimal digits")
	}
	return raw, nil
}

// SyncConfig holds the settings of eth_sendRawTransactionSync.
type SyncConfig struct {
	// How long eth_sendRawTransactionSync waits for the receipt when the client does not say. Milliseconds.
	Default envx.Millis `env:"SEND_RAW_TRANSACTION_SYNC_TIMEOUT" envDefault:"20000" min:"1ms"`
	// The longest wait that a client may ask for. Milliseconds.
	Max envx.Millis `env:"SEND_RAW_TRANSACTION_SYNC_MAX_TIMEOUT" envDefault:"60000"`
}

// wait is how long to wait for a client that asks for that many milliseconds.
func (c SyncConfig) wait(asked uint64) time.Duration {
	if asked == 0 {
		return c.Default.Duration()
	}
	return min(time.Duration(min(asked, uint64(c.Max.Duration()/time.Millisecond)))*time.Millisecond, c.Max.Duration())
}

// SendRawTransactionSync is the method eth_sendRawTransactionSync of EIP-7966: like eth_sendRawTransaction, but
// it answers with the receipt. The wait begins when the transaction is submitted; at its end, the error has the
// hash.
func SendRawTransactionSync(a *API, sender Sender) rpc.Method {
	return rpc.Method{
		Name:   "eth_sendRawTransactionSync",
		Params: []rpc.Param{rpc.Required(rawTransactionRule()), rpc.Nullable(millisecondsRule())},
		Enter: func(ctx context.Context, p *rpc.Params) (rpc.Finish, error) {
			entry, err := enter(ctx, sender, p)
			if err != nil {
				return nil, err
			}
			asked, _ := p.At(1).Uint64()
			return rpc.FinishFunc(func(ctx context.Context) (any, error) {
				hash, err := hashOrError(entry.Finish(ctx))
				if err != nil {
					return nil, err
				}
				receipt, err := a.awaitReceipt(ctx, hash, a.cfg.Sync.wait(asked))
				return receipt, clientError(err)
			}), nil
		},
	}
}

// awaitReceipt looks for a receipt until there is one or the time is up. The first looks are close together,
// since most transactions are found soon.
func (a *API) awaitReceipt(ctx context.Context, hash common.Hash, limit time.Duration) (any, error) {
	const first, last = 100 * time.Millisecond, time.Second
	begun := time.Now()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := first; ; pause = min(pause*3/2, last) {
		receipt, err := a.receiptOf(waiting, hash)
		switch {
		case receipt != nil:
			return receipt, nil
		case waiting.Err() != nil: // also at the request's own time-out: the transaction is submitted
			return nil, eth.ErrSyncTimeout(hash, time.Since(begun).Round(time.Millisecond))
		case err != nil && final(err):
			return nil, err
		}
		sleep.For(waiting, pause)
	}
}

// final tells whether an error is a verdict on the transaction. After an error of reading the transaction may
// still be found.
func final(err error) bool {
	var client *eth.Error
	return errors.As(err, &client) && client.Code == eth.CodeRejected
}
