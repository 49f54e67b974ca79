package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

// The maximum that the operator pays for one transaction about a file: what the network's
// official clients offer.
const (
	maxFileFee   = 5 * hedera.Hbar
	maxDeleteFee = 2 * hedera.Hbar
)

// throttledTries is how often a transaction about a file is made when consensus keeps
// answering that there are too many. Each time it was certainly not executed.
const throttledTries = 6

// File is a file on the network that this client made.
type File struct {
	client *Client
	owner  *Operator
	sender common.Address
	id     hedera.ID
	paid   []hedera.TransactionID
}

// ID returns the id of the file.
func (f *File) ID() hedera.ID { return f.id }

// Transactions returns what was submitted about the file so far and may have cost its
// owner something.
func (f *File) Transactions() []hedera.TransactionID { return f.paid }

// ReceiptError is a receipt that says that a transaction about a file failed.
type ReceiptError struct {
	Status        hedera.Status
	TransactionID hedera.TransactionID
}

// Error implements error.
func (e *ReceiptError) Error() string {
	return fmt.Sprintf("transaction %s failed: %s", e.TransactionID, e.Status)
}

// StoreFile writes contents to a new file that belongs to an operator: the first piece
// when it is created and the others, of up to chunk bytes each, appended one after the
// other. The receipt of each is awaited before the next is sent, so that success means that the
// file is whole. The end of ctx stops it between two pieces. sender decides the node.
//
// A file that comes back is the caller's to Remove, also when it comes with an error: it is
// incomplete then. No file means that there is none, or, if nodes gave no answer until
// a receipt could not be had any more, that nobody can say.
func (c *Client) StoreFile(ctx context.Context, sender common.Address, contents []byte, chunk int) (*File, error) {
	owner := c.operators.pick(sender)
	if owner == nil {
		return nil, ErrNoOperator
	}
	pieces := split(contents, chunk)
	receipt, err := c.perform(ctx, sender, owner, fileCreation(owner.Key, pieces[0]), maxFileFee)
	if err != nil {
		return nil, fmt.Errorf("create a file: %w", err)
	}
	if receipt.File == (hedera.ID{}) {
		return nil, fmt.Errorf("create a file: the receipt of %s names none", receipt.TransactionID)
	}
	f := &File{client: c, owner: owner, sender: sender, id: receipt.File, paid: []hedera.TransactionID{receipt.TransactionID}}
	for i, piece := range pieces[1:] {
		if err := ctx.Err(); err != nil {
			return f, fmt.Errorf("append to file %s: %w", f.id, ended(ctx))
		}
		receipt, err := c.perform(ctx, sender, owner, fileAppend(f.id, piece), maxFileFee)
		f.pay(receipt)
		if err != nil {
			return f, fmt.Errorf("append piece %d to file %s: %w", i+1, f.id, err)
		}
	}
	return f, nil
}

// Remove deletes the file. A file that is gone already is no error.
func (f *File) Remove(ctx context.Context) error {
	receipt, err := f.client.perform(ctx, f.sender, f.owner, fileDeletion(f.id), maxDeleteFee)
	f.pay(receipt)
	if failed, ok := errors.AsType[*ReceiptError](err); ok && failed.Status == hapi.ResponseCodeEnum_FILE_DELETED {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete file %s: %w", f.id, err)
	}
	return nil
}

func (f *File) pay(r Receipt) {
	if !r.TransactionID.IsZero() {
		f.paid = append(f.paid, r.TransactionID)
	}
}

// split cuts contents into pieces of up to size bytes. The first is there even if it is
// empty.
func split(contents []byte, size int) [][]byte {
	var pieces [][]byte
	for len(contents) > size {
		pieces = append(pieces, contents[:size])
		contents = contents[size:]
	}
	return append(pieces, contents)
}

// perform takes a transaction about a file to its receipt. An error comes with the
// transaction's id if a node may have had it. One whose submission was
// unclear is not made again: its verdict is awaited, by its id, until it cannot be
// executed any more.
func (c *Client) perform(ctx context.Context, sender common.Address, payer *Operator, op operation, maxFee hedera.Tinybar) (Receipt, error) {
	for try := 1; ; try++ {
		pending, err := c.transact(ctx, &delivery{op: op, Submission: Submission{MaxFee: maxFee, Payer: payer, Sender: sender}})
		if sent, ok := errors.AsType[*SentError](err); ok {
			pending, err = sent.Pending, nil
		}
		if err != nil {
			return Receipt{}, err
		}
		id := pending.ID()
		// Whoever gives up here would leave a file behind that nobody knows of.
		receipt, err := pending.Receipt(context.WithoutCancel(ctx))
		switch {
		case err != nil:
			return Receipt{TransactionID: id}, err
		case hedera.Succeeded(receipt.Status):
			return receipt, nil
		case !throttled(receipt.Status) || try == throttledTries:
			return receipt, &ReceiptError{Status: receipt.Status, TransactionID: receipt.TransactionID}
		}
		if !sleep.For(ctx, c.pace.retryMin<<min(try-1, 3)) {
			return Receipt{}, ended(ctx)
		}
	}
}

// throttled tells whether consensus refused a transaction for the moment only.
func throttled(status hedera.Status) bool {
	return status == hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS || status == hapi.ResponseCodeEnum_BUSY
}

// fileLifetime is when a file expires that was, against all efforts, not deleted.
const fileLifetime = 90 * 24 * time.Hour

// fileCreation makes a file that only the holder of a key can change and delete.
func fileCreation(key *hedera.PrivateKey, contents []byte) operation {
	owner := &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: key.Public()}}
	if key.Kind() == hedera.Ed25519 {
		owner.Key = &hapi.Key_Ed25519{Ed25519: key.Public()}
	}
	return operation{hapi.MethodCreateFile, &hapi.TransactionBody{Data: &hapi.TransactionBody_FileCreate{FileCreate: &hapi.FileCreateTransactionBody{
		ExpirationTime: &hapi.Timestamp{Seconds: time.Now().Add(fileLifetime).Unix()}, Keys: &hapi.KeyList{Keys: []*hapi.Key{owner}}, Contents: contents,
	}}}}
}

func fileAppend(id hedera.ID, contents []byte) operation {
	return operation{hapi.MethodAppendContent, &hapi.TransactionBody{Data: &hapi.TransactionBody_FileAppend{
		FileAppend: &hapi.FileAppendTransactionBody{FileID: id.FileID(), Contents: contents},
	}}}
}

func fileDeletion(id hedera.ID) operation {
	return operation{hapi.MethodDeleteFile, &hapi.TransactionBody{Data: &hapi.TransactionBody_FileDelete{
		FileDelete: &hapi.FileDeleteTransactionBody{FileID: id.FileID()},
	}}}
}
