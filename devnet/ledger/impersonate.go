package ledger

import (
	"crypto/sha512"
	"encoding/binary"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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
