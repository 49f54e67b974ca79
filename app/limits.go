package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"lockstep/ethapi"
	"lockstep/internal/hedera"
	"lockstep/internal/redisx"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/cache"
	"lockstep/internal/relay/limit"
	"lockstep/internal/secret"
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

// clients are those of Redis; all are nil when it is not used. The locks, the cache and the
// filters have one each: a crowd of readers must not keep the locks from a connection.
type clients struct {
	lockRedis   redis.UniversalClient
	redis       redis.UniversalClient // for the rest
	cacheRedis  redis.UniversalClient // nil when nothing is cached there
	filterRedis redis.UniversalClient // nil when filters are kept in this process
}

// openRedis makes the clients that the settings ask for. None connects yet.
func (a *App) openRedis() error {
	cfg := a.cfg
	if !cfg.Redis.Enabled {
		return nil
	}
	redisx.LogTo(a.log) // package lock reports what matters
	lockURL, lockSetting := cfg.Redis.URL, "REDIS_URL"
	if cfg.Redis.LockURL != "" {
		lockURL, lockSetting = cfg.Redis.LockURL, "LOCK_REDIS_URL"
	}
	for _, c := range []struct {
		wanted  bool
		client  *redis.UniversalClient
		url     secret.String
		setting string
		options redisx.Options
	}{
		{true, &a.lockRedis, lockURL, lockSetting, cfg.Lock.RedisOptions()},
		{true, &a.redis, cfg.Redis.URL, "REDIS_URL", redisx.Options{Timeout: cfg.Lock.RedisTimeout.Duration()}},
		{cfg.Cache.Enabled, &a.cacheRedis, cfg.Redis.URL, "REDIS_URL", redisx.Options{Timeout: cfg.Cache.Timeout.Duration(), PoolSize: 16}},
		{cfg.API.SharedFilters && cfg.API.Filters, &a.filterRedis, cfg.Redis.URL, "REDIS_URL", redisx.Options{Timeout: cfg.API.SharedFiltersTimeout.Duration(), PoolSize: 16}},
	} {
		if !c.wanted {
			continue
		}
		client, err := redisx.Open(c.url.Reveal(), c.options)
		if err != nil {
			return fmt.Errorf("%s: %w", c.setting, err)
		}
		*c.client = client
	}
	return nil
}

// close closes the clients that were made.
func (c *clients) close() (errs []error) {
	for _, client := range []redis.UniversalClient{c.lockRedis, c.redis, c.cacheRedis, c.filterRedis} {
		if client != nil {
			errs = append(errs, client.Close())
		}
	}
	return errs
}

// openCache makes the store of what cannot change, which may be off.
func (a *App) openCache() {
	a.cache = cache.Disabled()
	if a.cacheRedis != nil {
		a.cache = cache.New(a.cfg.Cache, a.cacheRedis, a.log)
	}
}

// filters is the store of filters: the fleet's, or one in this process.
func (a *App) filters() ethapi.FilterStore {
	api := a.cfg.API
	if a.filterRedis == nil {
		return ethapi.LocalFilters(api)
	}
	return cache.NewFilters(a.filterRedis, cache.FilterBounds{
		Count: api.MaxFilters, Bytes: api.MaxFilterBytes, TTL: api.FilterTTL.Duration(), Timeout: api.SharedFiltersTimeout.Duration(),
	})
}
