package app

import (
	"context"
	"errors"

	"lockstep/consensus"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// mirrorReceipts tells from the mirror node what became of a transaction.
func mirrorReceipts(m *mirror.Client) consensus.ReceiptSource {
	return func(ctx context.Context, id hedera.TransactionID) (*consensus.Receipt, error) {
		found, err := m.Transactions(mirror.ForSend(ctx), id)
		if errors.Is(err, mirror.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			status, known := hedera.ParseStatus(t.Result)
			// What came second under the id says nothing about the first.
			if !known || t.Nonce != 0 || t.Scheduled || status == hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
				continue
			}
			receipt := &consensus.Receipt{TransactionID: id, Status: status}
			if t.Name == "FILECREATE" {
				receipt.File = t.Entity
			}
			return receipt, nil
		}
		return nil, nil
	}
}
