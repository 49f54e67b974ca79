package bench

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
)

const (
	// partialBudget bounds what a stopped run may still ask the chain.
	partialBudget = 10 * time.Second
	partialQuiet  = 2 * time.Second
)

// session is one target during one Run: its connections for state, its prices and the
// accounts that send to it.
type session struct {
	cfg    Config // with the target under test as its Target
	number int    // 0, or 1 for the target compared with
	state  *client
	log    *consensusLog
	fees   fees
	gas    uint64
	p      *progress

	senders []*sender
	report  *TargetReport
}

// openSession connects to a target and reads what does not change between runs.
func openSession(ctx context.Context, cfg Config, number int, report *TargetReport, p *progress) (s *session, err error) {
	others := slices.DeleteFunc(slices.Clone(cfg.URLs), func(url string) bool { return url == cfg.StateURL })
	state, err := newClient(ctx, cfg.StateURL, others...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			state.close()
		}
	}()
	s = &session{cfg: cfg, number: number, report: report, p: p, state: state}
	if s.fees, err = readFees(ctx, cfg, s.state); err != nil {
		return nil, err
	}
	report.ChainID = s.fees.chainID
	if cfg.ConsensusLog != "" {
		if s.log, err = newConsensusLog(cfg.ConsensusLog); err != nil {
			return nil, err
		}
	}
	s.senders = deriveSenders(cfg.Funder, cfg.Seed, number, 0, cfg.Senders)
	if s.gas, err = s.gasLimit(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// gasLimit is the configured limit, or the estimate for one transaction. It is asked
// on behalf of the funder, as the senders have nothing yet.
func (s *session) gasLimit(ctx context.Context) (uint64, error) {
	if s.cfg.Gas != 0 {
		return s.cfg.Gas, nil
	}
	from := s.senders[0].addr
	to := from
	if s.cfg.Funder != nil {
		from = crypto.PubkeyToAddress(s.cfg.Funder.PublicKey)
	}
	if s.cfg.To != nil {
		to = *s.cfg.To
	}
	return estimate(ctx, s.state, from, to, s.cfg.Value, s.cfg.Data)
}

// run carries out run number n of the session and appends its report. A failure before
// the first send leaves no report.
func (s *session) run(ctx context.Context, n int) error {
	remaining := s.cfg.Runs - n
	if s.cfg.FreshSenders && n > 0 {
		s.senders = deriveSenders(s.cfg.Funder, s.cfg.Seed, s.number, n, s.cfg.Senders)
	}
	if s.cfg.FreshSenders {
		remaining = 1
	}
	cost := costOf(s.cfg, s.fees, s.gas, s.cfg.Count)
	amount := new(big.Int).Mul(cost, big.NewInt(int64(remaining)))
	if err := fund(ctx, s.cfg, s.state, s.senders, s.fees, cost, amount, s.p); err != nil {
		return fmt.Errorf("fund: %w", err)
	}
	if err := s.readStart(ctx); err != nil {
		return err
	}
	txs, err := signAll(ctx, s.cfg, s.senders, s.fees, s.gas, s.p)
	if err != nil {
		return err
	}
	v := &verifier{state: s.state, log: s.log, senders: s.senders, txs: txs, quiet: s.cfg.Settle, p: s.p}
	if err := s.mark(ctx, v); err != nil {
		return err
	}
	plan := schedule(s.cfg)
	links, err := openLinks(ctx, s.cfg, plan, txs)
	defer func() { closeLinks(links) }()
	if err != nil {
		return err
	}
	if err := s.hook(ctx, s.cfg.Before, n); err != nil {
		return err
	}
	report := runReport(send(ctx, plan, txs, links, s.p), txs)
	if err := s.hook(ctx, s.cfg.After, n); err != nil {
		return err
	}
	closeLinks(links)
	s.verify(ctx, v, &report)
	s.report.Runs = append(s.report.Runs, report)
	return nil
}

// hook calls one of the caller's functions about run n, if there is one.
func (s *session) hook(ctx context.Context, f func(context.Context, int, int) error, n int) error {
	if f == nil {
		return nil
	}
	return f(ctx, s.number, n)
}

// readStart reads where the nonces of the senders are. A target may be late to show
// what the run before has executed, so they never go back.
func (s *session) readStart(ctx context.Context) error {
	return each(ctx, len(s.senders), func(ctx context.Context, i int) error {
		nonce, err := s.state.nonce(ctx, s.senders[i].addr)
		s.senders[i].start = max(s.senders[i].start, nonce)
		return err
	})
}

// mark remembers where the chain is before the run.
func (s *session) mark(ctx context.Context, v *verifier) error {
	if s.log != nil {
		return s.log.skip(ctx)
	}
	number, err := s.state.quantity(ctx, "eth_blockNumber")
	if err != nil {
		return err
	}
	v.block = number.Uint64()
	return nil
}

// verify asks the chain about the run. What was measured stays worth reporting if the
// chain cannot be asked, so a failure goes into the report.
func (s *session) verify(ctx context.Context, v *verifier, report *RunReport) {
	if ctx.Err() != nil {
		report.Partial = true
		v.quiet = min(v.quiet, partialQuiet)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), partialBudget)
		defer cancel()
	}
	chain, err := v.verify(ctx)
	if err != nil {
		report.ChainError = err.Error()
		report.Partial = report.Partial || ctx.Err() != nil
		return
	}
	report.Chain = &chain
	for i, snd := range s.senders {
		snd.start = max(snd.start, v.nonces[i])
	}
}
