package app

import (
	"context"
	"errors"

	"lockstep/ethapi"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/limit"
	"lockstep/mirror"
	"lockstep/rpc"
	"lockstep/submit"
)

// calls are what limits the calls of each address. Both transports share it.
func (a *App) calls() *limit.Calls {
	cfg := a.cfg.RPC.RateLimit
	a.callLimits.Store(&cfg)
	limits := func(method string) int { return a.callLimits.Load().MethodLimit(method, ethapi.Tier(method)) }
	client := a.redis
	if a.cfg.Limit.CallStore == limit.StoreLocal {
		client = nil
	}
	return limit.NewCalls(client, a.cfg.Limit.RedisTimeout.Duration(), cfg.Window.Duration(), limits)
}

// warnOfIdle names the methods in a file of API keys that are not served.
func (a *App) warnOfIdle(f apikey.File) {
	for method, holder := range a.dispatcher.Idle(f) {
		a.log.Warn("an API key allows a method that this relay does not have; is it misspelt?", "method", method, "key", holder)
	}
}

// warnOfIdleLimits tells of limits that limit nothing.
func (a *App) warnOfIdleLimits(limits rpc.MethodLimits) {
	if len(limits) == 0 {
		return
	}
	if a.cfg.RPC.RateLimit.Disabled {
		a.log.Warn("METHOD_RATE_LIMITS has no effect while RATE_LIMIT_DISABLED is true")
	}
	for _, method := range a.dispatcher.IdleLimits(limits) {
		a.log.Warn("METHOD_RATE_LIMITS names a method that this relay does not have; is it misspelt?", "method", method)
	}
}

// asker tells with which request a transaction came.
func (a *App) asker(ctx context.Context) submit.Asker {
	request, _ := rpc.FromContext(ctx)
	return submit.Asker{ID: request.ID, IP: request.IP, Client: a.cfg.RPC.ClientForLog(request.IP)}
}

// charge is what a transaction, with all that it caused, took from the account that paid for it. Gas that an Ethereum
// sender paid is not part of it, and what the payer moved as a sender itself is no fee.
type charge struct {
	fee hedera.Tinybar
	own *mirror.Transaction // the record of what was submitted; nil: not known yet
}

// add counts one of the records that a transaction led to.
func (c *charge) add(id hedera.TransactionID, r *mirror.Transaction) {
	if r.Scheduled {
		return // has a payer of its own
	}
	c.fee += min(max(-r.Transferred(id.Payer), 0), r.Fee)
	if r.Nonce == 0 && c.own == nil {
		c.own = r
	}
}

// charge asks the mirror node for the charge of one transaction.
func (a *App) charge(ctx context.Context, id hedera.TransactionID) (charge, error) {
	records, err := a.mirror.Transactions(ctx, id)
	if errors.Is(err, mirror.ErrNotFound) {
		return charge{}, nil
	}
	var c charge
	for _, r := range records {
		c.add(id, r)
	}
	return c, err
}

// rate asks the mirror node what ℏ are worth, unless nothing is to be looked up for a
// transaction.
func (a *App) rate(ctx context.Context) (cents, hbars int64, err error) {
	if a.cfg.Submit.SkipLookUps {
		return 0, 0, nil
	}
	rates, err := a.mirror.ExchangeRates(mirror.ForSend(ctx))
	if err != nil {
		return 0, 0, err
	}
	return rates.Current.Cents, rates.Current.Hbars, nil
}
