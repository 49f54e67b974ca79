package app

import (
	"context"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
	"lockstep/submit"
)

// chain answers the submitter's questions from the mirror node.
type chain struct {
	mirror        *mirror.Client
	bufferPercent int
}

// Account implements submit.Chain.
func (c chain) Account(ctx context.Context, address common.Address) (submit.Account, bool, error) {
	account, err := c.mirror.Account(mirror.ForSend(ctx), address)
	if errors.Is(err, mirror.ErrNotFound) {
		return submit.Account{}, false, nil
	}
	if err != nil {
		return submit.Account{}, false, upstreamError(err)
	}
	found := submit.Account{
		Balance: account.Balance, BalanceUnknown: !account.BalanceKnown, SignatureRequired: account.ReceiverSignature,
	}
	if account.Nonce != nil {
		found.Nonce = *account.Nonce
	}
	return found, true, nil
}

// GasPrice implements submit.Chain.
func (c chain) GasPrice(ctx context.Context) (*big.Int, error) {
	fees, err := c.mirror.Fees(mirror.ForSend(ctx))
	switch {
	case errors.Is(err, mirror.ErrNotFound), err == nil && fees.EthereumTransaction <= 0:
		return nil, eth.ErrNoGasPrice
	case err != nil:
		return nil, upstreamError(err)
	}
	price := fees.EthereumTransaction
	// Whole tinybars, rounded half up.
	price += (price*hedera.Tinybar(c.bufferPercent) + 50) / 100
	return price.Weibar(), nil
}

// Record implements submit.Chain.
func (c chain) Record(ctx context.Context, id hedera.TransactionID) (submit.Record, error) {
	result, err := c.mirror.ContractResultByID(mirror.ForSend(ctx), id)
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return submit.RecordOpen, nil
	case err != nil:
		return submit.RecordOpen, err
	case result.Ran():
		return submit.RecordRan, nil
	case result.Complete():
		return submit.RecordInBlock, nil
	case result.NotRun():
		return submit.RecordRefused, nil
	default:
		return submit.RecordOpen, nil
	}
}

// Changed implements submit.Chain.
func (c chain) Changed(common.Address) { c.mirror.Invalidate() }

// nodes is the consensus client as the submitter wants it.
type nodes struct{ client *consensus.Client }

// Submit implements submit.Nodes.
func (n nodes) Submit(ctx context.Context, s consensus.Submission) (submit.Pending, error) {
	pending, err := n.client.Submit(ctx, s)
	if err != nil {
		return nil, err // a nil *Pending must not become a non-nil interface
	}
	return pending, nil
}

// OfferAgain implements submit.Nodes.
func (n nodes) OfferAgain(ctx context.Context, s consensus.Submission, p submit.Pending) bool {
	pending, ok := p.(*consensus.Pending)
	return ok && n.client.OfferAgain(ctx, s, pending)
}

// Knows implements submit.Nodes.
func (n nodes) Knows(ctx context.Context, id hedera.TransactionID, node hedera.ID) (bool, error) {
	_, err := n.client.ReceiptAt(ctx, id, node)
	switch {
	case err == nil, errors.Is(err, consensus.ErrInProgress):
		return true, nil
	case errors.Is(err, consensus.ErrUnknownID):
		return false, nil
	default:
		return false, err
	}
}

// StoreFile implements submit.Files.
func (n nodes) StoreFile(ctx context.Context, sender common.Address, contents []byte, chunk int) (submit.File, error) {
	file, err := n.client.StoreFile(ctx, sender, contents, chunk)
	if file == nil {
		return nil, err // a nil *File must not become a non-nil interface
	}
	return file, err
}

// Await implements submit.Nodes. That a transaction is past its validity is a
// verdict, too: it cannot be executed any more.
func (n nodes) Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error {
	_, err := n.client.Pending(id, node).Receipt(ctx)
	if errors.Is(err, consensus.ErrReceiptNotFound) || errors.Is(err, consensus.ErrReceiptExpired) {
		return nil
	}
	return err
}

// upstreamError says what a client may know of a failed look-up.
func upstreamError(err error) error {
	var failed *mirror.Error
	if errors.As(err, &failed) {
		return eth.ErrUpstream(failed.Status, failed.Message)
	}
	return err
}
