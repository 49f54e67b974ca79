package core

import (
	"log/slog"
	"sync/atomic"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// Network is what handlers of transactions find around them.
type Network struct {
	Store    *state.Store
	Chain    *history.Chain
	Nodes    []hedera.ID
	Fees     bool // what transactions cost is charged
	Rate     ExchangeRate
	Price    atomic.Int64 // of a unit of gas, tinybars
	Services Services
	Wake     func() // something has a time now
	Log      *slog.Logger
}

// ExchangeRate is the price of hbar: Hbar ℏ cost Cents US cents, until Expires.
type ExchangeRate struct {
	Hbar, Cents int32
	Expires     int64 // seconds since the Unix epoch
}

// GasPrice is the price of a unit of gas.
func (n *Network) GasPrice() hedera.Tinybar { return hedera.Tinybar(n.Price.Load()) }
