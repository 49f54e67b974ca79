package bench

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"
)

const (
	// partialBudget bounds what a stopped run may still ask the chain.
	partialBudget = 10 * time.Second
	partialQuiet  = 2 * time.Second
)

// Run measures the target.
//
// The end of ctx is not an error: what was measured until then is reported, marked
// partial, within seconds. An error means that the configuration is wrong, or that the target
// could not be used at all.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	r, err := open(ctx, cfg.withDefaults())
	if err == nil {
		defer r.state.close()
		err = r.measure(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	r.report.Partial = r.report.Partial || ctx.Err() != nil
	return r.report, nil
}

// run is one measurement.
type run struct {
	Config
	state  *client
	log    *consensusLog // nil without one
	fees   fees
	report Report

	senders  []*sender
	txs      []transfer
	block    uint64     // the latest one before the load
	nonces   []uint64   // the latest seen of each sender
	receipts []*receipt // by transaction
}

// open reads what a run is made of.
func open(ctx context.Context, cfg Config) (r *run, err error) {
	others := slices.DeleteFunc(slices.Clone(cfg.URLs), func(url string) bool { return url == cfg.StateURL })
	r = &run{
		Config: cfg, state: newClient(append([]string{cfg.StateURL}, others...)),
		senders: deriveSenders(cfg.Funder, cfg.Seed, cfg.Senders),
		report: Report{Started: time.Now().UTC(), Planned: cfg.Senders * cfg.Count, Load: LoadShape{
			Senders: cfg.Senders, Count: cfg.Count, SpacingMS: millis(cfg.Spacing), Sticky: cfg.Sticky, ShuffleWindow: cfg.ShuffleWindow, Seed: cfg.Seed,
		}},
	}
	for _, u := range cfg.URLs {
		r.report.Hosts = append(r.report.Hosts, hostOf(u))
	}
	if r.fees, err = readFees(ctx, r.state); err != nil {
		return r, err
	}
	r.report.ChainID = r.fees.chainID
	if cfg.ConsensusLog != "" {
		r.log, err = newConsensusLog(cfg.ConsensusLog)
	}
	return r, err
}

// measure funds, signs, sends and asks the chain.
func (r *run) measure(ctx context.Context) error {
	if err := r.fund(ctx); err != nil {
		return fmt.Errorf("fund: %w", err)
	}
	err := each(ctx, len(r.senders), func(ctx context.Context, i int) (err error) {
		r.senders[i].start, err = r.state.nonce(ctx, r.senders[i].addr)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.sign(ctx); err != nil {
		return err
	}
	if err := r.mark(ctx); err != nil {
		return err
	}
	plan := schedule(r.Config)
	links, err := openLinks(ctx, r.Config, plan)
	defer func() { closeLinks(links) }()
	if err != nil {
		return err
	}
	if r.Before != nil {
		if err := r.Before(ctx); err != nil {
			return err
		}
	}
	r.send(ctx, plan, links)
	if r.After != nil {
		if err := r.After(ctx); err != nil {
			return err
		}
	}
	closeLinks(links)
	r.conclude(ctx)
	return nil
}

// mark remembers where the chain is before the load.
func (r *run) mark(ctx context.Context) error {
	if r.log != nil {
		_, err := r.log.follow(ctx, func(logEntry) {})
		return err
	}
	number, err := r.state.quantity(ctx, "eth_blockNumber")
	if err == nil {
		r.block = number.Uint64()
	}
	return err
}

// conclude asks the chain about the load. What was measured stays worth reporting if the
// chain cannot be asked, so a failure goes into the report.
func (r *run) conclude(ctx context.Context) {
	if ctx.Err() != nil {
		r.Settle = min(r.Settle, partialQuiet)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), partialBudget)
		defer cancel()
	}
	if chain, err := r.verify(ctx); err != nil {
		r.report.ChainError = err.Error()
	} else {
		r.report.Chain = &chain
	}
}

// fees is what every transaction of a run offers.
type fees struct {
	chainID *big.Int
	cap     *big.Int // maxFeePerGas, weibar
	tip     *big.Int // maxPriorityFeePerGas, weibar; Hedera ignores it
}

// readFees asks the target for its chain and price.
func readFees(ctx context.Context, state *client) (fees, error) {
	chainID, err := state.quantity(ctx, "eth_chainId")
	if err != nil {
		return fees{}, err
	}
	price, err := state.quantity(ctx, "eth_gasPrice")
	if err != nil {
		return fees{}, err
	}
	f := fees{chainID: chainID, cap: new(big.Int).Add(price, new(big.Int).Rsh(price, 2)), tip: new(big.Int)}
	// Not every relay has the method; without a tip every Hedera relay accepts too.
	tipCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if tip, err := state.quantity(tipCtx, "eth_maxPriorityFeePerGas"); err == nil && tip.Cmp(f.cap) <= 0 {
		f.tip = tip
	}
	return f, nil
}
