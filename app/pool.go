package app

import (
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/pending"
	"lockstep/rpc"
	"lockstep/submit"
)

// openPool makes the transaction pool and the lifecycle record, which may be off. Subscribers
// hear of accepted transactions all the same.
func (a *App) openPool() (err error) {
	a.pool, a.promises, a.trace = pending.Disabled(a.accepted), pending.NoPromises(), lifecycle.Disabled()
	if a.cfg.Pool.Enabled {
		a.pool = pending.New(a.cfg.Pool, pending.Deps{
			Redis: a.redis, Bodies: a.cfg.RPC.Profile == rpc.ProfileEthereum, Announce: a.accepted,
			AnsweredEarly: a.cfg.Submit.Async || a.cfg.Submit.Returns == submit.ReturnsAccepted,
		})
	}
	if a.redis != nil && a.cfg.Submit.Async && !a.cfg.Submit.ReadOnly {
		a.promises = pending.NewPromises(a.cfg.Pool, a.redis, a.cfg.Lock.Promise.Duration(), a.log)
	}
	if a.cfg.Trace.Enabled {
		a.trace, err = lifecycle.New(a.cfg.Trace, a.redis)
	}
	return err
}

// takeOver goes on with what a relay that died has promised.
func (a *App) takeOver(p pending.Promised) bool { return a.submitter.TakeOver(p.Tx, p.Until) }
