package app

import (
	"lockstep/eth"
	"lockstep/ethapi"
	"lockstep/rpc"
	"lockstep/submit"
	"lockstep/txpool"
	"lockstep/txtrace"
)

// openPool makes the transaction pool and the lifecycle record, if they are to be.
func (a *App) openPool() (err error) {
	if a.cfg.Pool.Enabled {
		a.pool = txpool.New(a.cfg.Pool, txpool.Deps{
			Redis: a.redis, Bodies: a.cfg.RPC.Profile == rpc.ProfileEthereum, Announce: a.accepted,
			AnsweredEarly: a.cfg.Submit.Async || a.cfg.Submit.Returns == submit.ReturnsAccepted,
		})
	}
	if a.cfg.Trace.Enabled {
		if a.trace, err = txtrace.New(a.cfg.Trace, a.redis); err != nil {
			return err
		}
	}
	return nil
}

// toldPool is who the submitter tells of transactions.
func (a *App) toldPool() submit.Pool {
	if a.pool == nil {
		return announcer{accepted: a.accepted}
	}
	return a.pool
}

// askedPool is who the methods ask for transactions on their way, or nil.
func (a *App) askedPool() ethapi.Pool {
	if a.pool == nil {
		return nil
	}
	return a.pool
}

// toldTrace is who the submitter tells of steps, or nil.
func (a *App) toldTrace() submit.Trace {
	if a.trace == nil {
		return nil
	}
	return a.trace
}

// askedTrace is who the methods ask for the record of a transaction, or nil.
func (a *App) askedTrace() ethapi.Lifecycles {
	if a.trace == nil {
		return nil
	}
	return a.trace
}

// announcer stands in for the pool when it is off: subscribers hear of accepted
// transactions all the same.
type announcer struct {
	submit.NoPool

	accepted func(raw []byte)
}

// Accepted implements submit.Pool.
func (a announcer) Accepted(tx *eth.Tx) { a.accepted(tx.Raw()) }
