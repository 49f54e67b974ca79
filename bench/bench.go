package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"lockstep/internal/sleep"
)

// Run measures the target, or two of them in turns, and writes the report to out. It
// returns the report as well.
//
// The end of ctx is not an error: what was measured until then is reported, marked
// partial, within seconds. An error means that the configuration is wrong, that a target
// could not be used at all, or that out could not be written; the report then has the
// runs that were completed before.
func Run(ctx context.Context, cfg Config, out io.Writer) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	cfg = cfg.withDefaults()
	report := Report{Started: time.Now().UTC(), Load: shapeOf(cfg)}
	err := measureAll(ctx, cfg, &report)
	if ctx.Err() != nil {
		err = nil // the report says so
	}
	report.Partial = err != nil || ctx.Err() != nil
	for i := range report.Targets {
		report.Targets[i].Summary = summarise(report.Targets[i].Runs)
	}
	if len(report.Targets) == 2 {
		report.Ratios = compare(report.Targets[0].Runs, report.Targets[1].Runs)
	}
	if err != nil && !report.hasRuns() {
		return report, fmt.Errorf("bench: %w", err)
	}
	if writeErr := report.Write(out, cfg.JSON); writeErr != nil {
		return report, fmt.Errorf("bench: write the report: %w", writeErr)
	}
	if err != nil {
		return report, fmt.Errorf("bench: %w", err)
	}
	return report, nil
}

// measureAll opens a session per target and runs them in turns. Which of two targets
// goes first changes with every run, so that neither has the warmer machine.
func measureAll(ctx context.Context, cfg Config, report *Report) error {
	targets := []Target{cfg.Target}
	if cfg.Compare != nil {
		targets = append(targets, *cfg.Compare)
	}
	report.Targets = make([]TargetReport, len(targets))
	p := newProgress(cfg.Progress)
	sessions := make([]*session, len(targets))
	for i, t := range targets {
		report.Targets[i] = TargetReport{Name: t.Name, Hosts: hostsOf(t), Runs: []RunReport{}}
		own := cfg
		own.Target = t
		s, err := openSession(ctx, own, i, &report.Targets[i], p)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		defer s.state.close()
		sessions[i] = s
	}
	for n := range cfg.Runs {
		for turn := range sessions {
			s := sessions[(turn+n)%len(sessions)]
			if n+turn > 0 {
				sleep.For(ctx, cfg.Pause)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.run(fmt.Sprintf("%s run %d/%d", s.cfg.Name, n+1, cfg.Runs))
			if err := s.run(ctx, n); err != nil {
				return fmt.Errorf("%s: run %d: %w", s.cfg.Name, n+1, err)
			}
		}
	}
	return nil
}

func (r Report) hasRuns() bool {
	for _, t := range r.Targets {
		if len(t.Runs) > 0 {
			return true
		}
	}
	return false
}

func shapeOf(c Config) LoadShape {
	return LoadShape{
		Senders: c.Senders, Count: c.Count, SpacingMS: millis(c.Spacing), Batch: c.Batch,
		Sticky: c.Sticky, ShuffleWindow: c.ShuffleWindow, Runs: c.Runs, Seed: c.Seed,
	}
}

func hostsOf(t Target) []string {
	hosts := make([]string, len(t.URLs))
	for i, u := range t.URLs {
		hosts[i] = hostOf(u)
	}
	return hosts
}
