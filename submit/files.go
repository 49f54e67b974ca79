package submit

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// Call data that is too long for a transaction travels in a file of the network: as
// hexadecimal text without 0x, written in pieces before the sender's turn comes, since
// every piece waits for consensus. The transaction then goes out with its data field
// empty and the id of the file. However it ends, the file is deleted afterwards.

// Files stores call data on the network. A thin wrapper of *consensus.Client implements it.
type Files interface {
	// StoreFile writes contents in pieces of up to chunk bytes. The caller must remove the File that it gets,
	// also when it comes with an error.
	StoreFile(ctx context.Context, sender common.Address, contents []byte, chunk int) (File, error)
}

// File is a file on the network.
type File interface {
	ID() hedera.ID
	// Transactions are what was submitted about the file so far and may have cost something.
	Transactions() []hedera.TransactionID
	Remove(ctx context.Context) error
}

// upload is call data on its way into a file.
type upload struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when file and err are final
	file   File          // nil: there is none
	err    error         // why the transaction cannot go out
	cost   cost          // of the file
}

// needsFile tells whether the transaction's call data travels in a file.
func (e *Entry) needsFile() bool { return e.s.rules.InFile(e.tx) }

// store begins to put the call data into a file, if it needs one, as soon as the look-ups show that the
// transaction has a chance. The facts are checked again in the turn.
func (e *Entry) store(ctx context.Context) {
	if !e.needsFile() {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	u := &upload{cancel: cancel, done: make(chan struct{})}
	e.upload = u
	go func() {
		defer e.s.gates.ready(e)
		defer close(u.done)
		u.err = safely(func() error {
			known, err := e.facts.get(ctx)
			if err == nil {
				err = e.s.check(e, known, known.nonce, false)
			}
			if err != nil {
				return err
			}
			text := hex.AppendEncode(nil, e.tx.Data())
			if u.cost, err = e.s.reserveFile(ctx, e, len(text)); err != nil {
				return err
			}
			file, err := e.s.files.StoreFile(ctx, e.tx.From(), text, e.s.rules.FileChunkSize)
			u.file = file
			u.cost.stored(file, err)
			return fileError(err)
		})()
	}()
}

// body is the transaction in the form in which it goes out: whole, or without its data
// and with the file that has it.
func (e *Entry) body(ctx context.Context) (raw []byte, callData *hedera.ID, err error) {
	if e.upload == nil {
		return e.tx.Raw(), nil, nil
	}
	select {
	case <-e.upload.done: // the gate opened after it
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	if e.upload.err != nil {
		return nil, nil, e.upload.err
	}
	if raw, err = e.tx.WithoutData(); err != nil {
		return nil, nil, err
	}
	id := e.upload.file.ID()
	return raw, &id, nil
}

// discard deletes the file of a transaction that has its verdict, and then counts the
// transaction as done.
func (e *Entry) discard() {
	u := e.upload
	if u == nil {
		e.s.tasks.end(len(e.tx.Raw()))
		return
	}
	u.cancel()
	go func() {
		defer e.s.tasks.end(len(e.tx.Raw()))
		<-u.done // cancel ends it between two pieces; the receipt of a piece has a time limit
		if u.file == nil {
			u.cost.reservation.Settle() // unless it has ended
			return
		}
		defer func() {
			u.cost.reservation.Settle(u.file.Transactions()...)
			e.s.charged(e.tx.Hash(), u.file.Transactions()...)
		}()
		err := safely(func() error { return u.file.Remove(context.Background()) })() //nolint:forbidigo // the request may be long over
		if err != nil {
			e.s.metrics.filesLeft.Inc()
			e.s.log.Warn("a file with call data was left on the network", "file", u.file.ID().String(), "hash", e.tx.Hash(), "error", err)
		}
	}()
}

// fileError is the client's error for call data that could not be stored. Nothing of
// the transaction itself was submitted.
func fileError(err error) error {
	const detail = "its call data could not be put into a file; the transaction was not submitted"
	var refused *consensus.StatusError
	var failed *consensus.ReceiptError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return eth.ErrConsensusNode(refused.Status.String(), int(refused.Status), detail)
	case errors.As(err, &failed):
		return eth.ErrConsensusNode(failed.Status.String(), int(failed.Status), detail)
	case errors.Is(err, consensus.ErrNoOperator):
		return eth.ErrReadOnly()
	case errors.Is(err, consensus.ErrClosed):
		return eth.ErrShuttingDown()
	default:
		return eth.ErrNoNode()
	}
}
