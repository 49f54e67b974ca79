package devnet

import (
	"context"
	"errors"
	"fmt"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/upstream"
)

// openFork finds what a fork begins with; nil where the network is none.
func openFork(ctx context.Context, cfg *Config, accounts []devaccounts.Account) (*upstream.Mirror, *ledger.ForkPoint, error) {
	switch {
	case cfg.Fork.URL == "" && cfg.Fork.Block != nil:
		return nil, nil, errors.New("--fork-block needs --fork-url")
	case cfg.Fork.URL == "":
		return nil, nil, nil
	case cfg.State != "":
		return nil, nil, errors.New("--fork-url and --state: a fork is not saved")
	}
	// Requests go on while a network that ends answers those that it has.
	origin, err := upstream.Open(context.WithoutCancel(ctx), cfg.Fork)
	if err != nil {
		return nil, nil, fmt.Errorf("--fork-url: %w", err)
	}
	point, err := origin.Fork(accounts)
	if err != nil {
		origin.Close()
		return nil, nil, fmt.Errorf("--fork-url: %w", err)
	}
	return origin, point, nil
}

// Origin names the network that this one is a fork of and the newest block that it has of it. ok is false for no fork.
func (n *Network) Origin() (name string, block int64, ok bool) {
	if n.origin == nil {
		return "", 0, false
	}
	block, _ = n.origin.Point()
	return n.origin.Name(), block, true
}
