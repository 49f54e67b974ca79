package app

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/ethapi"
	"lockstep/internal/eth"
	"lockstep/submit"
)

// sender takes raw transactions: the submitter, or what stands before it where a
// transaction manager sends from accounts of its own.
func (a *App) sender() ethapi.Sender {
	if len(a.cfg.Server.ManagedSigners) == 0 {
		return a.submitter
	}
	m := managed{Sender: a.submitter, accounts: map[common.Address]bool{}}
	for _, text := range a.cfg.Server.ManagedSigners {
		m.accounts[common.HexToAddress(text)] = true
	}
	return m
}

// managed refuses transactions of accounts whose nonces somebody else gives out. It costs
// every transaction a recovery of its sender, so it stands there only when it is needed.
type managed struct {
	ethapi.Sender
	accounts map[common.Address]bool
}

// Enter implements ethapi.Sender.
func (m managed) Enter(raw []byte) (*submit.Entry, error) {
	if tx, err := eth.DecodeTx(raw); err == nil && m.accounts[tx.From()] {
		return nil, eth.ErrManaged(tx.From())
	}
	return m.Sender.Enter(raw)
}
