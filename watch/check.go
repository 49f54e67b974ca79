package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/watch/source"
)

// Check returns what a plan would hand on of one block, without a database: the children of factories are looked for from the first
// block on. Messages have no place in their contract's order.
func Check(ctx context.Context, plan *Plan, block uint64, log *slog.Logger) ([]Event, error) {
	var list []Event
	for _, chain := range plan.Chains {
		pool, err := chain.Source(source.Deps{Log: log})
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		c := checker{worker{chain: chain, source: pool, log: log, metrics: newMetrics(), rules: map[*Watch]*rules{}, units: map[string]*unit{}, contracts: map[contractKey]*contract{}}}
		for i := range plan.Watches {
			w := &plan.Watches[i]
			c.rules[w] = w.rules()
			if w.Chain == chain.ID && w.Since != "" {
				head, err := pool.Head(ctx)
				if err != nil {
					return nil, fmt.Errorf("chain %d: %w", chain.ID, err)
				}
				w.Start = w.settle(head.Number)
			}
			if w.Chain == chain.ID && block >= w.Start && !w.over(block) {
				if err := c.gather(ctx, w, block); err != nil {
					return nil, err
				}
			}
		}
		events, err := c.block(ctx, block)
		if err != nil {
			return nil, fmt.Errorf("block %d of chain %d: %w", block, chain.ID, err)
		}
		list = append(list, events...)
	}
	return list, nil
}

// checker is a worker without a ledger.
type checker struct{ worker }

func (c *checker) follow(w *Watch, address common.Address, factory bool) {
	found := &contract{watch: w, address: address, text: addressText(address), factory: factory}
	if _, known := c.contracts[found.key()]; !known {
		c.contracts[found.key()] = found
	}
}

// gather finds the contracts that a watch follows in a block.
func (c *checker) gather(ctx context.Context, w *Watch, block uint64) error {
	for _, a := range w.Addresses {
		c.follow(w, a, false)
	}
	for _, a := range w.accounts() {
		c.follow(w, a, false)
		c.contracts[contractKey{w.Name, a}].account = true
	}
	if w.Factory == nil {
		return nil
	}
	c.follow(w, w.Factory.Address, true)
	factory := c.contracts[contractKey{w.Name, w.Factory.Address}]
	for from := w.Start; from <= block; {
		q := source.Query{Addresses: map[common.Address]struct{}{w.Factory.Address: {}}, Events: []common.Hash{w.Factory.Event.Selector}}
		logs, last, err := c.source.LogsOfRange(ctx, from, block, q)
		if err != nil {
			return fmt.Errorf("events of the factory: %w", err)
		}
		for _, child := range children(c.match(ctx, []*contract{factory}, logs)) {
			c.follow(w, child.address, false)
		}
		from = last.Number + 1
	}
	return nil
}

// block returns the events of all followed contracts in a block.
func (c *checker) block(ctx context.Context, number uint64) ([]Event, error) {
	b, err := c.source.Block(ctx, number)
	if err != nil {
		return nil, err
	}
	s := span{from: number, to: number, blocks: []source.Block{b}}
	for _, found := range c.contracts {
		s.contracts = append(s.contracts, found)
	}
	found, _, err := c.fetch(ctx, s)
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, o := range found {
		o.incarnation = 1
		var e Event
		if err := json.Unmarshal([]byte(o.message(c.chain.ID, 0, false, 0).Body), &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
