package app

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/ethapi"
	"lockstep/internal/redisx"
	"lockstep/internal/relay/cache"
	"lockstep/internal/secret"
)

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
		timeout time.Duration
		pool    int // 0: the usual size
	}{
		{true, &a.lockRedis, lockURL, lockSetting, cfg.Lock.RedisTimeout.Duration(), 0},
		{true, &a.redis, cfg.Redis.URL, "REDIS_URL", cfg.Lock.RedisTimeout.Duration(), 0},
		{cfg.Cache.Enabled, &a.cacheRedis, cfg.Redis.URL, "REDIS_URL", cfg.Cache.Timeout.Duration(), 16},
		{cfg.API.SharedFilters && cfg.API.Filters, &a.filterRedis, cfg.Redis.URL, "REDIS_URL", cfg.API.SharedFiltersTimeout.Duration(), 16},
	} {
		if !c.wanted {
			continue
		}
		client, err := redisx.Open(c.url.Reveal(), redisx.Options{Timeout: c.timeout, PoolSize: c.pool})
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
