package ethapi

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
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
